# SPDX-License-Identifier: BSD-3-Clause
"""FX graphs to records."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from attrs import evolve, field, frozen

from npu_dispatch_inspect._torch_private import aot, modes
from npu_dispatch_inspect.capture._build import _constant, _op_name
from npu_dispatch_inspect.capture._graph_places import Place
from npu_dispatch_inspect.records import Argument, Constant, Phase, TensorSpec, Value
from npu_dispatch_inspect.records.graphs import (
    GraphInput,
    GraphNode,
    GraphStage,
    NodeKind,
)
from npu_dispatch_inspect.records.names import qualified

__all__ = ["Built", "Links", "build_nodes", "flat_outputs", "placeholders"]

_SYMBOLIC_MODULES = {"_operator", "math", "torch"}
_SYMBOLIC = {
    torch.SymInt: "symint",
    torch.SymFloat: "symfloat",
    torch.SymBool: "symbool",
}
_NOWHERE = Place()


@frozen(kw_only=True)
class Links:
    """What the nodes of all graphs of one capture have in common."""

    places: Mapping[str, Place]
    """The user's lines and modules by node of the joint graph."""
    first: int = 0
    """The lowest sequence number."""
    makers: Mapping[int, str] = field(factory=dict)
    """The forward node that made an autograd node, by sequence number."""
    joint: Mapping[str, bool] = field(factory=dict)
    """The nodes of the joint graph by variable; True for those of the backward pass."""


@frozen(kw_only=True)
class Built:
    """The nodes of one graph, and the values by variable."""

    nodes: tuple[GraphNode, ...]
    values: Mapping[str, Value]


def placeholders(graph: Any) -> list[Any]:
    """The placeholder nodes, in order."""
    return [each for each in graph.nodes if each.op == "placeholder"]


def flat_outputs(graph: Any) -> tuple[list[Any], list[Any] | None]:
    """What a graph returns, in one list, and the descriptors where torch gives them."""
    (output,) = (each for each in graph.nodes if each.op == "output")
    flat: list[Any] = []

    def take(value: Any) -> None:
        if isinstance(value, (list, tuple)):
            for each in value:
                take(each)
        else:
            flat.append(value)

    take(output.args[0])
    described = output.meta.get("desc")
    if described is None:
        return flat, None
    descriptions: list[Any] = []

    def take_description(value: Any) -> None:
        if isinstance(value, (list, tuple)):
            for each in value:
                take_description(each)
        else:
            descriptions.append(value)

    take_description(described)
    return flat, descriptions if len(descriptions) == len(flat) else None


def link(graph: Any, places: Mapping[str, Place]) -> Links:
    """The links of a joint or inference graph's nodes."""
    makers: dict[int, str] = {}
    numbers = []
    joint: dict[str, bool] = {}
    for node in graph.nodes:
        _, backward, _, number, _ = aot.node_facts(node)
        joint[node.name] = backward
        if node.op != "call_function" or number is None:
            continue
        numbers.append(number)
        if not backward:
            # Below autograd the node that has just been made has the highest
            # number: the first operator that sees it belongs to it.
            makers.setdefault(number, node.name)
    return Links(
        places=places, first=min(numbers, default=0), makers=makers, joint=joint
    )


