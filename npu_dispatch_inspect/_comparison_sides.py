# SPDX-License-Identifier: BSD-3-Clause
"""What two sides have in common that can be put side by side."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from attrs import field, frozen

from npu_dispatch_inspect._call_patterns import NamedCall, call_name
from npu_dispatch_inspect.display.places import OPS, Words
from npu_dispatch_inspect.errors import UsageError
from npu_dispatch_inspect.traces.graphs import GraphSet
from npu_dispatch_inspect.traces.logs import LogTrace
from npu_dispatch_inspect.traces.ops import OpTrace
from npu_dispatch_inspect.traces.report import DispatchReport

__all__ = ["Side", "calls_of", "in_common"]

LAUNCHES = Words(noun="launch", plural="launches")
TASKS = Words(noun="task", plural="tasks")
ENTRIES = Words(noun="op-plugin call", plural="op-plugin calls")


@frozen(kw_only=True)
class Side:
    """The calls of one side."""

    calls: Sequence[Any]
    nodes: Mapping[int, Any] = field(factory=dict)
    """By index: what a report knows about a call besides its record."""

    @property
    def launched(self) -> bool:
        """Whether any call launched something."""
        return any(node.launches for node in self.nodes.values())


def in_common(left: Any, right: Any) -> tuple[Any, Any]:
    """Take from a report what the other side is as well."""
    for kind, part in ((OpTrace, "trace"), (LogTrace, "logs")):
        if isinstance(left, kind) and isinstance(right, DispatchReport):
            return left, _part(right, part)
        if isinstance(right, kind) and isinstance(left, DispatchReport):
            return _part(left, part), right
    return left, right


def _part(report: DispatchReport, part: str) -> object:
    found: object = getattr(report, part)
    if found is None:
        msg = "The report has no log lines to compare with: they were not captured."
        raise UsageError(msg)
    return found


def calls_of(left: Any, right: Any) -> tuple[Words, Side, Side]:
    if isinstance(left, LogTrace) and isinstance(right, LogTrace):
        # What both have, the nearest to the device first.
        for words, of in (
            (LAUNCHES, lambda trace: trace.launches),
            (TASKS, lambda trace: [each for each in trace.tasks if each.name]),
            (ENTRIES, lambda trace: trace.op_plugin_calls),
        ):
            one, other = of(left), of(right)
            if one and other:
                return words, Side(calls=one), Side(calls=other)
        return LAUNCHES, Side(calls=left.launches), Side(calls=right.launches)
    if isinstance(left, LogTrace) or isinstance(right, LogTrace):
        other = type(right if isinstance(left, LogTrace) else left).__name__
        msg = f"A log can be compared with a log or a report, not with {other}."
        raise UsageError(msg)
    return OPS, _side(left), _side(right)


def _side(value: Any) -> Side:
    if isinstance(value, DispatchReport):
        nodes = {node.op.index: node for node in value.nodes()}
        return Side(calls=[node.op for node in nodes.values()], nodes=nodes)
    if isinstance(value, GraphSet):
        return Side(calls=[each for graph in value for each in graph.records])
    found = getattr(value, "records", value)
    if isinstance(found, (str, bytes, Mapping)) or not isinstance(found, Iterable):
        msg = (
            "compare() takes traces, reports, logs, graphs, tables or lists of "
            f"operator names, not {type(value).__name__}."
        )
        raise UsageError(msg)
    return Side(calls=[_call(number, each) for number, each in enumerate(found)])


def _call(number: int, value: Any) -> Any:
    if hasattr(value, "name") and hasattr(value, "index"):
        return value
    known = call_name(value)
    if known is None:
        msg = f"{value!r} is no operator call and no operator's name."
        raise UsageError(msg)
    return NamedCall(index=number, name=known[0], overload=known[1] or "default")
