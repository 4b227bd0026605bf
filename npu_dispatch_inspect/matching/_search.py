# SPDX-License-Identifier: BSD-3-Clause
"""Look for a pattern anywhere in a trace, and say how far the search came."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from attrs import frozen

from npu_dispatch_inspect.matching._automaton import Event, Machine
from npu_dispatch_inspect.matching._program import (
    Program,
    compile_items,
    search_items,
)
from npu_dispatch_inspect.patterns import (
    AllOf,
    Call,
    Either,
    Pattern,
    Repeat,
    Run,
    Then,
    as_pattern,
    single_calls,
)

__all__ = ["Search", "SearchStep", "search"]


@frozen(kw_only=True)
class SearchStep:
    """One pattern of a chain and what became of it."""

    pattern: Pattern
    status: str
    """``"ok"``, ``"failed"``, ``"not reached"``."""
    positions: tuple[int, ...] = ()
    """Positions of the calls it took."""
    forbidden: int | None = None
    """For a run: position of the call that must not be there."""
    elsewhere: tuple[int, ...] = ()
    """For one call that failed: positions at which it is nevertheless. For a run:
    positions of the call that should have followed it."""
    absent: tuple[Call, ...] = ()
    """For what failed: the calls it speaks of that are nowhere."""


@frozen(kw_only=True)
class Search:
    """What became of a search."""

    matched: bool
    steps: tuple[SearchStep, ...]
    """One for each pattern of the chain, in order."""


def search(calls: Sequence[Any], pattern: object) -> Search:
    """Look for a pattern in calls; other calls may come before and after it.

    Args:
        calls: records with a `name`.
        pattern: a chain ``a >> b``, or any other pattern.
    """
    wanted = as_pattern(pattern)
    items = search_items(wanted)
    # What joins the patterns of a chain is not among the steps.
    shown = [
        number
        for number, each in enumerate(items)
        if not isinstance(each, Run) or each.forbidden
    ]
    program = compile_items(items)
    machine = Machine(program, calls)
    if machine.exact():
        way = machine.way(len(calls), program.size - 1)
        steps = _taken(items, way, program)
        return Search(matched=True, steps=tuple(steps[each] for each in shown))
    position, done = _furthest(machine, program, shown, items)
    way = [] if done < 0 else machine.way(position, program.ends[shown[done]])
    steps = _taken(items, way, program)
    steps = [steps[each] for each in shown[: done + 1]]
    rest = [items[each] for each in shown[done + 1 :]]
    if len(items) == 1:
        rest = [wanted]
    steps += _failed(rest, calls, position)
    steps += [
        SearchStep(pattern=each, status="not reached")
        for each in rest[len(steps) - done - 1 :]
    ]
    return Search(matched=False, steps=tuple(steps))


def _furthest(
    machine: Machine, program: Program, shown: list[int], items: Sequence[Pattern]
) -> tuple[int, int]:
    """The earliest position at which most of the patterns are fulfilled."""
    layer = machine.layers[0]
    reached = 0
    for states in layer:
        reached |= states
    done = -1
    for number, item in enumerate(shown):
        if isinstance(items[item], Run):
            continue
        if reached >> program.ends[item] & 1:
            done = number
    if done < 0:
        return 0, done
    bit = 1 << program.ends[shown[done]]
    return next(each for each, states in enumerate(layer) if states & bit), done


def _taken(
    items: Sequence[Pattern], way: Sequence[Event], program: Program
) -> list[SearchStep]:
    """Each pattern with the calls it took."""
    taken: list[list[int]] = [[] for _ in items]
    for kind, position, state in way:
        if kind == "match" and position is not None and state is not None:
            taken[program.owner[state]].append(position)
    return [
        SearchStep(pattern=item, status="ok", positions=tuple(positions))
        for item, positions in zip(items, taken, strict=True)
    ]


def _failed(
    rest: list[Pattern], calls: Sequence[Any], position: int
) -> list[SearchStep]:
    """The pattern that failed, after a run before it that did not."""
    pattern = rest[0]
    if not isinstance(pattern, Run):
        return [_absent(pattern, calls)]
    forbidden = next(
        (
            each
            for each in range(position, len(calls))
            if any(call.call.matches(calls[each]) for call in pattern.forbidden)
        ),
        None,
    )
    following = _places(rest[1], calls) if len(rest) > 1 else ()
    reachable = len(rest) == 1 or single_calls(rest[1]) is None or following
    if (
        forbidden is not None
        and reachable
        and max(following, default=position) >= position
    ):
        return [
            SearchStep(
                pattern=pattern,
                status="failed",
                forbidden=forbidden,
                elsewhere=following,
            )
        ]
    return [SearchStep(pattern=pattern, status="ok"), _absent(rest[1], calls)]


def _absent(pattern: Pattern, calls: Sequence[Any]) -> SearchStep:
    return SearchStep(
        pattern=pattern,
        status="failed",
        elsewhere=_places(pattern, calls),
        absent=tuple(each for each in _leaves(pattern) if not _places(each, calls)),
    )


def _leaves(pattern: Pattern) -> Iterator[Call]:
    """The calls that a pattern speaks of, in order, each once."""
    seen = set()
    for each in _all_leaves(pattern):
        if each not in seen:
            seen.add(each)
            yield each


def _all_leaves(pattern: Pattern) -> Iterator[Call]:
    if isinstance(pattern, Call):
        yield pattern
    elif isinstance(pattern, Repeat):
        yield from _all_leaves(pattern.item)
    elif isinstance(pattern, Either):
        for each in pattern.branches:
            yield from _all_leaves(each)
    elif isinstance(pattern, (Then, AllOf)):
        for each in pattern.items:
            yield from _all_leaves(each)


def _places(pattern: Pattern, calls: Sequence[Any]) -> tuple[int, ...]:
    alternatives = single_calls(pattern)
    if alternatives is None:
        return ()
    return tuple(
        position
        for position, call in enumerate(calls)
        if any(each.call.matches(call) for each in alternatives)
    )
