# SPDX-License-Identifier: BSD-3-Clause
"""Two sets of captured graphs: which graph is compared with which, and what failed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from attrs import frozen

from npu_dispatch_inspect.display.text import source_text
from npu_dispatch_inspect.records import TensorSpec
from npu_dispatch_inspect.records.comparisons import Difference, Place
from npu_dispatch_inspect.records.graphs import (
    CapturedGraph,
    GraphFailure,
    GraphStage,
)
from npu_dispatch_inspect.traces.graphs import GraphSet

__all__ = ["GraphPair", "device_of", "graph_pairs", "unpaired"]

_HALVES = (GraphStage.FORWARD, GraphStage.BACKWARD)


@frozen(kw_only=True)
class GraphPair:
    """Two graphs that stand for the same part of the same capture."""

    title: str
    """``"forward graph"``, ``"backward graph 1"``."""
    left: CapturedGraph
    right: CapturedGraph


@frozen(kw_only=True)
class _Capture:
    """What one side has of one capture."""

    graphs: dict[GraphStage, CapturedGraph]
    failures: tuple[GraphFailure, ...]


def graph_pairs(left: GraphSet, right: GraphSet) -> list[GraphPair]:
    """The graphs of the same stage of captures made at the same turn."""
    return [
        GraphPair(
            title=_title(stage, turn, left, right),
            left=one.graphs[stage],
            right=other.graphs[stage],
        )
        for turn, one, other in _captures(left, right)
        for stage in _stages(one, other)
        if stage in one.graphs and stage in other.graphs
    ]


def unpaired(left: GraphSet, right: GraphSet) -> Iterator[Difference]:
    """Failures and graphs that only one side has."""
    for turn, one, other in _captures(left, right):
        failed = [Counter(map(_failure, each.failures)) for each in (one, other)]
        yield from _only("left", "failure", (failed[0] - failed[1]).elements())
        yield from _only("right", "failure", (failed[1] - failed[0]).elements())
        for stage in _stages(one, other):
            # A failure has said already why there is none.
            place = Place(name=_title(stage, turn, left, right))
            if stage not in other.graphs and not other.failures:
                yield from _only("left", "graph", [place])
            if stage not in one.graphs and not one.failures:
                yield from _only("right", "graph", [place])


def device_of(side: object) -> str | None:
    """The device on which all inputs of captured graphs are; None where there are more."""
    graphs: list[CapturedGraph] = []
    if isinstance(side, CapturedGraph):
        graphs = [side]
    elif isinstance(side, GraphSet):
        partial = (each.partial for each in side.failures)
        graphs = [*side, *(each for each in partial if each is not None)]
    devices = {
        each.value.device
        for graph in graphs
        for each in graph.inputs
        if isinstance(each.value, TensorSpec)
    }
    return devices.pop() if len(devices) == 1 else None


def _captures(
    left: GraphSet, right: GraphSet
) -> Iterator[tuple[int, _Capture, _Capture]]:
    for turn in range(max(len(left.indices), len(right.indices))):
        yield turn, _capture(left, turn), _capture(right, turn)


def _capture(graphs: GraphSet, turn: int) -> _Capture:
    if turn >= len(graphs.indices):
        return _Capture(graphs={}, failures=())
    part = graphs.at(graphs.indices[turn])
    return _Capture(
        graphs={each.stage: each for each in part.graphs}, failures=part.failures
    )


def _stages(one: _Capture, other: _Capture) -> list[GraphStage]:
    there = [stage for stage in GraphStage if stage in {*one.graphs, *other.graphs}]
    halves = [
        stage for stage in _HALVES if stage in one.graphs and stage in other.graphs
    ]
    # The joint graph has the same operators as its two halves.
    return [stage for stage in there if not (halves and stage is GraphStage.JOINT)]


def _title(stage: GraphStage, turn: int, left: GraphSet, right: GraphSet) -> str:
    several = max(len(left.indices), len(right.indices)) > 1
    return f"{stage.value} graph {turn}" if several else f"{stage.value} graph"


def _failure(failure: GraphFailure) -> Place:
    return Place(
        name=failure.operator or failure.kind.value.replace("_", " "),
        phase=failure.phase and failure.phase.value,
        line=source_text(failure.source) or None,
    )


def _only(side: str, what: str, places: Iterable[Place]) -> Iterator[Difference]:
    for place in places:
        yield Difference(
            kind=f"only {side}",
            what=what,
            left=place if side == "left" else None,
            right=place if side == "right" else None,
        )
