# SPDX-License-Identifier: BSD-3-Clause
"""Late reading of recorded key sets."""

from __future__ import annotations

import torch

from npu_dispatch_inspect import trace_ops
from npu_dispatch_inspect._torch_private import redispatch
from npu_dispatch_inspect.capture._hook_engine import read_keys


def raw(*names):
    """A raw key set of the keys named."""
    keys = torch._C.DispatchKeySet(torch._C.DispatchKey.CPU)
    for name in names:
        keys = keys.add(torch._C._dispatch_key_parse(name))
    return redispatch.raw_keys(keys)


def test_keys_are_named_highest_first():
    """Our own key is left out, the rest is in the dispatcher's order."""
    keys, _ = read_keys(
        torch.ops.aten.sin.default,
        raw("AutogradCPU", "TESTING_ONLY_GenericMode", "AutocastCPU"),
    )
    assert keys == ("AutocastCPU", "AutogradCPU", "CPU")


def test_kernels_are_the_winners_on_the_way():
    """Each kernel that passes the call on, and the one at which it ends."""
    _, composite = read_keys(torch.ops.aten.linear.default, raw("AutogradCPU"))
    _, both = read_keys(torch.ops.aten.addmm.default, raw("AutogradCPU"))
    assert [(each.key, each.kind) for each in composite] == [
        ("AutogradCPU", "math kernel")
    ]
    assert composite[0].site.startswith("RegisterCompositeImplicitAutograd")
    assert [(each.key, each.kind) for each in both] == [
        ("AutogradCPU", "autograd kernel"),
        ("CPU", "kernel"),
    ]


def test_no_kernel_in_the_tables():
    """A higher-order operator and a call without a key have none."""
    cond = torch.ops.higher_order.cond
    nothing = redispatch.raw_keys(
        torch._C.DispatchKeySet(torch._C.DispatchKey.Undefined)
    )
    assert read_keys(cond, raw("AutogradCPU"))[1] == ()
    assert read_keys(torch.ops.aten.sin.default, nothing) == ((), ())


def test_every_key_of_a_trace_has_a_kernel():
    """In a program every recorded call reached a kernel that the tables know."""
    with trace_ops(engine="dispatcher") as trace:
        layer = torch.nn.TransformerEncoderLayer(8, 2, 16)
        layer(torch.ones(2, 3, 8)).sum().backward()
    assert all(record.kernel is not None for record in trace)
    assert {record.kernel.key for record in trace} >= {"AutogradCPU", "CPU"}
