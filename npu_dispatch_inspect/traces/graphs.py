# SPDX-License-Identifier: BSD-3-Clause
"""The graphs of a program: an ordered, immutable set with access by stage."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import overload

from npu_dispatch_inspect.errors import UsageError
from npu_dispatch_inspect.records import Environment
from npu_dispatch_inspect.records.graphs import (
    CapturedGraph,
    GraphBreak,
    GraphFailure,
    GraphStage,
)
from npu_dispatch_inspect.records.printed import Printed
from npu_dispatch_inspect.traces._deferred import Deferred

__all__ = ["GraphSet"]


class GraphSet(Printed, Deferred, Sequence[CapturedGraph]):
    """Captured graphs in the order in which they were made.

    The graphs of one function have the same `CapturedGraph.index`: joint, forward
    and backward, or inference alone. Equality, hash and pickle are by value, graph
    modules left out. Records are built when they are first looked at.

    Args:
        graphs: the graphs.
        failures: captures that did not come to an end.
        breaks: where Dynamo ended a graph before the end of a function.
        notes: what a reader must know, a sentence each.
        environment: where they were made.

    Example:
        >>> import torch
        >>> from npu_dispatch_inspect import capture_graphs
        >>> with capture_graphs() as graphs:
        ...     captured = graphs.capture(torch.nn.Linear(4, 2), torch.ones(1, 4))
        >>> [graph.stage.value for graph in captured]
        ['joint', 'forward', 'backward']
        >>> captured.backward.names
        ('aten::t', 'aten::mm', 'aten::t', 'aten::sum', 'aten::view', 'aten::t')
    """

    _fields = __slots__ = ("_graphs", "_failures", "_breaks", "_notes", "_environment")

    def __init__(
        self,
        *,
        graphs: Iterable[CapturedGraph] = (),
        failures: Iterable[GraphFailure] = (),
        breaks: Iterable[GraphBreak] = (),
        notes: Iterable[str] = (),
        environment: Environment,
    ) -> None:
        self._graphs = tuple(graphs)
        self._failures = tuple(failures)
        self._breaks = tuple(breaks)
        self._notes = tuple(notes)
        self._environment = environment
        self._source = None

    @property
    def graphs(self) -> tuple[CapturedGraph, ...]:
        """The graphs."""
        return self._now()._graphs

    @property
    def failures(self) -> tuple[GraphFailure, ...]:
        """Captures that did not come to an end: what failed, where, and why."""
        return self._now()._failures

    @property
    def breaks(self) -> tuple[GraphBreak, ...]:
        """Where Dynamo ended a graph before the end of a function."""
        return self._now()._breaks

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader must know, a sentence each."""
        return self._now()._notes

    @property
    def environment(self) -> Environment:
        """Where the graphs were made."""
        return self._now()._environment

    @property
    def complete(self) -> bool:
        """False where something could not be captured."""
        return not self.failures

    @property
    def joint(self) -> CapturedGraph:
        """The joint graph.

        Raises:
            UsageError: there is none, or there are several.
        """
        return self._only(GraphStage.JOINT)

    @property
    def forward(self) -> CapturedGraph:
        """The forward graph.

        Raises:
            UsageError: there is none, or there are several.
        """
        return self._only(GraphStage.FORWARD)

    @property
    def backward(self) -> CapturedGraph:
        """The backward graph.

        Raises:
            UsageError: there is none, or there are several.
        """
        return self._only(GraphStage.BACKWARD)

    @property
    def inference(self) -> CapturedGraph:
        """The inference graph.

        Raises:
            UsageError: there is none, or there are several.
        """
        return self._only(GraphStage.INFERENCE)

    def stage(self, stage: GraphStage | str) -> tuple[CapturedGraph, ...]:
        """All graphs of a stage: ``graphs.stage("backward")``.

        Raises:
            UsageError: there is no such stage.
        """
        try:
            wanted = GraphStage(stage)
        except ValueError:
            known = ", ".join(repr(each.value) for each in GraphStage)
            msg = f"A stage is one of {known}, not {stage!r}."
            raise UsageError(msg) from None
        return tuple(each for each in self.graphs if each.stage is wanted)

    @property
    def indices(self) -> tuple[int, ...]:
        """The numbers of the captures in this set, failed ones included."""
        return tuple(
            sorted(
                {each.index for each in self.graphs}
                | {each.index for each in self.failures}
                | {each.index for each in self.breaks}
            )
        )

    def at(self, index: int) -> GraphSet:
        """The graphs, failures and breaks of one capture: ``graphs.at(1).forward``.

        Raises:
            UsageError: there is no capture of that number.
        """
        if index not in self.indices:
            there = ", ".join(map(str, self.indices)) or "none"
            msg = f"There is no capture {index}: those of this set are {there}."
            raise UsageError(msg)
        return GraphSet(
            graphs=(each for each in self.graphs if each.index == index),
            failures=(each for each in self.failures if each.index == index),
            breaks=(each for each in self.breaks if each.index == index),
            notes=self.notes,
            environment=self.environment,
        )

    def _only(self, stage: GraphStage) -> CapturedGraph:
        found = self.stage(stage)
        if len(found) == 1:
            return found[0]
        if found:
            msg = (
                f"There are {len(found)} {stage.value} graphs: choose one with "
                f"graphs.at(index).{stage.value}."
            )
        elif self.failures:
            msg = f"There is no {stage.value} graph: {self.failures[0].message}"
        elif self.graphs:
            there = ", ".join(dict.fromkeys(each.stage.value for each in self.graphs))
            msg = f"There is no {stage.value} graph: only {there} was captured."
        else:
            msg = f"There is no {stage.value} graph: nothing was captured."
        raise UsageError(msg)

    @overload
    def __getitem__(self, key: int) -> CapturedGraph: ...

    @overload
    def __getitem__(self, key: slice) -> GraphSet: ...

    def __getitem__(self, key: int | slice) -> CapturedGraph | GraphSet:
        """The graph at a position, or a part of the set."""
        if isinstance(key, slice):
            return GraphSet(
                graphs=self.graphs[key],
                failures=self.failures,
                breaks=self.breaks,
                notes=self.notes,
                environment=self.environment,
            )
        return self.graphs[key]

    def __len__(self) -> int:
        """How many graphs."""
        return len(self.graphs)

    def __repr__(self) -> str:
        """Short and code-like."""
        stages = ", ".join(f"{each.stage.value} {each.index}" for each in self.graphs)
        failed = f", {len(self.failures)} failed" if self.failures else ""
        return f"GraphSet({stages or 'empty'}{failed})"
