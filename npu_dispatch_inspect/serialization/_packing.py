# SPDX-License-Identifier: BSD-3-Clause
"""Entries of registration tables in few bytes.

A registry says the same few thousand things 330,000 times, so a file keeps file
names, signatures and winners once, in its head, and refers to them by number.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

from attrs import frozen

from npu_dispatch_inspect.records.dispatch_keys import KeyNames
from npu_dispatch_inspect.records.registrations import (
    ComputedKernel,
    Definition,
    KernelRegistration,
    OperatorEntry,
    OperatorKind,
    PythonKernel,
)

__all__ = ["KernelRow", "OperatorRow", "Packer", "Pools", "RegistrationRow", "unpack"]

_T = TypeVar("_T", bound=Hashable)
_MARKS = {
    "f": "fallthrough",
    "b": "boxed",
    "u": "unboxed",
    "a": "alias",
}


@frozen(kw_only=True)
class KernelRow:
    """A kernel that wins, for whatever key and operator."""

    kind: str
    """torch's own word: ``"kernel"``, ``"autograd kernel"``, ``"math kernel"``, ..."""
    file: int | None = None
    """Position in `files`."""
    line: int | None = None
    note: str = ""
    """What torch says instead of a file."""
    fallthrough: bool = False


@frozen(kw_only=True)
class RegistrationRow:
    """A kernel that some library registered for a key."""

    key: int
    """Position in `used_keys`."""
    file: int | None = None
    """Position in `files`."""
    line: int | None = None
    signature: int | None = None
    """Position in `signatures`."""
    marks: str = ""
    """Letters: f fallthrough, b boxed, u unboxed, a alias key, i inactive (a later
    registration for the same key took its place)."""
    note: str = ""
    """What torch says instead of a file."""
    operator: str | None = None
    """None: that of the row around it, with its overload."""


@frozen(kw_only=True)
class OperatorRow:
    """One operator overload."""

    name: str
    """``"aten::add"``."""
    overload: str = "default"
    kind: OperatorKind = OperatorKind.DISPATCHER
    definition: Definition | None = None
    alias_analysis: str | None = None
    alias_analysis_default: bool = False
    registrations: tuple[RegistrationRow, ...] = ()
    kernels: tuple[int, ...] = ()
    """Pairs, one after another: a position in `used_keys`, one in `kernels`."""
    python_kernels: tuple[PythonKernel, ...] = ()


@frozen(kw_only=True)
class Pools:
    """What rows refer to by number."""

    files: tuple[str, ...] = ()
    signatures: tuple[str, ...] = ()
    used_keys: tuple[str, ...] = ()
    kernels: tuple[KernelRow, ...] = ()


class _Pool(Generic[_T]):
    """Gives every different value a number."""

    def __init__(self) -> None:
        self._numbers: dict[_T, int] = {}

    def number(self, value: _T) -> int:
        return self._numbers.setdefault(value, len(self._numbers))

    def optional(self, value: _T | None) -> int | None:
        return None if value is None else self.number(value)

    def values(self) -> tuple[_T, ...]:
        return tuple(self._numbers)


class Packer:
    """Makes rows of entries, and keeps what they refer to."""

    def __init__(self) -> None:
        self._files, self._signatures = _Pool[str](), _Pool[str]()
        self._keys, self._winners = _Pool[str](), _Pool[ComputedKernel]()

    def row(self, entry: OperatorEntry) -> OperatorRow:
        """One entry as a row."""
        numbers: list[int] = []
        for key, kernel in entry.kernels:
            numbers += [self._keys.number(key), self._winners.number(kernel)]
        return OperatorRow(
            name=entry.name,
            overload=entry.overload,
            kind=entry.kind,
            definition=entry.definition,
            alias_analysis=entry.alias_analysis,
            alias_analysis_default=entry.alias_analysis_default,
            registrations=tuple(
                self._registration(each, entry.qualified_name)
                for each in entry.registrations
            ),
            kernels=tuple(numbers),
            python_kernels=entry.python_kernels,
        )

    def _registration(self, each: KernelRegistration, operator: str) -> RegistrationRow:
        marks = [letter for letter, name in _MARKS.items() if getattr(each, name)]
        return RegistrationRow(
            key=self._keys.number(each.key),
            file=self._files.optional(each.file),
            line=each.line,
            note=each.note,
            signature=self._signatures.optional(each.signature),
            marks="".join(marks) + ("" if each.active else "i"),
            operator=None if each.operator == operator else each.operator,
        )

    def pools(self) -> Pools:
        """What the rows that were made refer to."""
        kernels = tuple(
            KernelRow(
                kind=each.kind,
                file=self._files.optional(each.file),
                line=each.line,
                note=each.note,
                fallthrough=each.fallthrough,
            )
            for each in self._winners.values()
        )
        return Pools(
            files=self._files.values(),
            signatures=self._signatures.values(),
            used_keys=self._keys.values(),
            kernels=kernels,
        )


def unpack(
    rows: list[OperatorRow], pools: Pools, keys: KeyNames
) -> list[OperatorEntry]:
    """The entries of rows.

    Raises:
        IndexError, ValueError: a number refers to nothing.
    """
    winners = [
        ComputedKernel(
            kind=each.kind,
            file=_named(pools.files, each.file),
            line=each.line,
            note=each.note,
            fallthrough=each.fallthrough,
        )
        for each in pools.kernels
    ]
    return [_entry(row, pools, winners, keys) for row in rows]


def _entry(
    row: OperatorRow, pools: Pools, winners: list[ComputedKernel], keys: KeyNames
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
                operator=f"{row.name}{suffix}"
                if each.operator is None
                else each.operator,
                key=_at(pools.used_keys, each.key),
                file=_named(pools.files, each.file),
                line=each.line,
                note=each.note,
                signature=_named(pools.signatures, each.signature),
                active="i" not in each.marks,
                **{name: letter in each.marks for letter, name in _MARKS.items()},
            )
            for each in row.registrations
        ),
        kernels=tuple(
            (_at(pools.used_keys, key), _at(winners, kernel))
            for key, kernel in zip(numbers, numbers, strict=True)
        ),
        python_kernels=row.python_kernels,
        keys=keys,
    )


def _named(names: tuple[str, ...], number: int | None) -> str | None:
    return None if number is None else _at(names, number)


def _at(values: tuple[_T, ...] | list[_T], number: int) -> _T:
    if not 0 <= number < len(values):
        msg = f"there is no number {number} in a list of {len(values)}"
        raise IndexError(msg)
    return values[number]
