# SPDX-License-Identifier: BSD-3-Clause
"""Functions that run their graphs: real results, a capture per signature."""

from __future__ import annotations

import functools
import random
import types

import pytest
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812 - everybody calls it so
from torch.nn.attention import SDPBackend, sdpa_kernel

from npu_dispatch_inspect import capture_graphs
from npu_dispatch_inspect.capture._graph_compile import MAX_FAILED
from tests.graph_cases import (
    Block,
    ConvNorm,
    Recurrent,
    module,
    same,
    sine,
    tensor,
)


def stages(graphs):
    """What was captured, in order."""
    return [f"{each.stage.value} {each.index}" for each in graphs.captured]


def grads(*shape):
    """A tensor that needs a gradient."""
    return torch.ones(*shape, requires_grad=True)


def test_backward_appears_when_it_is_compiled():
    """The backward graph is there after the first backward pass."""
    with capture_graphs() as graphs:
        compiled = graphs.compile(sine)
        result = compiled(grads(3), grads(3))
        assert stages(graphs) == ["joint 0", "forward 0"]
        result.sum().backward()
        assert stages(graphs) == ["joint 0", "forward 0", "backward 0"]
        compiled(grads(3), grads(3)).sum().backward()
        assert len(graphs) == 3


def test_eager_backward():
    """eager_backward=True compiles both at once, and the backward graph once."""
    calls = []

    def compiler(graph, inputs):
        calls.append(len(inputs))
        return graph

    with capture_graphs(fw_compiler=compiler) as graphs:
        compiled = graphs.compile(sine, eager_backward=True)
        a = grads(3)
        result = compiled(a, grads(3))
        assert stages(graphs) == ["joint 0", "forward 0", "backward 0"]
        result.sum().backward()

    assert calls == [2, 5]
    assert same(a.grad, torch.cos(torch.ones(3)) * -torch.sin(torch.ones(3).sin()))


def test_a_compilers_function_runs():
    """What a compiler returns is what runs."""

    def compiler(graph, _):
        return lambda *args: [each * 10 for each in graph(*args)]

    with capture_graphs(fw_compiler=compiler) as graphs:
        compiled = graphs.compile(torch.sin)
        assert same(compiled(torch.ones(3)), torch.ones(3).sin() * 10)


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


def test_weights_are_read_at_every_call():
    """A new value of a weight needs no new graph, a frozen weight does."""
    model, x = nn.Linear(3, 3), torch.ones(1, 3)
    with capture_graphs() as graphs:
        compiled = graphs.compile(model)
        compiled(x)
        with torch.no_grad():
            model.weight.mul_(2)
        assert same(compiled(x), model(x))
        assert graphs.captured.indices == (0,)
        model.weight.requires_grad_(requires_grad=False)
        assert same(compiled(x), model(x))
        assert graphs.captured.indices == (0, 1)


def test_buffers_and_training_steps():
    """Three steps of training end where eager execution ends."""
    models = module(ConvNorm), module(ConvNorm)
    with capture_graphs() as graphs:
        run = models[0], graphs.compile(models[1])
        steps = [torch.optim.SGD(each.parameters(), lr=0.1) for each in models]
        for number in range(3):
            for call, step in zip(run, steps, strict=True):
                step.zero_grad()
                call(tensor(2, 2, 4, 4, seed=number)).square().mean().backward()
                step.step()

    assert graphs.captured.indices == (0,)
    for (name, a), b in zip(
        models[0].state_dict().items(), models[1].state_dict().values(), strict=True
    ):
        assert same(a, b), name


def test_dynamic_batch():
    """With dynamic=True one graph serves all sizes that it is right for."""
    model = module(Block)
    with capture_graphs(dynamic=True) as graphs:
        compiled = graphs.compile(model)
        for size in (4, 5, 9, 1, 2):
            x = tensor(size, 6)
            assert same(compiled(x), model(x))

    # One row is a special case for torch: broadcasting makes another graph of it.
    assert graphs.captured.indices == (0, 1)


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


def test_a_lazy_module_runs_once_as_it_is():
    """A module without sizes cannot be traced; after its first call it is captured."""
    model = nn.LazyLinear(3)
    with capture_graphs() as graphs:
        compiled = graphs.compile(model)
        first, second = compiled(torch.ones(2, 4)), compiled(torch.ones(2, 4))

    assert same(first, second)
    (failure,) = graphs.failures
    assert failure.message.startswith("weight has no sizes yet")
    assert graphs.forward.index == 1


