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

import re

from attrs import fields

from npu_dispatch_inspect.errors import RecordError
from npu_dispatch_inspect.records.registrations import (
    ComputedKernel,
    Definition,
    KernelRegistration,
    KeyNames,
    OperatorEntry,
    OperatorKind,
    PythonKernel,
)

__all__ = ["DumpParser", "render_dump", "render_table", "split_name"]

_AT = "registered at "
_BY_FILE = re.compile(r"registered at (?P<file>.+):(?P<line>0|[1-9]\d*)", re.DOTALL)
_REGISTRATION = re.compile(
    r"(?P<key>\w+)(?P<alias>\[alias\])?(?P<inactive> \(inactive\))?: "
    r"(?P<debug>.+) :: (?P<signature>.+) "
    r"\[ (?P<fallthrough>fallthrough )?(?P<boxed>boxed )?(?P<unboxed>unboxed )?\]"
)
_KERNEL = re.compile(
    r"(?P<fallthrough>fallthrough )?(?P<debug>.*) \[(?P<kind>[a-z][a-z ]*)\]"
)
_NO_SIGNATURE = "(none)"
_DEFAULT_MARK = " (default)"

_Site = tuple["str | None", "int | None", str]

# A registry makes 124,000 of these; filling the slots takes half the time of a
# frozen class's own __init__ with keywords.
_new = object.__new__
_set_key, _set_kind, _set_file, _set_line, _set_note, _set_fallthrough = (
    vars(ComputedKernel)[each.name].__set__ for each in fields(ComputedKernel)
)


def split_name(qualified: str) -> tuple[str, str]:
    """``"aten::add.Tensor"`` to ``("aten::add", "Tensor")``."""
    name, _, overload = qualified.partition(".")
    return name, overload or "default"


class DumpParser:
    """Reads dumps; equal lines become one and the same record.

    A registry of 3,600 operators has 330,000 computed lines, but only 124,000
    different ones: sharing them is what makes a whole table affordable.
    """

    def __init__(self, keys: KeyNames) -> None:
        """Read dumps of a process that has these dispatch keys."""
        self._keys = keys
        self._kernels: dict[str, ComputedKernel] = {}
        self._values: dict[str, tuple[str, bool, _Site]] = {}
        self._sites: dict[str, _Site] = {}

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
                self._parse_registration(qualified, line) for line in lines[body:]
            ),
            kernels=self.kernels(table),
            python_kernels=python_kernels,
            keys=self._keys,
        )

    def kernels(self, table: str) -> tuple[ComputedKernel, ...]:
        """The winners from the text of the computed table."""
        known = self._kernels
        found = []
        for line in table.splitlines():
            kernel = known.get(line)
            if kernel is None:
                kernel = known[line] = self._parse_kernel(line)
            found.append(kernel)
        return tuple(found)

    def kernel_for(self, table: str, key: str) -> ComputedKernel | None:
        """The winner for one key, without reading the other lines."""
        start = 0
        if not table.startswith(f"{key}: "):
            start = table.find(f"\n{key}: ") + 1
            if start == 0:
                return None
        line = table[start : table.index("\n", start)]
        kernel = self._kernels.get(line)
        if kernel is None:
            kernel = self._kernels[line] = self._parse_kernel(line)
        return kernel

    def _parse_kernel(self, line: str) -> ComputedKernel:
        key, colon, value = line.partition(": ")
        parsed = self._values.get(value)
        if parsed is None:
            match = _KERNEL.fullmatch(value)
            if match is None or not colon:
                raise _unreadable(line)
            parsed = self._values[value] = (
                match["kind"],
                match["fallthrough"] is not None,
                _parse_site(match["debug"]),
            )
        kind, fallthrough, (file, number, note) = parsed
        kernel = _new(ComputedKernel)
        _set_key(kernel, key)
        _set_kind(kernel, kind)
        _set_file(kernel, file)
        _set_line(kernel, number)
        _set_note(kernel, note)
        _set_fallthrough(kernel, fallthrough)
        return kernel

    def _parse_registration(self, operator: str, line: str) -> KernelRegistration:
        match = _REGISTRATION.fullmatch(line)
        if match is None:
            raise _unreadable(line)
        (
            key,
            alias,
            inactive,
            debug,
            signature,
            fallthrough,
            boxed,
            unboxed,
        ) = match.groups()
        site = self._sites.get(debug)
        if site is None:
            site = self._sites[debug] = _parse_site(debug)
        file, number, note = site
        return KernelRegistration(
            operator=operator,
            key=key,
            file=file,
            line=number,
            note=note,
            signature=None if signature == _NO_SIGNATURE else signature,
            boxed=boxed is not None,
            unboxed=unboxed is not None,
            fallthrough=fallthrough is not None,
            alias=alias is not None,
            active=inactive is None,
        )


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
        alias = "[alias]" if each.alias else ""
        inactive = "" if each.active else " (inactive)"
        site = _render_site(each.file, each.line, each.note)
        signature = _NO_SIGNATURE if each.signature is None else each.signature
        marks = (
            ("fallthrough ", each.fallthrough),
            ("boxed ", each.boxed),
            ("unboxed ", each.unboxed),
        )
        flags = "".join(word for word, present in marks if present)
        lines.append(
            f"{each.key}{alias}{inactive}: {site} :: {signature} [ {flags}]"
        )
    return "".join(f"{line}\n" for line in lines)


def render_table(entry: OperatorEntry) -> str:
    """The text that the computed part of an entry was read from."""
    return "".join(
        f"{each.key}: {'fallthrough ' if each.fallthrough else ''}"
        f"{_render_site(each.file, each.line, each.note)} [{each.kind}]\n"
        for each in entry.kernels
    )


def _after(lines: list[str], index: int, label: str) -> str:
    if index >= len(lines) or not lines[index].startswith(label):
        raise _unreadable(lines[index] if index < len(lines) else "(end of text)")
    return lines[index][len(label) :]


def _parse_site(debug: str) -> _Site:
    match = _BY_FILE.fullmatch(debug)
    if match is None:
        return None, None, debug
    return match["file"], int(match["line"]), ""


def _render_site(file: str | None, line: int | None, note: str) -> str:
    return note if file is None else f"{_AT}{file}:{line}"


def _unreadable(line: str) -> RecordError:
    message = (
        f"The dispatcher dump has a line of a shape not seen before: {line!r}; "
        f"please report it with the versions of torch and torch_npu."
    )
    return RecordError(message)