class _Nodes:
    """Makes the node records of one graph."""

    def __init__(self, stage: GraphStage, links: Links) -> None:
        self.stage = stage
        self.links = links
        self.values: dict[str, Value] = {}
        self._next = 0
        self._plans: dict[Any, Any] = {}

    def number(self) -> int:
        self._next += 1
        return self._next

    def value(self, raw: Any) -> Value:
        """A fake value, or several, as records with ids of their own."""
        if isinstance(raw, torch.Tensor):
            return tensor_spec(raw, self.number())
        if isinstance(raw, (list, tuple)):
            return tuple(self.value(each) for each in raw)
        return plain_value(raw)

    def argument(self, raw: Any) -> Value:
        """An argument as a value; nodes stand for what they give."""
        if isinstance(raw, torch.fx.Node):
            return self.values.get(raw.name)
        if isinstance(raw, (list, tuple)):
            return tuple(self.argument(each) for each in raw)
        return plain_value(raw)

    def placeholder(self, node: Any) -> None:
        self.values[node.name] = self.value(node.meta.get("val"))

    def node(self, node: Any, index: int) -> GraphNode:
        raw, backward, accumulates, number, original = aot.node_facts(node)
        kind, name, overload = identify(node)
        if kind is NodeKind.GETITEM:
            value = _item(self.values.get(node.args[0].name), node.args[1])
        else:
            value = self.value(raw)
        self.values[node.name] = value
        # A partition function may mark what it has computed again as backward.
        backward = self.links.joint.get(node.name, backward)
        backward = backward and self.stage is not GraphStage.INFERENCE
        recomputed = self.stage is GraphStage.BACKWARD and not backward
        place, maker = self._place(node.name, number, backward, accumulates)
        return GraphNode(
            index=index,
            variable=node.name,
            kind=kind,
            name=name,
            overload=overload,
            inputs=self._inputs(node, kind),
            outputs=value
            if isinstance(value, tuple)
            else (() if raw is None and value is None else (value,)),
            takes=tuple(each.name for each in node.all_input_nodes),
            phase=Phase.BACKWARD if backward else Phase.FORWARD,
            recomputed=recomputed,
            module=place.module,
            module_type=place.module_type,
            source=place.source,
            # What adds up gradients belongs to no operator of the forward pass.
            sequence=None
            if number is None or (backward and maker is None)
            else number - self.links.first,
            forward_node=maker,
            decomposed_from=_origin(kind, name, original),
        )

    def _place(
        self,
        variable: str,
        number: int | None,
        backward: bool,  # noqa: FBT001 - passed on
        accumulates: bool,  # noqa: FBT001 - passed on
    ) -> tuple[Place, str | None]:
        place = self.links.places.get(variable, _NOWHERE)
        if not backward:
            return place, None
        # A backward that the user wrote has lines of its own.
        source = None if place.outside else place.source
        maker = None
        if number is not None and not accumulates:
            maker = self.links.makers.get(number)
        if maker is None:
            return evolve(place, source=source), None
        made_at = self.links.places.get(maker, _NOWHERE)
        return (
            Place(
                source=source or made_at.source,
                module=made_at.module,
                module_type=made_at.module_type,
            ),
            maker,
        )

    def _inputs(self, node: Any, kind: NodeKind) -> tuple[Argument, ...]:
        target = node.target
        plan = None
        if kind is NodeKind.OPERATOR:
            if target not in self._plans:
                self._plans[target] = modes.schema_arguments(target)
            plan = self._plans[target]
        if plan is None:
            positional = [
                (f"args[{number}]", each) for number, each in enumerate(node.args)
            ]
            return tuple(
                Argument(name=name, value=self.argument(each))
                for name, each in (*positional, *node.kwargs.items())
            )
        made = []
        for number, (name, has_default, default, written) in enumerate(plan):
            if number < len(node.args):
                value = self.argument(node.args[number])
            elif name in node.kwargs:
                value = self.argument(node.kwargs[name])
            elif has_default:
                made.append(
                    Argument(name=name, value=plain_value(default), default=True)
                )
                continue
            else:
                continue
            made.append(Argument(name=name, value=value, written=written))
        return tuple(made)


def build_nodes(
    graph: Any,
    stage: GraphStage,
    links: Links,
    inputs: Callable[[Any, Value], GraphInput],
) -> tuple[Built, tuple[GraphInput, ...]]:
    """The records of a graph's nodes and placeholders.

    Args:
        graph: the graph.
        stage: which one it is.
        links: of the joint graph it was cut from.
        inputs: makes the record of a placeholder, given its value.
    """
    maker = _Nodes(stage, links)
    made: list[GraphNode] = []
    given: list[GraphInput] = []
    for node in graph.nodes:
        if node.op == "placeholder":
            maker.placeholder(node)
            record = inputs(node, maker.values[node.name])
            maker.values[node.name] = record.value
            given.append(record)
        elif node.op != "output":
            made.append(maker.node(node, len(made)))
    return Built(nodes=tuple(made), values=maker.values), tuple(given)


