# SPDX-License-Identifier: BSD-3-Clause
"""Registration tables as files, so that processes and versions can be compared.

A registry says the same few thousand things 330,000 times, so the file keeps
file names, signatures and winners once and refers to them by number: some
4 MB for a whole registry, a tenth of that as ``.json.gz``.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Hashable
from pathlib import Path
from typing import Any, Generic, TypeVar

from attrs import field, frozen
from cattrs import ClassValidationError, transform_error
from cattrs.preconf.json import make_converter

from npu_dispatch_inspect.errors import RecordError
from npu_dispatch_inspect.records.environment import Environment
from npu_dispatch_inspect.records.registrations import (
    ComputedKernel,
    Definition,
    KernelRegistration,
    KeyNames,
    OperatorEntry,
    OperatorKind,
    PythonKernel,
)
from npu_dispatch_inspect.traces.tables import DispatchTable, EntrySource

__all__ = ["SCHEMA", "VERSION", "from_dict", "load_table", "save_table", "to_dict"]

SCHEMA = "npu-dispatch-inspect/dispatch-table"
VERSION = 1

_converter = make_converter(forbid_extra_keys=True)
_T = TypeVar("_T", bound=Hashable)


@frozen(kw_only=True)
class _Kernel:
    """A winner; `file` is a number in the list of files."""

    kind: str
    file: int | None
    line: int | None
    note: str = ""
    fallthrough: bool = False


@frozen(kw_only=True)
class _Registration:
    """A registration; key, file and signature are numbers in their lists."""

    key: int
    file: int | None
    line: int | None
    signature: int | None
    marks: str
    """Letters: f fallthrough, b boxed, u unboxed, a alias key, i inactive."""
    note: str = ""


@frozen(kw_only=True)
class _Operator:
    """One operator; winners are pairs of key and kernel numbers, one after another."""

    name: str
    overload: str
    kind: OperatorKind
    definition: Definition | None = None
    alias_analysis: str | None = None
    alias_analysis_default: bool = False
    registrations: list[_Registration] = field(factory=list)
    kernels: list[int] = field(factory=list)
    python_kernels: list[PythonKernel] = field(factory=list)


@frozen(kw_only=True)
class _Table:
    """The whole file."""

    schema: str
    version: int
    environment: Environment | None
    keys: KeyNames
    complete: bool
    files: list[str]
    signatures: list[str]
    used_keys: list[str]
    kernels: list[_Kernel]
    operators: list[_Operator]


class _Pool(Generic[_T]):
    """Gives every different value a number."""

    def __init__(self) -> None:
        self._numbers: dict[_T, int] = {}

    def number(self, value: _T) -> int:
        return self._numbers.setdefault(value, len(self._numbers))

    def optional(self, value: _T | None) -> int | None:
        return None if value is None else self.number(value)

    def values(self) -> list[_T]:
        return list(self._numbers)


def to_dict(table: DispatchTable) -> dict[str, Any]:
    """A table as plain values that JSON can hold."""
    files, signatures, keys = _Pool[str](), _Pool[str](), _Pool[str]()
    winners = _Pool[ComputedKernel]()
    operators = []
    for entry in table:
        registrations = [
            _Registration(
                key=keys.number(each.key),
                file=files.optional(each.file),
                line=each.line,
                note=each.note,
                signature=signatures.optional(each.signature),
                marks=_marks(each),
            )
            for each in entry.registrations
        ]
        numbers = []
        for key, kernel in entry.kernels:
            numbers += [keys.number(key), winners.number(kernel)]
        operators.append(
            _Operator(
                name=entry.name,
                overload=entry.overload,
                kind=entry.kind,
                definition=entry.definition,
                alias_analysis=entry.alias_analysis,
                alias_analysis_default=entry.alias_analysis_default,
                registrations=registrations,
                kernels=numbers,
                python_kernels=list(entry.python_kernels),
            )
        )
    kernels = [
        _Kernel(
            kind=each.kind,
            file=files.optional(each.file),
            line=each.line,
            note=each.note,
            fallthrough=each.fallthrough,
        )
        for each in winners.values()
    ]
    whole = _Table(
        schema=SCHEMA,
        version=VERSION,
        environment=table.environment,
        keys=table.keys,
        complete=table.complete,
        files=files.values(),
        signatures=signatures.values(),
        used_keys=keys.values(),
        kernels=kernels,
        operators=operators,
    )
    plain: dict[str, Any] = _converter.unstructure(whole)
    return plain


def from_dict(data: Any) -> DispatchTable:
    """The table that `to_dict` made the values of.

    Raises:
        RecordError: they are of something else, of a newer version, or damaged.
    """
    if not isinstance(data, dict) or data.get("schema") != SCHEMA:
        message = f"This is not a saved dispatch table: its schema is not {SCHEMA!r}."
        raise RecordError(message)
    version = data.get("version")
    if not isinstance(version, int) or version > VERSION:
        message = (
            f"The dispatch table was saved in version {version} of the format and "
            f"this library reads up to {VERSION}: update npu_dispatch_inspect."
        )
        raise RecordError(message)
    try:
        whole = _converter.structure(data, _Table)
        return _rebuild(whole)
    except ClassValidationError as error:
        message = f"The saved dispatch table is damaged: {transform_error(error)[0]}."
        raise RecordError(message) from None
    except (IndexError, ValueError) as error:
        message = f"The saved dispatch table is damaged: {error}."
        raise RecordError(message) from None


def save_table(table: DispatchTable, path: str | Path) -> None:
    """Write a table to a ``.json`` or ``.json.gz`` file."""
    target = Path(path)
    text = json.dumps(to_dict(table), separators=(",", ":"))
    if _is_packed(target):
        # No time in the header: the same table gives the same bytes.
        target.write_bytes(gzip.compress(text.encode(), mtime=0))
    else:
        target.write_text(text + "\n", "utf-8")


def load_table(path: str | Path) -> DispatchTable:
    """Read a table that `save_table` wrote.

    Raises:
        RecordError: the file is not there, not one of these, or damaged.
    """
    source = Path(path)
    try:
        raw = source.read_bytes()
        if _is_packed(source):
            raw = gzip.decompress(raw)
        data = json.loads(raw)
    except (OSError, EOFError, ValueError) as error:
        message = f"The dispatch table {source} cannot be read: {error}."
        raise RecordError(message) from None
    return from_dict(data)


def _is_packed(path: Path) -> bool:
    if path.name.endswith(".json.gz"):
        return True
    if path.suffix == ".json":
        return False
    message = f"A dispatch table is a .json or .json.gz file, not {path.name!r}."
    raise RecordError(message)


def _marks(each: KernelRegistration) -> str:
    return "".join(
        letter
        for letter, present in (
            ("f", each.fallthrough),
            ("b", each.boxed),
            ("u", each.unboxed),
            ("a", each.alias),
            ("i", not each.active),
        )
        if present
    )


def _rebuild(whole: _Table) -> DispatchTable:
    winners = [
        ComputedKernel(
            kind=each.kind,
            file=_named(whole.files, each.file),
            line=each.line,
            note=each.note,
            fallthrough=each.fallthrough,
        )
        for each in whole.kernels
    ]
    entries = (_entry(whole, each, winners) for each in whole.operators)
    return DispatchTable(
        EntrySource(entries),
        keys=whole.keys,
        environment=whole.environment,
        complete=whole.complete,
    )


def _entry(
    whole: _Table, row: _Operator, winners: list[ComputedKernel]
) -> OperatorEntry:
    suffix = "" if row.overload == "default" else f".{row.overload}"
    numbers = iter(row.kernels)
    return OperatorEntry(
        name=row.name,
        overload=row.overload,
        kind=row.kind,
        definition=row.definition,
        alias_analysis=row.alias_analysis,
        alias_analysis_default=row.alias_analysis_default,
        registrations=tuple(
            KernelRegistration(
                operator=f"{row.name}{suffix}",
                key=whole.used_keys[each.key],
                file=_named(whole.files, each.file),
                line=each.line,
                note=each.note,
                signature=_named(whole.signatures, each.signature),
                fallthrough="f" in each.marks,
                boxed="b" in each.marks,
                unboxed="u" in each.marks,
                alias="a" in each.marks,
                active="i" not in each.marks,
            )
            for each in row.registrations
        ),
        kernels=tuple(
            (whole.used_keys[key], winners[kernel])
            for key, kernel in zip(numbers, numbers, strict=True)
        ),
        python_kernels=tuple(row.python_kernels),
        keys=whole.keys,
    )


def _named(names: list[str], number: int | None) -> str | None:
    return None if number is None else names[number]
