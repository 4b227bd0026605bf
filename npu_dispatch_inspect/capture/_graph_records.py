# SPDX-License-Identifier: BSD-3-Clause
"""Graphs that were kept to records, when somebody looks."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from attrs import define, field, frozen

from npu_dispatch_inspect._torch_private import aot
from npu_dispatch_inspect.capture._graph_build import Links, build_nodes, link
from npu_dispatch_inspect.capture._graph_names import Names
from npu_dispatch_inspect.capture._graph_places import Place
from npu_dispatch_inspect.capture._graph_program import FlatInput, Results
from npu_dispatch_inspect.records import Environment, TensorSpec
from npu_dispatch_inspect.records.graphs import (
    CapturedGraph,
    GraphBreak,
    GraphFailure,
    GraphInput,
    GraphStage,
    InputKind,
    OutputKind,
    SavedTensor,
)
from npu_dispatch_inspect.records.values import tensor_bytes
from npu_dispatch_inspect.traces.graphs import GraphSet

__all__ = ["Compiler", "Now", "Options", "Pending", "Whole", "partial_graph"]

Compiler = Callable[[Any, Sequence[Any]], Callable[..., Any]]


@frozen(kw_only=True)
class Options:
    """What the user asked for."""

    joint: bool
    partition: Callable[..., Any]
    partition_name: str
    decompositions: Mapping[Any, Callable[..., Any]] | None
    decompositions_name: str | None
    dynamic: bool
    fw_compiler: Compiler | None
    bw_compiler: Compiler | None


@define(kw_only=True)
class Whole:
    """The graph that the others of a capture are cut from: it has all the names."""

    graph_module: Any
    flat: Sequence[FlatInput]
    """What the flat inputs are."""
    results: Results
    places: Callable[[Any], Mapping[str, Place]]
    """Where the nodes of a graph come from."""
    forward_outputs: int | None
    """How many of its outputs are those of the forward graph; None for all."""
    _learnt: tuple[Names, Links] | None = None

    def learn(self) -> tuple[Names, Links]:
        """Its names, and what its nodes have to do with one another."""
        if self._learnt is None:
            graph = self.graph_module.graph
            self._learnt = (
                Names(graph, self.flat, self.results, self.forward_outputs),
                link(graph, self.places(graph)),
            )
        return self._learnt


@define(kw_only=True)
class Pending:
    """A graph that was captured, and its record once somebody has looked."""

    graph_module: Any
    stage: GraphStage
    whole: Whole
    index: int
    options: Options
    environment: Environment
    _record: CapturedGraph | None = None
    _lock: Any = field(factory=threading.Lock)

    def build(self) -> CapturedGraph:
        """The record: the same one each time."""
        with self._lock:
            if self._record is None:
                self._record = self._build()
            return self._record

    def _build(self) -> CapturedGraph:
        names, links = self.whole.learn()
        graph = self.graph_module.graph
        count = iter(range(len(graph.nodes)))
        built, inputs = build_nodes(
            graph,
            self.stage,
            links,
            lambda node, value: names.input(node, value, next(count), self.stage),
        )
        outputs = names.outputs(graph, built.values, self.stage)
        kept: list[str | None] = []
        if self.stage is GraphStage.FORWARD:
            kept = [each.variable for each in outputs if each.kind is OutputKind.SAVED]
        elif self.stage is GraphStage.BACKWARD:
            kept = [
                each.variable for each in inputs if each.kind is not InputKind.TANGENT
            ]
        cut = self.stage in {GraphStage.FORWARD, GraphStage.BACKWARD}
        return CapturedGraph(
            stage=self.stage,
            index=self.index,
            nodes=built.nodes,
            inputs=inputs,
            outputs=outputs,
            saved_for_backward=_saved(kept, built.values, names),
            code=_text(self.graph_module),
            partition=self.options.partition_name if cut else None,
            decompositions=self.options.decompositions_name,
            dynamic=self.options.dynamic,
            notes=names.notes,
            environment=self.environment,
            graph_module=self.graph_module,
        )


@define(kw_only=True)
class Now:
    """What had been captured at one moment."""

    pending: list[Pending]
    failures: list[GraphFailure]
    breaks: list[GraphBreak]
    notes: list[str]
    environment: Environment
    finished: bool = True

    def snapshot(self) -> GraphSet:
        """The same as records."""
        graphs = [each.build() for each in self.pending]
        notes = dict.fromkeys(self.notes)
        for graph in graphs:
            notes.update(dict.fromkeys(graph.notes))
        return GraphSet(
            graphs=graphs,
            failures=self.failures,
            breaks=self.breaks,
            notes=notes,
            environment=self.environment,
        )


def partial_graph(
    graph: Any,
    *,
    index: int,
    flat: Sequence[FlatInput],
    places: Mapping[str, Place],
    options: Options,
    environment: Environment,
) -> CapturedGraph:
    """What was traced before a failure."""
    count = iter(range(len(graph.nodes)))
    built, inputs = build_nodes(
        graph,
        GraphStage.JOINT,
        link(graph, places),
        lambda node, value: _partial_input(node, value, next(count), flat),
    )
    nodes = built.nodes
    # The operator that failed has a node already, without a result.
    if nodes and not nodes[-1].outputs:
        nodes = nodes[:-1]
    return CapturedGraph(
        stage=GraphStage.JOINT,
        index=index,
        nodes=nodes,
        inputs=inputs,
        decompositions=options.decompositions_name,
        dynamic=options.dynamic,
        complete=False,
        environment=environment,
    )


def _partial_input(
    node: Any, value: Any, index: int, flat: Sequence[FlatInput]
) -> GraphInput:
    """A placeholder of a graph that is not finished: flat inputs stand first."""
    kind = InputKind.OTHER
    names: tuple[str, ...] = ()
    if node.name.startswith("tangents_"):
        kind = InputKind.TANGENT
    elif index < len(flat):
        kind, names = flat[index].kind, flat[index].names
    return GraphInput(
        index=index,
        variable=node.name,
        kind=kind,
        name=names[0] if names else None,
        names=names,
        value=value,
        inferred=True,
        used=bool(node.users),
    )


def _saved(
    variables: Sequence[str | None], values: Mapping[str, Any], names: Names
) -> tuple[SavedTensor, ...]:
    made = []
    for each in variables:
        if each is None:
            continue
        value = values.get(each)
        made.append(
            SavedTensor(
                variable=each,
                value=value,
                bytes=tensor_bytes(value) if isinstance(value, TensorSpec) else 0,
                input=names.saved(each),
            )
        )
    return tuple(made)


def _text(graph_module: Any) -> str:
    """The code without the comments that hold paths."""
    lines = aot.graph_text(graph_module).splitlines()
    kept = [
        line for line in lines if line.strip() and not line.lstrip().startswith("#")
    ]
    return "\n".join(kept) + "\n"
