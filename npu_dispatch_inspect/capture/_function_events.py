# SPDX-License-Identifier: BSD-3-Clause
"""What the profiler's events add to a trace: names of aclnn operators and aclops.

torch_npu names every operator it launches to the profiler, whatever its log lines
say. The events of dispatcher calls are the calls of the trace, in the same order
on each thread, so the event around a launch tells which call made it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final

from npu_dispatch_inspect._torch_private.function_events import FUNCTION_SCOPE, listen
from npu_dispatch_inspect.records import OpRecord
from npu_dispatch_inspect.records.chains import NativeCall

__all__ = ["FunctionEvents"]

LABEL: Final = "npu_dispatch_inspect"
_OPERATOR = re.compile(r"aclnn\w+|(?!Lazy)[A-Z]\w+")
"""Operators of CANN; torch_npu's other events begin in lower case (``empty_tensor``)."""


class FunctionEvents:
    """The events of one block."""

    def __init__(self) -> None:
        """Begin to listen."""
        self.notes: list[str] = []
        self._stop = listen(LABEL)
        self._events: list[Any] = []
        if self._stop is None:
            self.notes.append(
                "A profiler was on when the block began, so its events are not seen here."
            )

    def stop(self) -> None:
        """Stop listening."""
        if self._stop is None:
            return
        self._events = sorted(self._stop(), key=lambda event: event.time_range.start)
        if not any(event.name == LABEL for event in self._events):
            self.notes.append(
                "A profiler that was started inside the block has taken over the events."
            )

    def native_calls(self, records: Iterable[OpRecord]) -> tuple[NativeCall, ...]:
        """CANN's operators in the order in which they were launched."""
        calls = _matched(self._events, list(records))
        found = []
        for event in self._events:
            if event.scope == FUNCTION_SCOPE and _OPERATOR.fullmatch(event.name):
                around = event.cpu_parent
                while around is not None and around.id not in calls:
                    around = around.cpu_parent
                op = None if around is None else calls[around.id]
                found.append(NativeCall(name=event.name, op=op))
        return tuple(found)


def _matched(events: list[Any], records: list[OpRecord]) -> dict[int, int]:
    """The call that each event of a dispatcher call is, by the event's id.

    An operator that the events count otherwise than the trace is left out.
    """
    threads: dict[int, int] = {}
    seen: dict[tuple[int, str], list[int]] = {}
    for event in events:
        thread = threads.setdefault(event.thread, len(threads))
        if "::" in event.name:
            seen.setdefault((thread, event.name), []).append(event.id)
    numbers = {each.thread: 0 for each in records}
    numbers = {thread: number for number, thread in enumerate(numbers)}
    made: dict[tuple[int, str], list[int]] = {}
    for record in records:
        key = (numbers[record.thread], record.name)
        made.setdefault(key, []).append(record.index)
    matched: dict[int, int] = {}
    for key, ids in seen.items():
        calls = made.get(key, [])
        if len(calls) == len(ids):
            matched.update(zip(ids, calls, strict=True))
    return matched
