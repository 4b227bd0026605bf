# SPDX-License-Identifier: BSD-3-Clause
"""Dynamo's graphs: what their inputs are called, and why a graph ended early."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from npu_dispatch_inspect._torch_private import aot
from npu_dispatch_inspect.capture._graph_build import flat_outputs, placeholders
from npu_dispatch_inspect.capture._graph_places import module_path
from npu_dispatch_inspect.capture._graph_program import FlatInput, Results
from npu_dispatch_inspect.records import SourceLocation
from npu_dispatch_inspect.records.graphs import GraphBreak, InputKind

__all__ = ["Breaks", "flat_inputs", "plain", "results"]

_MEMBER = re.compile(
    r"(?P<owner>.*)\.(?P<which>_parameters|_buffers)\[['\"](?P<name>[^'\"]+)['\"]\]"
)
_LOCAL = re.compile(r"[LG]\['(?P<name>\w+)'\](?P<rest>.*)")


def flat_inputs(graph_module: Any) -> Callable[[], Sequence[FlatInput]]:
    """What the placeholders of one of Dynamo's graphs are."""
    made = [_flat_input(each) for each in placeholders(graph_module.graph)]
    return lambda: made


def _flat_input(node: Any) -> FlatInput:
    text = aot.placeholder_source(node)
    value = node.meta.get("example_value")
    needs_grad = bool(getattr(value, "requires_grad", False))
    if text is None:
        return FlatInput(kind=InputKind.OTHER, names=())
    kind, name = source_name(text)
    return FlatInput(
        kind=kind,
        names=(name,),
        requires_grad=needs_grad,
        is_parameter=kind is InputKind.PARAMETER,
    )


def source_name(text: str) -> tuple[InputKind, str]:
    """``L['self']._modules['fc']._parameters['weight']`` is the parameter fc.weight."""
    member = _MEMBER.fullmatch(text)
    if member is not None:
        kind = (
            InputKind.PARAMETER
            if member["which"] == "_parameters"
            else InputKind.BUFFER
        )
        local = _LOCAL.fullmatch(member["owner"])
        path = module_path(member["owner"])
        # The module itself is not part of a parameter's name; another variable is.
        if local is not None and local["name"] != "self":
            path = f"{local['name']}.{path}" if path else local["name"]
        return kind, f"{path}.{member['name']}" if path else member["name"]
    local = _LOCAL.fullmatch(text)
    if local is not None:
        return InputKind.ARGUMENT, f"{local['name']}{local['rest']}"
    return InputKind.ARGUMENT, text


def results(graph_module: Any) -> Callable[[], Results]:
    """What one of Dynamo's graphs returns has no names, only places."""
    outputs, _ = flat_outputs(graph_module.graph)
    values = [getattr(each, "meta", {}).get("example_value") for each in outputs]
    made = Results(
        names=[str(number) for number in range(len(outputs))],
        needs_grad=[bool(getattr(each, "requires_grad", False)) for each in values],
    )
    return lambda: made


class Breaks:
    """Finds out why graphs ended before their function did."""

    def __init__(self) -> None:
        self._counted = aot.break_counts()

    def ended(self, graph_module: Any, index: int) -> GraphBreak | None:
        """Why this graph did; None where it did not."""
        before, self._counted = self._counted, aot.break_counts()
        found = aot.break_reason(graph_module)
        if found is None:
            return None
        details, stack = found
        if details == "step_unsupported":
            risen = [
                words
                for words, count in self._counted.items()
                if count > before.get(words, 0)
            ]
            details = risen[-1] if risen else details
        source = None
        if stack:
            last = stack[-1]
            source = SourceLocation(
                file=last.filename, line=last.lineno or 0, function=last.name
            )
        lines = [line.strip() for line in details.splitlines() if line.strip()]
        return GraphBreak(
            index=index,
            reason=lines[0] if lines else "",
            details=details,
            source=source,
        )


def plain(graph_module: Any) -> Callable[..., Any]:
    """One of Dynamo's graphs as it is."""
    forward: Callable[..., Any] = graph_module.forward
    return forward
