# SPDX-License-Identifier: BSD-3-Clause
"""Traced graphs above decomposition, with the table of each operator."""

from __future__ import annotations

import warnings

import pytest
import torch
from torch.nn import functional

from npu_dispatch_inspect import KernelState, UsageError, trace_registrations

BOTH = pytest.mark.parametrize("route", ["jit.trace", "make_fx"])


def model(device):
    """A small model with everything that makes routes differ."""
    torch.manual_seed(0)
    return torch.nn.Sequential(
        torch.nn.Linear(4, 4),
        torch.nn.BatchNorm1d(3),
        torch.nn.TransformerEncoderLayer(4, 2, 8, batch_first=True),
    ).to(device)


def test_both_routes_give_the_same_answer(device):
    """Operators and modules, in order."""
    x = torch.ones(2, 3, 4, device=device)
    found = [
        trace_registrations(model(device), x, route=route)
        for route in ("jit.trace", "make_fx")
    ]
    assert [each.route for each in found] == ["jit.trace", "make_fx"]
    assert found[0].calls == found[1].calls
    assert found[0].by_module()["0"] == ("aten::linear",)
    assert "aten::scaled_dot_product_attention" in found[0].by_module()["2.self_attn"]


@BOTH
def test_composites_stay_whole(device, route):
    """`linear` is one call, with what the device has for it."""
    x = torch.ones(2, 3, device=device)
    (call,) = trace_registrations(functional.linear, x, x, route=route).calls
    assert (call.operator, call.module) == ("aten::linear", None)
    assert call.entry.state("NPU") is KernelState.COMPOSITE


@BOTH
def test_sizes_worked_out_are_no_operators(route):
    """jit.trace records `x.size(0) * 2` as operators on numbers; they are left out."""

    def reshape(x):
        return x.view(x.size(0) * x.size(1), -1).sum()

    assert trace_registrations(reshape, torch.ones(2, 3, 4), route=route).operators == (
        "aten::view",
        "aten::sum",
    )


@BOTH
def test_the_program_is_as_before(route):
    """Buffers and random state are put back, hooks taken off, warnings kept quiet."""
    made = model("cpu")
    before = {name: each.clone() for name, each in made.state_dict().items()}
    random = torch.get_rng_state()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        trace_registrations(made, torch.ones(2, 3, 4), route=route)
    assert all(
        torch.equal(made.state_dict()[name], each) for name, each in before.items()
    )
    assert torch.equal(random, torch.get_rng_state())
    assert torch.fx.traceback.current_meta == {}


def test_the_route_taken_is_said():
    """With the reason; a deprecated jit.trace is not the first choice."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        torch.jit.trace(torch.neg, (torch.ones(1),), check_trace=False)
    deprecated = any(each.category is DeprecationWarning for each in caught)
    found = trace_registrations(torch.sin, torch.ones(1))
    expected = ("make_fx", "torch.jit.trace is deprecated in this torch")
    other = ("jit.trace", "torch.jit.trace is there and not deprecated")
    assert (found.route, found.reason) == (expected if deprecated else other)


def test_where_one_route_fails_the_other_is_taken():
    """Control flow on values stops fake tensors, not a real run."""

    def branch(x):
        return x.sin() if x.sum() > 0 else x

    found = trace_registrations(branch, torch.ones(2))
    assert found.route == "jit.trace"
    assert "aten::sin" in found.operators
    assert found.reason in (
        "make_fx failed",
        "torch.jit.trace is there and not deprecated",
    )


def test_what_cannot_be_traced_is_refused():
    """One sentence with what each route said."""
    with pytest.raises(
        UsageError, match=r"cannot be traced \(\S+: .*; \S+: "
    ) as caught:
        trace_registrations(functional.linear, "x")
    assert "\n" not in str(caught.value)
    with pytest.raises(UsageError, match="takes a function or a module"):
        trace_registrations(3)
    with pytest.raises(
        UsageError, match=r"choose one of 'auto', 'jit\.trace', 'make_fx'"
    ):
        trace_registrations(functional.linear, route="export")


def test_a_function_without_operators_has_none():
    """Nothing is found and nothing is read."""
    assert trace_registrations(lambda x: x, torch.ones(1), route="make_fx").calls == ()
