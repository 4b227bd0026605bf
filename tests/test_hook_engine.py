# SPDX-License-Identifier: BSD-3-Clause
"""Late reading of recorded key sets."""

from __future__ import annotations

import torch

from npu_dispatch_inspect import trace_ops
from npu_dispatch_inspect.capture._hook_engine import read_keys


def raw(*names):
    """A raw key set of the keys named."""
    keys = torch._C.DispatchKeySet(torch._C.DispatchKey.CPU)
    for name in names:
        keys = keys.add(torch._C._dispatch_key_parse(name))
    return keys.raw_repr()


def test_keys_are_named_highest_first():
    """Our own key is left out, the rest is in the dispatcher's order."""
    keys, _ = read_keys(
        torch.ops.aten.sin.default,
        raw("AutogradCPU", "TESTING_ONLY_GenericMode", "AutocastCPU"),
    )
    assert keys == ("AutocastCPU", "AutogradCPU", "CPU")


def test_kernel_is_the_winner_for_the_first_key():
    """Kind and site are those of the computed table."""
    _, composite = read_keys(torch.ops.aten.linear.default, raw("AutogradCPU"))
    _, backend = read_keys(torch.ops.aten.addmm.default, raw())
    assert (composite.key, composite.kind) == ("AutogradCPU", "math kernel")
    assert composite.site.startswith("RegisterCompositeImplicitAutograd")
    assert (backend.key, backend.kind) == ("CPU", "kernel")


def test_no_kernel_in_the_tables():
    """A higher-order operator, or a key without a kernel, gives None."""
    cond = torch.ops.higher_order.cond
    assert read_keys(cond, raw("AutogradCPU"))[1] is None
    assert read_keys(torch.ops.aten.sin.default, 0) == ((), None)


def test_every_key_of_a_trace_has_a_kernel():
    """In a program every recorded call reached a kernel that the tables know."""
    with trace_ops(engine="dispatcher") as trace:
        layer = torch.nn.TransformerEncoderLayer(8, 2, 16)
        layer(torch.ones(2, 3, 8)).sum().backward()
    assert all(record.kernel is not None for record in trace)
    assert {record.kernel.key for record in trace} >= {"AutogradCPU", "CPU"}
