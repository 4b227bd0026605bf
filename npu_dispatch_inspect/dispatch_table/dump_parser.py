# SPDX-License-Identifier: BSD-3-Clause
"""The text of torch's two dispatcher dumps, to records and back.

Pure: it needs no torch. The wording has been the same from torch 2.1 to 2.14::

    name: aten::relu
    schema: aten::relu(Tensor self) -> Tensor
    debug: registered at FILE:LINE
    alias analysis kind: FROM_SCHEMA
    CPU: registered at FILE:LINE :: (Tensor _0) -> Tensor _0 [ boxed unboxed ]
    Meta (inactive): registered at FILE:LINE :: (none) [ boxed ]
    Autograd[alias]: registered at FILE:LINE :: ... [ fallthrough boxed ]

and, from the computed table, one line for every key that has a kernel::

    ADInplaceOrView: fallthrough registered at FILE:LINE [backend fallback]

A line that reads otherwise is an error, never skipped: a table with holes
would answer "no kernel" where there is one.
"""

from __future__ import annotations

import functools
import itertools
from typing import TypeAlias

from npu_dispatch_inspect.errors import RecordError
from npu_dispatch_inspect.records.dispatch_keys import KeyNames
from npu_dispatch_inspect.records.registrations import (
    ComputedKernel,
    Definition,
    KernelRegistration,
    OperatorEntry,
    OperatorKind,
    PythonKernel,
)

__all__ = ["DumpParser", "render_dump", "render_table", "split_name"]

_AT = "registered at "
_ALIAS = "[alias]"
_INACTIVE = " (inactive)"
_FALLTHROUGH = "fallthrough "
_FLAGS = {
    f"{_FALLTHROUGH * fallthrough}{'boxed ' * boxed}{'unboxed ' * unboxed}]": (
        bool(fallthrough),
        bool(boxed),
        bool(unboxed),
    )
    for fallthrough, boxed, unboxed in itertools.product((0, 1), repeat=3)
}
_NO_SIGNATURE = "(none)"
_DEFAULT_MARK = " (default)"

_Site: TypeAlias = "tuple[str | None, int | None, str]"
_Winner: TypeAlias = tuple[str, ComputedKernel]


def split_name(qualified: str) -> tuple[str, str]:
    """``"aten::add.Tensor"`` to ``("aten::add", "Tensor")``."""
    name, _, overload = qualified.partition(".")
    return name, overload or "default"


class DumpParser:
    """Reads dumps; what many lines say becomes one and the same record.

    A registry of 3,600 operators has 330,000 computed lines of 124,000 kinds,
    which say 3,100 different things about their key: sharing them is what makes
    a whole table affordable.
    """

    def __init__(self, keys: KeyNames) -> None:
        """Read dumps of a process that has these dispatch keys."""
        self._keys = keys
        self._winners: dict[str, _Winner] = {}

    def operator(
        self, dump: str, table: str, python_kernels: tuple[PythonKernel, ...] = ()
    ) -> OperatorEntry:
        """One operator from the texts of both dumps.

        Raises:
            RecordError: a line has a shape that is not known.
        """
        lines = dump.splitlines()
        qualified = _after(lines, 0, "name: ")
        name, overload = split_name(qualified)
        schema = _after(lines, 1, "schema: ")
        definition = alias_analysis = None
        body = 2
        if schema != _NO_SIGNATURE:
            file, line, note = _parse_site(_after(lines, 2, "debug: "))
            definition = Definition(
                operator=qualified, schema=schema, file=file, line=line, note=note
            )
            alias_analysis = _after(lines, 3, "alias analysis kind: ")
            body = 4
        by_default = alias_analysis is not None and alias_analysis.endswith(
            _DEFAULT_MARK
        )
        return OperatorEntry(
            name=name,
            overload=overload,
            kind=OperatorKind.DISPATCHER if definition else OperatorKind.DANGLING,
            definition=definition,
            alias_analysis=(
                alias_analysis.removesuffix(_DEFAULT_MARK) if alias_analysis else None
            ),
            alias_analysis_default=by_default,
            registrations=tuple(
                _parse_registration(qualified, line) for line in lines[body:]
            ),
            kernels=self.kernels(table),
            python_kernels=python_kernels,
            keys=self._keys,
        )

    def kernels(self, table: str) -> tuple[_Winner, ...]:
        """The winners by key, from the text of the computed table."""
        known = self._winners
        winners = []
        for line in table.splitlines():
            winner = known.get(line)
            if winner is None:
                key, _, value = line.partition(": ")
                winner = known[line] = key, _parse_kernel(value)
            winners.append(winner)
        return tuple(winners)

    def kernel_for(self, table: str, key: str) -> ComputedKernel | None:
        """The winner for one key, without reading the other lines."""
        start = 0
        if not table.startswith(f"{key}: "):
            start = table.find(f"\n{key}: ") + 1
            if start == 0:
                return None
        value_start = start + len(key) + len(": ")
        return _parse_kernel(table[value_start : table.index("\n", value_start)])


