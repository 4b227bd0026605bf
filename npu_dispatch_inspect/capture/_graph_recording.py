# SPDX-License-Identifier: BSD-3-Clause
"""One capture while it runs: stands between AOTAutograd and the user's functions."""

from __future__ import annotations

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
    GraphInput,
    GraphStage,
    InputKind,
    OutputKind,
    SavedTensor,
    tensor_bytes,
)

__all__ = ["Options", "Recording"]

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
class Recording:
    """Takes the graphs of one capture as they are made."""

    index: int
    options: Options
    environment: Environment
    add: Callable[[CapturedGraph], None]
    flat: Callable[[], Sequence[FlatInput]]
    """What the flat inputs are."""
    results: Callable[[], Results]
    places: Callable[[Any], Mapping[str, Place]]
    """The places of a graph's nodes."""
    eager_backward: bool = False
    """Compile the backward graph as soon as it is there."""
    step: str = "trace"
    """What is being done: ``"trace"``, ``"partition"``, ``"compile"``."""
    stage: GraphStage | None = None
    """The graph that is being worked on."""
    _names: Names | None = None
    _links: Links = field(factory=lambda: Links(places={}))
    _forward_outputs: int | None = None
    _backward: Callable[..., Any] | None = None
    _joint: tuple[Any, int | None] | None = None
    _waiting: tuple[Any, list[Any]] | None = None

    def compilers(self) -> dict[str, Any]:
        """What AOTAutograd is called with."""
        return {
            "fw_compiler": self.compile_forward,
            "bw_compiler": self.compile_backward,
            "inference_compiler": self.compile_inference,
            "partition_fn": self.partition,
            "decompositions": self.options.decompositions,
        }

    def partition(
        self, joint: Any, joint_inputs: Any, *args: Any, **kwargs: Any
    ) -> tuple[Any, Any]:
        """Keep the joint graph and cut it."""
        self.step, self.stage = "partition", GraphStage.JOINT
        # What torch knows of its inputs and outputs is complete after the cut.
        self._joint = (aot.copied(joint), kwargs.get("num_fwd_outputs"))
        try:
            forward, backward = self.options.partition(
                joint, joint_inputs, *args, **kwargs
            )
        except BaseException:
            self._take_joint()
            raise
        if self.eager_backward:
            # AOTAutograd compiles it at the first backward pass only.
            given = [
                each.meta.get("val")
                for each in backward.graph.nodes
                if each.op == "placeholder"
            ]
            self._waiting = (backward, given)
        self.step, self.stage = "compile", GraphStage.FORWARD
        return forward, backward

    def _take_joint(self) -> None:
        if self._joint is None:
            return
        (joint, outputs), self._joint = self._joint, None
        self._learn(joint, outputs)
        if self.options.joint:
            self.add(self._record(joint, GraphStage.JOINT, joint))

    def compile_forward(self, graph_module: Any, inputs: Sequence[Any]) -> Any:
        """Note the forward graph and have it compiled."""
        self._take_joint()
        self.step, self.stage = "compile", GraphStage.FORWARD
        compiled = self._compile(
            graph_module, inputs, GraphStage.FORWARD, self.options.fw_compiler
        )
        if self._waiting is not None:
            (backward, given), self._waiting = self._waiting, None
            self._backward = self.compile_backward(backward, given)
        return compiled

    def compile_backward(self, graph_module: Any, inputs: Sequence[Any]) -> Any:
        """Note the backward graph and have it compiled."""
        if self._backward is not None:
            return self._backward
        self.step, self.stage = "compile", GraphStage.BACKWARD
        compiler = self.options.bw_compiler or self.options.fw_compiler
        return self._compile(graph_module, inputs, GraphStage.BACKWARD, compiler)

    def compile_inference(self, graph_module: Any, inputs: Sequence[Any]) -> Any:
        """Note the only graph and have it compiled."""
        self.step, self.stage = "compile", GraphStage.INFERENCE
        self._learn(graph_module, None)
        return self._compile(
            graph_module, inputs, GraphStage.INFERENCE, self.options.fw_compiler
        )

    def _compile(
        self,
        graph_module: Any,
        inputs: Sequence[Any],
        stage: GraphStage,
        compiler: Compiler | None,
    ) -> Any:
        # Compilers and AOTAutograd itself write to the graph afterwards.
        self.add(self._record(graph_module, stage, aot.copied(graph_module)))
        if compiler is None:
            return aot.boxed(graph_module.forward)
        return aot.boxed(compiler(graph_module, inputs))

    def _learn(self, graph_module: Any, forward_outputs: int | None) -> None:
        graph = graph_module.graph
        self._forward_outputs = forward_outputs
        self._links = link(graph, self.places(graph_module))
        results = self.results()
        mutated = aot.mutated_inputs()
        if mutated is not None:
            results.mutated = mutated
        self._names = Names(graph, self.flat(), results, forward_outputs)

    def partial(self, graph: Any, stage: GraphStage) -> CapturedGraph:
        """What was traced before a failure."""
        count = iter(range(len(graph.nodes)))
        built, inputs = build_nodes(
            graph,
            stage,
            link(graph, self.places(None)),
            lambda node, value: _partial_input(node, value, next(count), self.flat()),
        )
        nodes = built.nodes
        # The operator that failed has a node already, without a result.
        if nodes and not nodes[-1].outputs:
            nodes = nodes[:-1]
        return CapturedGraph(
            stage=stage,
            index=self.index,
            nodes=nodes,
            inputs=inputs,
            partition=None,
            decompositions=self.options.decompositions_name,
            dynamic=self.options.dynamic,
            complete=False,
            environment=self.environment,
        )

    def _record(self, graph_module: Any, stage: GraphStage, kept: Any) -> CapturedGraph:
        names = self._names
        assert names is not None
        graph = graph_module.graph
        count = iter(range(len(graph.nodes)))
        built, inputs = build_nodes(
            graph,
            stage,
            self._links,
            lambda node, value: names.input(node, value, next(count), stage),
        )
        outputs = names.outputs(graph, built.values, stage)
        saved: tuple[SavedTensor, ...] = ()
        if stage is GraphStage.FORWARD:
            variables = [
                each.variable for each in outputs if each.kind is OutputKind.SAVED
            ]
            saved = _saved(variables, built.values, names)
        elif stage is GraphStage.BACKWARD:
            variables = [
                each.variable
                for each in inputs
                if not each.variable.startswith("tangents_")
            ]
            saved = _saved(variables, built.values, names)
        cut = stage in {GraphStage.FORWARD, GraphStage.BACKWARD}
        return CapturedGraph(
            stage=stage,
            index=self.index,
            nodes=built.nodes,
            inputs=inputs,
            outputs=outputs,
            saved_for_backward=saved,
            code=_text(graph_module),
            partition=self.options.partition_name if cut else None,
            decompositions=self.options.decompositions_name,
            dynamic=self.options.dynamic,
            notes=names.notes,
            environment=self.environment,
            graph_module=kept,
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
