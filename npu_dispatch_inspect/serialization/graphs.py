# SPDX-License-Identifier: BSD-3-Clause
"""Captured graphs as files, without the graph modules themselves."""

from __future__ import annotations

from attrs import frozen

from npu_dispatch_inspect.records import Environment
from npu_dispatch_inspect.records.graphs import CapturedGraph, GraphBreak, GraphFailure
from npu_dispatch_inspect.serialization._kinds import Kind, NoEnd, Parts
from npu_dispatch_inspect.traces.graphs import GraphSet

__all__ = ["KIND", "GraphSetHead"]


@frozen(kw_only=True)
class GraphSetHead:
    """What a set of graphs has besides the graphs."""

    environment: Environment
    failures: tuple[GraphFailure, ...] = ()
    """Captures that did not come to an end."""
    breaks: tuple[GraphBreak, ...] = ()
    """Where Dynamo ended a graph before the end of a function."""
    notes: tuple[str, ...] = ()
    """What a reader must know, a sentence each."""


def _take_apart(graphs: GraphSet) -> Parts:
    now = graphs._now()
    head = GraphSetHead(
        environment=now.environment,
        failures=now.failures,
        breaks=now.breaks,
        notes=now.notes,
    )
    return Parts(head, now.graphs, NoEnd())


def _build(
    head: GraphSetHead, graphs: list[CapturedGraph], _: NoEnd | None
) -> GraphSet:
    return GraphSet(
        graphs=graphs,
        failures=head.failures,
        breaks=head.breaks,
        notes=head.notes,
        environment=head.environment,
    )


KIND = Kind(
    name="graph_set",
    noun="set of graphs",
    holds=GraphSet,
    head=GraphSetHead,
    records=(CapturedGraph,),
    take_apart=_take_apart,
    build=_build,
)
