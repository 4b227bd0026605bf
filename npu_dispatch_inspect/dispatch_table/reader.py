# SPDX-License-Identifier: BSD-3-Clause
"""Reads the dispatcher's tables of this process."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from npu_dispatch_inspect._torch_private import dispatcher as private
from npu_dispatch_inspect.dispatch_table.compare import compare_tables
from npu_dispatch_inspect.dispatch_table.dump_parser import split_name
from npu_dispatch_inspect.dispatch_table.source import (
    OWN_KEY,
    DumpSource,
    without_own_rows,
)
from npu_dispatch_inspect.environment import read_environment
from npu_dispatch_inspect.errors import UsageError
from npu_dispatch_inspect.records.dispatch_keys import KeyNames
from npu_dispatch_inspect.records.names import qualified
from npu_dispatch_inspect.records.registrations import (
    Definition,
    OperatorEntry,
    OperatorKind,
    PythonKernel,
)
from npu_dispatch_inspect.records.table_changes import TableChanges
from npu_dispatch_inspect.traces._operator_names import spelled, split_spelling
from npu_dispatch_inspect.traces.tables import DispatchTable

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["DispatchTableReader", "read_dispatch_table"]

_OWN_FOLDER = str(Path(__file__).resolve().parent.parent) + os.sep


def read_dispatch_table(*operators: object) -> DispatchTable:
    """Read the dispatcher's tables as they are now.

    Args:
        *operators: Names in any usual spelling or `torch.ops` objects; an
            operator named without overload brings all of them. None at all
            means the whole registry.

    Returns:
        Registrations and winners as torch's own dump tells them.

    Raises:
        UnknownNameError: there is no such operator in this process.

    Example:
        >>> from npu_dispatch_inspect import read_dispatch_table
        >>> table = read_dispatch_table("aten::linear", "aten::addmm")
        >>> table["aten::linear"].computed["CPU"].kind
        'math kernel'
        >>> table["aten::addmm"].default.state("CPU").value
        'own kernel'
    """
    return DispatchTableReader(*operators).read()


class DispatchTableReader:
    """Reads the tables, once or before and after a block.

    As a context manager it tells what the block did to them::

        with DispatchTableReader() as reader:
            import my_kernels
        for change in reader.changes:
            print(change)

    What is read is the process, not a thread: a library that another thread
    loads meanwhile is in the answer too.

    Example:
        >>> import torch
        >>> from npu_dispatch_inspect import DispatchTableReader
        >>> with DispatchTableReader() as reader:
        ...     library = torch.library.Library("reader_example", "DEF")
        ...     _ = library.define("twice(Tensor x) -> Tensor")
        >>> [change.operator for change in reader.changes]
        ['reader_example::twice']
    """

    def __init__(
        self, *operators: object, progress: Callable[[int, int], None] | None = None
    ) -> None:
        """Choose what to read.

        Args:
            *operators: As for `read_dispatch_table`. Inside a block a name that
                is not there yet (or no longer) is not an error.
            progress: Called with (done, all) every hundred operators.
        """
        self._operators = operators
        self._progress = progress
        self._before: DispatchTable | None = None
        self._after: DispatchTable | None = None

    def read(self) -> DispatchTable:
        """Read the tables as they are now."""
        if self._operators:
            found = _read_directly(self._operators)
            if found is not None:
                return found
        whole = _read_all(self._progress)
        return whole.select(*self._operators) if self._operators else whole

    def __enter__(self) -> Self:
        """Read the tables before the block."""
        if self._before is not None and self._after is None:
            message = (
                "This DispatchTableReader is inside a block already: "
                "make another one for the inner block."
            )
            raise UsageError(message)
        self._after = None
        self._before = self._read_known()
        return self

    def __exit__(
        self,
        exception_type: type[BaseException] | None,
        exception: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Read them again, also where the block raised."""
        self._after = self._read_known()

    @property
    def before(self) -> DispatchTable:
        """The tables before the block."""
        return self._ended()[0]

    @property
    def after(self) -> DispatchTable:
        """The tables after the block."""
        return self._ended()[1]

    @property
    def changes(self) -> TableChanges:
        """What the block registered, replaced or removed.

        The kernels that win or lose by it are left out: one registration on an
        alias key moves dozens. `compare_tables(before, after)` has them.
        """
        changes = compare_tables(*self._ended(), exact=True)
        return TableChanges(each for each in changes if each.what != "kernel")

    def _ended(self) -> tuple[DispatchTable, DispatchTable]:
        if self._before is None or self._after is None:
            message = (
                "The changes are known when the block has ended: write "
                "'with DispatchTableReader() as reader: ...' and ask after it."
            )
            raise UsageError(message)
        return self._before, self._after

    def _read_known(self) -> DispatchTable:
        whole = _read_all(self._progress)
        if not self._operators:
            return whole
        return whole.select(*(each for each in self._operators if each in whole))


