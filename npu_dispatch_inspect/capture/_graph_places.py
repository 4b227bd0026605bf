# SPDX-License-Identifier: BSD-3-Clause
"""Where the nodes of a graph come from: the user's line and the module, by node."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from types import FrameType
from typing import Any

import torch
from attrs import frozen

from npu_dispatch_inspect._torch_private import aot, tracing
from npu_dispatch_inspect.capture import _scopes
from npu_dispatch_inspect.capture._frames import Sites, locate
from npu_dispatch_inspect.capture._scopes import OpenModule
from npu_dispatch_inspect.records import SourceLocation

__all__ = ["Place", "Watch", "dynamo_places"]


@frozen(kw_only=True)
class Place:
    """Where one node comes from."""

    source: SourceLocation | None = None
    outside: bool = False
    """No line of the traced function was found: `source` is where it was called."""
    module: str | None = None
    module_type: str | None = None


class Watch:
    """Notes where each node comes from while a function is traced.

    Args:
        frame: the frame that asked for the capture.
    """

    def __init__(self, frame: FrameType | None) -> None:
        self._sites = Sites()
        self._seen: dict[int, dict[str, tuple[int, str | None, str | None]]] = {}
        self._tracers: dict[int, Any] = {}
        self._open: list[OpenModule] = []
        self._known: dict[int, str] = {}
        self._outside = self._sites.walk(frame, None)

    def watching(self) -> AbstractContextManager[None]:
        """A block in which this thread's tracing is noted."""
        return tracing.watch_nodes(self._saw, self._calling)

    @contextmanager
    def _calling(self, module: torch.nn.Module) -> Iterator[None]:
        kind = type(module).__name__
        if self._open:
            path = _scopes._path(module, kind, self._open[-1].path, self._open)
        else:
            # A recomputation in backward calls a module by itself.
            path = self._known.get(id(module), "")
        self._known.setdefault(id(module), path)
        self._open.append(OpenModule(module, path, transparent=False))
        try:
            yield
        finally:
            self._open.pop()

    def _saw(self, tracer: Any, node: Any) -> None:
        seen = self._seen.get(id(tracer))
        if seen is None:
            # Kept alive, so that an identity stays one.
            self._tracers[id(tracer)] = tracer
            seen = self._seen[id(tracer)] = {}
        # This function and the one that replaces create_node are ours.
        site = self._sites.walk(sys._getframe(2), None)
        if self._open:
            inner = self._open[-1]
            seen[node.name] = (site, inner.path, type(inner.module).__name__)
        else:
            seen[node.name] = (site, None, None)

    @property
    def graph(self) -> Any:
        """The largest graph that was traced, None where there is none."""
        if not self._seen:
            return None
        largest = max(self._seen, key=lambda each: len(self._seen[each]))
        return self._tracers[largest].graph

    def places(self) -> dict[str, Place]:
        """The places of the nodes by name.

        Branches of higher-order operators are traced into graphs of their own, whose
        nodes may have the same names: the largest graph is the one that is meant.
        """
        if not self._seen:
            return {}
        largest = max(self._seen.values(), key=len)
        outside = self._source(self._outside)
        made: dict[tuple[int, str | None, str | None], Place] = {}
        found = {}
        for name, key in largest.items():
            place = made.get(key)
            if place is None:
                source = self._source(key[0])
                place = made[key] = Place(
                    source=source,
                    outside=source == outside,
                    module=key[1],
                    module_type=key[2],
                )
            found[name] = place
        return found

    def _source(self, site: int) -> SourceLocation | None:
        code, offset, _ = self._sites.found[site]
        return None if code is None else locate(code, offset)


_FRAME = re.compile(r'\s*File "(?P<file>.+)", line (?P<line>\d+), in (?P<function>.+)')
_PART = re.compile(
    r"\._modules\[['\"](?P<module>[^'\"]+)['\"]\]|\.(?P<name>\w+)|\[(?P<number>\d+)\]"
)


def dynamo_places(graph: Any) -> dict[str, Place]:
    """The same for a graph that Dynamo made, from what it noted on the nodes."""
    found = {}
    for node in graph.nodes:
        trace, stack = aot.dynamo_facts(node)
        source = None
        for line in (trace or "").splitlines():
            match = _FRAME.match(line)
            if match:
                source = SourceLocation(
                    file=match["file"],
                    line=int(match["line"]),
                    function=match["function"],
                )
        path = kind = None
        if stack:
            path = module_path(stack[-1][0])
            kind = getattr(stack[-1][1], "__name__", None) or str(
                stack[-1][1]
            ).rpartition(".")[2].rstrip("'>")
        found[node.name] = Place(source=source, module=path, module_type=kind)
    return found


def module_path(text: str) -> str:
    """``L['self']._modules['fc']`` or ``fc`` to ``fc``; the root is empty text."""
    if not text.startswith("L["):
        return text
    parts = [
        match["module"] or match["name"] or match["number"]
        for match in _PART.finditer(text.partition("]")[2])
    ]
    return ".".join(each for each in parts if each != "_modules")
