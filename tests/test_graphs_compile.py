# SPDX-License-Identifier: BSD-3-Clause
"""Functions that run their graphs: real results, a capture per signature."""

from __future__ import annotations

import random
import threading

import pytest
import torch
from torch import nn

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


def told(graphs):
    """The notes, but for the one that torch before 2.9 leaves names to be inferred."""
    return [each for each in graphs.notes if not each.startswith("Names were inferred")]


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


def test_one_module_on_several_threads():
    """Compiled calls on other threads wait while the module has a trace's parameters."""
    model, errors = module(Block), []
    with capture_graphs() as graphs:
        compiled = graphs.compile(model)

        def work(size):
            try:
                for _ in range(3):
                    compiled(grads(size, 6)).sum().backward()
            except Exception as error:  # noqa: BLE001 - shown by the assertion
                errors.append(error)

        threads = [threading.Thread(target=work, args=(size,)) for size in (1, 2, 3)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()

    assert errors == []
    assert graphs.failures == ()
    assert len(graphs.captured.indices) == 3


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
    (note,) = told(graphs)
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
    """Graphs of nn.GRU have no dropout between layers, which is noted."""
    x = tensor(2, 3, 3)
    with capture_graphs() as graphs:
        graphs.capture(nn.GRU(3, 4, num_layers=2, dropout=0.5).eval(), x)
        graphs.capture(nn.GRU(3, 4, num_layers=2), x)
        assert told(graphs) == []
        captured = graphs.capture(nn.GRU(3, 4, num_layers=2, dropout=0.5), x)

    assert not [name for name in captured.forward.names if "drop" in name]
    (note,) = told(captured)
    assert "dropout between the layers of nn.GRU" in note
