# SPDX-License-Identifier: BSD-3-Clause
"""A report as text: the chains as a tree, what stands out, and where it ran."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from npu_dispatch_inspect.display.chains import VERDICT_STYLES, chain_grid, heading_text
from npu_dispatch_inspect.display.document import (
    Column,
    Counts,
    Document,
    Element,
    Fold,
    Grid,
    Line,
    More,
    Row,
    Title,
    counted,
    line,
    listing,
    span,
)
from npu_dispatch_inspect.display.layout import plain_text
from npu_dispatch_inspect.display.text import environment_line, source_text
from npu_dispatch_inspect.records import SourceLocation
from npu_dispatch_inspect.records.chains import ChainNode, Failure, Verdict

if TYPE_CHECKING:
    from npu_dispatch_inspect.traces.report import DispatchReport

__all__ = ["chain_document", "report_document", "report_summary", "report_text"]

MAX_CHAINS = 60
"""So many of the program's own calls are shown."""
MAX_MODULES = 100


def report_text(
    report: DispatchReport, *, width: int | None, max_chains: int, fold: bool = True
) -> str:
    """The whole report; its first line says where the block ran."""
    document = report_document(report, max_chains=max_chains, fold=fold)
    return plain_text(document, width=width)


def report_summary(report: DispatchReport) -> str:
    """Where it ran, the counts, and everything a reader should not overlook."""
    return plain_text((_where(report), *_counts(report), *_standing_out(report)))


def report_document(
    report: DispatchReport,
    *,
    html: bool = False,
    max_chains: int = MAX_CHAINS,
    fold: bool = True,
) -> Document:
    """The chains as a tree, and what stands out; a notebook begins with the counts."""
    grid, more = chain_grid(report.chains, fold=fold, limit=max_chains)
    tree: list[Element] = [grid]
    if more:
        word = "call" if more == 1 else "calls"
        tree.append(line(f"... {more} more {word}", "dim"))
    if not html:
        blank = line()
        rest = (*_counts(report), *_standing_out(report))
        return (_where(report), blank, *tree, blank, *rest)
    _, verdicts, *told = _counts(report)
    return (
        Title(name="DispatchReport", facts=(_total(report),)),
        verdicts,
        *told,
        *_standing_out(report),
        Fold(title="chains", body=tuple(tree), open=True),
        _modules(report),
        _where(report, "dim"),
    )


def chain_document(node: ChainNode, *, html: bool = False) -> Document:
    """One call down to what it launched, and the fact that decided its verdict."""
    grid, _ = chain_grid([node], limit=1)
    why = line(f"{node.verdict.value}: {node.why}", VERDICT_STYLES[node.verdict])
    if html:
        return (Title(name=node.op.qualified_name), why, grid)
    return (grid, why)


def _where(report: DispatchReport, style: str = "") -> Line:
    return line(environment_line(report.environment), style)


def _total(report: DispatchReport) -> str:
    nodes = list(report.nodes())
    aclops = sum(len(node.aclops) for node in nodes)
    launches = counted(len(report.launches), "aclnn launch")
    total = f"{counted(len(nodes), 'call')}, {launches}"
    return f"{total}, {counted(aclops, 'aclop task')}" if aclops else total


def _counts(report: DispatchReport) -> Iterator[Element]:
    yield line(_total(report), "total")
    yield Counts(
        items=tuple(
            (verdict.value, count, VERDICT_STYLES[verdict])
            for verdict, count in report.verdicts().items()
        )
    )
    if report.trace.truncated:
        yield line("truncated: max_ops was reached, later calls are missing", "warn")
    if report.logger_calls:
        yield line(
            f"left out: {counted(report.logger_calls, 'call')} by which torch_npu's "
            "logger read 0-dim tensors to print them"
        )
    unprinted = sum(not launch.record.text for launch in report.launches)
    if unprinted:
        yield line(
            f"not printed: {counted(unprinted, 'aclnn launch')} without a line, known "
            "by the queue's task or by the profiler"
        )


def _standing_out(report: DispatchReport) -> Iterator[Element]:
    """Fallbacks, copies, what is not known, the error, and what is missing."""
    yield from listing(
        "fallbacks to the CPU", map(_call, report.fallbacks), style="bad"
    )
    yield from listing(
        "copies and casts",
        (
            f"{copy}{_at(copy.source) or _stands(copy.node)}"
            for copy in report.copies_and_casts
        ),
        style="copy",
    )
    unknown = (node for node in report.nodes() if node.verdict is Verdict.UNKNOWN)
    yield from listing("unknown", map(_call, unknown), style="unknown")
    yield from listing(
        "launches of which the call is not known",
        (
            f"{record.name}: {record.attribution or 'no call was traced'}"
            for record in report.unattributed
        ),
        style="unknown",
    )
    if report.failure is not None:
        yield from _failure(report.failure)
    for each in report.missing:
        told = f"missing: {each.what} lines. {each.reason} {each.remedy}".rstrip()
        yield line(told, "warn")
    logs = report.logs
    notes = (*report.notes, *report.trace.notes, *(logs.incomplete if logs else ()))
    yield from (line(f"note: {note}", "note") for note in notes)


def _modules(report: DispatchReport) -> Fold:
    """What each module did itself."""
    shares = list(report.by_module().items())
    rows: list[Row | More] = [
        Row(
            cells=(
                span(name or "no module", "module"),
                span(share.calls, "number"),
                span(", ".join(f"{n} {each.value}" for each, n in share.verdicts.most_common())),
                span(", ".join(f"{n} {each}" for each, n in share.launches.most_common()), "launch"),
            )
        )
        for name, share in shares[:MAX_MODULES]
    ]  # fmt: skip
    if len(shares) > MAX_MODULES:
        rows.append(More(f"... {len(shares) - MAX_MODULES} more"))
    names = ("module", "calls", "verdicts", "launches")
    columns = tuple(Column(name=name) for name in names)
    grid = Grid(columns=columns, rows=tuple(rows))
    return Fold(title=counted(len(shares), "module"), body=(grid,))


def _failure(failure: Failure) -> Iterator[Element]:
    message = failure.exception.message.strip().partition("\n")[0]
    told = f": {message}" if message else ""
    yield line(f"the block died of {failure.exception.type}{told}", "bad")
    if failure.reported:
        code = f", error {failure.code}" if failure.code else ""
        yield line(f"reported operator: {failure.reported}{code}", indent=2)
    if failure.asynchronous:
        yield line(
            "The device works behind the host: the cause may be an earlier launch. "
            "ASCEND_LAUNCH_BLOCKING=1 makes it surface where it is.",
            indent=2,
        )
    # What ran before an error of the program itself has no part in it.
    if failure.before and (failure.reported or failure.asynchronous):
        yield line("the last launches before it, latest last:", indent=2)
        width = max(len(launch.name) for launch, _ in failure.before)
        for launch, source in failure.before:
            yield line(f"{launch.name.ljust(width)}{_at(source)}", "launch", indent=4)


def _call(node: ChainNode) -> str:
    place = _at(node.op.source) or _stands(node)
    return f"{node.op.qualified_name}: {node.why}{place}"


def _stands(node: ChainNode) -> str:
    """Module and phase: backward calls are not made at a line of the program."""
    return f"  {heading_text(node)}"


def _at(source: SourceLocation | None) -> str:
    text = source_text(source)
    return f"  {text}" if text else ""
