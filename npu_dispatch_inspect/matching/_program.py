# SPDX-License-Identifier: BSD-3-Clause
"""A list of patterns as a nondeterministic automaton whose states lie in a line.

State ``p`` leads to ``p + 1`` by one call (a step), may keep itself by a call (a
loop, for runs), and may lead to another state without a call (a jump). Because
most edges go to the next state, sets of states are whole numbers and one shift
moves all of them at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from attrs import define, field, frozen

from npu_dispatch_inspect.patterns import (
    AllOf,
    Call,
    Either,
    Pattern,
    Repeat,
    Run,
    Then,
    single_calls,
)

__all__ = ["Program", "compile_items", "search_items"]


@frozen(kw_only=True)
class Program:
    """The automaton: state 0 is its beginning, the last one its end."""

    size: int
    steps: dict[int, tuple[Call, ...]]
    """By state: a call that is one of these leads to the next state."""
    loops: dict[int, tuple[Call, ...]]
    """By state: a call that is none of these leads back to it."""
    jumps: tuple[tuple[int, int], ...]
    owner: dict[int, int]
    """By state with a step or loop: the item of the list it was made for."""
    ends: tuple[int, ...]
    """For each item, the state in which it is fulfilled."""
    waits: int
    """A bit for the loop of each item that is ``...``: whatever comes, such a state
    stays, so that states before it can do nothing that it cannot."""


@define
class _Builder:
    steps: dict[int, tuple[Call, ...]] = field(factory=dict)
    loops: dict[int, tuple[Call, ...]] = field(factory=dict)
    jumps: list[tuple[int, int]] = field(factory=list)
    owner: dict[int, int] = field(factory=dict)

    def emit(self, pattern: Pattern, at: int, item: int) -> int:
        """Lay out a pattern from state ``at`` on; the state where it ends."""
        calls = single_calls(pattern)
        if calls is not None:
            self.steps[at] = calls
            self.owner[at] = item
            return at + 1
        if isinstance(pattern, Run):
            # A state of its own: one that others jump to must not loop.
            self.jumps += [(at, at + 1), (at + 1, at + 2)]
            self.loops[at + 1] = pattern.forbidden
            self.owner[at + 1] = item
            return at + 2
        if isinstance(pattern, Then):
            for each in _with_gaps(pattern.items):
                at = self.emit(each, at, item)
            return at
        if isinstance(pattern, Repeat):
            return self._repeat(pattern, at, item)
        if isinstance(pattern, Either):
            ends = []
            free = at
            for branch in pattern.branches:
                self.jumps.append((at, free + 1))
                free = self.emit(branch, free + 1, item)
                ends.append(free)
            self.jumps += [(end, free + 1) for end in ends]
            return free + 1
        assert isinstance(pattern, AllOf)
        return self._all_of(pattern, at, item)

    def _repeat(self, pattern: Repeat, at: int, item: int) -> int:
        for _ in range(pattern.low):
            at = self.emit(pattern.item, at, item)
        if pattern.high is None:
            end = self.emit(pattern.item, at + 1, item)
            self.jumps += [(at, at + 1), (end, at + 1), (end, end + 1), (at, end + 1)]
            return end + 1
        for _ in range(pattern.high - pattern.low):
            end = self.emit(pattern.item, at, item)
            self.jumps.append((at, end))
            at = end
        return at

    def _all_of(self, pattern: AllOf, at: int, item: int) -> int:
        """One node for each subset of the parts that has been seen."""
        count = len(pattern.items)
        arrivals: dict[int, list[int]] = {seen: [] for seen in range(1 << count)}
        arrivals[0].append(at)
        free = at
        for seen in range(1 << count):
            node = free + 1
            self.jumps += [(end, node) for end in arrivals[seen]]
            free = node
            if seen == (1 << count) - 1:
                return node
            if pattern.gaps and seen:
                self.loops[node] = ()
                self.owner[node] = item
            for part, each in enumerate(pattern.items):
                if not seen >> part & 1:
                    self.jumps.append((node, free + 1))
                    free = self.emit(each, free + 1, item)
                    arrivals[seen | 1 << part].append(free)
        raise AssertionError


def compile_items(items: Sequence[Pattern]) -> Program:
    """The automaton for patterns that follow one another with nothing between."""
    builder = _Builder()
    at = 0
    ends = []
    waits = 0
    for number, item in enumerate(items):
        if item == Run():
            waits |= 1 << at + 1
        at = builder.emit(item, at, number)
        ends.append(at)
    return Program(
        size=at + 1,
        steps=builder.steps,
        loops=builder.loops,
        jumps=tuple(builder.jumps),
        owner=builder.owner,
        ends=tuple(ends),
        waits=waits,
    )


def search_items(pattern: Pattern) -> tuple[Pattern, ...]:
    """The list that fits a whole trace where the pattern fits some part of it.

    A run at an end of the pattern reaches to that end of the trace.
    """
    if isinstance(pattern, Either) and pattern.open_ended:
        branches = [Then(items=search_items(each)) for each in pattern.branches]
        return (Either(branches=tuple(branches)),)
    items = list(pattern.items if isinstance(pattern, Then) else (pattern,))
    if not isinstance(items[0], Run):
        items.insert(0, Run())
    if not isinstance(items[-1], Run):
        items.append(Run())
    return tuple(_with_gaps(items))


def _with_gaps(items: Iterable[Pattern]) -> list[Pattern]:
    """Any calls between two patterns, unless a run says what may come there."""
    spaced: list[Pattern] = []
    for each in items:
        if spaced and not isinstance(each, Run) and not isinstance(spaced[-1], Run):
            spaced.append(Run())
        spaced.append(each)
    return spaced
