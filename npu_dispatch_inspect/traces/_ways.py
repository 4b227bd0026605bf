# SPDX-License-Identifier: BSD-3-Clause
"""Names in chains: which calls match one, and the way from one to another."""

from __future__ import annotations

import difflib
import fnmatch

from npu_dispatch_inspect._globs import is_operator
from npu_dispatch_inspect.records.chains import ChainNode

__all__ = ["launched", "matches", "near", "way"]


def matches(node: ChainNode, pattern: str) -> bool:
    """A glob over the operator, with or without its overload."""
    return is_operator(node.op.name, node.op.overload, pattern)


def launched(node: ChainNode) -> list[str]:
    """Names of what a call launched itself, aclnn and aclop."""
    return [
        *(launch.name for launch in node.launches),
        *(task.name or "" for task in node.aclops),
    ]


def near(name: str, seen: list[str]) -> str:
    """The end of a sentence about a name that is not there."""
    close = difflib.get_close_matches(name, seen, n=3, cutoff=0.7)
    return f"; near it: {', '.join(close)}" if close else ""


def way(start: ChainNode, to: str) -> tuple[str, ...] | None:
    """The first way from a call to something it reached, None where there is none."""
    # Depth first, so that the first way is the one the calls took first.
    pending: list[tuple[ChainNode, tuple[str, ...]]] = [(start, ())]
    while pending:
        node, above = pending.pop()
        here = (*above, node.op.name)
        if node is not start and matches(node, to):
            return here
        site = node.op.path[-1].site if node.op.path else ""
        kernel = (*here, site) if site else here
        if site and fnmatch.fnmatchcase(site, to):
            return kernel
        for launch in node.launches:
            if fnmatch.fnmatchcase(launch.name, to):
                task = launch.task
                slot = (
                    () if task is None or task.slot is None else (f"task {task.slot}",)
                )
                return (*kernel, launch.name, *slot)
        for task in node.aclops:
            if fnmatch.fnmatchcase(task.name or "", to):
                return (*kernel, task.name or "", f"task {task.slot}")
        pending.extend((child, here) for child in reversed(node.children))
    return None
