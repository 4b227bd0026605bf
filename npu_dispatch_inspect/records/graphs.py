# SPDX-License-Identifier: BSD-3-Clause
"""Graphs that AOTAutograd makes, as records, and what kept one from being made.

All names of graphs can be imported from here.
"""

from __future__ import annotations

from typing import Any

from attrs import field, fields, frozen

from npu_dispatch_inspect.records.environment import Environment
from npu_dispatch_inspect.records.graph_kinds import (
    FailureKind,
    GraphStage,
    InputKind,
    NodeKind,
    OutputKind,
)
from npu_dispatch_inspect.records.graph_nodes import (
    GraphInput,
    GraphNode,
    GraphOutput,
    SavedTensor,
)
from npu_dispatch_inspect.records.ops import ExceptionRecord, OpRecord, Phase
from npu_dispatch_inspect.records.printed import Printed
from npu_dispatch_inspect.records.values import SourceLocation

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