def identify(node: Any) -> tuple[NodeKind, str, str]:
    """What a node calls: its kind, name and overload."""
    target = node.target
    if node.op == "get_attr":
        return NodeKind.CONSTANT, str(target), "default"
    if target is operator.getitem:
        return NodeKind.GETITEM, "getitem", "default"
    if isinstance(target, modes.operator_class):
        name, overload = _op_name(target)
        return NodeKind.OPERATOR, name, overload
    if isinstance(target, modes.higher_order_class):
        inner = node.args[0] if node.args else None
        if isinstance(inner, modes.operator_class):
            # auto_functionalized(op, ...) stands for the operator it calls.
            return (NodeKind.HIGHER_ORDER, *_op_name(inner))
        return NodeKind.HIGHER_ORDER, f"higher_order::{target.name()}", "default"
    module = getattr(target, "__module__", None) or ""
    name = getattr(target, "__name__", None) or str(target)
    if module in _SYMBOLIC_MODULES:
        return NodeKind.SYMBOLIC, f"{module.lstrip('_')}::{name}", "default"
    return NodeKind.OTHER, name, "default"


def _origin(kind: NodeKind, name: str, original: Any) -> str | None:
    if kind is not NodeKind.OPERATOR or not isinstance(original, modes.operator_class):
        return None
    came_from, overload = _op_name(original)
    # add_ that has become add is the same operator, made functional.
    if came_from.rstrip("_") == name.rstrip("_"):
        return None
    return came_from if overload == "default" else f"{came_from}.{overload}"


def _item(value: Value, index: Any) -> Value:
    if isinstance(value, tuple) and isinstance(index, int) and index < len(value):
        return value[index]
    return None


def tensor_spec(tensor: torch.Tensor, number: int) -> TensorSpec:
    """A fake tensor as a record."""
    unknown = []
    stride: tuple[int | str, ...] | None = None
    offset: int | str | None = None
    layout = tensor.layout
    if layout is torch.strided:
        stride = _sizes(tensor.stride())
        (offset,) = _sizes((tensor.storage_offset(),))
    flags = []
    if tensor.is_complex() and tensor.is_conj():
        flags.append("conj")
    try:
        shape: tuple[int | str, ...] | None = _sizes(tensor.shape)
    except RuntimeError:  # a nested tensor has no single shape
        shape = None
        unknown.append("shape")
    kind = type(tensor).__name__
    return TensorSpec(
        dtype=str(tensor.dtype).removeprefix("torch."),
        device=str(tensor.device),
        shape=shape,
        stride=stride,
        offset=offset,
        layout=str(layout).removeprefix("torch."),
        id=number,
        subclass=None if kind in {"FakeTensor", "Tensor", "Parameter"} else kind,
        flags=tuple(flags),
        unknown=tuple(unknown),
    )


def _sizes(sizes: Sequence[Any]) -> tuple[int | str, ...]:
    return tuple(each if type(each) is int else str(each) for each in sizes)


def plain_value(raw: Any) -> Value:
    """What is no tensor, as a record."""
    if raw is None or isinstance(raw, (bool, int, float, complex, str)):
        return raw
    if isinstance(raw, (list, tuple)):
        return tuple(plain_value(each) for each in raw)
    symbolic = _SYMBOLIC.get(type(raw))
    if symbolic is not None:
        return Constant(kind=symbolic, text=str(raw))
    if isinstance(raw, torch.Generator):
        return Constant(kind="generator", text=str(raw.device))
    if isinstance(raw, (modes.operator_class, modes.higher_order_class)):
        return Constant(kind="callable", text=qualified(*_op_name(raw)))
    return _constant(raw)
