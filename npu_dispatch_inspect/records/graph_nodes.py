# SPDX-License-Identifier: BSD-3-Clause
"""What a graph is made of: nodes, inputs, outputs, and what is saved for backward."""

from __future__ import annotations

from attrs import frozen

from npu_dispatch_inspect.records.graph_kinds import InputKind, NodeKind, OutputKind
from npu_dispatch_inspect.records.names import qualified
from npu_dispatch_inspect.records.ops import OpRecord, Phase
from npu_dispatch_inspect.records.values import Argument, SourceLocation, Value

__all__ = ["GraphInput", "GraphNode", "GraphOutput", "SavedTensor"]


@frozen(kw_only=True)
class GraphNode:
    """One computation in a graph; placeholders and the output are not nodes here.

    A node that stands for an operator has the attributes of an `OpRecord` that
    conditions of patterns look at, and `as_record` makes one of it.

    Tensors have ids, unique within one graph: the `TensorSpec` that one node gives
    and another takes have the same id. A ``getitem`` node has the id of the result
    it takes out, a placeholder that of its `GraphInput.value`.

    Example:
        >>> import torch
        >>> from npu_dispatch_inspect import capture_graphs
        >>> with capture_graphs() as graphs:
        ...     captured = graphs.capture(torch.nn.Linear(4, 2), torch.ones(1, 4))
        >>> node = captured.forward.nodes[-1]
        >>> node.qualified_name, node.takes, str(node.outputs[0])
        ('aten::addmm', ('primals_2', 'primals_3', 't'), 'f32[1, 2]')
    """

    index: int
    """Position in `CapturedGraph.nodes`."""
    variable: str
    """Its name in `CapturedGraph.code`, unique within the graph: ``"addmm_1"``."""
    kind: NodeKind = NodeKind.OPERATOR
    name: str
    """As in `OpRecord`: ``"aten::addmm"``. Of other nodes ``"getitem"``,
    ``"higher_order::cond"``, ``"operator::mul"``, a Python name, or for a constant
    the attribute of the graph module."""
    overload: str = "default"
    inputs: tuple[Argument, ...] = ()
    """By schema name; a value made by another node is the `TensorSpec` of it, or for
    a symbolic number a `Constant` of kind ``"symint"`` or the like."""
    outputs: tuple[Value, ...] = ()
    """One value per result; for most operators one."""
    takes: tuple[str, ...] = ()
    """Variables of the nodes and placeholders it takes: the edges of the graph, each
    once, in the order of the arguments."""
    phase: Phase = Phase.FORWARD
    """Backward for what the autograd engine ran; in a backward graph, a recomputed
    node is forward."""
    recomputed: bool = False
    """A forward node that stands in the backward graph, to be computed once more."""
    module: str | None = None
    """``"encoder.layers.0.linear1"``, empty text for the root; for a backward node
    the module of its forward node. None where it is not known."""
    module_type: str | None = None
    """Class of that module: ``"Linear"``."""
    source: SourceLocation | None = None
    """The user's line; for a backward node that of its forward node."""
    sequence: int | None = None
    """Autograd's sequence number, counted from the lowest of this capture: a backward
    node has the number of the forward nodes it is the derivative of."""
    forward_node: str | None = None
    """For a backward node, the variable of the forward node it is the derivative of.
    In a backward graph this is a variable of the forward graph."""
    decomposed_from: str | None = None
    """The operator that a decomposition turned into this node and others:
    ``"aten::gelu"``. None where the program reached this operator itself."""

    @property
    def qualified_name(self) -> str:
        """With the overload, unless it is the default one."""
        return qualified(self.name, self.overload)

    def as_record(self) -> OpRecord:
        """The node as an operator call of its graph; `index` is that of the node."""
        return OpRecord(
            index=self.index,
            name=self.name,
            overload=self.overload,
            inputs=self.inputs,
            outputs=self.outputs,
            phase=self.phase,
            module=self.module,
            module_type=self.module_type,
            recomputed=self.recomputed,
            compiled=None,
            source=self.source,
        )


