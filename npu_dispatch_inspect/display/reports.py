# SPDX-License-Identifier: BSD-3-Clause
"""A report as text: the chains as a tree, what stands out, and where it ran."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from npu_dispatch_inspect.display.chains import chain_lines
from npu_dispatch_inspect.display.text import environment_line, source_text
from npu_dispatch_inspect.records import SourceLocation
from npu_dispatch_inspect.records.chains import ChainNode, Failure, Verdict

if TYPE_CHECKING:
    from npu_dispatch_inspect.traces.report import DispatchReport

__all__ = ["report_summary", "report_text"]

MAX_LISTED = 12


def report_text(
    report: DispatchReport, *, width: int, max_chains: int, fold: bool = True
) -> str:
    """The whole report; its first line says where the block ran."""
    lines = [environment_line(report.environment), ""]
    lines += chain_lines(report.chains, width=width, fold=fold, limit=max_chains)
    lines += ["", *report_summary(report).splitlines()[1:]]
    return "\n".join(lines)


def report_summary(report: DispatchReport) -> str:
    """Where it ran, the counts, and everything a reader should not overlook."""
    nodes = list(report.nodes())
    launches = len(report.launches)
    aclops = sum(len(node.aclops) for node in nodes)
    total = f"{_count(len(nodes), 'call')}, {_count(launches, 'aclnn launch')}"
    if aclops:
        total += f", {_count(aclops, 'aclop task')}"
    lines = [environment_line(report.environment), total]
    lines += [
        f"{count:7}  {verdict.value}" for verdict, count in report.verdicts().items()
    ]
    if report.trace.truncated:
        lines.append("truncated: max_ops was reached, later calls are missing")
    if report.logger_calls:
        lines.append(
            f"left out: {_count(report.logger_calls, 'call')} by which torch_npu's logger "
            "read 0-dim tensors to print them"
        )
    unprinted = sum(not launch.record.text for launch in report.launches)
    if unprinted:
        lines.append(
            f"not printed: {_count(unprinted, 'aclnn launch')} without a line, known by the "
            "queue's task or by the profiler"
        )
    lines += _section("fallbacks to the CPU", map(_call, report.fallbacks))
    lines += _section(
        "copies and casts",
        (f"{copy}{_at(copy.source)}" for copy in report.copies_and_casts),
    )
    lines += _section(
        "unknown", (_call(n) for n in nodes if n.verdict is Verdict.UNKNOWN)
    )
    lines += _section(
        "launches of which the call is not known",
        (
            f"{record.name}: {record.attribution or 'no call was traced'}"
            for record in report.unattributed
        ),
    )
    if report.failure is not None:
        lines += _failure(report.failure)
    lines += [
        f"missing: {each.what} lines. {each.reason} {each.remedy}".rstrip()
        for each in report.missing
    ]
    logs = report.logs
    notes = (*report.notes, *report.trace.notes, *(logs.incomplete if logs else ()))
    lines += [f"note: {note}" for note in notes]
    return "\n".join(lines)


def _failure(failure: Failure) -> Iterator[str]:
    message = failure.exception.message.strip().partition("\n")[0]
    told = f": {message}" if message else ""
    yield f"the block died of {failure.exception.type}{told}"
    if failure.reported:
        code = f", error {failure.code}" if failure.code else ""
        yield f"  reported operator: {failure.reported}{code}"
    if failure.asynchronous:
        yield (
            "  The device works behind the host: the cause may be an earlier launch. "
            "ASCEND_LAUNCH_BLOCKING=1 makes it surface where it is."
        )
    # What ran before an error of the program itself has no part in it.
    if failure.before and (failure.reported or failure.asynchronous):
        yield "  the last launches before it, latest last:"
        width = max(len(launch.name) for launch, _ in failure.before)
        for launch, source in failure.before:
            yield f"    {launch.name.ljust(width)}{_at(source)}"


def _call(node: ChainNode) -> str:
    return f"{node.op.qualified_name}: {node.why}{_at(node.op.source)}"


def _at(source: SourceLocation | None) -> str:
    text = source_text(source)
    return f"  {text}" if text else ""


def _section(title: str, entries: Iterable[str]) -> Iterator[str]:
    """A heading with the number of entries; equal ones are one line with a count."""
    counted = Counter(entries)
    if not counted:
        return
    yield f"{title}: {counted.total()}"
    for entry, times in list(counted.items())[:MAX_LISTED]:
        yield f"  {entry}{f'  {times} times' if times > 1 else ''}"
    if len(counted) > MAX_LISTED:
        yield f"  ... {len(counted) - MAX_LISTED} more"


def _count(number: int, what: str) -> str:
    plural = "es" if what.endswith("ch") else "s"
    return f"{number} {what}{'' if number == 1 else plural}"
