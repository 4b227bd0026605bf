# SPDX-License-Identifier: BSD-3-Clause
"""Two tables side by side: of two moments, two processes or two versions."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import PurePosixPath
from typing import TypeAlias

from npu_dispatch_inspect.records.registrations import (
    ComputedKernel,
    Definition,
    KernelRegistration,
    OperatorEntry,
)
from npu_dispatch_inspect.records.table_changes import (
    TableChange,
    TableChanges,
    TableFact,
)
from npu_dispatch_inspect.traces.tables import DispatchTable

__all__ = ["compare_tables"]

_SHARD = re.compile(r"_\d+(?=\.\w+$)")
_Key: TypeAlias = "tuple[str | None, int]"
_Facts: TypeAlias = Mapping[_Key, TableFact]
_Fact: TypeAlias = "tuple[str | None, TableFact]"


def compare_tables(
    before: DispatchTable, after: DispatchTable, *, exact: bool = False
) -> TableChanges:
    """What differs between two tables, in the order of the operators.

    Generated files are cut into shards and lines move with every build, so two
    builds agree on no line number. By default two facts are the same when they
    are of the same kind, from a file of the same name, shards left out.

    Args:
        before: The older or left table.
        after: The newer or right table.
        exact: Line numbers and whole paths count too: for two tables of one
            process.

    Returns:
        One `TableChange` for every definition, registration, winner and fallback
        that is in one table only, or differs.

    Example:
        >>> from npu_dispatch_inspect import compare_tables, read_dispatch_table
        >>> one, two = read_dispatch_table("aten::mm"), read_dispatch_table("aten::mm")
        >>> len(compare_tables(one, two))
        0
    """
    sight = _exactly if exact else _Roughly()
    changes: list[TableChange] = []
    fallback_keys: dict[str, None] = {}
    for name in dict.fromkeys((*before.names, *after.names)):
        old, new = before.fingerprint(name), after.fingerprint(name)
        if old == new:
            continue
        left = before.entry(name) if old is not None else None
        right = after.entry(name) if new is not None else None
        if left == right:
            continue
        for what, facts_of in _FACTS.items():
            changes += _differences(
                what, name, _numbered(facts_of, left), _numbered(facts_of, right), sight
            )
        for entry in (left, right):
            fallback_keys.update(dict.fromkeys(_fallback_keys(entry)))
    for key in fallback_keys:
        changes += _differences(
            "fallback", None, _fallback(before, key), _fallback(after, key), sight
        )
    return TableChanges(changes)


def _differences(
    what: str,
    operator: str | None,
    before: _Facts,
    after: _Facts,
    sight: Callable[[TableFact], object],
) -> Iterator[TableChange]:
    for key in dict.fromkeys((*before, *after)):
        old, new = before.get(key), after.get(key)
        if old is None or new is None or sight(old) != sight(new):
            yield TableChange(
                what=what, operator=operator, key=key[0], before=old, after=new
            )


def _numbered(
    facts_of: Callable[[OperatorEntry], Iterable[_Fact]], entry: OperatorEntry | None
) -> _Facts:
    # One key can have several facts: two decompositions, for instance.
    found: dict[_Key, TableFact] = {}
    for key, fact in facts_of(entry) if entry is not None else ():
        number = 0
        while (key, number) in found:
            number += 1
        found[key, number] = fact
    return found


def _definition(entry: OperatorEntry) -> Iterator[_Fact]:
    if entry.definition is not None:
        yield None, entry.definition


def _registrations(entry: OperatorEntry) -> Iterator[_Fact]:
    return ((each.key, each) for each in entry.registrations if each.active)


def _python_kernels(entry: OperatorEntry) -> Iterator[_Fact]:
    return ((each.key, each) for each in entry.python_kernels)


def _kernels(entry: OperatorEntry) -> Iterable[_Fact]:
    return entry.kernels


_FACTS: Mapping[str, Callable[[OperatorEntry], Iterable[_Fact]]] = {
    "definition": _definition,
    "registration": _registrations,
    "python kernel": _python_kernels,
    "kernel": _kernels,
}


def _fallback_keys(entry: OperatorEntry | None) -> Iterator[str]:
    for key, kernel in entry.kernels if entry is not None else ():
        if kernel.kind == "backend fallback":
            yield key


def _fallback(table: DispatchTable, key: str) -> _Facts:
    return {(each.key, 0): each for each in table.fallbacks(key=key)}


def _exactly(fact: TableFact) -> object:
    return fact


class _Roughly:
    """Sees a fact without what moves from build to build; remembers what it saw.

    Winners are shared by thousands of operators, so they are known by identity;
    holding on to them keeps the identities theirs.
    """

    def __init__(self) -> None:
        self._seen: dict[int, tuple[TableFact, object]] = {}

    def __call__(self, fact: TableFact) -> object:
        found = self._seen.get(id(fact))
        if found is None:
            found = self._seen[id(fact)] = fact, _rough(fact)
        return found[1]


def _rough(fact: TableFact) -> object:
    if isinstance(fact, Definition):
        return fact.schema
    file = None if fact.file is None else _SHARD.sub("", PurePosixPath(fact.file).name)
    if isinstance(fact, KernelRegistration):
        flags = fact.fallthrough, fact.boxed, fact.unboxed, fact.alias
        return file, fact.note, fact.signature, flags
    if isinstance(fact, ComputedKernel):
        return file, fact.note, fact.kind, fact.fallthrough
    return type(fact), file
