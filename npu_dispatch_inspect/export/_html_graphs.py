# SPDX-License-Identifier: BSD-3-Clause
"""Captured graphs as the rows of a page: one row for each node."""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Set as AbstractSet

from npu_dispatch_inspect.display.text import source_text
from npu_dispatch_inspect.export._html_findings import counted
from npu_dispatch_inspect.export._html_model import (
    Column,
    Entry,
    Finding,
    Page,
    Part,
    Row,
    Tag,
)
from npu_dispatch_inspect.export._html_ops import MAX_ROWS, place_of
from npu_dispatch_inspect.export._html_parts import (
    call_parts,
    dtypes_text,
    shapes_text,
)
from npu_dispatch_inspect.records.graphs import CapturedGraph, GraphNode, GraphStage
from npu_dispatch_inspect.traces.graphs import GraphSet

__all__ = ["page_of_graph", "page_of_graphs"]

COLUMNS = (
    Column(key="op", label="Operator", chart="Operators"),
    Column(key="graph", label="Graph", facet=True, chart="Graphs"),
    Column(key="variable", label="Variable"),
    Column(key="shapes", label="Shapes"),
    Column(key="dtypes", label="Dtypes"),
    Column(key="module", label="Module", chart="Modules", empty="no module"),
    Column(key="phase", label="Phase"),
    Column(key="origin", label="Decomposed from"),
    Column(key="line", label="Line"),
)
TAGS = (
    Tag(key="saved", label="saved for backward", tone="warn"),
    Tag(key="recomputed", label="recomputed", tone="warn"),
    Tag(key="decomposed", label="from a decomposition", tone="info"),
)


def page_of_graph(graph: CapturedGraph) -> Page:
    """A page about one graph."""
    return page_of_graphs(GraphSet(graphs=(graph,), environment=graph.environment))


def page_of_graphs(graphs: GraphSet) -> Page:
    """A page about all graphs of a program."""
    numbers = _numbers(graphs)
    rows = []
    for graph in graphs:
        name = _name(graph, graphs)
        kept = {each.variable for each in graph.saved_for_backward}
        saved = kept if graph.stage is GraphStage.FORWARD else frozenset()
        rows += [_row(graph, node, name, saved, numbers) for node in graph.nodes]
    failed = counted(len(graphs.failures), "capture")
    whole = not graphs.failures and all(graph.complete for graph in graphs)
    what = ", ".join(
        f"{_name(graph, graphs)} {len(graph.operators)}" for graph in graphs
    )
    kinds = {
        place: node.module_type
        for graph in graphs
        for node in graph.nodes
        if (place := place_of(node.module, "module")) and node.module_type
    }
    return Page(
        title="Captured graphs"
        if len(graphs) != 1
        else f"Captured {graphs[0].stage.value} graph",
        what="nodes",
        headline=(
            f"{counted(len(graphs), 'graph')} captured."
            if whole
            else f"{failed} did not come to an end."
        ),
        tone="info" if whole else "bad",
        below=f"Operators: {what}." if what else "",
        figures=_figures(graphs),
        findings=tuple(_findings(graphs)),
        environment=graphs.environment,
        columns=COLUMNS,
        tags=TAGS,
        tree="Modules",
        outside="no module",
        kinds=kinds,
        partners=("Forward node", "Backward nodes"),
        rows=tuple(rows[:MAX_ROWS]),
        hidden=max(0, len(rows) - MAX_ROWS),
    )


def _name(graph: CapturedGraph, graphs: GraphSet) -> str:
    several = len(graphs.indices) > 1
    return f"{graph.stage.value} {graph.index}" if several else graph.stage.value


def _numbers(graphs: GraphSet) -> dict[tuple[int, GraphStage, str], int]:
    """Rows are counted through all graphs, by capture, stage and variable."""
    found: dict[tuple[int, GraphStage, str], int] = {}
    for graph in graphs:
        for node in graph.nodes:
            found[graph.index, graph.stage, node.variable] = len(found)
    return found


