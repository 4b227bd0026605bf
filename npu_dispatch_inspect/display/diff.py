# SPDX-License-Identifier: BSD-3-Clause
"""Text of alignments and searches: verdict, first difference, folded rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any, TypeAlias

from attrs import fields

from npu_dispatch_inspect._call_patterns import CallPattern, overload_of
from npu_dispatch_inspect.display.places import (
    OPS,
    Words,
    call_cells,
    call_line,
    call_name,
    call_place,
    counted,
    near_names,
    unmet_text,
)
from npu_dispatch_inspect.display.text import table
from npu_dispatch_inspect.matching import Alignment, Row, Search, SearchStep, align
from npu_dispatch_inspect.patterns import Call, Run

__all__ = ["alignment_text", "alignment_verdict", "equality_lines", "search_text"]

CONTEXT = 2
"""So many rows before and after a difference."""
_INDENT = " " * len("first difference: ")
_DIFFERENT = ("missing", "unexpected")
_END = Row(kind="end")

Sources: TypeAlias = dict[int, Any]
"""By row number: the record that a missing call was on the other side."""


def alignment_text(
    alignment: Alignment,
    *,
    words: Words = OPS,
    left: Sequence[Any] = (),
    max_rows: int | None = 20,
    more: str = "",
) -> str:
    """What is different, beginning with all of it in one line.

    Args:
        alignment: with at least one difference.
        words: what the calls and the two sides are called.
        left: the records behind the patterns, where a trace is compared with a trace.
        max_rows: rows of the comparison at most; None for all.
        more: how to see differences that were left out.
    """
    lines = [alignment_verdict(alignment, words)]
    sources = _sources(alignment.rows, left)
    lines += [f"  {each}" for each in _first(alignment, words, sources)]
    lines += ["", f"  (- {words.expected}, + {words.traced})"]
    shown = _shown(alignment.rows, max_rows)
    lines += [f"  {each}" for each in _rows(alignment, words, sources, shown)]
    if not alignment.best:
        lines.append(
            "  aligned piece by piece: a shorter list of differences may exist"
        )
    differences = alignment.missing + alignment.unexpected
    told = sum(alignment.rows[each].kind in _DIFFERENT for each in shown)
    if more and (told < differences or not alignment.whole):
        lines.append(f"  {more}")
    return "\n".join(lines)


def alignment_verdict(alignment: Alignment, words: Words = OPS) -> str:
    """``op sequence differs: 1 missing, 1 unexpected (expected 12, traced 12)``."""
    sizes = (
        f"({words.expected} {_expected(alignment)}, {words.traced} {alignment.traced})"
    )
    if not alignment.whole:
        row = alignment.rows[-1]
        where = "at the end" if row.call is None else f"from #{row.call.index} on"
        return f"{words.noun} sequence differs {where} {sizes}"
    parts = []
    compared = words.compared
    if alignment.missing:
        word = f"only in {words.expected}" if compared else "missing"
        parts.append(f"{alignment.missing} {word}")
    if alignment.unexpected:
        word = f"only in {words.traced}" if compared else "unexpected"
        parts.append(f"{alignment.unexpected} {word}")
    return f"{words.noun} sequence differs: {', '.join(parts)} {sizes}"


def _expected(alignment: Alignment) -> str:
    low, high = alignment.expected
    if high is None:
        return f"at least {low}" if low else "any number"
    return str(low) if low == high else f"{low} to {high}"


def _first(alignment: Alignment, words: Words, sources: Sources) -> list[str]:
    """The first difference, and where it is."""
    number = alignment.first
    assert number is not None
    row = alignment.rows[number]
    # What came in the place of a missing call follows the missing ones.
    came = next(
        each for each in (*alignment.rows[number:], _END) if each.kind != "missing"
    )
    came = came if came.kind == "unexpected" else _END
    before = alignment.rows[number - 1].call if number else None
    if words.compared:
        text = _first_of_two(row, came, sources.get(number), words)
        at = row.call or sources[number]
    elif row.kind == "unexpected":
        text = f"unexpected {_named(row.call)}"
        at = row.call
    elif came.call is not None:
        text = f"expected {_wanted(row)}, traced {_named(came.call)}"
        at = came.call
    else:
        where = "at the beginning"
        if before is not None:
            where = f"after {call_place(before)} ({call_name(before)})"
        text = f"{_wanted(row)} is missing {where}"
        at = before
    lines = [f"first difference: {text}"]
    remarks = _remarks(row, came.call, alignment) if not words.compared else []
    line = call_line(at) if at is not None else ""
    lines += [f"{_INDENT}{each}" for each in (line, *remarks) if each]
    return lines


def _first_of_two(row: Row, came: Row, source: Any, words: Words) -> str:
    """The same where two traces are compared."""
    if row.kind == "unexpected":
        return f"{_named(row.call)} only in {words.traced}"
    if came.call is None:
        return f"{_named(source)} only in {words.expected}"
    return (
        f"{_named(source)} in {words.expected}, {_named(came.call)} in {words.traced}"
    )


def _named(call: Any) -> str:
    return f"{call_name(call)} at {call_place(call)}"


def _remarks(row: Row, came: Any, alignment: Alignment) -> list[str]:
    """Why a call that was asked for is not there."""
    if not alignment.traced:
        return ["nothing was traced: did the code run inside the block?"]
    if row.kind != "missing":
        return []
    if came is not None:
        unmet = [unmet_text(each, [came]) for each in row.wanted]
        if any(unmet):
            conditions = [
                condition for each in row.wanted for condition in each.call.unmet(came)
            ]
            return [f"the name fits, but not {', '.join(conditions)}"]
    if not alignment.whole:
        return []
    calls = [each.call for each in alignment.rows if each.call is not None]
    unmet = [unmet_text(each, calls) for each in row.wanted if each.call.constrained]
    if any(unmet):
        return [each for each in unmet if each]
    if any(
        each.call.matches_name(call.name, overload_of(call))
        for each in row.wanted
        for call in calls
    ):
        return []
    near = dict.fromkeys(
        name for each in row.wanted for name in near_names(each.call.operator, calls)
    )
    hint = f"; similar: {', '.join(near)}" if near else ""
    return [f"{_wanted(row)} is nowhere in the trace{hint}"]


def _rows(
    alignment: Alignment, words: Words, sources: Sources, shown: list[int]
) -> list[str]:
    """The rows around differences; a line for each stretch that is left out."""
    rows = alignment.rows
    cells = [_cells(number, rows[number], sources) for number in shown]
    lines = iter(_lines(cells))
    text = []
    last = -1
    for number in shown:
        text += _fold(rows, last + 1, number, words)
        text.append(next(lines))
        last = number
    if alignment.whole:
        text += _fold(rows, last + 1, len(rows), words)
    else:
        text.append("  ... the rest was not compared: there are too many differences")
    return text


def _shown(rows: Sequence[Row], max_rows: int | None) -> list[int]:
    """Which rows to show: differences, as many of each kind as fit, and context."""
    half = None if max_rows is None else max(1, max_rows // 2)
    shown: set[int] = set()
    at = 0
    for kind, stretch in groupby(rows, key=lambda row: row.kind):
        size = sum(1 for _ in stretch)
        if kind in _DIFFERENT:
            wanted = size if half is None else min(size, half)
            shown.update(range(at, at + wanted))
            shown.update(_context(rows, range(max(0, at - CONTEXT), at)))
            after = range(at + size, min(len(rows), at + size + CONTEXT))
            shown.update(_context(rows, after))
        at += size
        if max_rows is not None and len(shown) > max_rows:
            break
    return sorted(shown)[:max_rows]


def _context(rows: Sequence[Row], numbers: Iterable[int]) -> Iterator[int]:
    return (each for each in numbers if rows[each].kind in ("match", "run"))


def _fold(rows: Sequence[Row], first: int, stop: int, words: Words) -> list[str]:
    """What is left out from one row to another."""
    if first >= stop:
        return []
    kinds = Counter(row.kind for row in rows[first:stop])
    missing, unexpected = kinds.pop("missing", 0), kinds.pop("unexpected", 0)
    matching = sum(kinds.values())
    parts = []
    if missing:
        word = f"only in {words.expected}" if words.compared else "missing"
        parts.append(f"{missing} more {word}")
    if unexpected:
        word = f"only in {words.traced}" if words.compared else "unexpected"
        parts.append(f"{unexpected} more {word}")
    if matching:
        noun = words.noun if matching == 1 else words.plural
        parts.append(f"{matching} matching {noun}")
    return [f"  ... {', '.join(parts)}"]


def _lines(rows: Sequence[Sequence[str]]) -> list[str]:
    """Rows as aligned lines."""
    if not rows:
        return []
    columns = [
        number for number in range(len(rows[0])) if any(row[number] for row in rows)
    ]
    kept = [[row[number] for number in columns] for row in rows]
    return table(kept[0], kept[1:]).split("\n")


def _sources(rows: Sequence[Row], left: Sequence[Any]) -> Sources:
    """For each row that stands for a record of the left side, that record."""
    wanted = [number for number, row in enumerate(rows) if row.wanted]
    return dict(zip(wanted, left, strict=False))


def _cells(number: int, row: Row, sources: Sources) -> tuple[str, ...]:
    sign = {"missing": "-", "unexpected": "+"}.get(row.kind, " ")
    if row.call is not None:
        first, *rest = call_cells(row.call)
    elif number in sources:
        first, *rest = call_cells(sources[number])
    else:
        first, *rest = ("", "", _wanted(row), "", "", "")
    return (f"{sign} {first}", *rest)


def equality_lines(left: Any, right: Any) -> list[str]:
    """Why two traces are not equal, in few lines: pytest shows no more than eight."""
    wanted = [
        Call(call=CallPattern(name=call.name, overload=overload_of(call)))
        for call in left.records
    ]
    words = Words(expected="left", traced="right", compared=True)
    result = align(right.records, wanted)
    if not result.matched:
        sources = _sources(result.rows, left.records)
        return [alignment_verdict(result, words), *_first(result, words, sources)]
    lines = [f"traces of the same {counted(len(wanted), words)} differ in other ways"]
    for one, other in zip(left.records, right.records, strict=True):
        names = [
            each.name
            for each in fields(type(one))
            if getattr(one, each.name) != getattr(other, each.name)
        ]
        if names:
            lines.append(f"first at {_named(one)}: {', '.join(names)}")
            break
    names = [
        each
        for each in ("environment", "engine", "label", "truncated", "notes")
        if getattr(left, each) != getattr(right, each)
    ]
    if names:
        lines.append(f"of the traces: {', '.join(names)}")
    return lines


def _wanted(row: Row) -> str:
    return " | ".join(map(str, row.wanted))


def search_text(search: Search, calls: Sequence[Any], *, words: Words = OPS) -> str:
    """Why a pattern was not found: the verdict, then what became of each part."""
    failed = next(
        number for number, each in enumerate(search.steps) if each.status == "failed"
    )
    step = search.steps[failed]
    before = [position for each in search.steps[:failed] for position in each.positions]
    after = calls[max(before)] if before else None
    reason, verdict = _reason(step, search, failed, calls, after)
    found = sum(
        each.status == "ok" and not isinstance(each.pattern, Run)
        for each in search.steps
    )
    wanted = sum(not isinstance(each.pattern, Run) for each in search.steps)
    if wanted > 1:
        verdict += f" ({found} of {wanted} found)"
    lines = [f"{words.noun} order not satisfied: {verdict}"]
    width = max(len(str(each.pattern)) for each in search.steps)
    for number, each in enumerate(search.steps):
        name = str(each.pattern).ljust(width)
        if each.status == "ok":
            took = ", ".join(
                f"#{calls[position].index} {call_name(calls[position])}"
                for position in each.positions
            )
            text = f"ok    {name}  {f'-> {took}' if took else ''}"
        elif number == failed:
            text = f"FAIL  {name}  {reason}"
        else:
            text = f"--    {name}  not reached"
        lines.append(f"  {text}".rstrip())
    lines.append(f"  in {counted(len(calls), words)}")
    return "\n".join(lines)


def _reason(
    step: SearchStep, search: Search, number: int, calls: Sequence[Any], after: Any
) -> tuple[str, str]:
    """For the line of the step, and for the verdict."""
    if isinstance(step.pattern, Run):
        assert step.forbidden is not None
        call = calls[step.forbidden]
        text = f"{call_name(call)} at {call_place(call)}"
        if number + 1 < len(search.steps):
            text += f" comes before {search.steps[number + 1].pattern}"
        elif after is not None:
            text += f" comes after #{after.index}"
        return text, text
    where = f" after #{after.index}" if after is not None else ""
    verdict = f"no {step.pattern}{where}"
    reason = f"no match{where}"
    if step.elsewhere:
        taken = ", ".join(f"#{calls[each].index}" for each in step.elsewhere[:3])
        more = len(step.elsewhere) - 3
        rest = f" and {more} more" if more > 0 else ""
        reason += f" (it does occur earlier: {taken}{rest})"
    elif not calls:
        reason += ": nothing was traced"
    elif step.absent:
        names = ", ".join(map(str, step.absent))
        near = [
            name
            for each in step.absent
            for name in near_names(each.call.operator, calls)
        ]
        hint = f"; similar: {', '.join(dict.fromkeys(near))}" if near else ""
        reason += f": {names} {'is' if len(step.absent) == 1 else 'are'} nowhere{hint}"
    return reason, verdict
