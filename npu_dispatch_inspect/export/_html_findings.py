# SPDX-License-Identifier: BSD-3-Clause
"""What a reader of a report should not overlook: the verdict, and what speaks for it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from attrs import evolve

from npu_dispatch_inspect.display.chains import heading_text
from npu_dispatch_inspect.display.text import source_text
from npu_dispatch_inspect.export._html_model import Entry, Finding
from npu_dispatch_inspect.records.chains import ChainNode, Failure, Verdict
from npu_dispatch_inspect.traces.report import DispatchReport

__all__ = [
    "CASTS",
    "NAMED",
    "Headline",
    "counted",
    "findings_of",
    "grouped",
    "headline_of",
]

ACROSS = ("host to device", "device to host")
CASTS = ("dtype cast", "format cast")
NAMED = 3
"""So many operators are named in the verdict."""
MAX_MESSAGE = 120


class Headline(NamedTuple):
    """The verdict."""

    tone: str
    text: str
    below: str


def headline_of(report: DispatchReport, *, launches: bool = True) -> Headline:
    """The verdict in a sentence, and what it rests on.

    Args:
        report: the calls.
        launches: False where nobody looked at what was launched.
    """
    calls = sum(1 for _ in report.nodes())
    told = counted(calls, "operator call")
    below = told
    if launches:
        below += f", {counted(len(report.launches), 'aclnn launch')}"
    whole = _whole(report, launches=launches)
    below += "." if whole else "; not everything is known, see below."
    if report.failure is not None:
        return Headline("bad", f"The block died of {_died(report.failure)}.", below)
    on_cpu = report.fallbacks
    if on_cpu:
        names = list(dict.fromkeys(node.op.qualified_name for node in on_cpu))
        shown = ", ".join(names[:NAMED]) + (", ..." if names[NAMED:] else "")
        text = f"{counted(len(on_cpu), 'call')} ran on the CPU: {shown}."
        return Headline("bad", text, below)
    if not calls:
        return Headline("info", "No operator was called.", "")
    if not launches and report.trace.engine != "dispatcher":
        why = "The kernels that ran were not observed: engine='dispatcher' sees them."
        return Headline("info", f"{told}.", why)
    if not any(node.op.path for node in report.nodes()):
        return Headline("info", f"{told}; no kernel was observed.", below)
    if not any(_on_device(node) for node in report.nodes()):
        return Headline("info", "No call came near an NPU.", below)
    if whole:
        return Headline("good", "No call fell back to the CPU.", below)
    return Headline("warn", "No call was seen to fall back to the CPU.", below)


def _on_device(node: ChainNode) -> bool:
    return any("PrivateUse1" in choice.key for choice in node.op.path)


def _whole(report: DispatchReport, *, launches: bool) -> bool:
    if not launches:
        return report.trace.complete
    unknown = any(node.verdict is Verdict.UNKNOWN for node in report.nodes())
    return report.complete and not unknown


def findings_of(report: DispatchReport, *, launches: bool = True) -> Iterator[Finding]:
    """Everything that stands out, the worst first."""
    if report.failure is not None:
        yield _failure(report.failure)
    yield from _finding(
        "bad",
        "On the CPU",
        map(_why, report.fallbacks),
        tag="fallback",
    )
    yield from _finding("bad", "Raised", map(_raised, _raising(report)), tag="raised")
    yield from _finding("bad", "Failed tasks", _failed_tasks(report), tag="launch")
    copies = report.copies_and_casts
    for title, kinds, tag in (
        ("Copies between host and device", ACROSS, "copy"),
        ("Casts", CASTS, "cast"),
        ("Copies within a device", ("copy", "contiguous copy"), "copy"),
    ):
        yield from _finding(
            "warn",
            title,
            (
                Entry(
                    text=str(copy),
                    place=source_text(copy.source),
                    number=copy.node.op.index,
                )
                for copy in copies
                if copy.kind in kinds
            ),
            tag=tag,
        )
    if launches:
        yield from _finding(
            "warn",
            "Unknown",
            (_why(n) for n in report.nodes() if n.verdict is Verdict.UNKNOWN),
            tag="unknown",
        )
    yield from _finding(
        "warn",
        "Launches of which the call is not known",
        (
            Entry(text=f"{each.name}: {each.attribution or 'no call was traced'}")
            for each in report.unattributed
        ),
    )
    for tone, title, notes in (
        ("warn", "Not seen", tuple(_not_seen(report))),
        ("info", "Notes", tuple(_notes(report))),
    ):
        if notes:
            yield Finding(tone=tone, title=title, text=notes)


def _not_seen(report: DispatchReport) -> Iterator[str]:
    if report.trace.truncated:
        yield "max_ops was reached: later calls are missing."
    for each in report.missing:
        yield f"{each.what} lines are missing. {each.reason} {each.remedy}".rstrip()
    yield from report.notes
    yield from report.trace.notes
    if report.logs is not None:
        yield from report.logs.incomplete


def _notes(report: DispatchReport) -> Iterator[str]:
    if report.logger_calls:
        yield (
            f"Left out: {counted(report.logger_calls, 'call')} by which torch_npu's "
            "logger read 0-dim tensors to print them."
        )
    unprinted = sum(not launch.record.text for launch in report.launches)
    if unprinted:
        yield (
            f"{counted(unprinted, 'aclnn launch')} left no line and is known by the "
            "queue's task or by the profiler."
        )


def _finding(
    tone: str, title: str, entries: Iterable[Entry], *, tag: str | None = None
) -> Iterator[Finding]:
    found = grouped(entries)
    if found:
        yield Finding(tone=tone, title=title, entries=found, tag=tag)


def grouped(entries: Iterable[Entry]) -> tuple[Entry, ...]:
    """Equal entries are one with a count, which leads to the first of them."""
    found: dict[tuple[str, str], Entry] = {}
    for each in entries:
        key = (each.text, each.place)
        known = found.get(key)
        found[key] = each if known is None else evolve(known, times=known.times + 1)
    return tuple(found.values())


def _why(node: ChainNode) -> Entry:
    return Entry(
        text=f"{node.op.qualified_name}: {node.why}",
        place=source_text(node.op.source) or heading_text(node),
        number=node.op.index,
    )


def _raising(report: DispatchReport) -> Iterator[ChainNode]:
    """The innermost calls with an exception: those around them only pass it on."""
    for node in report.nodes():
        if node.op.exception is not None and not any(
            child.op.exception is not None for child in node.children
        ):
            yield node


def _raised(node: ChainNode) -> Entry:
    exception = node.op.exception
    assert exception is not None
    message = exception.message.strip().partition("\n")[0]
    return Entry(
        text=f"{node.op.qualified_name}: {exception.type}: {message}",
        place=source_text(node.op.source),
        number=node.op.index,
    )


def _failed_tasks(report: DispatchReport) -> Iterator[Entry]:
    for node in report.nodes():
        for launch in node.launches:
            task = launch.task
            if task is not None and task.ret not in (None, 0):
                yield Entry(
                    text=f"{launch.name}: the task failed with {task.ret}",
                    place=source_text(node.op.source),
                    number=node.op.index,
                )


def _failure(failure: Failure) -> Finding:
    text = [failure.exception.message.strip()]
    if failure.reported:
        code = f", error {failure.code}" if failure.code else ""
        text.append(f"Reported operator: {failure.reported}{code}.")
    if failure.asynchronous:
        text.append(
            "The device works behind the host: the cause may be an earlier launch. "
            "ASCEND_LAUNCH_BLOCKING=1 makes it surface where it is."
        )
    entries: tuple[Entry, ...] = ()
    # What ran before an error of the program itself has no part in it.
    if failure.before and (failure.reported or failure.asynchronous):
        text.append("The last launches before it, latest last:")
        entries = tuple(
            Entry(text=launch.name, place=source_text(source), number=launch.record.op)
            for launch, source in failure.before
        )
    return Finding(
        tone="bad",
        title=f"Died of {failure.exception.type}",
        text=tuple(each for each in text if each),
        entries=entries,
    )


def _died(failure: Failure) -> str:
    message = failure.exception.message.strip().partition("\n")[0]
    cut = len(message) > MAX_MESSAGE
    short = f"{message[: MAX_MESSAGE - 3]}..." if cut else message
    return f"{failure.exception.type}: {short}".rstrip(": .")


def counted(number: int, what: str) -> str:
    """``1 launch``, ``2 launches``."""
    plural = "es" if what.endswith("ch") else "s"
    return f"{number:,} {what}{'' if number == 1 else plural}"
