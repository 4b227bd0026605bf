# SPDX-License-Identifier: BSD-3-Clause
"""Chrome traces (Trace Event Format), for Perfetto and chrome://tracing.

Calls are nested complete events, one track per thread. Launches are a process of
their own, tied to their calls by arrows. Times are those of the host: what the
device took is in none of the records, and the file says so.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from npu_dispatch_inspect.display.text import (
    environment_line,
    inputs_text,
    value_text,
)
from npu_dispatch_inspect.errors import UsageError
from npu_dispatch_inspect.export._times import (
    Span,
    call_spans,
    launch_spans,
    line_times,
    measured,
)
from npu_dispatch_inspect.records import (
    AclnnRecord,
    Environment,
    LogRecord,
    OpRecord,
    TaskRecord,
)
from npu_dispatch_inspect.records.chains import ChainNode
from npu_dispatch_inspect.traces.logs import LogTrace
from npu_dispatch_inspect.traces.ops import OpTrace
from npu_dispatch_inspect.traces.report import DispatchReport

__all__ = ["chrome_trace"]

CALLS, LAUNCHES, LINES, TASKS = 1, 2, 3, 4
"""Processes of a trace; with several processes in a log, 3 is followed by others."""
HOST = "host time of the dispatch, not device time"
LOGICAL = "logical time: the order of the calls, as no times were recorded"
LOG_CLOCK = "time of day as the log prints it, from its first line on"
LOG_ORDER = "logical time: the order of the lines, as the log prints no times"


def chrome_trace(thing: OpTrace | LogTrace | DispatchReport) -> Iterator[str]:
    """The pieces of a Chrome trace.

    Args:
        thing: calls, lines of a log, or both joined.

    Raises:
        UsageError: it has no order in time.
    """
    if isinstance(thing, DispatchReport):
        trace = thing.trace
        times = HOST if measured(trace.records) else LOGICAL
        return _file(_report_events(thing, times), trace.environment, times)
    if isinstance(thing, OpTrace):
        times = HOST if measured(thing.records) else LOGICAL
        return _file(_call_events(thing, {}, times), thing.environment, times)
    if isinstance(thing, LogTrace):
        _, by_clock = line_times(thing.records)
        times = LOG_CLOCK if by_clock else LOG_ORDER
        return _file(_log_events(thing, times), thing.environment, times)
    msg = (
        "A Chrome trace shows calls in time: those of an OpTrace, a DispatchReport or a "
        f"LogTrace; a {type(thing).__name__} has none."
    )
    raise UsageError(msg)


def _file(
    events: Iterator[dict[str, Any]], environment: Environment | None, times: str
) -> Iterator[str]:
    told = {"times": times}
    if environment is not None:
        told["environment"] = environment_line(environment)
        told["npu_dispatch_inspect"] = environment.tool
    head = json.dumps({"displayTimeUnit": "ns", "otherData": told})
    yield f'{head[:-1]}, "traceEvents": [\n'
    separator = ""
    for event in events:
        yield separator + json.dumps(event, separators=(",", ":"))
        separator = ",\n"
    yield "\n]}\n"


def _process(number: int, name: str) -> Iterator[dict[str, Any]]:
    for what, value in (
        ("process_name", {"name": name}),
        ("process_sort_index", {"sort_index": number}),
    ):
        yield {"ph": "M", "pid": number, "tid": 0, "name": what, "args": value}


def _thread(process: int, thread: int, name: str) -> dict[str, Any]:
    return {
        "ph": "M",
        "pid": process,
        "tid": thread,
        "name": "thread_name",
        "args": {"name": name},
    }


def _complete(
    process: int, thread: int, span: Span, name: str, category: str, args: Any
) -> dict[str, Any]:
    return {
        "ph": "X",
        "pid": process,
        "tid": thread,
        "ts": span.start / 1000,
        "dur": (span.end - span.start) / 1000,
        "name": name,
        "cat": category,
        "args": {key: value for key, value in args.items() if value not in (None, "")},
    }


def _call_events(
    trace: OpTrace, nodes: Mapping[int, ChainNode], times: str
) -> Iterator[dict[str, Any]]:
    calls = sorted(trace.records, key=lambda each: each.index)
    spans = call_spans(calls)
    where = " on the stand-in" if trace.environment.stand_in else ""
    yield from _process(CALLS, f"Operator calls{where} ({times})")
    for thread in sorted({each.thread for each in calls}):
        name = f"thread {thread}{'' if thread else ' (the one that traced)'}"
        yield _thread(CALLS, thread + 1, name)
    for call in calls:
        yield _complete(
            CALLS,
            call.thread + 1,
            spans[call.index],
            call.qualified_name,
            call.phase.value,
            _call_args(call, nodes.get(call.index)),
        )


def _call_args(call: OpRecord, node: ChainNode | None) -> dict[str, Any]:
    return {
        "index": call.index,
        "inputs": inputs_text(call),
        "outputs": ", ".join(map(value_text, call.outputs or ())),
        "module": call.module,
        "module type": call.module_type,
        "regions": " > ".join(call.regions),
        "source": None if call.source is None else str(call.source),
        "kernel": " -> ".join(f"{each.key} {each.site}" for each in call.path),
        "forward call": call.forward_index,
        "recomputed": call.recomputed or None,
        "verdict": node and node.verdict.value,
        "why": node and node.why,
        "raised": call.exception and f"{call.exception.type}: {call.exception.message}",
    }


def _report_events(report: DispatchReport, times: str) -> Iterator[dict[str, Any]]:
    nodes = {node.op.index: node for node in report.nodes()}
    yield from _call_events(report.trace, nodes, times)
    spans = call_spans(report.trace.records)
    # By thread, and in the order in which they were launched.
    made: dict[int, list[tuple[int, ChainNode, str, Any]]] = {}
    for node in nodes.values():
        if node.op.index not in spans:  # made by hand, without its call
            continue
        row = made.setdefault(node.op.thread, [])
        for launch in node.launches:
            args = {**_launch_args(launch.record), **_task_args(launch.task)}
            row.append((launch.record.index, node, launch.name, args))
        row += [
            (task.index, node, task.name or "aclop", _task_args(task))
            for task in node.aclops
        ]
    yield from _process(
        LAUNCHES,
        "Launches (drawn at the calls that made them: they have no time of their own)",
    )
    arrow = 0
    for thread, row in sorted(made.items()):
        if not row:
            continue
        yield _thread(LAUNCHES, thread + 1, f"launched by thread {thread}")
        row.sort(key=lambda each: (spans[each[1].op.index].start, each[0]))
        places = launch_spans(spans[node.op.index] for _, node, _, _ in row)
        for (_, node, name, args), place in zip(row, places, strict=True):
            arrow += 1
            told = {"call": node.op.index, **args}
            yield _complete(LAUNCHES, thread + 1, place, name, "launch", told)
            # After both of its ends: viewers tie it to what is open at its time.
            yield from _arrow(arrow, thread + 1, spans[node.op.index], place)


def _arrow(
    number: int, thread: int, call: Span, place: Span
) -> Iterator[dict[str, Any]]:
    both = {"id": number, "tid": thread, "name": "launch", "cat": "launch"}
    yield {"ph": "s", "pid": CALLS, "ts": call.start / 1000, **both}
    yield {"ph": "f", "bp": "e", "pid": LAUNCHES, "ts": place.start / 1000, **both}


def _launch_args(record: AclnnRecord) -> dict[str, Any]:
    arguments = record.arguments or ()
    return {
        "arguments": ", ".join(f"{a.name}={value_text(a.value)}" for a in arguments),
        "command": record.command,
        "stream": record.stream,
        "log time": record.time,
    }


def _task_args(task: TaskRecord | None) -> dict[str, Any]:
    if task is None:
        return {}
    return {
        "task": task.index,
        "slot": task.slot,
        "result": task.ret,
        "microseconds from writing to the end of the run": task.queued_us,
    }


def _log_events(trace: LogTrace, times: str) -> Iterator[dict[str, Any]]:
    at, _ = line_times(trace.records)
    numbers: dict[tuple[str | None, int | None], int] = {}
    for line in trace.records:
        name = _line_name(line)
        if name is None:
            continue
        origin = line.origin
        who = (origin.source, origin.pid)
        if who not in numbers:
            numbers[who] = LINES + 2 * len(numbers)
            label = " ".join(str(each) for each in who if each is not None) or "log"
            yield from _process(numbers[who], f"Lines of {label} ({times})")
        yield {
            "ph": "i",
            "s": "t",
            "pid": numbers[who],
            "tid": origin.tid or 0,
            "ts": at[line.index] / 1000,
            "name": name,
            "cat": type(line).__name__,
            "args": {"line": line.index, "message": line.message},
        }
    yield from _task_events(trace, at, numbers, times)


def _line_name(line: LogRecord) -> str | None:
    """The operator that a line is about; None for a line about none."""
    name: str | None = getattr(line, "operator", None) or getattr(line, "name", None)
    return name


def _task_events(
    trace: LogTrace,
    at: Mapping[int, int],
    numbers: Mapping[tuple[str | None, int | None], int],
    times: str,
) -> Iterator[dict[str, Any]]:
    """Tasks of the queue: they overlap, so each is a pair of begin and end."""
    told = set()
    for task in trace.tasks:
        end = task.finished if task.finished is not None else task.read
        if task.written is None or end is None:
            continue
        process = numbers.get((task.source, task.pid), LINES) + 1
        if process not in told:
            told.add(process)
            yield from _process(
                process, f"Tasks in the queue, written to run ({times})"
            )
        both = {
            "id": task.index,
            "pid": process,
            "tid": 0,
            "name": task.name or task.kind.value,
            "cat": "task",
        }
        args = {"slot": task.slot, "result": task.ret, "stream": task.stream}
        start = at[task.written]
        yield {"ph": "b", "ts": start / 1000, **both, "args": args}
        yield {"ph": "e", "ts": max(start, at[end]) / 1000, **both}