def _read_all(progress: Callable[[int, int], None] | None) -> DispatchTable:
    keys = _keys()
    names = private.operator_names()
    dumps = {}
    for done, name in enumerate(names):
        dumps[name] = _dump(name)
        if progress is not None and done % 100 == 0:
            progress(done, len(names))
    if progress is not None:
        progress(len(names), len(names))
    others = {
        name: _jit_only(name, schema, keys)
        for name, schema in private.all_schemas()
        if name not in dumps
    }
    for name, kernels in private.higher_order_operators():
        others[name] = OperatorEntry(
            name=name,
            kind=OperatorKind.HIGHER_ORDER,
            python_kernels=tuple(
                _python_kernel(name, key, function)
                for key, function in kernels.items()
                if key != OWN_KEY
            ),
            keys=keys,
        )
    source = DumpSource(
        dumps,
        keys=keys,
        python_kernels=_by_operator(private.python_kernels()),
        others=others,
    )
    return DispatchTable(
        source, keys=keys, environment=read_environment(), complete=True
    )


def _read_directly(operators: Iterable[object]) -> DispatchTable | None:
    """Read operators without listing them all; None where that needs the list."""
    keys = _keys()
    dumps: dict[str, tuple[str, str]] = {}
    others: dict[str, OperatorEntry] = {}
    kernels: dict[str, tuple[PythonKernel, ...]] = {}
    for operator in operators:
        parts = split_spelling(spelled(operator))
        if parts is None:
            return None
        name, overload = parts
        if overload is not None:
            wanted = qualified(name, overload)
            schemas = [each for each in private.schemas_of(name) if each[0] == wanted]
        else:
            schemas = list(private.schemas_of(name))
        for found, schema in schemas:
            dump = _dump(found)
            if dump[0]:
                dumps[found] = dump
                kernels.update(_by_operator(private.python_kernels_of(found)))
            else:
                others[found] = _jit_only(found, schema, keys)
        if not schemas:
            return None
    source = DumpSource(dumps, keys=keys, python_kernels=kernels, others=others)
    # Reading the environment takes longer than reading one operator.
    return DispatchTable(source, keys=keys, environment=read_environment)


def _keys() -> KeyNames:
    return KeyNames(
        names=private.dispatch_key_names(),
        private_backend=private.private_backend_name(),
    )


def _dump(name: str) -> tuple[str, str]:
    return (
        without_own_rows(private.registration_dump(name), _OWN_FOLDER),
        without_own_rows(private.computed_dump(name), _OWN_FOLDER),
    )


def _jit_only(name: str, schema: object, keys: KeyNames) -> OperatorEntry:
    operator, overload = split_name(name)
    return OperatorEntry(
        name=operator,
        overload=overload,
        kind=OperatorKind.JIT_ONLY,
        definition=Definition(
            operator=name, schema=str(schema), note="known to TorchScript alone"
        ),
        keys=keys,
    )


def _by_operator(
    kernels: Iterable[tuple[str, str, Callable[..., Any]]],
) -> dict[str, tuple[PythonKernel, ...]]:
    found: dict[str, list[PythonKernel]] = {}
    for name, key, function in kernels:
        found.setdefault(name, []).append(_python_kernel(name, key, function))
    return {name: tuple(each) for name, each in found.items()}


def _python_kernel(name: str, key: str, function: Callable[..., Any]) -> PythonKernel:
    inner = function
    while (wrapped := getattr(inner, "__wrapped__", None)) is not None:
        inner = wrapped
    code = getattr(inner, "__code__", None)
    return PythonKernel(
        operator=name,
        key=key,
        function=getattr(inner, "__qualname__", type(inner).__name__),
        file=code.co_filename if code else None,
        line=code.co_firstlineno if code else None,
    )
