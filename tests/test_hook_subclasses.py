# SPDX-License-Identifier: BSD-3-Clause
"""Tensor subclasses that a program makes under engine "dispatcher"."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.testing._internal.two_tensor import TwoTensor
from torch.utils._python_dispatch import TorchDispatchMode

from npu_dispatch_inspect import trace_ops


class Plain(torch.Tensor):
    """A subclass that does not handle its operators."""


class Slotted(torch.Tensor):
    """One with a field of its own."""

    def __new__(cls, data, note=None):
        made = super().__new__(cls, data)
        made.note = note
        return made


X = torch.ones(2, 3)

MAKERS = {
    "parameter": lambda: nn.Parameter(X),
    "parameter of a view": lambda: nn.Parameter(X[0], requires_grad=False),
    "uninitialized": nn.UninitializedParameter,
    "buffer": lambda: nn.Buffer(X),
    "as_subclass": lambda: X.as_subclass(Plain),
    "from a list": lambda: Plain([1.0, 2.0]),
    "from a tensor": lambda: Plain(X),
    "of a size": lambda: Plain(2, 3),
    "own __new__": lambda: Slotted(X, note="kept"),
    "wrapper": lambda: TwoTensor(X, X.clone()),
    "module": lambda: nn.LSTM(2, 3).weight_ih_l0,
    "deepcopy": lambda: copy.deepcopy(nn.Linear(2, 2)).weight,
    "moved": lambda: nn.Linear(2, 2).to(torch.float64).weight,
    "result": lambda: X.as_subclass(Plain) + 1,
    "fake": lambda: FakeTensorMode().from_tensor(X),
}


@pytest.mark.parametrize("name", MAKERS)
def test_made_as_without_a_tracer(name):
    """Class, shape, dtype and autograd state are those the program gets by itself."""
    make = MAKERS[name]
    expected = make()

    with trace_ops(engine="dispatcher"):
        actual = make()

    assert type(actual) is type(expected)
    assert actual.requires_grad == expected.requires_grad
    assert actual.is_leaf == expected.is_leaf
    assert actual.dtype == expected.dtype
    assert vars(actual).keys() == vars(expected).keys()
    if name != "uninitialized":
        assert actual.shape == expected.shape


def test_the_detach_inside_a_parameter_is_recorded():
    """What C++ calls to make a parameter is in the trace, with its keys."""
    with trace_ops(engine="dispatcher") as trace:
        parameter = nn.Parameter(X)

    assert trace.names == ("aten::detach",)
    assert trace[0].keys[0] == "AutogradCPU"
    assert trace[0].parent is None
    assert trace[0].output_tensors[0].shape == tuple(parameter.shape)


def test_a_parameter_can_be_resized_and_shares_memory():
    """It is what torch's own maker made, not a copy dressed up."""
    data = torch.ones(4)
    with trace_ops(engine="dispatcher"):
        parameter = nn.Parameter(data, requires_grad=False)
    parameter.add_(1)
    assert data.tolist() == [2.0] * 4
    assert parameter.resize_(2, 2).shape == (2, 2)


def test_refusals_are_torchs_own():
    """What torch refuses to make it refuses in the same words."""

    def refused():
        with pytest.raises(Exception) as caught:  # noqa: PT011 - compared below
            torch.Tensor._make_subclass(int, X)
        return type(caught.value), str(caught.value)

    expected = refused()
    with trace_ops(engine="dispatcher"):
        assert refused() == expected


def test_torchs_functions_are_back_after_the_block():
    """No patch of torch.Tensor survives the last tracer."""
    before = dict(vars(torch.Tensor))
    with trace_ops(engine="dispatcher"):
        assert "_make_subclass" in vars(torch.Tensor)
    assert dict(vars(torch.Tensor)) == before


def test_under_a_mode_of_the_user():
    """Torch puts modes aside while it makes a subclass; the record shows the keys so."""

    class Mode(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            return func(*args, **(kwargs or {}))

    with Mode(), trace_ops(engine="dispatcher") as trace:
        nn.Parameter(X)
    assert "Python" not in trace[0].keys
