# SPDX-License-Identifier: BSD-3-Clause
"""Operator calls as the rows of a page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from npu_dispatch_inspect._verdict_sets import COPIES, WRAPPED_COPIES
from npu_dispatch_inspect.chains import join
from npu_dispatch_inspect.display.text import source_text
from npu_dispatch_inspect.export._html_findings import CASTS, findings_of, headline_of
from npu_dispatch_inspect.export._html_model import Column, Page, Row, Tag
from npu_dispatch_inspect.export._html_parts import (
    call_parts,
    dtypes_text,
    shapes_text,
)
from npu_dispatch_inspect.records import OpRecord
from npu_dispatch_inspect.records.chains import ChainNode, Verdict
from npu_dispatch_inspect.traces.ops import OpTrace
from npu_dispatch_inspect.traces.report import DispatchReport

__all__ = ["MAX_ROWS", "page_of_report", "page_of_trace", "place_of"]

MAX_ROWS = 200_000
"""Beyond, a page says how many were left out: browsers end somewhere."""

TAGS = (
    Tag(key="fallback", label="on the CPU", tone="bad"),
    Tag(key="raised", label="raised", tone="bad"),
    Tag(key="cast", label="cast", tone="warn"),
    Tag(key="copy", label="copy", tone="warn"),
    Tag(key="unknown", label="unknown", tone="info"),
    Tag(key="launch", label="launches", tone="info"),
)
VERDICT = Column(key="verdict", label="Verdict", chart="Verdicts")
COLUMNS = (
    Column(key="op", label="Operator", chart="Operators"),
    VERDICT,
    Column(key="aclnn", label="aclnn"),
    Column(key="shapes", label="Shapes"),
    Column(key="dtypes", label="Dtypes"),
    Column(key="module", label="Module", chart="Modules", empty="no module"),
    Column(key="phase", label="Phase", facet=True),
    Column(key="kernel", label="Kernel"),
    Column(key="line", label="Line"),
)
SHORT = {Verdict.ACLNN_VIA: "aclnn via", Verdict.HIDDEN_CPU: "CPU inside"}
"""Words for a narrow column, where the verdict's own are long."""
PARTNERS = ("Forward call", "Backward calls")
_VIA = 2
"""So many launches of the calls inside are named in a cell."""


class _Table(NamedTuple):
    """The part of a page that the rows decide."""

    kinds: dict[tuple[str, ...], str]
    rows: tuple[Row, ...]
    hidden: int


def page_of_report(report: DispatchReport) -> Page:
    """A page about everything that a report knows."""
    headline = headline_of(report)
    tags = _tags(report)
    table = _table(report, tags, judged=True)
    return Page(
        title=report.trace.label or "Dispatch report",
        what="calls",
        headline=headline.text,
        tone=headline.tone,
        below=headline.below,
        figures=_figures(report, tags),
        findings=tuple(findings_of(report)),
        environment=report.environment,
        columns=_used(COLUMNS, report.trace),
        tags=TAGS,
        tree="Modules",
        outside="no module",
        partners=PARTNERS,
        kinds=table.kinds,
        rows=table.rows,
        hidden=table.hidden,
    )


def page_of_trace(trace: OpTrace) -> Page:
    """A page about calls of which launches are not known.

    What the calls came to is only said where the trace alone decides it.
    """
    # The same joined form, so that casts, copies and fallbacks are found alike.
    report = DispatchReport(chains=join(trace).chains, trace=trace)
    headline = headline_of(report, launches=False)
    tags = _tags(report)
    tags = {op: tuple(t for t in found if t != "unknown") for op, found in tags.items()}
    table = _table(report, tags, judged=trace.engine == "dispatcher", launches=False)
    return Page(
        title=trace.label or "Operator trace",
        what="calls",
        headline=headline.text,
        tone=headline.tone,
        below=headline.below,
        figures=_figures(report, tags, launches=False),
        findings=tuple(findings_of(report, launches=False)),
        environment=trace.environment,
        columns=_used(COLUMNS, trace, launches=False),
        tags=tuple(tag for tag in TAGS if tag.key not in ("unknown", "launch")),
        tree="Modules",
        outside="no module",
        partners=PARTNERS,
        kinds=table.kinds,
        rows=table.rows,
        hidden=table.hidden,
    )


def _used(
    columns: Iterable[Column], trace: OpTrace, *, launches: bool = True
) -> tuple[Column, ...]:
    """Without the columns of which this trace can know nothing."""
    unknown = set() if launches else {"aclnn"}
    if trace.engine != "dispatcher":
        unknown |= {"kernel"} | (set() if launches else {"verdict"})
    return tuple(each for each in columns if each.key not in unknown)


def _tags(report: DispatchReport) -> dict[int, tuple[str, ...]]:
    """The marks of each call, by its index."""
    found: dict[int, dict[str, None]] = {}

    def mark(op: OpRecord, tag: str) -> None:
        found.setdefault(op.index, {})[tag] = None

    for node in report.nodes():
        if node.verdict in (Verdict.CPU_FALLBACK, Verdict.HIDDEN_CPU):
            mark(node.op, "fallback")
        if node.verdict is Verdict.UNKNOWN:
            mark(node.op, "unknown")
        if node.op.exception is not None:
            mark(node.op, "raised")
        if node.launches or node.aclops:
            mark(node.op, "launch")
    for copy in report.copies_and_casts:
        mark(copy.node.op, "cast" if copy.kind in CASTS else "copy")
    return {index: tuple(tags) for index, tags in found.items()}


