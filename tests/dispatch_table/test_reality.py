# SPDX-License-Identifier: BSD-3-Clause
"""Predicted ways against what the dispatcher really does."""

from __future__ import annotations

import pytest
import torch

from npu_dispatch_inspect import explain, read_dispatch_table, trace_ops
from npu_dispatch_inspect.dispatch_table._overloads import resolve_overload
from tests.dispatch_table.calls import calls

LABELS = tuple(calls("cpu"))
NOT_FOLLOWED = {("cpu", "aten::conv2d"), ("cpu", "aten::one_hot")}
"""Where the answer is "unknown", and rightly: see `MISLEADING`."""


class Node:
    """A recorded call with the calls made inside it."""

    def __init__(self, record):
        self.record = record
        self.inside = []


def record_tree(op, args, kwargs):
    """Run a call and return what the dispatcher got, as a tree."""
    with trace_ops(engine="dispatcher") as trace:
        op(*args, **kwargs)
    nodes = {record.index: Node(record) for record in trace}
    for node in nodes.values():
        if node.record.parent is not None:
            nodes[node.record.parent].inside.append(node)
    return nodes[0]


def way(call):
    """Name, keys that do not fall through, and first kernel of a predicted call."""
    winners = read_dispatch_table(explicit(call))
    entry = winners.entry(explicit(call))
    keys = tuple(
        key
        for key in call.keys
        if (kernel := entry.computed.get(key)) is None or not kernel.fallthrough
    )
    return call.qualified_name, keys, call.kernel


def explicit(call):
    """The name of exactly this overload."""
    return f"{call.name}.{call.overload}"


def compare(call, node, followed):
    """Hold a predicted call, and all that is predicted below it, against records."""
    record = node.record
    # An undefined tensor, which is None in Python, adds AutogradOther in C++.
    keys = tuple(key for key in record.keys if key != "AutogradOther")
    assert way(call) == (record.qualified_name, keys, record.kernel)
    followed.append(call.qualified_name)
    if call.calls is None or call.unknown:
        return
    names = [each.qualified_name for each in call.calls]
    real = [each.record.qualified_name for each in node.inside]
    if call.notes:  # the kernel goes on by itself after these
        real = real[: len(names)]
    assert names == real, f"inside {call.qualified_name}"
    for inner, below in zip(call.calls, node.inside, strict=False):
        compare(inner, below, followed)


@pytest.mark.parametrize("label", LABELS)
def test_way_and_inside_are_as_recorded(label, device):
    """Every key set, first kernel, site and inner call is the one that is recorded."""
    _, operator, args, kwargs, block = calls(device)[label]
    with block():
        explanation = explain(operator, *args, **kwargs)
        op = resolve_overload(operator, args, kwargs)
        tree = record_tree(op, args, kwargs)
    followed = []
    compare(explanation.calls[0], tree, followed)
    expected = (device.partition(":")[0], operator) not in NOT_FOLLOWED
    assert explanation.complete is expected
    assert len(followed) == len(list(explanation.walk()))


def test_a_whole_model_is_as_recorded(device):
    """All calls of an encoder layer, in training, with the module that makes them."""
    torch.manual_seed(0)
    layer = torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).to(device)
    words = torch.ones(2, 3, 8, device=device)
    explanation = explain(layer, words)
    assert explanation.complete
    with trace_ops(engine="dispatcher") as trace:
        layer(words)
    real = [(r.qualified_name, r.module) for r in trace if r.parent is None]
    assert [(c.qualified_name, c.module) for c in explanation.calls] == real
    assert {"self_attn", "linear1", "norm2"} <= {c.module for c in explanation.calls}
