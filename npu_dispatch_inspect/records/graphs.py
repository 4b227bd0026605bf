# SPDX-License-Identifier: BSD-3-Clause
"""Graphs that AOTAutograd makes, as records: nodes, inputs, outputs, failures."""

from __future__ import annotations

import enum
from typing import Any

from attrs import field, fields, frozen

from npu_dispatch_inspect.records.environment import Environment
from npu_dispatch_inspect.records.ops import ExceptionRecord, OpRecord, Phase
from npu_dispatch_inspect.records.printed import Printed
from npu_dispatch_inspect.records.values import (
    Argument,
    SourceLocation,
    TensorSpec,
    Value,
)

__all__ = [
    "CapturedGraph",
    "FailureKind",
    "GraphBreak",
    "GraphFailure",
    "GraphInput",
    "GraphNode",
    "GraphOutput",
    "GraphStage",
    "InputKind",
    "NodeKind",
    "OutputKind",
    "SavedTensor",
]


class GraphStage(enum.Enum):
    """Which of a program's graphs this is.

    Example:
        >>> from npu_dispatch_inspect import GraphStage
        >>> [each.value for each in GraphStage]
        ['joint', 'forward', 'backward', 'inference']
    """

    JOINT = "joint"
    """Forward and backward in one graph, before the partition."""
    FORWARD = "forward"
    BACKWARD = "backward"
    INFERENCE = "inference"
    """The only graph, where nothing needs a gradient."""


class NodeKind(enum.Enum):
    """What a node does."""

    OPERATOR = "operator"
    """Calls an operator: ``aten::addmm``."""
    HIGHER_ORDER = "higher_order"
    """Calls a higher-order operator: ``higher_order::cond``."""
    GETITEM = "getitem"
    """Takes one result of an operator that has several; nothing is called."""
    SYMBOLIC = "symbolic"
    """Computes a size in Python: ``operator::mul`` of two symbolic sizes."""
    CONSTANT = "constant"
    """Stands for something kept on the graph module (``get_attr``)."""
    OTHER = "other"
    """Calls another Python function."""


class InputKind(enum.Enum):
    """What a placeholder stands for."""

    PARAMETER = "parameter"
    BUFFER = "buffer"
    ARGUMENT = "argument"
    TANGENT = "tangent"
    """The gradient that comes in for an output of the forward graph."""
    SAVED = "saved"
    """What the forward graph computed and saved for the backward graph."""
    OTHER = "other"
    """Not known, or of torch's own making: sizes, random seeds, effect tokens."""


class OutputKind(enum.Enum):
    """What a returned value is."""

    RESULT = "result"
    """A result of the captured function."""
    MUTATION = "mutation"
    """The new value of an input that the function writes to."""
    GRADIENT = "gradient"
    SAVED = "saved"
    """Kept for the backward graph."""
    OTHER = "other"
    """Not known, or of torch's own making: view bases, random offsets, tokens."""


class FailureKind(enum.Enum):
    """Why a graph could not be captured."""

    NO_META_KERNEL = "no_meta_kernel"
    """An operator cannot say what its results look like without computing them."""
    DATA_DEPENDENT_VALUE = "data_dependent_value"
    """The program asks for a tensor's value: ``.item()``, ``if x.sum() > 0``."""
    DATA_DEPENDENT_SHAPE = "data_dependent_shape"
    """The size of a result depends on values: ``x[x > 0]``."""
    CLOSED_OVER_TENSOR = "closed_over_tensor"
    """The function uses a tensor that is not among its inputs."""
    UNSUPPORTED_VALUE = "unsupported_value"
    """An argument or a result holds tensors where the capture cannot reach them."""
    PARTITION = "partition"
    """The partition function raised."""
    COMPILER = "compiler"
    """A compiler that was given raised."""
    OTHER = "other"
    """The program or the tracing of it raised something else."""


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
        return (
            self.name if self.overload == "default" else f"{self.name}.{self.overload}"
        )

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


