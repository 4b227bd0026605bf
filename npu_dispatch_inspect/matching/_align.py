# SPDX-License-Identifier: BSD-3-Clause
"""Align the calls of a trace with a list of patterns."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any

from attrs import frozen

from npu_dispatch_inspect._call_patterns import CallPattern
from npu_dispatch_inspect.matching._automaton import Event, Machine
from npu_dispatch_inspect.matching._classes import Classes
from npu_dispatch_inspect.matching._lcs import common
from npu_dispatch_inspect.matching._program import Program, compile_items
from npu_dispatch_inspect.patterns import (
    AllOf,
    Call,
    Either,
    Pattern,
    Repeat,
    Run,
    Then,
    as_patterns,
    single_calls,
)

__all__ = ["Alignment", "Row", "align"]

MAX_WORK = 1_000_000
"""Calls times differences that are tried before the first difference must do."""


@frozen(kw_only=True)
class Row:
    """One line of an alignment."""

    kind: str
    """``"match"``; ``"run"``: taken up by ``...`` or ``~a``; ``"missing"``: asked
    for but not there; ``"unexpected"``: there but not asked for."""
    call: Any = None
    """The record; None where it is missing."""
    position: int | None = None
    """Of the call in the sequence that was compared."""
    wanted: tuple[Call, ...] = ()
    """What was asked for, alternatives side by side; empty for a call nobody
    asked for."""


@frozen(kw_only=True)
class Alignment:
    """A trace side by side with the patterns it should fit."""

    rows: tuple[Row, ...]
    matched: bool
    missing: int
    unexpected: int
    traced: int
    expected: tuple[int, int | None]
    """Fewest and most calls that would fit; None where there is no most."""
    best: bool = True
    """No alignment has fewer differences. False for very long sequences with very
    many differences, which are aligned piece by piece."""
    whole: bool = True
    """False where there were too many differences: the rows end at the first."""

    @property
    def first(self) -> int | None:
        """Number of the first row that is a difference."""
        for number, row in enumerate(self.rows):
            if row.kind in ("missing", "unexpected"):
                return number
        return None


def align(calls: Sequence[Any], patterns: Iterable[object]) -> Alignment:
    """Find the fewest differences between calls and a list of patterns.

    Args:
        calls: records with a `name`.
        patterns: what the whole sequence should be; see `patterns`.
    """
    items = as_patterns(patterns)
    single = [single_calls(each) for each in items]
    if all(each is not None for each in single):
        rows, best = _align_single(calls, [each or () for each in single])
        whole = True
    else:
        best = True
        rows, whole = _align_any(calls, items)
    sizes = [_sizes(each) for each in items]
    missing = sum(row.kind == "missing" for row in rows)
    unexpected = sum(row.kind == "unexpected" for row in rows)
    return Alignment(
        rows=tuple(rows),
        matched=whole and not missing and not unexpected,
        missing=missing,
        unexpected=unexpected,
        traced=len(calls),
        expected=(
            sum(low for low, _ in sizes),
            _total(high for _, high in sizes),
        ),
        best=best,
        whole=whole,
    )


def _align_single(
    calls: Sequence[Any], items: Sequence[tuple[Call, ...]]
) -> tuple[list[Row], bool]:
    at: dict[CallPattern, list[int]] = {}
    for number, alternatives in enumerate(items):
        for each in alternatives:
            at.setdefault(each.call, []).append(number)
    classes = Classes(at)
    kinds = classes.of(calls)
    masks = []
    for fitting in classes.patterns:
        # In bytes: setting bits of a long number one by one takes quadratic time.
        mask = bytearray(len(items) // 8 + 1)
        for number in chain.from_iterable(at[fit] for fit in fitting):
            mask[number >> 3] |= 1 << (number & 7)
        masks.append(int.from_bytes(mask, "little"))
    pairs, best = common(kinds, masks, len(items))
    rows = []
    for position, item in pairs:
        if position is None:
            assert item is not None
            rows.append(Row(kind="missing", wanted=items[item]))
        elif item is None:
            rows.append(Row(kind="unexpected", call=calls[position], position=position))
        else:
            rows.append(
                Row(
                    kind="match",
                    call=calls[position],
                    position=position,
                    wanted=items[item],
                )
            )
    return _missing_first(rows), best


def _align_any(
    calls: Sequence[Any], items: Sequence[Pattern]
) -> tuple[list[Row], bool]:
    program = compile_items(items)
    machine = Machine(program, calls)
    found = machine.exact()
    work = machine.work
    while not found and work <= MAX_WORK:
        found = machine.allow_one_more()
        work += machine.work
    if found:
        way = machine.way(len(calls), program.size - 1)
        return _missing_first(_rows(way, calls, program)), True
    return _up_to_first(machine, calls), False


def _up_to_first(machine: Machine, calls: Sequence[Any]) -> list[Row]:
    """The way that fits the longest, and the call at which it ends."""
    layer = machine.layers[0]
    del machine.layers[1:]
    position = max(each for each, states in enumerate(layer) if states)
    states = layer[position]
    rows = _rows(machine.way(position, states.bit_length() - 1), calls, machine.program)
    wanted = dict.fromkeys(
        call
        for state, alternatives in machine.program.steps.items()
        if states >> state & 1
        for call in alternatives
    )
    if wanted:
        rows.append(Row(kind="missing", wanted=tuple(wanted)))
    if position < len(calls):
        rows.append(Row(kind="unexpected", call=calls[position], position=position))
    return rows


def _rows(way: Iterable[Event], calls: Sequence[Any], program: Program) -> list[Row]:
    return [
        Row(
            kind=kind,
            call=None if position is None else calls[position],
            position=position,
            wanted=() if state is None else program.steps.get(state, ()),
        )
        for kind, position, state in way
    ]


def _missing_first(rows: list[Row]) -> list[Row]:
    """Between two rows that fit: first what was asked for, then what came."""
    ordered: list[Row] = []
    came: list[Row] = []
    for row in rows:
        if row.kind == "unexpected":
            came.append(row)
            continue
        if row.kind != "missing":
            ordered += came
            came = []
        ordered.append(row)
    return ordered + came


def _sizes(pattern: Pattern) -> tuple[int, int | None]:
    """Fewest and most calls that fit a pattern."""
    if isinstance(pattern, Call):
        return (1, 1)
    if isinstance(pattern, Run):
        return (0, None)
    if isinstance(pattern, Either):
        sizes = [_sizes(each) for each in pattern.branches]
        highs = [high for _, high in sizes]
        known = [high for high in highs if high is not None]
        return (
            min(low for low, _ in sizes),
            max(known) if len(known) == len(highs) else None,
        )
    if isinstance(pattern, Repeat):
        low, high = _sizes(pattern.item)
        most = (
            None if None in (high, pattern.high) else (high or 0) * (pattern.high or 0)
        )
        return (low * pattern.low, most)
    assert isinstance(pattern, (Then, AllOf))
    sizes = [_sizes(each) for each in pattern.items]
    gaps = len(sizes) > 1 and (isinstance(pattern, Then) or pattern.gaps)
    return (
        sum(low for low, _ in sizes),
        None if gaps else _total(high for _, high in sizes),
    )


def _total(sizes: Iterable[int | None]) -> int | None:
    total = 0
    for each in sizes:
        if each is None:
            return None
        total += each
    return total
