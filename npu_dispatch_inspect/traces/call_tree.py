# SPDX-License-Identifier: BSD-3-Clause
"""Operator calls nested as they were made."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from attrs import frozen

from npu_dispatch_inspect.records import OpRecord
from npu_dispatch_inspect.records.printed import Printed

__all__ = ["CallNode", "CallTree", "call_tree"]


@frozen(kw_only=True)
class CallNode(Printed):
    """One call and the calls made inside it, in order.

    Example:
        >>> import torch
        >>> from npu_dispatch_inspect import trace_ops
        >>> with trace_ops(engine="dispatcher") as trace:
        ...     y = torch.ones(2, 3).t()
        >>> (node,) = [each for each in trace.tree() if each.record.name == "aten::t"]
        >>> [each.name for each in node.walk()]
        ['aten::t', 'aten::transpose', 'aten::as_strided']
    """

    record: OpRecord
    children: tuple[CallNode, ...] = ()

    def walk(self) -> Iterator[OpRecord]:
        """This call and everything below it, in the order of the calls."""
        yield self.record
        for child in self.children:
            yield from child.walk()


class CallTree(Printed, tuple[CallNode, ...]):
    """The outermost calls of a trace: a tuple that prints itself.

    Example:
        >>> import torch
        >>> from npu_dispatch_inspect import trace_ops
        >>> with trace_ops() as trace:
        ...     y = torch.ones(2).exp()
        >>> [node.record.name for node in trace.tree()]
        ['aten::ones', 'aten::exp']
    """

    __slots__ = ()


def call_tree(records: Sequence[OpRecord]) -> CallTree:
    """Nest calls; one whose parent is not among them stands at the top."""
    present = {each.index for each in records}
    below: dict[int | None, list[OpRecord]] = {}
    for each in records:
        parent = each.parent if each.parent in present else None
        below.setdefault(parent, []).append(each)
    nodes: dict[int, CallNode] = {}
    # From the last to the first: children begin after their parent, so they
    # are made by the time it is reached, without recursion.
    for each in reversed(records):
        children = tuple(nodes[child.index] for child in below.get(each.index, ()))
        nodes[each.index] = CallNode(record=each, children=children)
    return CallTree(nodes[each.index] for each in below.get(None, ()))
