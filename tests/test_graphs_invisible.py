# SPDX-License-Identifier: BSD-3-Clause
"""Capturing leaves everything as it is: models, random numbers, modes, caches."""

from __future__ import annotations

import random
import threading

import numpy as np
import pytest
import torch
from torch import nn

from npu_dispatch_inspect import capture_graphs, inspect_dispatch, trace_ops
from tests.graph_cases import CASES, Block, ConvNorm, module, sine, tensor


class Nosy(nn.Module):
    """Does to itself what people's modules do."""

    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(3)
        self.calls = 0
        self.seen = []
        self.by_name = {}
        self.last = None

    def forward(self, x):
        self.calls += 1
        self.seen.append(x)
        self.by_name["x"] = x
        self.last = x
        self.extra = torch.nn.functional.dropout(self.norm(x), 0.5)
        random.random()
        np.random.rand()  # noqa: NPY002 - the global generator is meant
        return self.extra * torch.rand(3)


def state_of(model):
    """Everything that can be seen of a model, and of the random numbers."""
    return {
        "attributes": [
            {name: id(value) for name, value in vars(each).items()}
            for each in model.modules()
        ],
        "containers": [
            (list(each.seen), dict(each.by_name))
            for each in model.modules()
            if isinstance(each, Nosy)
        ],
        "tensors": {
            name: (id(value), value._version, value.clone(), value.grad)
            for name, value in (*model.named_parameters(), *model.named_buffers())
        },
        "random": (
            torch.get_rng_state().tolist(),
            random.getstate(),
            np.random.get_state()[1].tolist(),  # noqa: NPY002
        ),
        "modes": (
            torch.is_grad_enabled(),
            torch.is_inference_mode_enabled(),
            torch.is_autocast_enabled("cpu"),
            torch.is_anomaly_enabled(),
            torch.compiler.is_compiling(),
        ),
    }


def assert_same(before, after):
    """Compare two states, tensors by value."""
    tensors = before.pop("tensors"), after.pop("tensors")
    assert before == after
    assert tensors[0].keys() == tensors[1].keys()
    for name, (address, version, value, grad) in tensors[0].items():
        other = tensors[1][name]
        assert (address, version, grad) == (other[0], other[1], other[3]), name
        assert torch.equal(value, other[2]), name


@pytest.mark.parametrize("options", [{}, {"partition": "min_cut"}, {"dynamic": True}])
def test_model_is_untouched(options):
    """Parameters, buffers, attributes, random numbers and modes stay as they are."""
    model = Nosy()
    before = state_of(model)
    with capture_graphs(**options) as graphs:
        captured = graphs.capture(model, tensor(2, 3))

    assert captured.failures == ()
    assert_same(before, state_of(model))


def test_model_is_untouched_by_a_failure():
    """The same where capturing fails in the middle."""

    class Failing(Nosy):
        def forward(self, x):
            return super().forward(x).sum().item()

    model = Failing()
    before = state_of(model)
    with capture_graphs() as graphs:
        assert graphs.capture(model, tensor(2, 3)).failures

    assert_same(before, state_of(model))


def test_hooks_and_classes_are_untouched():
    """No hook stays with a module, and the classes that trace are torch's own."""
    from torch.fx.experimental.proxy_tensor import PythonKeyTracer

    own = dict(vars(PythonKeyTracer))
    model = module(ConvNorm)
    hooks = [
        (
            len(each._forward_hooks),
            len(each._forward_pre_hooks),
            len(each._backward_hooks),
        )
        for each in model.modules()
    ]
    with capture_graphs() as graphs:
        graphs.capture(model, tensor(2, 2, 4, 4))
        graphs.capture(lambda x: x.sum().item(), torch.ones(3))

    assert dict(vars(PythonKeyTracer)) == own
    assert hooks == [
        (
            len(each._forward_hooks),
            len(each._forward_pre_hooks),
            len(each._backward_hooks),
        )
        for each in model.modules()
    ]


def test_dynamo_is_untouched():
    """What torch.compile had compiled runs on without being compiled again."""
    torch._dynamo.reset()
    graphs_seen = []

    def backend(graph, _):
        graphs_seen.append(graph)
        return graph.forward

    model = module(Block)
    compiled = torch.compile(model, backend=backend)
    x = tensor(2, 6)
    expected = compiled(x)
    with capture_graphs() as graphs:
        graphs.capture(model, x)
        graphs.compile(model)(x)
        assert torch.equal(compiled(x), expected)
    assert torch.equal(compiled(x), expected)
    assert len(graphs_seen) == 1
    torch._dynamo.reset()


@pytest.mark.parametrize("engine", ["dispatch_mode", "dispatcher"])
def test_tracers_see_nothing_of_it(engine):
    """A tracer around it records no operator: none runs."""
    model, x = module(Block), tensor(2, 6)
    with trace_ops(engine=engine) as trace, capture_graphs() as graphs:
        captured = graphs.capture(model, x)

    assert trace.names == ()
    assert len(captured) == 3


def test_tracers_see_what_compiled_functions_run():
    """A compiled function's operators run for real, and are recorded."""
    with capture_graphs() as graphs:
        compiled = graphs.compile(sine)
        a, b = torch.ones(3, requires_grad=True), torch.ones(3)
        compiled(a, b)
        with trace_ops() as trace:
            compiled(a, b)
        with inspect_dispatch() as report:
            compiled(a, b)

    assert trace.without("aten::detach").names == (
        "aten::sin",
        "aten::cos",
        "aten::mul",
    )
    assert "aten::sin" in report.trace.names


def test_modes_of_the_program_are_kept():
    """The grad and autocast modes at the call decide, and are there afterwards."""
    with capture_graphs() as graphs:
        with torch.no_grad():
            assert graphs.capture(module(Block), tensor(2, 6)).inference
            assert not torch.is_grad_enabled()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            graph = graphs.capture(module(Block), tensor(2, 6)).forward
            assert torch.is_autocast_enabled("cpu")

    assert graph.node("addmm").outputs[0].dtype == "bfloat16"


def test_threads():
    """Captures on several threads do not get in each other's way."""
    found, errors = {}, []

    def work(name):
        try:
            function, args, kwargs = CASES[name]()
            with capture_graphs() as graphs:
                for _ in range(2):
                    captured = graphs.capture(function, *args, **kwargs)
                    found.setdefault(name, []).append(captured.joint.nodes)
        except Exception as error:  # noqa: BLE001 - shown by the assertion
            errors.append(error)

    names = ["sine", "attention", "keywords"]
    threads = [threading.Thread(target=work, args=(name,)) for name in names]
    for each in threads:
        each.start()
    for each in threads:
        each.join()

    assert errors == []
    for name in names:
        function, args, kwargs = CASES[name]()
        with capture_graphs() as graphs:
            alone = graphs.capture(function, *args, **kwargs).joint
        # The lines outside the function are those of another caller.
        expected = [
            (each.variable, each.qualified_name, each.module) for each in alone.nodes
        ]
        for nodes in found[name]:
            assert [
                (each.variable, each.qualified_name, each.module) for each in nodes
            ] == expected
