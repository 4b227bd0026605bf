# SPDX-License-Identifier: BSD-3-Clause
"""Operator calls: the table of a trace, the tree of its calls, the flow of a tensor."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from attrs import evolve

from npu_dispatch_inspect.display.document import (
    HEAD_ROWS,
    TAIL_ROWS,
    Column,
    Counts,
    Document,
    Element,
    Fold,
    Grid,
    Heading,
    More,
    Row,
    Span,
    Title,
    counted,
    head_and_tail,
    line,
    span,
)
from npu_dispatch_inspect.display.layout import plain_text
from npu_dispatch_inspect.display.text import (
    environment_line,
    inputs_text,
    line_text,
    module_text,
    phase_style,
    result_text,
)
from npu_dispatch_inspect.records import OpRecord
from npu_dispatch_inspect.traces.ops import CallNode, Flow, OpTrace

__all__ = ["call_tree_document", "flow_document", "op_table", "op_trace_document"]

MAX_NODES = 500
"""So many calls of a tree are shown."""
OPERATOR = 2
"""The place of the operator's column."""
COLUMNS = (
    Column(name="#"),
    Column(name="phase", rank=4),
    Column(name="operator"),
    Column(name="inputs -> outputs", rank=1, least=24),
    Column(name="module", rank=3, least=16),
    Column(name="line", rank=2),
)


def op_table(trace: OpTrace, *, max_rows: int | None = None) -> str:
    """A trace as a table: number, phase, operator, tensors, module, user's line.

    The text is the same between runs and machines: no ids, times, addresses or
    absolute paths.

    Args:
        trace: what to show.
        max_rows: rows at most; None shows `HEAD_ROWS` and `TAIL_ROWS`.
    """
    return plain_text(_table(trace, max_rows=max_rows))


def op_trace_document(trace: OpTrace, *, html: bool = False) -> Document:
    """The table of a trace; a notebook nests the calls and counts them."""
    trace = trace[:]
    if not html:
        return _table(trace)
    phases = Counter(each.phase.value for each in trace)
    facts = [counted(len(trace), "operator call")]
    if len(phases) > 1:
        facts += [f"{number} {phase}" for phase, number in phases.items()]
    name = f"OpTrace {trace.label!r}" if trace.label else "OpTrace"
    counts = tuple((each, number, "name") for each, number in trace.counts().items())
    grid, total, *notes = _table(trace, nested=True)
    if trace.truncated:
        notes.insert(0, total)
    return (
        Title(name=name, facts=(*facts, f"engine {trace.engine}")),
        *notes,
        Fold(title="calls in order", body=(grid,), open=True),
        Fold(
            title=f"{counted(len(counts), 'operator')} by number of calls",
            body=(
                Counts(items=counts[:HEAD_ROWS], more=max(0, len(counts) - HEAD_ROWS)),
            ),
        ),
        line(environment_line(trace.environment), "dim"),
    )


def _table(
    trace: OpTrace, *, max_rows: int | None = None, nested: bool = False
) -> Document:
    limits = (HEAD_ROWS, TAIL_ROWS) if max_rows is None else (max_rows, 0)
    head, hidden, tail = head_and_tail(trace.records, head=limits[0], tail=limits[1])
    rows: list[Row | Heading | More] = [*_rows(head, nested=nested)]
    if hidden:
        rows.append(More(f"... {hidden} more"))
        rows += _rows(tail, nested=nested)
    count = counted(len(trace.records), "operator call")
    cut = ", truncated: max_ops was reached" if trace.truncated else ""
    parts: list[Element] = [
        Grid(columns=COLUMNS, rows=tuple(rows), indented=OPERATOR),
        line(f"{count}{cut}", "warn" if cut else "total"),
    ]
    parts += [line(f"note: {note}", "note") for note in trace.notes]
    return tuple(parts)


