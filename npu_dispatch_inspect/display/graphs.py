# SPDX-License-Identifier: BSD-3-Clause
"""Captured graphs: what failed first, then inputs, nodes and outputs of each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from npu_dispatch_inspect.display.document import (
    Column,
    Document,
    Element,
    Fold,
    Grid,
    Heading,
    More,
    Row,
    Title,
    Verbatim,
    counted,
    head_and_tail,
    line,
    span,
)
from npu_dispatch_inspect.display.text import (
    environment_line,
    inputs_text,
    phase_style,
    source_text,
    value_text,
)
from npu_dispatch_inspect.records.graphs import (
    CapturedGraph,
    GraphBreak,
    GraphFailure,
    GraphInput,
    GraphNode,
    GraphOutput,
    NodeKind,
)
from npu_dispatch_inspect.traces.graphs import GraphSet

__all__ = ["graph_document", "graph_set_document"]

COLUMNS = (
    Column(name="#"),
    Column(name="phase", rank=4),
    Column(name="variable"),
    Column(name="operator"),
    Column(name="inputs -> outputs", rank=1, least=24),
    Column(name="module", rank=3, least=16),
    Column(name="line", rank=2),
)
HEAD_INPUTS = 30
"""So many inputs or outputs of one graph are listed."""


def graph_set_document(graphs: GraphSet, *, html: bool = False) -> Document:
    """Failures and breaks first, then every graph."""
    graphs = graphs[:]
    told = [*_failures(graphs.failures), *_breaks(graphs.breaks)]
    told += [line(f"note: {note}", "note") for note in graphs.notes]
    facts = [counted(len(graphs), "graph")]
    if graphs.failures:
        facts.append(f"{len(graphs.failures)} failed")
    if graphs.breaks:
        facts.append(counted(len(graphs.breaks), "break"))
    if not html:
        parts: list[Element] = [*told, line(", ".join(facts), "total")]
        for each in graphs:
            parts += [line(), *graph_document(each)]
        return tuple(parts)
    folds = (
        Fold(
            title=f"{_name(each)}: {', '.join(_facts(each))}",
            body=graph_document(each, html=True)[1:],
            open=number == 0,
        )
        for number, each in enumerate(graphs)
    )
    where = line(environment_line(graphs.environment), "dim")
    return (Title(name="GraphSet", facts=tuple(facts)), *told, *folds, where)


def graph_document(graph: CapturedGraph, *, html: bool = False) -> Document:
    """What goes in, the nodes in order, what comes out, what is kept."""
    parts: list[Element] = []
    if html:
        parts.append(Title(name=_name(graph), facts=_facts(graph)))
    else:
        parts.append(line(f"{_name(graph)}: {', '.join(_facts(graph))}", "heading"))
    if not graph.complete:
        told = "not complete: these are the nodes up to the failure"
        parts.append(line(told, "bad"))
    parts += [line(f"note: {note}", "note") for note in graph.notes]
    nodes = _nodes(graph)
    ends = _ends("inputs", map(_input, graph.inputs), html=html)
    results = _ends("outputs", map(_output, graph.outputs), html=html)
    if html:
        nodes = (Fold(title="nodes in order", body=nodes, open=True),)
    parts += [*ends, *nodes, *results]
    if html and graph.code:
        rows = tuple(line(each) for each in graph.code.strip("\n").split("\n"))
        parts.append(Fold(title="code", body=(Verbatim(lines=rows),)))
    return tuple(parts)


def _name(graph: CapturedGraph) -> str:
    return f"{graph.stage.value} graph {graph.index}"


def _facts(graph: CapturedGraph) -> tuple[str, ...]:
    facts = [counted(len(graph.operators), "operator")]
    if graph.partition is not None:
        facts.append(f"partition {graph.partition}")
    if graph.decompositions is not None:
        facts.append(f"decompositions {graph.decompositions}")
    if graph.dynamic:
        facts.append("dynamic sizes")
    if graph.saved_for_backward:
        kept = counted(len(graph.saved_for_backward), "value")
        size = graph.saved_bytes
        new = "" if size is None else f", {counted(size, 'byte')} besides inputs"
        facts.append(f"{kept} kept for backward{new}")
    if graph.recomputed:
        facts.append(f"{len(graph.recomputed)} recomputed")
    return tuple(facts)


def _nodes(graph: CapturedGraph) -> tuple[Element, ...]:
    if not graph.nodes:
        return (line("no nodes", "dim"),)
    head, hidden, tail = head_and_tail(graph.nodes)
    rows: list[Row | Heading | More] = list(map(_node, head))
    if hidden:
        rows.append(More(f"... {hidden} more"))
        rows += map(_node, tail)
    return (Grid(columns=COLUMNS, rows=tuple(rows)),)


def _node(node: GraphNode) -> Row:
    record = node.as_record()
    results = ", ".join(value_text(each) for each in node.outputs)
    values = f"{inputs_text(record)}{f' -> {results}' if results else ''}"
    known = node.kind in (NodeKind.OPERATOR, NodeKind.HIGHER_ORDER)
    phase = "rec" if node.recomputed else node.phase.short
    module = node.module or ""
    typed = f"{module} ({node.module_type})" if node.module_type else module
    return Row(
        cells=(
            span(node.index, "number"),
            span(phase, "warn" if node.recomputed else phase_style(node.phase)),
            span(node.variable, "place"),
            span(node.qualified_name, "name" if known else "dim"),
            span(values, "values"),
            span(typed.strip(), "module"),
            span(source_text(node.source), "place"),
        )
    )


def _input(each: GraphInput) -> str:
    unused = "" if each.used else ", not used"
    inferred = ", inferred from its position" if each.inferred else ""
    value = f"  {value_text(each.value)}" if each.value is not None else ""
    return f"{each}{value}{unused}{inferred}"


def _output(each: GraphOutput) -> str:
    inferred = ", inferred from its position" if each.inferred else ""
    value = f"  {value_text(each.value)}" if each.value is not None else ""
    return f"{each}{value}{inferred}"


def _ends(title: str, entries: Iterable[str], *, html: bool) -> Iterator[Element]:
    found = list(entries)
    if not found:
        return
    shown = [line(each, indent=0 if html else 2) for each in found[:HEAD_INPUTS]]
    if len(found) > HEAD_INPUTS:
        shown.append(line(f"... {len(found) - HEAD_INPUTS} more", "dim", indent=2))
    named = f"{title}: {len(found)}"
    if html:
        yield Fold(title=named, body=tuple(shown))
    else:
        yield line(named, "title")
        yield from shown


def _failures(failures: Iterable[GraphFailure]) -> Iterator[Element]:
    for each in failures:
        stage = f"{each.stage.value} graph" if each.stage is not None else "graph"
        yield line(f"failed: {stage} {each.index}. {each.message}", "bad")
        at = source_text(each.source)
        where = ", ".join(part for part in (each.operator, at) if part)
        if where:
            yield line(f"at {where}", indent=2)
        message = each.exception.message.strip().partition("\n")[0]
        if message and message not in each.message:
            yield line(f"{each.exception.type}: {message}", "dim", indent=2)
        if each.partial is not None:
            nodes = counted(len(each.partial.nodes), "node")
            yield line(f"captured up to there: {nodes}", indent=2)


def _breaks(breaks: Iterable[GraphBreak]) -> Iterator[Element]:
    for each in breaks:
        at = source_text(each.source)
        where = f"  {at}" if at else ""
        yield line(
            f"graph break after graph {each.index}: {each.reason}{where}", "warn"
        )
