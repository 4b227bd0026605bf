# SPDX-License-Identifier: BSD-3-Clause
"""Run a program over calls, exactly or with the fewest differences.

A set of states is a whole number with a bit for each. Layer ``d`` holds, for every
position in the calls, the states that can be reached with up to ``d`` differences;
a difference is a call that nothing asks for, or a step without its call. Each
layer is made from the one before it, so no more are made than are needed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from npu_dispatch_inspect._call_patterns import CallPattern
from npu_dispatch_inspect.matching._classes import Classes
from npu_dispatch_inspect.matching._program import Program
from npu_dispatch_inspect.patterns import Call

__all__ = ["Event", "Machine"]


class Event(NamedTuple):
    """One step of a way through a program."""

    kind: str
    """``"match"``, ``"run"``, ``"unexpected"``, ``"missing"``."""
    position: int | None
    """Of the call; None where one is missing."""
    state: int | None
    """Of the step or loop; None for a call that nothing asks for."""


class Machine:
    """A program and the calls it is run over."""

    def __init__(self, program: Program, calls: Sequence[Any]) -> None:
        self.program = program
        self.end = 1 << (program.size - 1)
        distances = {target - source for source, target in program.jumps}
        self.work = (len(calls) + 1) * (1 + len(distances) // 64)
        """What a layer costs, in calls."""
        self.count = len(calls)
        self.layers: list[list[int]] = []
        self._all_steps = _bits(program.steps)
        self._close = _closure(program.jumps)
        self._sources: dict[int, list[int]] = defaultdict(list)
        for source, target in program.jumps:
            self._sources[target].append(source)
        self._moves(calls)

    def _moves(self, calls: Sequence[Any]) -> None:
        """For each kind of call: the states that step, and those that loop."""
        program = self.program
        steps = _by_pattern(program.steps)
        stops = _by_pattern(program.loops)
        loops = _bits(program.loops)
        classes = Classes([*steps, *stops])
        self._kinds = classes.of(calls)
        self._masks: list[tuple[int, int]] = []
        for fitting in classes.patterns:
            step = stop = 0
            for each in fitting:
                step |= steps.get(each, 0)
                stop |= stops.get(each, 0)
            self._masks.append((step, loops & ~stop))

    def exact(self) -> bool:
        """Whether the calls fit as they are; makes layer 0."""
        close, masks, waits = self._close, self._masks, self.program.waits
        states = close(1)
        layer = [states]
        known: dict[tuple[int, int], tuple[int, int]] = {}
        for kind in self._kinds:
            if not states:
                break
            key = (states, kind)
            after = known.get(key)
            if after is None:
                step, loop = masks[kind]
                reached = close(((states & step) << 1) | (states & loop))
                waiting = (reached & waits).bit_length()
                # What lies before a state that waits is not followed any further.
                kept = reached >> (waiting - 1) << (waiting - 1) if waiting else reached
                after = known[key] = (reached, kept)
            layer.append(after[0])
            states = after[1]
        layer += [0] * (self.count + 1 - len(layer))
        self.layers = [layer]
        return bool(layer[-1] & self.end)

    def allow_one_more(self) -> bool:
        """Add a layer; whether the calls fit with so many differences."""
        close, masks, all_steps = self._close, self._masks, self._all_steps
        before = self.layers[-1]
        states = close(before[0] | (before[0] & all_steps) << 1)
        layer = [states]
        known: dict[tuple[int, int, int, int], int] = {}
        for position, kind in enumerate(self._kinds):
            beside, below = before[position], before[position + 1]
            # Where a run takes up one call after the other, nothing changes; the
            # same number is then kept, not another one of equal value.
            key = (states, kind, beside, below)
            after = known.get(key)
            if after is None:
                step, loop = masks[kind]
                after = known[key] = close(
                    (states & step) << 1
                    | (states & loop)
                    | beside
                    | below
                    | (below & all_steps) << 1
                )
            states = after
            layer.append(states)
        self.layers.append(layer)
        return bool(layer[-1] & self.end)

    def way(self, position: int, state: int) -> list[Event]:
        """How a state was reached at a position, each match as early as can be."""
        events: list[Event] = []
        level = len(self.layers) - 1
        while True:
            while level and self.layers[level - 1][position] >> state & 1:
                level -= 1
            reached = self._without_call(state, self.layers[level][position])
            arrivals = (
                (self._arrival(level, position, each), each) for each in reached
            )
            event, state = next((each for each in arrivals if each[0]), (None, state))
            if event is None:
                events.reverse()
                return events
            events.append(event)
            if event.kind in ("match", "missing"):
                state -= 1
            if event.kind in ("unexpected", "missing"):
                level -= 1
            if event.kind != "missing":
                position -= 1

    def _without_call(self, state: int, here: int) -> Iterator[int]:
        """The state and those from which jumps alone lead to it."""
        seen = {state}
        queue = [state]
        for each in queue:
            yield each
            for source in self._sources[each]:
                if source not in seen and here >> source & 1:
                    seen.add(source)
                    queue.append(source)

    def _arrival(self, level: int, position: int, state: int) -> Event | None:
        """What led to a state at a position; None where it is the beginning."""
        if position:
            step, loop = self._masks[self._kinds[position - 1]]
            before = self.layers[level][position - 1]
            if (loop & before) >> state & 1:
                return Event("run", position - 1, state)
            if state and (step & before) >> (state - 1) & 1:
                return Event("match", position - 1, state - 1)
        if level:
            below = self.layers[level - 1]
            if position and below[position - 1] >> state & 1:
                return Event("unexpected", position - 1, None)
            if state and (below[position] & self._all_steps) >> (state - 1) & 1:
                return Event("missing", None, state - 1)
        return None


def _bits(states: dict[int, tuple[Call, ...]]) -> int:
    return sum(1 << state for state in states)


def _by_pattern(states: dict[int, tuple[Call, ...]]) -> dict[CallPattern, int]:
    found: dict[CallPattern, int] = {}
    for state, calls in states.items():
        for each in calls:
            found[each.call] = found.get(each.call, 0) | 1 << state
    return found


def _closure(jumps: Sequence[tuple[int, int]]) -> Callable[[int], int]:
    """A function that adds to a set every state that jumps lead to."""
    distances: dict[int, int] = defaultdict(int)
    for source, target in jumps:
        distances[target - source] |= 1 << source
    # A chain of jumps to the next state is followed in steps that double.
    chain = []
    linked, width = distances.pop(1, 0), 1
    while linked:
        chain.append((linked, width))
        linked &= linked >> width
        width *= 2
    far = tuple(distances.items())

    def close(states: int) -> int:
        while True:
            for mask, width in chain:
                states |= (states & mask) << width
            more = states
            for distance, mask in far:
                jumping = states & mask
                if jumping:
                    more |= (
                        jumping << distance if distance > 0 else jumping >> -distance
                    )
            if more == states:
                return states
            states = more

    return close