def _rows(records: Sequence[OpRecord], *, nested: bool) -> list[Row]:
    """A row for each call, nested or one after the other."""
    made = [_row(each) for each in records]
    if not nested:
        return made
    places = {each.index: place for place, each in enumerate(records)}
    below: dict[int | None, list[Row]] = {}
    # From the last to the first, so that what is below a call is there before it.
    for place in range(len(records) - 1, -1, -1):
        record = records[place]
        inside = below.pop(place, [])
        row = evolve(made[place], below=tuple(reversed(inside)))
        parent = None if record.parent is None else places.get(record.parent)
        below.setdefault(parent, []).append(row)
    return list(reversed(below.get(None, [])))


def _row(record: OpRecord) -> Row:
    failed = record.exception is not None
    return Row(
        cells=(
            span(record.index, "number"),
            span(record.phase.short, phase_style(record.phase)),
            span(record.qualified_name, "bad" if failed else "name"),
            span(
                f"{inputs_text(record)}{result_text(record)}", "bad" if failed else ""
            ),
            span(module_text(record), "module"),
            span(line_text(record), "place"),
        ),
        depth=record.depth,
    )


def call_tree_document(
    tree: CallNode | Iterable[CallNode], *, html: bool = False
) -> Document:
    """Calls with the calls inside them."""
    # A call by itself is a tree of one.
    nodes = [tree] if isinstance(tree, CallNode) else [*tree]
    total = sum(1 for node in nodes for _ in _walk(node))
    rows, shown = _tree_rows(nodes)
    columns = (COLUMNS[OPERATOR], *COLUMNS[OPERATOR + 1 :])
    grid = Grid(columns=columns, rows=rows, branches=True)
    calls = counted(total, "operator call")
    if html:
        return (Title(name="Call tree", facts=(calls,)), grid)
    text = calls if shown == total else f"{calls}, {shown} of them shown"
    return (grid, line(text, "total"))


def _walk(node: CallNode) -> Iterable[CallNode]:
    pending = [node]
    while pending:
        each = pending.pop()
        yield each
        pending += reversed(each.children)


def _tree_rows(nodes: Sequence[CallNode]) -> tuple[tuple[Row | More, ...], int]:
    """Rows of the first calls, outer ones before inner ones of later calls."""
    order = [each for node in nodes for each in _walk(node)]
    shown = {id(each) for each in order[:MAX_NODES]}
    made: dict[int, Row] = {}

    def rows_of(children: Sequence[CallNode]) -> tuple[Row | More, ...]:
        kept: list[Row | More] = [
            made[id(each)] for each in children if id(each) in shown
        ]
        if len(kept) < len(children):
            kept.append(More(f"... {len(children) - len(kept)} more"))
        return tuple(kept)

    for each in reversed(order[:MAX_NODES]):
        row = _row(each.record)
        cells: tuple[Span, ...] = row.cells[OPERATOR:]
        made[id(each)] = Row(cells=cells, below=rows_of(each.children))
    return rows_of(nodes), len(shown)


def flow_document(flow: Flow, *, html: bool = False) -> Document:
    """The makers of a call's inputs, the call, and the users of its results."""
    rows: list[Row | Heading | More] = []
    for title, records in (
        ("made by", flow.makers),
        ("the call", (flow.record,)),
        ("used by", flow.users),
    ):
        none = "" if records else "no call of this trace"
        rows.append(Heading(text=title, note=none))
        head, hidden, tail = head_and_tail(records)
        rows += map(_row, head)
        if hidden:
            rows.append(More(f"... {hidden} more"))
            rows += map(_row, tail)
    # Of calls picked from a trace, the depth says nothing.
    flat = tuple(evolve(row, depth=0) if isinstance(row, Row) else row for row in rows)
    grid = Grid(columns=COLUMNS, rows=flat, indented=OPERATOR)
    if not html:
        return (grid,)
    facts = (
        f"made by {counted(len(flow.makers), 'call')}",
        f"used by {counted(len(flow.users), 'call')}",
    )
    return (
        Title(name=f"Flow of #{flow.record.index} {flow.record.name}", facts=facts),
        grid,
    )
