# SPDX-License-Identifier: BSD-3-Clause
"""Calls, chains and graphs as boxes and arrows, for DOT and Mermaid alike."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, TypeAlias

from attrs import frozen

from npu_dispatch_inspect.display.layout import cut
from npu_dispatch_inspect.display.text import (
    inputs_text,
    module_text,
    result_text,
    value_text,
)
from npu_dispatch_inspect.errors import UsageError
from npu_dispatch_inspect.records import OpRecord
from npu_dispatch_inspect.records.chains import ChainNode, Verdict
from npu_dispatch_inspect.records.graphs import CapturedGraph, GraphInput
from npu_dispatch_inspect.records.paths import Explanation, PredictedCall
from npu_dispatch_inspect.traces.graphs import GraphSet
from npu_dispatch_inspect.traces.ops import OpTrace
from npu_dispatch_inspect.traces.report import DispatchReport

__all__ = ["COLOURS", "Arrow", "Box", "Drawing", "Group", "drawing_of"]

WIDTH = 100
"""Columns of a line in a box."""
COLOURS = {
    "call": "#e8f1fb",
    "backward": "#efe8fb",
    "launch": "#e2f5e6",
    "task": "#f4f4f4",
    "cpu": "#fde7dc",
    "input": "#fff6d6",
    "output": "#fff6d6",
    "note": "#ffffff",
}
"""Light enough for black text."""


@frozen
class Box:
    """A box with lines of text."""

    name: str
    """Unique in the drawing."""
    lines: tuple[str, ...]
    kind: str
    """A key of `COLOURS`."""
    top: bool = False
    """The first box of a tree; trees stand below each other in this order."""


@frozen
class Arrow:
    """From one box to another."""

    start: str
    end: str


Part: TypeAlias = "Box | Arrow"


@frozen
class Group:
    """Parts with a frame around them, or without one where there is no title."""

    title: str | None
    parts: Iterable[Part]
    """Boxes come before the arrows that need them. Taken once."""


@frozen
class Drawing:
    """Everything there is to draw."""

    across: bool
    """From left to right, as trees of calls are; else from top to bottom."""
    groups: Iterable[Group]


def drawing_of(thing: Any) -> Drawing:
    """What a DOT or Mermaid file of an object shows.

    Raises:
        UsageError: it has neither calls inside calls nor a graph.
    """
    if isinstance(thing, DispatchReport):
        return Drawing(across=True, groups=[Group(None, _chains(thing.chains))])
    if isinstance(thing, OpTrace):
        return Drawing(across=True, groups=[Group(None, _calls(thing))])
    if isinstance(thing, Explanation):
        return Drawing(across=True, groups=[Group(None, _predicted(thing.calls))])
    if isinstance(thing, CapturedGraph):
        return Drawing(across=False, groups=[_graph(thing, "")])
    if isinstance(thing, GraphSet):
        groups = [_graph(each, f"g{n}_") for n, each in enumerate(thing)]
        return Drawing(across=False, groups=groups)
    msg = (
        "A drawing shows calls or graphs: an OpTrace, DispatchReport, Explanation, "
        f"CapturedGraph or GraphSet, not a {type(thing).__name__}."
    )
    raise UsageError(msg)


def _call_box(
    name: str, op: OpRecord, *more: str, top: bool, kind: str | None = None
) -> Box:
    kind = kind or ("backward" if op.phase.value == "backward" else "call")
    signature = ""
    if op.inputs or op.outputs or op.exception:
        signature = cut(f"({inputs_text(op)}){result_text(op)}", WIDTH)
    lines = (op.qualified_name, signature, module_text(op), *more)
    return Box(name, tuple(filter(None, lines)), kind, top)


def _calls(trace: OpTrace) -> Iterator[Part]:
    present = {each.index for each in trace.records}
    seen: set[int] = set()
    late = []
    for each in trace.records:
        yield _call_box(f"c{each.index}", each, top=each.parent not in present)
        seen.add(each.index)
        arrow = Arrow(f"c{each.parent}", f"c{each.index}")
        if each.parent in seen:
            yield arrow
        elif each.parent in present:  # the trace was put in another order
            late.append(arrow)
    yield from late


def _chains(chains: tuple[ChainNode, ...]) -> Iterator[Part]:
    count = 0
    pending: list[tuple[str | None, ChainNode]] = [(None, n) for n in reversed(chains)]
    while pending:
        above, node = pending.pop()
        name = f"c{count}"
        count += 1
        cpu = node.verdict in (Verdict.CPU_FALLBACK, Verdict.HIDDEN_CPU)
        site = node.op.path[-1].site if node.op.path else ""
        yield _call_box(
            name,
            node.op,
            site,
            node.verdict.value,
            top=above is None,
            kind="cpu" if cpu else None,
        )
        if above is not None:
            yield Arrow(above, name)
        for number, launch in enumerate(node.launches):
            yield Box(f"{name}_l{number}", (launch.name,), "launch")
            yield Arrow(name, f"{name}_l{number}")
            if launch.task is not None:
                task = f"{name}_t{number}"
                ran = "executed" if launch.task.executed else "not seen to run"
                yield Box(task, (f"task {launch.task.index}", ran), "task")
                yield Arrow(f"{name}_l{number}", task)
        for number, aclop in enumerate(node.aclops):
            yield Box(f"{name}_a{number}", (f"aclop {aclop.name}",), "launch")
            yield Arrow(name, f"{name}_a{number}")
        pending += [(name, child) for child in reversed(node.children)]


def _predicted(calls: tuple[PredictedCall, ...]) -> Iterator[Part]:
    count = 0
    pending: list[tuple[str | None, PredictedCall]] = [
        (None, c) for c in reversed(calls)
    ]
    while pending:
        above, call = pending.pop()
        name = f"c{count}"
        count += 1
        last = call.last
        way = "" if last is None else f"{last.key}: {last.action.value}"
        site = last.kernel.site if last is not None and last.kernel else ""
        inside = f"inside unknown: {call.unknown}" if call.unknown else ""
        lines = (call.qualified_name, way, site, inside)
        yield Box(name, tuple(filter(None, lines)), "call", above is None)
        if above is not None:
            yield Arrow(above, name)
        pending += [(name, child) for child in reversed(call.calls or ())]


def _graph(graph: CapturedGraph, prefix: str) -> Group:
    title = f"{graph.stage.value} graph {graph.index}"
    if not graph.complete:
        title += " (up to the failure)"
    return Group(title, _graph_parts(graph, prefix))


def _graph_parts(graph: CapturedGraph, prefix: str) -> Iterator[Part]:
    known = {each.variable for each in graph.inputs}
    known.update(each.variable for each in graph.nodes)
    for given in graph.inputs:
        yield Box(prefix + given.variable, _input_lines(given), "input")
    for node in graph.nodes:
        lines = (
            f"{node.variable} = {node.qualified_name}",
            cut(", ".join(map(value_text, node.outputs)), WIDTH),
            node.module or "",
        )
        kind = "backward" if node.phase.value == "backward" else "call"
        yield Box(prefix + node.variable, tuple(filter(None, lines)), kind)
        for taken in node.takes:
            if taken in known:
                yield Arrow(prefix + taken, prefix + node.variable)
    for output in graph.outputs:
        if output.variable in known:
            # No variable of a Python program has such a name.
            name = f"{prefix}output.{output.index}"
            yield Box(name, (str(output).rpartition(":")[0],), "output")
            yield Arrow(f"{prefix}{output.variable}", name)


def _input_lines(given: GraphInput) -> tuple[str, ...]:
    return str(given), value_text(given.value)