@pytest.mark.parametrize("eager_backward", [False, True])
def test_compiler_of_backward_that_raises(eager_backward):
    """The backward graph runs as it is then, and a record says why."""

    def refuse(graph, inputs):
        msg = "not today"
        raise ValueError(msg)

    with capture_graphs(bw_compiler=refuse, fw_compiler=lambda g, _: g) as graphs:
        compiled = graphs.compile(torch.sin, eager_backward=eager_backward)
        x = grads(3)
        compiled(x).sum().backward()

    assert same(x.grad, torch.ones(3).cos())
    (failure,) = graphs.failures
    assert failure.message == (
        "The compiler of the backward graph raised ValueError: not today"
    )
    assert stages(graphs) == ["joint 0", "forward 0", "backward 0"]


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


def test_tracing_twice_is_no_second_call():
    """AOTAutograd traces a function twice, and both see what a first call would see."""

    class Stateful(nn.Module):
        def __init__(self):
            super().__init__()
            self.calls = 0
            self.seen = []

        def forward(self, x):
            self.calls += 1
            self.seen.append(x)
            return x * self.calls * random.random(), len(self.seen)

    random.seed(3)
    expected = Stateful()(torch.ones(1))
    random.seed(3)
    model = Stateful()
    with capture_graphs() as graphs:
        result = graphs.compile(model)(torch.ones(1))

    assert result == expected
    assert (model.calls, model.seen) == (0, [])
    (note,) = graphs.notes
    assert note == (
        "Attribute calls of Stateful changes when the program runs; graphs do not "
        "change it."
    )


def test_what_cannot_be_captured_is_not_tried_for_ever():
    """A function that fails with ever new signatures runs as it is in the end."""

    class Counting(nn.Module):
        def __init__(self):
            super().__init__()
            self.calls = 0

        def forward(self, x):
            self.calls += 1
            return x * self.calls if x.sum() > 0 else x

    with capture_graphs() as graphs:
        compiled = graphs.compile(Counting())
        results = [compiled(torch.ones(1)).item() for _ in range(MAX_FAILED + 4)]

    assert results == [float(number + 1) for number in range(MAX_FAILED + 4)]
    assert len(graphs.failures) == MAX_FAILED
    (note,) = graphs.notes
    assert note == (
        f"Counting could not be captured for {MAX_FAILED} signatures; what is new "
        f"after them runs as it is, without another attempt."
    )


def test_inside_of_transforms():
    """Inside vmap and grad, and while something else is captured, the function runs."""
    x = torch.ones(3, 2)
    with capture_graphs() as graphs:
        compiled = graphs.compile(torch.sin)
        assert same(torch.func.vmap(compiled)(x), x.sin())
        assert same(torch.func.grad(lambda x: compiled(x).sum())(x), x.cos())
        assert len(graphs) == 0
        outer = graphs.capture(lambda x: compiled(x) * 2, x)
        assert outer.inference.names == ("aten::sin", "aten::mul")
        assert same(compiled(x[0]), x[0].sin())

    assert graphs.failures == ()
    assert graphs.captured.indices == (0, 1)


def test_after_the_block():
    """After the block what was captured runs on, and new signatures run as they are."""
    with capture_graphs() as graphs:
        compiled = graphs.compile(torch.sin)
        compiled(torch.ones(3))
    assert same(compiled(torch.ones(3)), torch.ones(3).sin())
    assert same(compiled(torch.ones(4)), torch.ones(4).sin())
    assert len(graphs) == 1


def test_name():
    """A compiled function has the name of the function."""
    with capture_graphs() as graphs:
        assert graphs.compile(sine).__name__ == "sine"


def test_recurrent():
    """nn.LSTM keeps its weights in a list as well; they are inputs like others."""
    model, x = module(Recurrent), tensor(2, 3, 3)
    with capture_graphs() as graphs, torch.no_grad():
        graphs.capture(model, x)

    assert graphs.failures == ()
    names = [each.name for each in graphs.inference.inputs]
    assert names[:2] == ["rnn.weight_ih_l0", "rnn.weight_hh_l0"]


def test_dropout_of_recurrent_layers():
    """torch's graphs of nn.GRU have no dropout between layers, which is noted."""
    x = tensor(2, 3, 3)
    with capture_graphs() as graphs:
        graphs.capture(nn.GRU(3, 4, num_layers=2, dropout=0.5).eval(), x)
        graphs.capture(nn.GRU(3, 4, num_layers=2), x)
        assert graphs.notes == ()
        captured = graphs.capture(nn.GRU(3, 4, num_layers=2, dropout=0.5), x)

    assert not [name for name in captured.forward.names if "drop" in name]
    (note,) = captured.notes
    assert "dropout between the layers of nn.GRU" in note
