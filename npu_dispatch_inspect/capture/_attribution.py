# SPDX-License-Identifier: BSD-3-Clause
"""Which traced call wrote which line.

A tracer that runs beside a capture notes the position of the stream before and
after each call, so the lines of a call are those in between. The glog style
names no thread: where calls of two threads were open at a position, the line
may be of either, and is given to none.
"""

from __future__ import annotations

from typing import Final, TypeGuard

from attrs import evolve

from npu_dispatch_inspect.capture._streams import STREAM_BITS, CallSpan, Reading
from npu_dispatch_inspect.records import (
    AclnnRecord,
    LogRecord,
    OpPluginCall,
    QueueAction,
    QueueRecord,
)

__all__ = ["attribute"]

IN_CALL: Final = "inside the call"
OUTSIDE: Final = "no traced call around it"
SEVERAL: Final = "calls of several threads around it"


def attribute(records: list[LogRecord], part: Reading) -> list[LogRecord]:
    """Give launches, entries of op-plugin and written tasks the call that made them."""
    if not part.tracers:
        return records
    # Of several tracers the last one to begin is the innermost.
    spans = part.tracers[-1].call_spans()
    if spans is None:
        return records
    walk = _Walk(spans)
    result = list(records)
    for place, record in enumerate(records):
        if isinstance(record, (AclnnRecord, OpPluginCall)) or _written(record):
            op, how = walk.at(part.base + record.offset)
            if isinstance(record, AclnnRecord):
                result[place] = evolve(record, op=op, attribution=how)
            else:
                result[place] = evolve(record, op=op)
    return result


def _written(record: LogRecord) -> TypeGuard[QueueRecord]:
    """A line of the queue that the calling thread writes, not the consumer."""
    return isinstance(record, QueueRecord) and record.action is QueueAction.WRITE


class _Walk:
    """Open calls at positions that only grow."""

    def __init__(self, spans: list[CallSpan]) -> None:
        self._spans = sorted(spans, key=lambda span: (span.start, span.op))
        self._next = 0
        self._open: dict[int, list[CallSpan]] = {}

    def at(self, position: int) -> tuple[int | None, str]:
        """The innermost call around a position, and how sure that is."""
        while self._next < len(self._spans):
            span = self._spans[self._next]
            if span.start > position:
                break
            self._open.setdefault(span.thread, []).append(span)
            self._next += 1
        found: list[CallSpan] = []
        for calls in self._open.values():
            while calls and _end(calls[-1]) <= position:
                calls.pop()
            if calls:
                found.append(calls[-1])
        if not found:
            return None, OUTSIDE
        if len(found) > 1:
            return None, SEVERAL
        return found[0].op, IN_CALL


def _end(span: CallSpan) -> int:
    """Where a call's lines end, at the latest where its stream does."""
    if span.end is not None:
        return span.end
    return ((span.start >> STREAM_BITS) + 1) << STREAM_BITS