def render_dump(entry: OperatorEntry) -> str:
    """The text that the registration part of an entry was read from."""
    lines = [f"name: {entry.qualified_name}"]
    if entry.definition is None:
        lines.append(f"schema: {_NO_SIGNATURE}")
    else:
        defined = entry.definition
        mark = _DEFAULT_MARK if entry.alias_analysis_default else ""
        lines += [
            f"schema: {defined.schema}",
            f"debug: {_render_site(defined.file, defined.line, defined.note)}",
            f"alias analysis kind: {entry.alias_analysis}{mark}",
        ]
    for each in entry.registrations:
        alias = _ALIAS if each.alias else ""
        inactive = "" if each.active else _INACTIVE
        site = _render_site(each.file, each.line, each.note)
        signature = _NO_SIGNATURE if each.signature is None else each.signature
        marks = (
            (_FALLTHROUGH, each.fallthrough),
            ("boxed ", each.boxed),
            ("unboxed ", each.unboxed),
        )
        flags = "".join(word for word, present in marks if present)
        lines.append(f"{each.key}{alias}{inactive}: {site} :: {signature} [ {flags}]")
    return "".join(f"{line}\n" for line in lines)


def render_table(entry: OperatorEntry) -> str:
    """The text that the computed part of an entry was read from."""
    return "".join(
        f"{key}: {_FALLTHROUGH if each.fallthrough else ''}"
        f"{_render_site(each.file, each.line, each.note)} [{each.kind}]\n"
        for key, each in entry.kernels
    )


def _after(lines: list[str], index: int, label: str) -> str:
    if index >= len(lines) or not lines[index].startswith(label):
        raise _unreadable(lines[index] if index < len(lines) else "(end of text)")
    return lines[index][len(label) :]


def _parse_registration(operator: str, line: str) -> KernelRegistration:
    # Cut from the right: a path may contain anything, a signature no " :: ".
    rest, _, flags = line.rpartition(" [ ")
    rest, _, signature = rest.rpartition(" :: ")
    label, _, debug = rest.partition(": ")
    key = label.removesuffix(_INACTIVE).removesuffix(_ALIAS)
    if not key.isidentifier() or flags not in _FLAGS:
        raise _unreadable(line)
    fallthrough, boxed, unboxed = _FLAGS[flags]
    file, number, note = _parse_site(debug)
    return KernelRegistration(
        operator=operator,
        key=key,
        file=file,
        line=number,
        note=note,
        signature=None if signature == _NO_SIGNATURE else signature,
        boxed=boxed,
        unboxed=unboxed,
        fallthrough=fallthrough,
        alias=label.startswith(_ALIAS, len(key)),
        active=not label.endswith(_INACTIVE),
    )


# The two caches hold what a registry says again and again: 3,100 winners and
# as many places, whole. Reading one more operator then finds nearly all of it.
@functools.lru_cache(maxsize=8192)
def _parse_kernel(value: str) -> ComputedKernel:
    debug, _, kind = value.rpartition(" [")
    kind, end, rest = kind.partition("]")
    if not (value and kind and end) or rest:
        raise _unreadable(value)
    file, number, note = _parse_site(debug.removeprefix(_FALLTHROUGH))
    return ComputedKernel(
        kind=kind,
        file=file,
        line=number,
        note=note,
        fallthrough=debug.startswith(_FALLTHROUGH),
    )


@functools.lru_cache(maxsize=8192)
def _parse_site(debug: str) -> _Site:
    if debug.startswith(_AT):
        file, _, line = debug[len(_AT) :].rpartition(":")
        number = int(line) if line.isdecimal() else None
        # Torch up to 2.7 says /dev/null of all that is registered from Python.
        if file and file != "/dev/null" and str(number) == line:
            return file, number, ""
    return None, None, debug


def _render_site(file: str | None, line: int | None, note: str) -> str:
    return note if file is None else f"{_AT}{file}:{line}"


def _unreadable(line: str) -> RecordError:
    message = (
        f"The dispatcher dump has a line of a shape not seen before: {line!r}; "
        f"please report it with the versions of torch and torch_npu."
    )
    return RecordError(message)
