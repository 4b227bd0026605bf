# SPDX-License-Identifier: BSD-3-Clause
"""torch_npu's log lines as the rows of a page."""

from __future__ import annotations

from collections.abc import Iterator

from npu_dispatch_inspect.export._html_findings import NAMED, counted, grouped
from npu_dispatch_inspect.export._html_model import (
    Column,
    Entry,
    Finding,
    Page,
    Part,
    Row,
    Tag,
)
from npu_dispatch_inspect.export._html_ops import MAX_ROWS
from npu_dispatch_inspect.export._html_parts import (
    dtypes_text,
    launch_parts,
    shapes_text,
    task_text,
)
from npu_dispatch_inspect.records import (
    AclnnRecord,
    AsyncErrorRecord,
    FallbackWarning,
    LogRecord,
    OpPluginCall,
    TaskRecord,
    tensors_in,
)
from npu_dispatch_inspect.traces.log_summary import LogSummary
from npu_dispatch_inspect.traces.logs import LogTrace

__all__ = ["page_of_logs"]

COLUMNS = (
    Column(key="op", label="Operator", chart="Operators"),
    Column(key="kind", label="Line", facet=True, chart="Lines"),
    Column(key="shapes", label="Shapes"),
    Column(key="dtypes", label="Dtypes"),
    Column(key="stream", label="Stream"),
    Column(key="task", label="Task"),
    Column(key="logger", label="Logger"),
    Column(key="source", label="Source", chart="Sources", empty="no process"),
    Column(key="time", label="Time"),
)
TAGS = (
    Tag(key="fallback", label="CPU fallback", tone="bad"),
    Tag(key="error", label="error", tone="bad"),
    Tag(key="cut", label="cut off", tone="warn"),
    Tag(key="launch", label="launches", tone="info"),
)
_KINDS = {
    AclnnRecord: "launch",
    OpPluginCall: "op-plugin",
    FallbackWarning: "fallback",
    AsyncErrorRecord: "error",
}


def page_of_logs(logs: LogTrace) -> Page:
    """A page about the lines that name an operator."""
    shown = [each for each in logs.records if type(each) in _KINDS]
    tasks = {each.launch: each for each in logs.tasks if each.launch is not None}
    summary = logs.summary()
    tone, headline = _headline(summary, logs)
    return Page(
        title=logs.label or "torch_npu log",
        what="lines",
        headline=headline,
        tone=tone,
        below=_below(summary, len(shown)),
        figures=_figures(summary, logs),
        findings=tuple(_findings(logs, summary)),
        environment=logs.environment,
        columns=COLUMNS,
        tags=TAGS,
        tree="Processes",
        outside="no process",
        rows=tuple(_row(each, tasks.get(each.index)) for each in shown[:MAX_ROWS]),
        hidden=max(0, len(shown) - MAX_ROWS),
    )


def _headline(summary: LogSummary, logs: LogTrace) -> tuple[str, str]:
    if logs.errors:
        names = list(dict.fromkeys(each.operator or "?" for each in logs.errors))
        return "bad", f"{counted(len(logs.errors), 'error')}: {_named(names)}."
    if summary.fallbacks:
        names = list(summary.fallbacks)
        count = counted(len(names), "operator")
        return "bad", f"{count} warned of a fallback to the CPU: {_named(names)}."
    launches = summary.launches.total()
    text = f"{counted(launches, 'aclnn launch')}, no warning of a fallback."
    return ("info" if logs.complete else "warn"), text


def _named(names: list[str]) -> str:
    return ", ".join(names[:NAMED]) + (", ..." if names[NAMED:] else "")


def _below(summary: LogSummary, shown: int) -> str:
    return (
        f"{counted(summary.records, 'line')}, {shown} of them name an operator. "
        "torch_npu warns once per operator and process."
    )


