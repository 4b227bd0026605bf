# SPDX-License-Identifier: BSD-3-Clause
"""Where calls, launches and lines stand on a time line, in whole nanoseconds.

Times that were recorded are those of the host. Where one is missing, everything
gets a logical time instead, the order of the calls, and is called so: the two are
never mixed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from npu_dispatch_inspect.records import LogRecord, OpRecord

__all__ = ["STEP", "Span", "call_spans", "launch_spans", "line_times", "measured"]

STEP = 1000
"""Nanoseconds from one call to the next in logical time: one unit of a viewer."""
_DAY = 86_400_000_000
"""Microseconds; the time of day of a log begins anew at midnight."""


class Span(NamedTuple):
    """From when to when."""

    start: int
    end: int


def measured(calls: Iterable[OpRecord]) -> bool:
    """Every call has a start."""
    return all(each.start_ns is not None for each in calls)


def call_spans(calls: Sequence[OpRecord]) -> dict[int, Span]:
    """The time of each call by its index; calls inside another are inside its span.

    A call whose end was not recorded ends with the last call inside it.
    """
    by_clock = measured(calls)
    ordered = sorted(calls, key=lambda each: each.index)
    spans: dict[int, Span] = {}
    inside: dict[int, int] = {}
    for place in range(len(ordered) - 1, -1, -1):
        call = ordered[place]
        if by_clock:
            start = call.start_ns or 0
            known = None if call.duration_ns is None else start + call.duration_ns
        else:
            start, known = place * STEP, None
        last = inside.pop(call.index, start if by_clock else start + STEP)
        span = Span(start, last if known is None else known)
        spans[call.index] = span
        if call.parent is not None:
            inside[call.parent] = max(inside.get(call.parent, 0), span.end)
    return spans


def launch_spans(makers: Iterable[Span]) -> list[Span]:
    """A place for each launch of a thread, given the call that made it.

    A launch begins with its call, or after the one before it, and ends with its
    call, or where the next begins: it has no time of its own.
    """
    starts: list[int] = []
    ends: list[int] = []
    for maker in makers:
        starts.append(max(maker.start, starts[-1] + 1 if starts else maker.start))
        ends.append(maker.end)
    following = [*starts[1:], None]
    return [
        Span(start, max(start, end if after is None else min(end, after)))
        for start, end, after in zip(starts, ends, following, strict=True)
    ]


def line_times(lines: Sequence[LogRecord]) -> tuple[dict[int, int], bool]:
    """Nanoseconds of each log line by its index, from the first one on.

    Returns:
        The times, and whether they are those of the log. A line without a time of
        its own has that of the line before it.
    """
    stamps = [each.microseconds for each in lines]
    known = [stamp for stamp in stamps if stamp is not None]
    if not known:
        return {each.index: n * STEP for n, each in enumerate(lines)}, False
    times: dict[int, int] = {}
    days, before = 0, known[0]
    for line, stamp in zip(lines, stamps, strict=True):
        if stamp is not None:
            # Lines of several threads may be a little out of order.
            if stamp < before - _DAY // 2:
                days += 1
            before = stamp
        times[line.index] = (days * _DAY + before - known[0]) * 1000
    return times, True