def _figures(graphs: GraphSet) -> tuple[tuple[str, int, str | None, str], ...]:
    recomputed = sum(len(graph.recomputed) for graph in graphs)
    saved = [graph for graph in graphs if graph.stage is GraphStage.FORWARD]
    return (
        ("graphs", len(graphs), None, "info"),
        ("operators", sum(len(graph.operators) for graph in graphs), None, "info"),
        (
            "bytes saved",
            sum(graph.saved_bytes or 0 for graph in saved),
            "saved",
            "warn",
        ),
        ("recomputed", recomputed, "recomputed", "warn"),
        ("graph breaks", len(graphs.breaks), None, "warn"),
        ("failures", len(graphs.failures), None, "bad"),
    )


def _findings(graphs: GraphSet) -> Iterator[Finding]:
    if graphs.failures:
        yield Finding(
            tone="bad",
            title="Failures",
            entries=tuple(
                Entry(text=each.message, place=source_text(each.source))
                for each in graphs.failures
            ),
        )
    if graphs.breaks:
        yield Finding(
            tone="warn",
            title="Graph breaks",
            entries=tuple(
                Entry(text=each.reason, place=source_text(each.source))
                for each in graphs.breaks
            ),
        )
    for graph in graphs:
        yield from _about(graph, _name(graph, graphs))
    notes = (*graphs.notes, *(note for graph in graphs for note in graph.notes))
    if notes:
        yield Finding(tone="warn", title="Notes", text=tuple(dict.fromkeys(notes)))


def _about(graph: CapturedGraph, name: str) -> Iterator[Finding]:
    if graph.stage is GraphStage.FORWARD and graph.saved_for_backward:
        yield Finding(
            tone="info",
            title=f"What the {name} graph saves for backward",
            entries=tuple(
                Entry(
                    text=f"{each.variable}: {each.value}",
                    place=f"input {each.input}" if each.input else _bytes(each.bytes),
                )
                for each in graph.saved_for_backward
            ),
            tag="saved",
        )
    yield Finding(
        tone="info",
        title=f"What goes into the {name} graph, and what comes out",
        entries=(
            *(Entry(text=str(each), place=str(each.value)) for each in graph.inputs),
            *(Entry(text=str(each), place=str(each.value)) for each in graph.outputs),
        ),
    )
    if graph.code:
        yield Finding(
            tone="info", title=f"Code of the {name} graph", code=graph.code.strip("\n")
        )


def _bytes(number: int | None) -> str:
    return "size not known" if number is None else counted(number, "byte")


def _row(
    graph: CapturedGraph,
    node: GraphNode,
    name: str,
    saved: AbstractSet[str],
    numbers: dict[tuple[int, GraphStage, str], int],
) -> Row:
    record = node.as_record()
    tags = [
        tag
        for tag, given in (
            ("saved", node.variable in saved),
            ("recomputed", node.recomputed),
            ("decomposed", node.decomposed_from is not None),
        )
        if given
    ]
    given, made = record.input_tensors, record.output_tensors
    cells = (
        node.qualified_name,
        name,
        node.variable,
        shapes_text(given, made),
        dtypes_text(given, made),
        "" if node.module is None else node.module or "module",
        "recomputed" if node.recomputed else node.phase.value,
        node.decomposed_from or "",
        source_text(node.source),
    )
    # The forward node stands in the forward graph, or in the same where it is joint.
    stage = graph.stage
    if stage is GraphStage.BACKWARD:
        stage = GraphStage.FORWARD
    partner = numbers.get((graph.index, stage, node.forward_node or ""))
    return Row(
        number=numbers[graph.index, graph.stage, node.variable],
        cells=cells,
        place=place_of(node.module, "module"),
        tags=tuple(tags),
        partner=partner,
        parts=tuple(_parts(node)),
    )


def _parts(node: GraphNode) -> Iterator[Part]:
    yield Part("Variable", "code", ((node.variable,),))
    if node.takes:
        yield Part("Takes", "text", ((", ".join(node.takes),),))
    yield from call_parts(node.as_record(), None)
    facts = []
    if node.decomposed_from is not None:
        facts.append(("decomposed from", node.decomposed_from, ""))
    if node.sequence is not None:
        facts.append(("sequence", str(node.sequence), "autograd's number"))
    facts.append(("kind", node.kind.value, ""))
    yield Part("Node", "pairs", tuple(facts))
