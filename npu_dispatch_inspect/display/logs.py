# SPDX-License-Identifier: BSD-3-Clause
"""torch_npu's log lines: launches with their tasks, warnings, and what is missing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from npu_dispatch_inspect.display.document import (
    MAX_LISTED,
    Column,
    Counts,
    Document,
    Element,
    Fold,
    Grid,
    Heading,
    More,
    Row,
    Title,
    counted,
    head_and_tail,
    line,
    listing,
    span,
    without_empty,
)
from npu_dispatch_inspect.display.text import environment_line, value_text
from npu_dispatch_inspect.records import AclnnRecord, TaskKind, TaskRecord

if TYPE_CHECKING:
    from npu_dispatch_inspect.traces.log_summary import LogSummary
    from npu_dispatch_inspect.traces.logs import LogTrace

__all__ = ["log_trace_document", "summary_document", "task_text"]

MAX_ARGUMENTS = 12
COLUMNS = (
    Column(name="#"),
    Column(name="launch"),
    Column(name="arguments", rank=1, least=20),
    Column(name="stream", rank=4),
    Column(name="task", rank=2),
    Column(name="call", rank=3),
)
KINDS = {
    0: "host to host",
    1: "host to device",
    2: "device to host",
    3: "device to device",
}
"""aclrtMemcpyKind in words."""
CUT_ANYWAY = "cut at a NUL byte"
"""torch_npu prints every ``int8_t`` of value zero that way; nothing is lost."""


def log_trace_document(trace: LogTrace, *, html: bool = False) -> Document:
    """The launches as a table, other tasks, warnings, errors, and what is missing."""
    trace = trace[:]
    launches, tasks = trace.launches, trace.tasks
    of_launch = {each.launch: each for each in tasks if each.launch is not None}
    head, hidden, tail = head_and_tail(launches)
    rows: list[Row | Heading | More] = [_launch(each, of_launch) for each in head]
    if hidden:
        rows.append(More(f"... {hidden} more"))
        rows += [_launch(each, of_launch) for each in tail]
    grid = without_empty(Grid(columns=COLUMNS, rows=tuple(rows)))
    facts = (
        counted(len(launches), "aclnn launch"),
        counted(len(tasks), "task"),
        counted(len(trace), "line"),
    )
    rest = tuple(_rest(trace, tasks))
    if not html:
        return (grid, line(", ".join(facts), "total"), *rest)
    counts = trace.counts()
    name = f"LogTrace {trace.label!r}" if trace.label else "LogTrace"
    parts: list[Element] = [Title(name=name, facts=facts), *rest]
    parts.append(Fold(title="launches in order", body=(grid,), open=True))
    parts.append(
        Fold(
            title=f"{counted(len(counts), 'aclnn operator')} by number of launches",
            body=(_counter("", counts, "launch", limit=100),),
        )
    )
    if trace.environment is not None:
        parts.append(line(environment_line(trace.environment), "dim"))
    return tuple(parts)


def _launch(record: AclnnRecord, tasks: Mapping[int, TaskRecord]) -> Row:
    task = tasks.get(record.index)
    stream = "" if record.stream is None or record.stream < 0 else str(record.stream)
    return Row(
        cells=(
            span(record.index, "number"),
            span(record.name, "launch"),
            span(_arguments(record), "values"),
            span("synchronous" if record.synchronous else stream, "number"),
            span("" if task is None else task_text(task), _task_style(task)),
            span("" if record.op is None else f"#{record.op}", "number"),
        )
    )


def _arguments(record: AclnnRecord) -> str:
    if record.arguments is None:
        return ""
    shown = [value_text(each.value) for each in record.arguments[:MAX_ARGUMENTS]]
    if len(record.arguments) > MAX_ARGUMENTS:
        shown.append("...")
    if record.truncated not in (None, CUT_ANYWAY):
        shown.append("cut off")
    return ", ".join(shown)


def task_text(task: TaskRecord) -> str:
    """``task 3 done``, ``task 3 failed (507015)``, ``seen by the profiler``."""
    if task.slot is None:
        return "seen by the profiler"
    if task.ret not in (None, 0):
        return f"task {task.slot} failed ({task.ret})"
    if task.written is None:
        return f"task {task.slot}, not seen written"
    return f"task {task.slot} {'done' if task.executed else 'not seen to run'}"


def _task_style(task: TaskRecord | None) -> str:
    return "bad" if task is not None and task.ret not in (None, 0) else "place"


def _rest(trace: LogTrace, tasks: tuple[TaskRecord, ...]) -> Iterator[Element]:
    others = [each for each in tasks if each.launch is None]
    yield from listing("other tasks", map(_other_task, others))
    yield from listing(
        "op-plugin functions entered",
        (each.name for each in trace.op_plugin_calls),
    )
    yield from listing(
        "fallbacks to the CPU", (each.operator for each in trace.fallbacks), style="bad"
    )
    for error in trace.errors:
        code = f" {error.code}" if error.code is not None else ""
        at = f" at {error.operator}" if error.operator else ""
        before = ", ".join(error.preceding[-MAX_LISTED:])
        after = f"; launched before it, latest last: {before}" if before else ""
        yield line(f"error{code}{at}{after}", "bad")
    foreign = sum(each.foreign for each in trace)
    if foreign:
        yield line(f"{counted(foreign, 'line')} not written by torch_npu")
    for each in trace.missing:
        told = f"missing: {each.what} lines. {each.reason} {each.remedy}".rstrip()
        yield line(told, "warn")
    yield from (line(f"note: {each}", "note") for each in trace.incomplete)


def _other_task(task: TaskRecord) -> str:
    if task.copy is not None:
        size, _, kind = task.copy
        what = f"copy {KINDS.get(kind, f'kind {kind}')}, {counted(size, 'byte')}"
    elif task.kind is TaskKind.EVENT:
        what = "event"
    else:
        what = task.name or "task of unknown kind"
    return what if task.executed else f"{what}, not seen to run"


def summary_document(summary: LogSummary, *, html: bool = False) -> Document:
    """Every counter that counted something."""
    foreign = f"{summary.foreign} not written by torch_npu" if summary.foreign else ""
    bare = f"{summary.bare} without a known prefix" if summary.bare else ""
    facts = tuple(filter(None, (counted(summary.records, "line"), foreign, bare)))
    first = Title(name="LogSummary", facts=facts) if html else line(", ".join(facts))
    parts: list[Element] = [first]
    for title, counter, style in (
        ("aclnn launches", summary.launches, "launch"),
        ("launches by tensors", summary.signatures, "launch"),
        ("op-plugin functions entered", summary.op_plugin, "name"),
        ("fallbacks to the CPU", summary.fallbacks, "bad"),
        ("copies", _with(summary.copies, summary.copied_bytes, "byte"), "copy"),
        ("casts", summary.casts, "copy"),
        ("waits for the queue", _waits(summary), ""),
    ):
        if counter:
            total = f"{title}: {sum(counter.values())}"
            counts = _counter(total, counter, style)
            if html:
                several = title != "launches by tensors"
                parts.append(Fold(title=total, body=(_untitled(counts),), open=several))
            else:
                parts.append(counts)
    if summary.truncated:
        told = f"{counted(summary.truncated, 'record')} with arguments that end early"
        parts.append(line(told, "warn"))
    return tuple(parts)


def _untitled(counts: Counts) -> Counts:
    return Counts(items=counts.items, more=counts.more)


def _counter(
    title: str, counter: Mapping[str, int], style: str, *, limit: int = MAX_LISTED
) -> Counts:
    ordered = sorted(counter.items(), key=lambda item: (-item[1], item[0]))
    items = tuple((name, number, style) for name, number in ordered[:limit])
    return Counts(title=title, items=items, more=max(0, len(ordered) - limit))


def _with(counter: Counter[str], sizes: Counter[str], unit: str) -> dict[str, int]:
    return {
        f"{name}, {counted(sizes[name], unit)}" if sizes[name] else name: number
        for name, number in counter.items()
    }


def _waits(summary: LogSummary) -> dict[str, int]:
    return {
        f"{name}, {summary.waited_us[name]} us": number
        for name, number in summary.waits.items()
    }
