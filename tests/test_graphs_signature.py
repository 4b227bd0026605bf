# SPDX-License-Identifier: BSD-3-Clause
"""What makes a compiled function capture again: nothing runs on the wrong graph."""

from __future__ import annotations

import functools
import types

import pytest
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812 - everybody calls it so
from torch.nn.attention import SDPBackend, sdpa_kernel

from npu_dispatch_inspect import capture_graphs
from tests.graph_cases import ConvNorm, module, same, tensor


@pytest.mark.parametrize(
    "new",
    [
        pytest.param(torch.ones(5), id="size"),
        pytest.param(torch.ones(3, dtype=torch.float64), id="dtype"),
        pytest.param(torch.ones(3, requires_grad=True), id="gradient"),
        pytest.param(torch.ones(6)[::2], id="stride"),
        pytest.param(2.0, id="value"),
        pytest.param(nn.Parameter(torch.ones(3)), id="class"),
        pytest.param([torch.ones(3)], id="container"),
    ],
)
def test_another_argument(new):
    """Another size, dtype, stride, class or Python value is captured anew."""

    def program(x):
        x = x[0] if isinstance(x, list) else x
        return torch.ones(()) * x * 2

    with capture_graphs() as graphs:
        compiled = graphs.compile(program)
        compiled(torch.ones(3))
        assert graphs.captured.indices == (0,)
        result = compiled(new)
        compiled(torch.ones(3))

    assert graphs.captured.indices == (0, 1)
    assert same(result.detach(), program(new).detach())


def test_python_values_are_not_confused():
    """1, 1.0 and True are three signatures."""

    def scaled(x, by):
        return x * by

    x = torch.ones(2, dtype=torch.int64)
    with capture_graphs() as graphs:
        compiled = graphs.compile(scaled)
        results = [compiled(x, by) for by in (1, 1.0, True, 1)]

    assert [each.dtype for each in results] == [
        scaled(x, by).dtype for by in (1, 1.0, True, 1)
    ]
    assert len(graphs.captured.indices) == 3


def test_modes_and_training():
    """Grad mode, autocast, and the training flag of a module are looked at."""
    model, x = module(ConvNorm), tensor(2, 2, 4, 4)
    with capture_graphs() as graphs:
        compiled = graphs.compile(model)
        compiled(x)
        with torch.no_grad():
            assert not compiled(x).requires_grad
        with torch.autocast("cpu", dtype=torch.bfloat16):
            compiled(x)
        model.eval()
        assert same(compiled(x), model(x))
        model.train()
        compiled(x)

    assert graphs.captured.indices == (0, 1, 2, 3)


def test_attributes_closures_and_globals():
    """Plain values that the program looks at are part of the signature."""

    class Scaled(nn.Module):
        def __init__(self):
            super().__init__()
            self.by = 2.0

        def forward(self, x):
            return x * self.by

    model, x = Scaled(), torch.ones(2)
    factor = 3.0

    def from_closure(x):
        return x * factor

    with capture_graphs() as graphs:
        compiled, other = graphs.compile(model), graphs.compile(from_closure)
        assert same(compiled(x), x * 2)
        model.by = 5.0
        assert same(compiled(x), x * 5)
        assert same(other(x), x * 3)
        factor = 7.0
        assert same(other(x), x * 7)


def test_other_objects_are_told_apart():
    """An argument that is no plain value is another signature for each object."""

    class By:
        def __init__(self, by):
            self.by = by

    def scaled(x, how):
        return x * how.by

    x = torch.ones(2)
    with capture_graphs() as graphs:
        compiled = graphs.compile(scaled)
        # Each is gone before the next one is made, and may leave it its address.
        results = [compiled(x, By(by)).tolist() for by in (2, 3, 4)]

    assert results == [[2.0, 2.0], [3.0, 3.0], [4.0, 4.0]]


def test_same_storage():
    """Two inputs on one storage are not run on the graph of two separate ones."""

    def write(a, b):
        a.add_(1)
        return a + b

    with capture_graphs() as graphs:
        compiled = graphs.compile(write)
        a, b = torch.zeros(2), torch.zeros(2)
        assert compiled(a, b).tolist() == [1.0, 1.0]
        base = torch.zeros(2)
        assert compiled(base, base.view(2)).tolist() == [2.0, 2.0]
        assert base.tolist() == [1.0, 1.0]


def test_sharing_is_looked_at_and_not_the_address():
    """Other storages shared in the same way need no new graph, other sharing does."""

    def write(a, b):
        a.add_(1)
        return a + b

    with capture_graphs() as graphs:
        compiled = graphs.compile(write)
        for _ in range(3):
            base = torch.zeros(4)
            assert compiled(base[:2], base[2:]).tolist() == [1.0, 1.0]
            base = torch.zeros(4)
            assert compiled(base[:2], base[:2].view(2)).tolist() == [2.0, 2.0]
            base = torch.zeros(4)
            assert compiled(base[:2], base[1:3]).tolist() == [2.0, 1.0]
            a, b = torch.zeros(4), torch.zeros(4)
            assert compiled(a[:2], b[:2]).tolist() == [1.0, 1.0]
            assert compiled(a, b).tolist() == [2.0, 2.0, 1.0, 1.0]
            a = torch.zeros(4)
            assert compiled(a, a.data).tolist() == [2.0] * 4
        for row in torch.zeros(5, 2):
            compiled(row, torch.zeros(2))

    assert len(graphs.captured.indices) == 7