@frozen(kw_only=True)
class GraphInput:
    """What one placeholder of a graph stands for.

    Example:
        >>> import torch
        >>> from npu_dispatch_inspect import capture_graphs
        >>> with capture_graphs() as graphs:
        ...     captured = graphs.capture(torch.nn.Linear(4, 2), torch.ones(1, 4))
        >>> weight = captured.forward.inputs[0]
        >>> weight.kind.value, weight.name, str(weight.value)
        ('parameter', 'weight', 'f32[2, 4]')
    """

    index: int
    """Position among the placeholders."""
    variable: str
    """Its name in the code: ``"primals_1"``, ``"tangents_1"``, ``"addmm"``."""
    kind: InputKind
    name: str | None = None
    """``"fc.weight"`` for a parameter or buffer, ``"x"`` or ``"batch['ids'][0]"`` for
    an argument. For a tangent the name of the output whose gradient it is, as in
    `GraphOutput.name`; for a saved value the variable in the forward graph. None
    where it is not known."""
    names: tuple[str, ...] = ()
    """All names of a parameter or buffer that has several (tied weights), or of one
    tensor that is given twice; otherwise `name` alone, empty where it is None."""
    value: Value = None
    """A `TensorSpec`, or for a symbolic size a `Constant` of kind ``"symint"``."""
    inferred: bool = False
    """The name was inferred from positions: this torch does not describe inputs."""
    used: bool = True
    """A node or the output takes it."""

    def __str__(self) -> str:
        """``primals_1: parameter fc.weight``."""
        said = {
            InputKind.TANGENT: "gradient of output",
            InputKind.SAVED: "saved",
        }.get(self.kind, self.kind.value)
        name = "|".join(self.names) or self.name
        return f"{self.variable}: {said}{f' {name}' if name else ''}"


@frozen(kw_only=True)
class GraphOutput:
    """What one returned value of a graph is.

    Example:
        >>> import torch
        >>> from npu_dispatch_inspect import capture_graphs
        >>> with capture_graphs() as graphs:
        ...     captured = graphs.capture(torch.nn.Linear(4, 2), torch.ones(1, 4))
        >>> [str(each) for each in captured.backward.outputs]
        ['gradient of weight: t_3', 'gradient of bias: view', 'gradient of input: None']
    """

    index: int
    """Position among the returned values."""
    variable: str | None
    """The node or placeholder that is returned; None for a gradient that is not
    there, or a plain number."""
    kind: OutputKind
    name: str | None = None
    """For a result its place in what the function returned: ``"0"``, ``"['loss']"``,
    ``".logits"``; empty text where the function returned one tensor. For a gradient
    or a mutation the name of the input, for a saved value its variable. None where
    it is not known."""
    value: Value = None
    inferred: bool = False
    """What it is was inferred from positions."""

    def __str__(self) -> str:
        """``gradient of fc.weight: t_3``."""
        if self.kind is OutputKind.RESULT:
            said = f"output {self.name}" if self.name else "output"
        else:
            said = {
                OutputKind.GRADIENT: "gradient of",
                OutputKind.MUTATION: "new value of",
            }.get(self.kind, self.kind.value)
            said = f"{said} {self.name or '?'}"
        return f"{said}: {self.variable}"


@frozen(kw_only=True)
class SavedTensor:
    """A value that the forward graph keeps for the backward graph.

    Example:
        >>> import torch
        >>> from npu_dispatch_inspect import capture_graphs
        >>> with capture_graphs() as graphs:
        ...     captured = graphs.capture(torch.sigmoid, torch.ones(4, requires_grad=True))
        >>> [each.bytes for each in captured.forward.saved_for_backward]
        [16]
    """

    variable: str
    """The same in both graphs."""
    value: Value
    """A `TensorSpec`, or a symbolic size."""
    bytes: int | None
    """Elements times the size of one; None where a size is symbolic."""
    input: str | None = None
    """Where it is an input, the name of it: such a value is alive anyway."""
