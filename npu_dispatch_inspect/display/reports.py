# SPDX-License-Identifier: BSD-3-Clause
"""A report as text: the chains as a tree, what stands out, and where it ran."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from npu_dispatch_inspect.display.text import (
    environment_line,
    module_text,
    source_text,
    value_text,
)
from npu_dispatch_inspect.records import SourceLocation
from npu_dispatch_inspect.records.chains import ChainNode, Launch, Verdict

if TYPE_CHECKING:
    from npu_dispatch_inspect.traces.report import DispatchReport, Failure

__all__ = ["report_summary", "report_text"]

MAX_CHAINS = 60
"""So many of the program's own calls are shown; a summary covers the rest."""
MAX_LISTED = 12


def report_text(report: DispatchReport, *, max_chains: int = MAX_CHAINS) -> str:
    """The whole report; its first line says where the block ran."""
    lines = [environment_line(report.environment), ""]
    chains = report.chains
    rows = [row for chain in chains[:max_chains] for row in _tree(chain)]
    width = max((len(left) for left, _ in rows), default=0)
    lines.extend(f"{left.ljust(width)}  {right}".rstrip() for left, right in rows)
    if len(chains) > max_chains:
        lines.append(f"... {len(chains) - max_chains} more calls")
    lines.extend(["", *report_summary(report).splitlines()[1:]])
    return "\n".join(lines)


def report_summary(report: DispatchReport) -> str:
    """Where it ran, the counts, and everything a reader should not overlook."""
    lines = [environment_line(report.environment)]
    calls, launches = len(report.trace), len(report.launches)
    lines.append(f"{_count(calls, 'call')}, {_count(launches, 'aclnn launch')}")
    lines.extend(
        f"  {count:5}  {verdict.value}" for verdict, count in report.verdicts().items()
    )
    lines.extend(_section("fallbacks to the CPU", [_call(n) for n in report.fallbacks]))
    lines.extend(
        _section(
            "copies and casts",
            [f"{copy}{_at(copy.source)}" for copy in report.copies_and_casts],
        )
    )
    lines.extend(
        _section(
            "launches of which the call is not known",
            [record.name for record in report.unattributed],
        )
    )
    if report.failure is not None:
        lines.extend(_failure(report.failure))
    lines.extend(
        f"missing: {each.what}: {each.reason} {each.remedy}".rstrip()
        for each in report.missing
    )
    lines.extend(f"note: {note}" for note in (*report.notes, *report.trace.notes))
    return "\n".join(lines)


def _tree(chain: ChainNode) -> Iterator[tuple[str, str]]:
    pending: list[tuple[ChainNode | Launch, str, str]] = [(chain, "", "")]
    while pending:
        item, first, rest = pending.pop()
        if isinstance(item, Launch):
            yield f"{first}{item.name}", _launch(item)
            continue
        yield f"{first}{item.op.qualified_name}", _kernels(item)
        below: list[ChainNode | Launch] = [
            *(child for child in item.children if not child.by_logger),
            *item.launches,
        ]
        for place, each in reversed(list(enumerate(below))):
            last = place == len(below) - 1
            pending.append(
                (each, rest + ("└─ " if last else "├─ "), rest + ("   " if last else "│  "))
            )


def _kernels(node: ChainNode) -> str:
    op = node.op
    keys = " -> ".join(choice.key for choice in op.path) or "kernel unknown"
    site = f"  {op.path[-1].site}" if op.path and op.path[-1].site else ""
    module = module_text(op)
    parts = [
        f"[{node.verdict.value}]",
        f"{keys}{site}",
        " -> ".join(
            ", ".join(map(str, each))
            for each in (op.input_tensors, op.output_tensors)
            if each
        ),
        module,
        source_text(op.source),
    ]
    return "  ".join(part for part in parts if part)


def _launch(launch: Launch) -> str:
    record = launch.record
    arguments = record.arguments or ()
    shown = ", ".join(value_text(each.value) for each in arguments[:MAX_LISTED])
    stream = "" if record.stream is None else f"  stream {record.stream}"
    task = launch.task
    if task is None:
        queue = "  synchronous" if record.synchronous else ""
    else:
        written = "written" if task.written is not None else "not written"
        read = "read" if task.read is not None else "not read"
        ret = "" if task.ret is None else f", ret {task.ret}"
        queue = f"  task {task.slot}: {written}, {read}{ret}"
    return f"{shown}{stream}{queue}"


def _failure(failure: Failure) -> Iterator[str]:
    yield f"the block died of {failure.exception.type}: {_first_line(failure.exception.message)}"
    if failure.reported:
        yield f"  reported operator: {failure.reported}"
    if failure.asynchronous:
        yield "  The device works behind the host: the cause may be an earlier launch."
    if failure.before:
        yield "  the last launches before it:"
        for launch, source in failure.before:
            yield f"    {launch.name}{_at(source)}"


def _first_line(message: str) -> str:
    return message.strip().split("\n", 1)[0]


def _call(node: ChainNode) -> str:
    return f"{node.op.qualified_name}: {node.verdict.value}. {node.why}{_at(node.op.source)}"


def _at(source: SourceLocation | None) -> str:
    text = source_text(source)
    return f"  {text}" if text else ""


def _section(title: str, entries: list[str]) -> Iterator[str]:
    if not entries:
        return
    yield f"{title}: {len(entries)}"
    for entry in entries[:MAX_LISTED]:
        yield f"  {entry}"
    if len(entries) > MAX_LISTED:
        yield f"  ... {len(entries) - MAX_LISTED} more"


def _count(number: int, what: str) -> str:
    plural = "es" if what.endswith("ch") else "s"
    return f"{number} {what}{'' if number == 1 else plural}"