def _figures(
    report: DispatchReport, tags: dict[int, tuple[str, ...]], *, launches: bool = True
) -> tuple[tuple[str, int, str | None, str], ...]:
    counted = Counter(tag for each in tags.values() for tag in each)
    figures: list[tuple[str, int, str | None, str]] = [
        ("operator calls", sum(1 for _ in report.nodes()), None, "info")
    ]
    if launches:
        figures.append(("aclnn launches", len(report.launches), "launch", "info"))
        aclops = sum(len(node.aclops) for node in report.nodes())
        if aclops:
            figures.append(("aclop tasks", aclops, "launch", "info"))
    figures += [
        ("on the CPU", counted["fallback"], "fallback", "bad"),
        ("casts", counted["cast"], "cast", "warn"),
        ("copies", counted["copy"], "copy", "warn"),
        ("raised", counted["raised"], "raised", "bad"),
    ]
    if launches:
        figures.append(("unknown", counted["unknown"], "unknown", "warn"))
    return tuple(figures)


def _table(
    report: DispatchReport,
    tags: dict[int, tuple[str, ...]],
    *,
    judged: bool,
    launches: bool = True,
) -> _Table:
    nodes = list(_with_depth(report.chains))
    below = _launched_below([node for node, _ in nodes]) if launches else {}
    keys = [each.key for each in _used(COLUMNS, report.trace, launches=launches)]
    kinds: dict[tuple[str, ...], str] = {}
    rows = []
    for node, depth in nodes[:MAX_ROWS]:
        op = node.op
        place = place_of(op.module, op.root or "?")
        if place and op.module_type:
            kinds.setdefault(place, op.module_type)
        known = judged and (launches or node.verdict is not Verdict.UNKNOWN)
        cells = _cells(node, below.get(op.index), known=known)
        rows.append(
            Row(
                number=op.index,
                cells=tuple(cells[key] for key in keys),
                place=place,
                depth=depth,
                tags=tags.get(op.index, ()),
                folded=bool(node.children) and _closed(node),
                partner=op.forward_index,
                parts=tuple(call_parts(op, node if known else None)),
            )
        )
    return _Table(kinds, tuple(rows), len(nodes) - len(rows))


def _with_depth(chains: Sequence[ChainNode]) -> Iterator[tuple[ChainNode, int]]:
    pending = [(chain, 0) for chain in reversed(chains)]
    while pending:
        node, depth = pending.pop()
        yield node, depth
        pending.extend((child, depth + 1) for child in reversed(node.children))


def _cells(
    node: ChainNode, below: Counter[str] | None, *, known: bool
) -> dict[str, str]:
    op = node.op
    given, made = op.input_tensors, op.output_tensors
    last = op.path[-1] if op.path else None
    return {
        "op": op.qualified_name,
        "verdict": _verdict(node) if known else "",
        "phase": "recomputed" if op.recomputed else op.phase.value,
        "module": "" if op.module is None else op.module or op.root or "",
        "shapes": shapes_text(given, made),
        "dtypes": dtypes_text(given, made),
        "kernel": "" if last is None else f"{last.key} {last.site}".strip(),
        "aclnn": _launches(node, below or Counter()),
        "line": source_text(op.source),
    }


def _verdict(node: ChainNode) -> str:
    if node.verdict is Verdict.NO_LAUNCH:
        given = {spec.storage_id for spec in node.op.input_tensors}
        made = node.op.output_tensors
        is_view = made and all(spec.storage_id in given for spec in made)
        return "view" if is_view else "no launch"
    return SHORT.get(node.verdict) or str(node.verdict.value)


def _launches(node: ChainNode, below: Counter[str]) -> str:
    own = Counter(launch.name for launch in node.launches)
    own.update(f"{task.name} (aclop)" for task in node.aclops)
    if own:
        return ", ".join(
            f"{name} ×{times}" if times > 1 else name for name, times in own.items()
        )
    if not below:
        return ""
    shown = ", ".join(list(below)[:_VIA])
    more = below.total() - sum(list(below.values())[:_VIA])
    return f"via {shown}, +{more}" if more else f"via {shown}"


def _launched_below(nodes: Sequence[ChainNode]) -> dict[int, Counter[str]]:
    """What the calls inside each call launched, without recursion."""
    found: dict[int, Counter[str]] = {}
    for node in reversed(nodes):
        names: Counter[str] = Counter()
        for child in node.children:
            names.update(launch.name for launch in child.launches)
            names.update(f"{task.name} (aclop)" for task in child.aclops)
            names.update(found.get(child.op.index, {}))
        if names:
            found[node.op.index] = names
    return found


def _closed(node: ChainNode) -> bool:
    """What is inside is how it is done, not what was done."""
    closed = (Verdict.NO_LAUNCH, Verdict.KERNEL, Verdict.CPU_FALLBACK)
    moves = node.op.name in COPIES or node.op.name in WRAPPED_COPIES
    return node.verdict in closed or moves


def place_of(module: str | None, root: str) -> tuple[str, ...] | None:
    """The way down the tree to a module: ``("Net", "encoder", "0")``."""
    if module is None:
        return None
    # A module of two names stands under its first one.
    path = module.partition("|")[0]
    return (root, *path.split(".")) if path else (root,)