@frozen(kw_only=True)
class CapturedGraph(Printed):
    """One graph: its nodes in order, what goes in, what comes out.

    Equality, hash and pickle are by value, without `graph_module`.

    Example:
        >>> import torch
        >>> from npu_dispatch_inspect import capture_graphs
        >>> with capture_graphs() as graphs:
        ...     captured = graphs.capture(torch.nn.Linear(4, 2), torch.ones(1, 4))
        >>> captured.forward.names
        ('aten::t', 'aten::addmm')
        >>> captured.forward.code.count("torch.ops.aten")
        2
    """

    stage: GraphStage
    index: int = 0
    """Which capture it comes from: the joint, forward and backward graph of one
    function have the same number. Under `torch.compile` one per Dynamo graph."""
    nodes: tuple[GraphNode, ...] = ()
    """In the order in which they run; placeholders and the output left out."""
    inputs: tuple[GraphInput, ...] = ()
    outputs: tuple[GraphOutput, ...] = ()
    saved_for_backward: tuple[SavedTensor, ...] = ()
    """Of a forward graph: what it keeps; of a backward graph: what it was given."""
    code: str = ""
    """The Python text of the graph, as torch prints it, without paths."""
    partition: str | None = None
    """``"default"``, ``"min_cut"``, or the name of the function that was given;
    None in a graph that was not partitioned."""
    decompositions: str | None = None
    """``"core_aten"``, ``"table of 3"``; None where nothing is decomposed."""
    dynamic: bool = False
    """Sizes may be symbols."""
    complete: bool = True
    """False where capturing failed: the nodes up to the failure."""
    notes: tuple[str, ...] = ()
    """What a reader must know about this graph, a sentence each."""
    environment: Environment
    graph_module: Any = field(default=None, eq=False, repr=False)
    """The `torch.fx.GraphModule` itself, as it was captured: it runs. None in a graph
    that was pickled, copied or read from a file."""

    @property
    def records(self) -> tuple[OpRecord, ...]:
        """The nodes that call an operator, as operator calls."""
        return tuple(each.as_record() for each in self.operators)

    @property
    def operators(self) -> tuple[GraphNode, ...]:
        """The nodes that call an operator, higher-order ones included."""
        return tuple(
            each
            for each in self.nodes
            if each.kind in {NodeKind.OPERATOR, NodeKind.HIGHER_ORDER}
        )

    @property
    def names(self) -> tuple[str, ...]:
        """``("aten::t", "aten::addmm")``: operators without overloads, in order."""
        return tuple(each.name for each in self.operators)

    @property
    def qualified_names(self) -> tuple[str, ...]:
        """As `names`, with the overload where it is not the default one."""
        return tuple(each.qualified_name for each in self.operators)

    @property
    def recomputed(self) -> tuple[GraphNode, ...]:
        """Forward nodes that the backward graph computes once more."""
        return tuple(each for each in self.nodes if each.recomputed)

    @property
    def saved_bytes(self) -> int | None:
        """Bytes kept for backward, inputs left out; None where a size is symbolic."""
        sizes = [each.bytes for each in self.saved_for_backward if each.input is None]
        known = [each for each in sizes if each is not None]
        return sum(known) if len(known) == len(sizes) else None

    def node(self, variable: str) -> GraphNode:
        """The node of that name in the code.

        Raises:
            KeyError: there is none.
        """
        for each in self.nodes:
            if each.variable == variable:
                return each
        raise KeyError(variable)

    def input(self, name: str) -> GraphInput:
        """The input of that name, or of that name in the code.

        Raises:
            KeyError: there is none.
        """
        for each in self.inputs:
            if name == each.variable or name in each.names:
                return each
        raise KeyError(name)

    def __repr__(self) -> str:
        """Short and code-like."""
        cut = "" if self.complete else ", complete=False"
        return (
            f"CapturedGraph({self.stage.value}, index={self.index}, "
            f"{len(self.operators)} ops{cut})"
        )

    def __reduce__(self) -> tuple[object, ...]:
        """Pickled and copied without the graph module."""
        values = {
            each.name: getattr(self, each.name)
            for each in fields(CapturedGraph)
            if each.name != "graph_module"
        }
        return (_rebuild, (values,))


def _rebuild(values: dict[str, Any]) -> CapturedGraph:
    return CapturedGraph(**values)


@frozen(kw_only=True)
class GraphFailure:
    """A capture that did not come to an end.

    Example:
        >>> import torch
        >>> from npu_dispatch_inspect import capture_graphs
        >>> with capture_graphs() as graphs:
        ...     captured = graphs.capture(lambda x: x[x > 0], torch.ones(2))
        >>> captured.failures[0].kind.value
        'data_dependent_shape'
    """

    index: int
    """The number its graphs would have had, see `CapturedGraph.index`."""
    kind: FailureKind
    message: str
    """One sentence: what failed and what can be done."""
    stage: GraphStage | None = None
    """The graph that was being made: joint while tracing, forward, backward or
    inference where a compiler failed."""
    phase: Phase | None = None
    """The part of the program that was being traced."""
    operator: str | None = None
    """The operator at which it failed, with its overload: ``"npu::npu_format_cast"``."""
    source: SourceLocation | None = None
    """The user's line at which it failed; for a backward operator that of the forward
    operator it is the derivative of."""
    exception: ExceptionRecord
    partial: CapturedGraph | None = None
    """What had been captured up to there."""


@frozen(kw_only=True)
class GraphBreak:
    """The end of one of Dynamo's graphs before the end of the function.

    Example:
        >>> import torch
        >>> from npu_dispatch_inspect import capture_graphs
        >>> def f(x):
        ...     y = x.sin()
        ...     torch._dynamo.graph_break()
        ...     return y.cos()
        >>> with capture_graphs() as graphs:
        ...     y = torch.compile(f, backend=graphs.backend)(torch.ones(2))
        >>> len(graphs.captured.breaks)
        1
    """

    index: int
    """The graph that ends here, see `CapturedGraph.index`."""
    reason: str
    """Dynamo's reason, its first line."""
    details: str = ""
    """All that Dynamo says."""
    source: SourceLocation | None = None
    """The user's line that cannot be in a graph."""


def tensor_bytes(value: Value) -> int | None:
    """Bytes of a tensor's elements; None where a size or the dtype is not known."""
    if not isinstance(value, TensorSpec) or value.shape is None:
        return None
    size = _ITEM_BYTES.get(value.dtype)
    if size is None:
        return None
    count = 1
    for each in value.shape:
        if not isinstance(each, int):
            return None
        count *= each
    return count * size


_ITEM_BYTES = {
    "float64": 8,
    "float32": 4,
    "float16": 2,
    "bfloat16": 2,
    "complex32": 4,
    "complex64": 8,
    "complex128": 16,
    "int64": 8,
    "int32": 4,
    "int16": 2,
    "int8": 1,
    "uint64": 8,
    "uint32": 4,
    "uint16": 2,
    "uint8": 1,
    "bool": 1,
    "float8_e4m3fn": 1,
    "float8_e4m3fnuz": 1,
    "float8_e5m2": 1,
    "float8_e5m2fnuz": 1,
    "float8_e8m0fnu": 1,
}