def _figures(
    summary: LogSummary, logs: LogTrace
) -> tuple[tuple[str, int, str | None, str], ...]:
    return (
        ("aclnn launches", summary.launches.total(), "launch", "info"),
        ("fallback warnings", summary.fallbacks.total(), "fallback", "bad"),
        ("errors", len(logs.errors), "error", "bad"),
        ("casts", summary.casts.total(), None, "warn"),
        ("copies", summary.copies.total(), None, "warn"),
        ("cut off", sum(map(_cut, logs.records)), "cut", "warn"),
    )


def _findings(logs: LogTrace, summary: LogSummary) -> Iterator[Finding]:
    if logs.errors:
        entries = grouped(
            Entry(text=each.message, place=_process(each), number=each.index)
            for each in logs.errors
        )
        yield Finding(tone="bad", title="Errors", entries=entries, tag="error")
    if logs.fallbacks:
        entries = grouped(
            Entry(text=each.operator, place=_process(each), number=each.index)
            for each in logs.fallbacks
        )
        yield Finding(
            tone="bad", title="CPU fallbacks", entries=entries, tag="fallback"
        )
    for title, counts in (("Casts", summary.casts), ("Copies", summary.copies)):
        if counts:
            entries = tuple(
                Entry(text=text, times=times) for text, times in counts.most_common()
            )
            yield Finding(tone="warn", title=title, entries=entries)
    if summary.waits:
        entries = tuple(
            Entry(text=f"{what}, {summary.waited_us[what]} µs together", times=times)
            for what, times in summary.waits.most_common()
        )
        yield Finding(tone="info", title="Waits for the queue", entries=entries)
    notes = [
        f"{each.what} lines are missing. {each.reason} {each.remedy}".rstrip()
        for each in logs.missing
    ]
    notes += logs.incomplete
    if notes:
        yield Finding(tone="warn", title="Not seen", text=tuple(notes))


def _row(record: LogRecord, task: TaskRecord | None) -> Row:
    arguments = getattr(record, "arguments", None) or ()
    specs = tensors_in(tuple(each.value for each in arguments))
    kind = _KINDS[type(record)]
    tags = {"launch": ["launch"], "fallback": ["fallback"], "error": ["error"]}
    marks = tags.get(kind, [])
    if _cut(record):
        marks = [*marks, "cut"]
    stream = getattr(record, "stream", None)
    cells = (
        getattr(record, "name", None) or getattr(record, "operator", None) or "",
        kind,
        shapes_text(specs),
        dtypes_text(specs),
        "" if stream is None or stream < 0 else str(stream),
        "" if task is None else task_text(task),
        record.logger or "",
        _process(record),
        record.time or "",
    )
    return Row(
        number=record.index,
        cells=cells,
        place=_place(record),
        tags=tuple(marks),
        parts=tuple(_parts(record)),
    )


def _cut(record: LogRecord) -> bool:
    """It ends early; a record that ends at an ``int8_t`` of zero always does."""
    return getattr(record, "truncated", None) not in (None, "cut at a NUL byte")


def _parts(record: LogRecord) -> Iterator[Part]:
    if isinstance(record, (AclnnRecord, OpPluginCall)):
        yield from launch_parts(record)
        return
    yield Part("Log line", "code", ((record.text.rstrip(),),))
    before = record.preceding if isinstance(record, AsyncErrorRecord) else ()
    if before:
        items = tuple((name,) for name in before)
        yield Part("The last launches before it, latest last", "text", items)


def _process(record: LogRecord) -> str:
    origin = record.origin
    if origin.source:
        return origin.source
    if origin.rank is not None and origin.rank >= 0:
        return f"rank {origin.rank}"
    return "" if origin.pid is None else f"process {origin.pid}"


def _place(record: LogRecord) -> tuple[str, ...] | None:
    process = _process(record)
    thread = record.origin.tid
    if not process:
        return None
    return (process,) if thread is None else (process, f"thread {thread}")
