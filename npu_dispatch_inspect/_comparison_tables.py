# SPDX-License-Identifier: BSD-3-Clause
"""Two registration tables: their changes as differences."""

from __future__ import annotations

from typing import Any

from npu_dispatch_inspect.records.comparisons import Change, Difference, Place
from npu_dispatch_inspect.records.table_changes import TableChange
from npu_dispatch_inspect.traces.tables import DispatchTable

__all__ = ["table_differences", "table_notes"]


def table_differences(
    left: DispatchTable, right: DispatchTable
) -> tuple[Difference, ...]:
    """What `compare_tables` finds."""
    from npu_dispatch_inspect.dispatch_table.compare import compare_tables

    return tuple(map(_table_difference, compare_tables(left, right)))


def table_notes(
    left: DispatchTable, right: DispatchTable, names: tuple[str, str]
) -> tuple[str, ...]:
    """Whether the two are of one torch, and whole."""
    notes = []
    versions = [
        tuple(
            f"{package} {version}"
            for package in ("torch", "torch_npu")
            if (version := getattr(table.environment, package, None))
        )
        for table in (left, right)
    ]
    if versions[0] != versions[1]:
        one, other = (" and ".join(each) or "an unknown torch" for each in versions)
        notes.append(f"The tables are of {one}, and of {other}.")
    if left.complete != right.complete:
        part = names[1] if left.complete else names[0]
        notes.append(f"{part} has only a part of the registry.")
    return tuple(notes)


def _table_difference(change: TableChange) -> Difference:
    name = " on ".join(each for each in (change.operator, change.key) if each)
    sites = [
        None if fact is None else Place(name=name, line=fact.site or None)
        for fact in (change.before, change.after)
    ]
    changed = sites[0] is not None and sites[1] is not None
    kinds = {"added": "only right", "removed": "only left", "replaced": "changed"}
    return Difference(
        kind=kinds[change.change],
        what=change.what,
        left=sites[0],
        right=sites[1],
        changes=(
            Change(
                what=change.what,
                left=_fact_text(change.before),
                right=_fact_text(change.after),
            ),
        )
        if changed
        else (),
    )


def _fact_text(fact: Any) -> str:
    kind = getattr(fact, "schema", None) or getattr(fact, "kind", None) or ""
    return "  ".join(each for each in (kind, fact.site) if each)