def test_switches_of_torch():
    """The default device and the choice of attention are part of the signature."""

    def made(x):
        return torch.ones(2) * 2, F.scaled_dot_product_attention(x, x, x)

    x = torch.ones(1, 2, 4, 8)
    with capture_graphs() as graphs:
        compiled = graphs.compile(made)
        assert compiled(x)[0].device.type == "cpu"
        with torch.device("meta"):
            assert compiled(x)[0].device.type == "meta"
        with sdpa_kernel(SDPBackend.MATH):
            compiled(x)

    one, _, other = graphs.captured
    assert "aten::bmm" not in one.names
    assert "aten::bmm" in other.names


@pytest.mark.parametrize(
    ("function", "value", "change"),
    [
        pytest.param(lambda x, s: x * len(s), {1}, lambda s: s.add(5), id="set"),
        pytest.param(
            lambda x, s: x * s["by"], {"by": 1}, lambda s: s.update(by=2), id="dict"
        ),
        pytest.param(
            lambda x, s: x * s[0][0], [[1]], lambda s: s[0].append(2), id="list"
        ),
    ],
)
def test_containers_that_change(function, value, change):
    """A container of plain values is compared by content, as argument and closure."""

    def around(x):
        return function(x, value)

    x = torch.ones(2)
    with capture_graphs() as graphs:
        given, found = graphs.compile(function), graphs.compile(around)
        given(x, value), found(x)
        change(value)
        assert same(given(x, value), function(x, value))
        assert same(found(x), function(x, value))

    assert graphs.captured.indices == (0, 1, 2, 3)


def test_numbers_are_compared_as_they_are_written():
    """NaN is the same signature again, and -0.0 is another than 0.0."""
    x = torch.ones(1)
    with capture_graphs() as graphs:
        compiled = graphs.compile(torch.mul)
        for _ in range(3):
            assert compiled(x, float("nan")).isnan().all()
        signs = [compiled(x, by).signbit().item() for by in (0.0, -0.0)]

    assert signs == [False, True]
    assert graphs.captured.indices == (0, 1, 2)


SCALE = 2.0
HOW = types.ModuleType("how")
HOW.scale = 2.0


def by_global(x):
    """Look at a global."""
    return x * SCALE


class ByGlobal(nn.Module):
    """The same in a module."""

    def forward(self, x):
        return x * SCALE


class ByList(nn.Module):
    """Look at plain values in a list."""

    def __init__(self):
        super().__init__()
        self.scales = [2.0]

    def forward(self, x):
        return x * self.scales[0]


@pytest.mark.parametrize(
    "function",
    [
        pytest.param(nn.Sequential(ByGlobal()), id="forward of a submodule"),
        pytest.param(nn.Sequential(ByGlobal()).forward, id="bound method"),
        pytest.param(lambda x: by_global(x), id="function that is called"),
        pytest.param(lambda x: next(by_global(y) for y in [x]), id="inner function"),
        pytest.param(functools.partial(by_global), id="partial"),
        pytest.param(lambda x: x * HOW.scale, id="global of a Python module"),
        pytest.param(nn.Sequential(ByList()), id="list"),
    ],
)
def test_values_that_are_found_further_away(function, monkeypatch):
    """Globals of every function that runs, and plain lists, are looked at."""
    with capture_graphs() as graphs:
        compiled = graphs.compile(function)
        assert compiled(torch.ones(1)).item() == 2.0
        assert compiled(torch.ones(1)).item() == 2.0
        assert graphs.captured.indices == (0,)
        monkeypatch.setitem(globals(), "SCALE", 5.0)
        monkeypatch.setattr(HOW, "scale", 5.0)
        if isinstance(function, nn.Module):
            for each in function.modules():
                each.scales = [5.0]
        assert compiled(torch.ones(1)).item() == 5.0


class Functions(nn.Module):
    """Has functions as attributes."""

    def __init__(self):
        super().__init__()
        self.one = torch.tanh
        self.many = [torch.tanh]
        self.named = {"f": torch.tanh}

    def forward(self, x):
        return self.named["f"](self.many[0](self.one(x)))


def test_functions_of_a_module():
    """Another function in an attribute, a list, a dictionary or as forward is seen."""
    model, x = Functions(), torch.ones(2)
    with capture_graphs() as graphs:
        compiled = graphs.compile(model)
        compiled(x)
        model.one = torch.exp
        assert same(compiled(x), model(x))
        model.many[0] = torch.exp
        assert same(compiled(x), model(x))
        model.named["f"] = torch.exp
        assert same(compiled(x), model(x))
        model.forward = torch.exp
        assert same(compiled(x), x.exp())
        model.forward = lambda x: x * 2
        assert same(compiled(x), x * 2)

    assert graphs.captured.indices == tuple(range(6))
