# SPDX-License-Identifier: BSD-3-Clause
"""Reports as files: calls, torch_npu's lines, and the chains that join them.

Chains refer to calls and lines by index, so that each is written once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Any

from attrs import Factory, frozen

from npu_dispatch_inspect.chains import join
from npu_dispatch_inspect.records import (
    AclnnRecord,
    LogRecord,
    OpPluginCall,
    OpRecord,
    TaskRecord,
)
from npu_dispatch_inspect.records.chains import (
    ChainNode,
    Failure,
    Launch,
    NativeCall,
    Verdict,
)
from npu_dispatch_inspect.serialization._kinds import Content, Kind, NoEnd, Parts
from npu_dispatch_inspect.serialization._writing import TAG
from npu_dispatch_inspect.serialization.log_trace import (
    LINES,
    LogTraceHead,
    head_of,
    trace_of,
)
from npu_dispatch_inspect.serialization.op_trace import OpTraceEnd, OpTraceHead
from npu_dispatch_inspect.traces.logs import LogTrace
from npu_dispatch_inspect.traces.ops import OpTrace
from npu_dispatch_inspect.traces.report import DispatchReport

__all__ = ["KIND", "ChainRow", "DispatchReportHead", "LaunchRow"]


@frozen(kw_only=True)
class DispatchReportHead:
    """What a report has besides calls, lines and chains."""

    trace: OpTraceHead
    trace_end: OpTraceEnd = Factory(OpTraceEnd)
    logs: LogTraceHead | None = None
    """None where torch_npu's lines were not captured."""
    failure: Failure | None = None
    """What the block died of."""
    logger_calls: int = 0
    """Calls that torch_npu's logger made to print values; they are in no chain."""
    native_calls: tuple[NativeCall, ...] | None = None
    """What the profiler saw; None where it did not listen."""
    notes: tuple[str, ...] = ()
    """What the report could not see, a sentence each."""
    joined: bool = True
    """False in what was made of a file of version 1, which had no chains: they are
    joined again, from the same facts."""


@frozen(kw_only=True)
class LaunchRow:
    """One launch of a call."""

    line: int | None = None
    """Index of the AclnnRecord that tells of it; None where no line does."""
    record: AclnnRecord | None = None
    """The launch itself where no line tells of it: it was named by its queue task, or
    to the profiler."""
    task: TaskRecord | None = None
    """What the queue made of it, where that is known."""


@frozen(kw_only=True)
class ChainRow:
    """One call with its verdict; chains are written from the top, depth first."""

    depth: int
    """How deep in its chain; a chain begins at 0."""
    op: int | None = None
    """Index of the OpRecord; None where it is not among the calls of the file."""
    call: OpRecord | None = None
    """The call itself where it is not among the calls of the file."""
    verdict: Verdict
    why: str
    """The fact that decided the verdict, as one sentence."""
    op_plugin: tuple[int, ...] = ()
    """Indices of the lines of op_plugin functions that the call entered itself."""
    entered: tuple[OpPluginCall, ...] = ()
    """Those of them that are not among the lines of the file."""
    launches: tuple[LaunchRow, ...] = ()
    """Launches that this call made itself, not those of the calls inside it."""
    aclops: tuple[TaskRecord, ...] = ()
    """What this call ran as aclop."""


def _take_apart(report: DispatchReport) -> Parts:
    now = report._now()
    trace, logs = now.trace._now(), now.logs
    head = DispatchReportHead(
        trace=OpTraceHead(
            environment=trace.environment, engine=trace.engine, label=trace.label
        ),
        trace_end=OpTraceEnd(truncated=trace.truncated, notes=trace.notes),
        logs=None if logs is None else head_of(logs),
        failure=now.failure,
        logger_calls=now.logger_calls,
        native_calls=now.native_calls,
        notes=now.notes,
    )
    lines = () if logs is None else logs.records
    rows = _rows(now.chains, _by_index(trace.records), _by_index(lines))
    return Parts(head, chain(trace.records, lines, rows), NoEnd())


def _by_index(records: tuple[Any, ...]) -> dict[int, Any]:
    # Of several with one index only the first can be referred to.
    found: dict[int, Any] = {}
    for each in records:
        found.setdefault(each.index, each)
    return found


