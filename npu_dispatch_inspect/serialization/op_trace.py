# SPDX-License-Identifier: BSD-3-Clause
"""Operator traces as files, written at once or while the program runs."""

from __future__ import annotations

from collections.abc import Iterator

from attrs import frozen

from npu_dispatch_inspect.records import Environment, OpRecord
from npu_dispatch_inspect.serialization._kinds import Content, Kind, Parts
from npu_dispatch_inspect.serialization._writing import (
    TAG,
    end_content,
    head_content,
    line,
    record_content,
)
from npu_dispatch_inspect.traces.ops import OpTrace

__all__ = [
    "KIND",
    "OpTraceEnd",
    "OpTraceHead",
    "end_line",
    "head_line",
    "record_line",
]


@frozen(kw_only=True)
class OpTraceHead:
    """What is known of a trace when it begins."""

    environment: Environment
    engine: str
    """``"dispatch_mode"`` or ``"dispatcher"``."""
    label: str | None = None
    """A name for people."""
    in_order: bool = True
    """False where the file was written while the program ran: its threads took
    turns, and the records are to be sorted by their index."""


@frozen(kw_only=True)
class OpTraceEnd:
    """What is known of a trace when it is over."""

    environment: Environment | None = None
    """Where a device came up meanwhile, else None: that of the head holds."""
    truncated: bool = False
    """`max_ops` was reached: calls after the last are missing."""
    notes: tuple[str, ...] = ()
    """What the trace could not see, a sentence each."""


def _take_apart(trace: OpTrace) -> Parts:
    now = trace._now()
    head = OpTraceHead(environment=now.environment, engine=now.engine, label=now.label)
    end = OpTraceEnd(truncated=now.truncated, notes=now.notes)
    return Parts(head, now.records, end)


def _build(
    head: OpTraceHead, records: list[OpRecord], end: OpTraceEnd | None
) -> OpTrace:
    if not head.in_order:
        records.sort(key=lambda record: record.index)
    if end is None:
        end = OpTraceEnd(notes=(f"The file was cut off after {len(records)} records.",))
    return OpTrace(
        records=records,
        environment=end.environment or head.environment,
        engine=head.engine,
        label=head.label,
        truncated=end.truncated,
        notes=end.notes,
    )


def _from_1(contents: Iterator[Content]) -> Iterator[Content]:
    """Version 1 had records without a name, and the end's fields beside its count."""
    yield {**next(contents), "in_order": False}
    for content in contents:
        if "end" in content:
            end = dict(content)
            count = end.pop("end")
            yield {"end": {"records": count, **end}}
        else:
            yield {TAG: "OpRecord", **content}


KIND = Kind(
    name="op_trace",
    noun="trace",
    major=2,
    holds=OpTrace,
    head=OpTraceHead,
    records=(OpRecord,),
    end=OpTraceEnd,
    take_apart=_take_apart,
    build=_build,
    in_part=True,
    migrations={1: _from_1},
)


def head_line(head: OpTraceHead) -> str:
    """The first line of a file that is written while the program runs."""
    return line(head_content(KIND, head))


def record_line(record: OpRecord) -> str:
    """The line of one call."""
    return line(record_content(record))


def end_line(count: int, end: OpTraceEnd) -> str:
    """The last line: the file is whole if it has ``count`` records."""
    return line(end_content(count, end))
