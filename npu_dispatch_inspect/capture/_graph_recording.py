# SPDX-License-Identifier: BSD-3-Clause
"""One capture while it runs: stands between AOTAutograd and the user's functions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from attrs import define

from npu_dispatch_inspect._torch_private import aot
from npu_dispatch_inspect.capture._graph_places import Place
from npu_dispatch_inspect.capture._graph_program import FlatInput, Results
from npu_dispatch_inspect.capture._graph_records import (
    Compiler,
    Options,
    Pending,
    Whole,
)
from npu_dispatch_inspect.records import Environment
from npu_dispatch_inspect.records.graphs import GraphStage

__all__ = ["Recording"]


@define(kw_only=True)
class Recording:
    """Takes the graphs of one capture as they are made."""

    index: int
    options: Options
    environment: Environment
    add: Callable[[Pending], None]
    fail: Callable[[Recording, Exception], None]
    flat: Callable[[], Sequence[FlatInput]]
    """What the flat inputs are."""
    results: Callable[[], Results]
    places: Callable[[Any], Mapping[str, Place]]
    """The places of the nodes of an FX graph."""
    eager_backward: bool = False
    """Compile the backward graph as soon as it is there."""
    step: str = "trace"
    """What is being done: ``"trace"``, ``"partition"``, ``"compile"``."""
    stage: GraphStage | None = None
    """The graph that is being worked on."""
    _whole: Whole | None = None
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
            self._add(joint, GraphStage.JOINT)

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
        try:
            return self._compile(graph_module, inputs, GraphStage.BACKWARD, compiler)
        except Exception as error:  # noqa: BLE001 - whatever it is, it becomes a record
            # The forward may have run already: its backward is the graph itself.
            self.fail(self, error)
            return aot.boxed(graph_module.forward)

    def compile_inference(self, graph_module: Any, inputs: Sequence[Any]) -> Any:
        """Note the only graph and have it compiled."""
        self.step, self.stage = "compile", GraphStage.INFERENCE
        self._learn(aot.copied(graph_module), None)
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
        self._add(aot.copied(graph_module), stage)
        if compiler is None:
            return aot.boxed(graph_module.forward)
        return aot.boxed(compiler(graph_module, inputs))

    def _learn(self, graph_module: Any, forward_outputs: int | None) -> None:
        results = self.results()
        mutated = aot.mutated_inputs()
        if mutated is not None:
            results.mutated = mutated
        self._whole = Whole(
            graph_module=graph_module,
            flat=self.flat(),
            results=results,
            places=self.places,
            forward_outputs=forward_outputs,
        )

    def _add(self, graph_module: Any, stage: GraphStage) -> None:
        assert self._whole is not None
        self.add(
            Pending(
                graph_module=graph_module,
                stage=stage,
                whole=self._whole,
                index=self.index,
                options=self.options,
                environment=self.environment,
            )
        )
