# SPDX-License-Identifier: BSD-3-Clause
"""What people write, and what they mean."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional

from npu_dispatch_inspect import UnknownNameError, read_dispatch_table
from npu_dispatch_inspect.records.registrations import OperatorKind
from npu_dispatch_inspect.traces._operator_names import find_names

KNOWN = {
    "aten::relu": ("aten::relu", "aten::relu.out"),
    "aten::relu_": ("aten::relu_",),
    "aten::addmm": ("aten::addmm", "aten::addmm.out"),
    "npu::npu_linear": ("npu::npu_linear",),
}


@pytest.mark.parametrize("spelling", ["aten::relu", "aten.relu", "torch.ops.aten.relu"])
def test_a_name_without_overload_means_all(spelling):
    """Colons and dots both work."""
    found = find_names(spelling, KNOWN)
    assert (found.operator, found.overload) == ("aten::relu", None)
    assert found.names == KNOWN["aten::relu"]


@pytest.mark.parametrize(
    ("spelling", "name"),
    [
        ("aten::relu.default", "aten::relu"),
        ("aten.relu.default", "aten::relu"),
        ("aten.relu.out", "aten::relu.out"),
        ("torch.ops.aten.relu.out", "aten::relu.out"),
    ],
)
def test_a_name_with_overload_means_one(spelling, name):
    """``default`` is the overload that torch writes as nothing."""
    assert find_names(spelling, KNOWN).names == (name,)


@pytest.mark.parametrize(
    ("spelling", "hint"),
    [
        ("aten::reluu", "did you mean aten::relu or aten::relu_?"),
        ("npu::npu_linaer", "did you mean npu::npu_linear?"),
        ("mine::addmm", "did you mean aten::addmm?"),
        ("aten::qwertz", "write it as torch does, 'aten::relu'"),
        (
            "F.relu",
            "is aten::relu; explain() takes the function itself, its command a call such as 'F.relu(x)'.",
        ),
        ("torch.nn.functional.relu", "the operator of that name is aten::relu"),
        ("torch.relu", "the operator of that name is aten::relu"),
        ("relu", "is aten::relu; explain() takes the function itself."),
        ("F.interpolate", "it may call several operators; explain()"),
        ("", "There is no operator ''"),
        ("aten::relu.Tensor", "has no overload 'Tensor': choose one of default, out."),
        ("aten relu", "There is no operator 'aten relu'"),
    ],
)
def test_what_is_not_there_is_refused_with_a_hint(spelling, hint):
    """One sentence that says what to write instead."""
    with pytest.raises(UnknownNameError) as caught:
        find_names(spelling, KNOWN)
    assert hint in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "thing", [functional.relu, 3, None, torch.nn.ReLU(), b"aten::relu"]
)
def test_things_that_are_no_operators_are_refused(thing):
    """A Python function is pointed to `explain`."""
    with pytest.raises(
        UnknownNameError, match="is not an operator but a Python object"
    ):
        find_names(thing, KNOWN)


def test_torch_ops_objects_are_names():
    """Packets mean all overloads, overloads one, higher-order operators themselves."""
    table = read_dispatch_table("aten::add", "higher_order::cond")
    assert {"Tensor", "Scalar", "out"} <= set(table[torch.ops.aten.add].overloads)
    assert table[torch.ops.aten.add.Tensor].qualified_name == "aten::add.Tensor"
    assert torch.ops.aten.add.out in table
    assert torch.ops.aten.relu.default not in table
    cond = table[torch.ops.higher_order.cond].default
    assert cond.kind is OperatorKind.HIGHER_ORDER
    assert read_dispatch_table(torch.ops.aten.relu.default).names == ("aten::relu",)