def _rows(
    chains: tuple[ChainNode, ...], calls: Mapping[int, Any], lines: Mapping[int, Any]
) -> Iterator[ChainRow]:
    pending = [(0, node) for node in reversed(chains)]
    while pending:
        depth, node = pending.pop()
        known = calls.get(node.op.index) == node.op
        # All or none by number, so that their order stays.
        written = all(lines.get(each.index) == each for each in node.op_plugin)
        yield ChainRow(
            depth=depth,
            op=node.op.index if known else None,
            call=None if known else node.op,
            verdict=node.verdict,
            why=node.why,
            op_plugin=tuple(each.index for each in node.op_plugin) if written else (),
            entered=() if written else node.op_plugin,
            launches=tuple(_launch_row(each, lines) for each in node.launches),
            aclops=node.aclops,
        )
        pending += [(depth + 1, child) for child in reversed(node.children)]


def _launch_row(launch: Launch, lines: Mapping[int, Any]) -> LaunchRow:
    record = launch.record
    if lines.get(record.index) == record:
        return LaunchRow(line=record.index, task=launch.task)
    return LaunchRow(record=record, task=launch.task)


def _build(
    head: DispatchReportHead, records: list[Any], _: NoEnd | None
) -> DispatchReport:
    calls = [each for each in records if isinstance(each, OpRecord)]
    lines = [each for each in records if isinstance(each, LogRecord)]
    trace = OpTrace(
        records=calls,
        environment=head.trace.environment,
        engine=head.trace.engine,
        label=head.trace.label,
        truncated=head.trace_end.truncated,
        notes=head.trace_end.notes,
    )
    logs = None if head.logs is None else trace_of(head.logs, lines)
    if head.joined:
        rows = [each for each in records if isinstance(each, ChainRow)]
        chains, logger_calls = _chains(rows, trace, logs), head.logger_calls
    else:
        chains, logger_calls = join(trace, logs, head.native_calls)
    return DispatchReport(
        chains=chains,
        trace=trace,
        logs=logs,
        failure=head.failure,
        logger_calls=logger_calls,
        native_calls=head.native_calls,
        notes=head.notes,
    )


def _chains(
    rows: list[ChainRow], trace: OpTrace, logs: LogTrace | None
) -> tuple[ChainNode, ...]:
    calls = _by_index(trace.records)
    lines = _by_index(() if logs is None else logs.records)
    # From the last to the first, so that children are there before their parent.
    waiting: dict[int, list[ChainNode]] = {}
    for row in reversed(rows):
        children = waiting.pop(row.depth + 1, [])
        node = ChainNode(
            op=_found(calls, row.op, row.call),
            verdict=row.verdict,
            why=row.why,
            op_plugin=row.entered or tuple(lines[each] for each in row.op_plugin),
            launches=tuple(
                Launch(record=_found(lines, each.line, each.record), task=each.task)
                for each in row.launches
            ),
            aclops=row.aclops,
            children=tuple(reversed(children)),
        )
        waiting.setdefault(row.depth, []).append(node)
    chains = tuple(reversed(waiting.pop(0, [])))
    if waiting:
        msg = f"a chain goes on at depth {min(waiting)} that did not begin"
        raise ValueError(msg)
    return chains


def _found(records: Mapping[int, Any], index: int | None, record: Any) -> Any:
    """The record of an index, or the one that is written in its place."""
    if (index is None) == (record is None):
        msg = "a chain has one of an index and a record"
        raise ValueError(msg)
    return record if index is None else records[index]


def _from_1(contents: Iterator[Content]) -> Iterator[Content]:
    """Version 1 held a whole file of a trace, then lines, and no chains."""
    parts = list(contents)
    head, trace, end = parts[0], dict(parts[1]), parts[-1]
    count = head["calls"]
    trace_end = dict(parts[count + 2])
    logs = head["logs"] and dict(head["logs"])
    lines = parts[count + 3 : -1]
    if trace_end.pop("end") != count or len(lines) != (logs or {}).pop("records", 0):
        msg = "there are not as many records as were written"
        raise ValueError(msg)
    del trace["schema"], trace["version"]
    yield {
        "schema": head["schema"],
        "version": head["version"],
        "trace": trace,
        "trace_end": trace_end,
        "logs": logs,
        "joined": False,
        **end,
    }
    for each in parts[2 : count + 2]:
        yield {TAG: "OpRecord", **each}
    for each in lines:
        ((name, fields),) = each.items()
        yield {TAG: name, **fields}
    yield {"end": {"records": count + len(lines)}}


KIND = Kind(
    name="dispatch_report",
    noun="report",
    major=2,
    holds=DispatchReport,
    head=DispatchReportHead,
    records=(OpRecord, *LINES, ChainRow),
    take_apart=_take_apart,
    build=_build,
    migrations={1: _from_1},
)
