# SPDX-License-Identifier: BSD-3-Clause
"""A comparison as text."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from npu_dispatch_inspect.display.diff import alignment_text
from npu_dispatch_inspect.display.places import capped, counted
from npu_dispatch_inspect.records.comparisons import Difference, Place

if TYPE_CHECKING:
    from npu_dispatch_inspect.comparison import Comparison

__all__ = ["comparison_text"]


def comparison_text(comparison: Comparison, *, max_rows: int | None) -> str:
    """The verdict first, then what differs; rows beyond the limit are counted."""
    if comparison.parts or comparison.words.noun == "graph":
        lines = _graph_lines(comparison, max_rows)
    elif comparison.alignment is None:
        lines = _table_lines(comparison, max_rows)
    else:
        lines = _call_lines(comparison, max_rows)
    return "\n".join([*lines, *(f"note: {each}" for each in comparison.notes)])


def _call_lines(comparison: Comparison, max_rows: int | None) -> list[str]:
    alignment, words = comparison.alignment, comparison.words
    assert alignment is not None
    changed = [each for each in comparison.differences if each.kind == "changed"]
    if not comparison.differences:
        return [f"no difference: {counted(comparison.sizes[0], words)} on both sides"]
    lines = []
    if not alignment.matched:
        lines += alignment_text(
            alignment, words=words, left=comparison.calls, max_rows=max_rows
        ).split("\n")
    if changed:
        same = comparison.sizes[0] - alignment.missing
        if lines:
            lines.append("")
        lines.append(
            f"{len(changed)} of {counted(same, words)} on both sides "
            f"{'differs' if len(changed) == 1 else 'differ'} in "
            f"{_in_what(changed)}"
        )
        rows = [row for each in changed for row in _changed_rows(each, comparison)]
        if max_rows is not None and len(changed) > max_rows:
            shown = sum(len(each.changes) * 2 + 1 for each in changed[:max_rows])
            rows = [*rows[:shown], f"... {len(changed) - max_rows} more"]
        lines += [f"  {row}" for row in rows]
    return lines


def _graph_lines(comparison: Comparison, max_rows: int | None) -> list[str]:
    """Each two graphs under their title; what has no partner before all of them."""
    if comparison.same:
        titles = ", ".join(title for title, _ in comparison.parts) or "no graphs"
        return [f"no difference: {titles}"]
    verdicts = [
        f"{title} {'is the same' if part.same else 'differs'}"
        for title, part in comparison.parts
    ]
    names = dict(zip(("only left", "only right"), comparison.names, strict=True))
    alone = []
    for each in comparison.differences:
        place = each.left or each.right
        if each.graph is None and place is not None:
            side = f"only in {names[each.kind]}"
            line = f" ({place.line})" if place.line else ""
            alone.append(
                f"capture fails {side}: {place.name}{line}"
                if each.what == "failure"
                else f"{place.name} {side}"
            )
    lines = ["; ".join([*alone, *verdicts])]
    for title, part in comparison.parts:
        if not part.same:
            rows = comparison_text(part, max_rows=max_rows).split("\n")
            lines += ["", title, *(f"  {row}".rstrip() for row in rows)]
    return lines


def _in_what(changed: list[Difference]) -> str:
    counts = Counter(change.what for each in changed for change in each.changes)
    return ", ".join(f"{what} ({times})" for what, times in counts.items())


def _changed_rows(difference: Difference, comparison: Comparison) -> list[str]:
    left, right = difference.left, difference.right
    assert left is not None
    assert right is not None
    index = f"#{left.index}"
    if right.index != left.index:
        index += f" / #{right.index}"
    rows = [f"{index} {left.name}{_where(left, right)}"]
    width = max(map(len, comparison.names))
    for change in difference.changes:
        head = f"  {change.what}: "
        for name, text in zip(
            comparison.names, (change.left, change.right), strict=True
        ):
            rows.append(f"{head}{name.ljust(width)}  {text or 'none'}")
            head = " " * len(head)
    return rows


def _where(left: Place, right: Place) -> str:
    """Module and line, of both sides where they are not the same."""
    told = []
    for one, other in ((left.module, right.module), (left.line, right.line)):
        found = [each for each in dict.fromkeys((one, other)) if each]
        if found:
            told.append(" / ".join(found))
    return f"  {'  '.join(told)}" if told else ""


def _table_lines(comparison: Comparison, max_rows: int | None) -> list[str]:
    one, other = comparison.names
    sizes = f"({one} {comparison.sizes[0]} operators, {other} {comparison.sizes[1]})"
    if comparison.same:
        return [f"no difference between the registrations {sizes}"]
    counts = Counter(each.kind for each in comparison.differences)
    told = {
        "only left": f"only in {one}",
        "only right": f"only in {other}",
        "changed": "changed",
    }
    parts = [f"{counts[kind]} {text}" for kind, text in told.items() if counts[kind]]
    rows = [_table_row(each) for each in comparison.differences]
    return [
        f"registrations differ: {', '.join(parts)} {sizes}",
        *(f"  {row}" for row in capped(rows, max_rows, "differences")),
    ]


def _table_row(difference: Difference) -> str:
    place = difference.left or difference.right
    assert place is not None
    if difference.kind == "changed":
        change = difference.changes[0]
        return f"~ {difference.what} {place.name}: {change.left} -> {change.right}"
    sign = "-" if difference.kind == "only left" else "+"
    return f"{sign} {difference.what} {place.name}: {place.line or ''}".rstrip(": ")
