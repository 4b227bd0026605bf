# SPDX-License-Identifier: BSD-3-Clause
"""Traces of torch_npu's log lines as files."""

from __future__ import annotations

from typing import Any

from attrs import evolve, frozen

from npu_dispatch_inspect.records import Environment, LogRecord, MissingReason
from npu_dispatch_inspect.records import logs as log_records
from npu_dispatch_inspect.serialization._kinds import Kind, NoEnd, Parts
from npu_dispatch_inspect.traces.logs import LogTrace

__all__ = ["KIND", "LINES", "LogTraceHead", "head_of", "trace_of"]

LINES: tuple[type[LogRecord], ...] = tuple(
    kind
    for kind in vars(log_records).values()
    if isinstance(kind, type) and issubclass(kind, LogRecord)
)
"""Classes of log records."""


@frozen(kw_only=True)
class LogTraceHead:
    """What a log trace has besides its lines."""

    environment: Environment | None = None
    """Where the lines were captured; None for a file, which does not tell."""
    label: str | None = None
    """A name for people."""
    incomplete: tuple[str, ...] = ()
    """Why lines may be missing, a sentence each; what the lines themselves tell of
    it is not repeated."""
    missing: tuple[MissingReason, ...] = ()
    """Why lines that one might expect were not printed."""


def head_of(trace: LogTrace) -> LogTraceHead:
    """A trace without its lines."""
    # As it was given: the property `incomplete` adds what the records tell.
    plain: Any = trace._key()
    _, environment, label, incomplete, missing = plain
    return LogTraceHead(
        environment=environment, label=label, incomplete=incomplete, missing=missing
    )


def trace_of(head: LogTraceHead, records: list[LogRecord]) -> LogTrace:
    """The trace of a head and its lines."""
    return LogTrace(
        records=records,
        environment=head.environment,
        label=head.label,
        incomplete=head.incomplete,
        missing=head.missing,
    )


def _take_apart(trace: LogTrace) -> Parts:
    now = trace._now()
    return Parts(head_of(now), now.records, NoEnd())


def _build(head: LogTraceHead, records: list[LogRecord], end: NoEnd | None) -> LogTrace:
    if end is None:
        note = f"The file was cut off after {len(records)} records."
        head = evolve(head, incomplete=(*head.incomplete, note))
    return trace_of(head, records)


KIND = Kind(
    name="log_trace",
    noun="log trace",
    holds=LogTrace,
    head=LogTraceHead,
    records=LINES,
    take_apart=_take_apart,
    build=_build,
    in_part=True,
)
