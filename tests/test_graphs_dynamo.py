# SPDX-License-Identifier: BSD-3-Clause
"""Graphs of torch.compile: breaks with their reasons, names, and a real model."""

from __future__ import annotations

import inspect

import pytest
import torch
from torch import nn

from npu_dispatch_inspect import capture_graphs
from npu_dispatch_inspect.records.graphs import FailureKind, InputKind
from tests.graph_cases import Block, module, same, tensor
from tests.versions import since_torch_npu


@pytest.fixture(autouse=True)
def fresh_dynamo():
    """Nothing compiled before or after."""
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


class Broken(nn.Module):
    """Two graphs with a break between them."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(4, 4)
        self.rest = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4))

    def forward(self, x, batch):
        y = self.first(x).sin()
        torch._dynamo.graph_break()
        return self.rest(y).cos() + batch["more"]


def test_graph_breaks():
    """Each graph has its number, and a break says why, after which one, and where."""
    model, x = Broken(), tensor(3, 4)
    with capture_graphs() as graphs:
        compiled = torch.compile(model, backend=graphs.backend)
        compiled(x, {"more": tensor(4)}).sum().backward()

    assert [f"{each.stage.value} {each.index}" for each in graphs] == [
        "joint 0",
        "forward 0",
        "joint 1",
        "forward 1",
        "backward 1",
        "backward 0",
    ]
    (found,) = graphs.breaks
    assert found.index == 0
    assert "graph_break" in found.reason
    lines, first = inspect.getsourcelines(Broken.forward)
    assert "graph_break" in lines[found.source.line - first]
    assert graphs.captured.at(0).breaks == (found,)
    assert graphs.failures == ()


def test_names():
    """Parameters, buffers and arguments have the names they have in the model."""
    model, x = Broken(), tensor(3, 4)
    with capture_graphs() as graphs:
        torch.compile(model, backend=graphs.backend)(x, {"more": tensor(4)})

    first, second = graphs.at(0).joint, graphs.at(1).joint
    assert [(each.kind, each.name) for each in first.inputs[:3]] == [
        (InputKind.PARAMETER, "first.weight"),
        (InputKind.PARAMETER, "first.bias"),
        (InputKind.ARGUMENT, "x"),
    ]
    assert second.input("rest.0.weight").kind is InputKind.PARAMETER
    assert second.input("rest.1.running_mean").kind is InputKind.BUFFER
    assert second.input("batch['more']").kind is InputKind.ARGUMENT
    written = [str(each).partition(":")[0] for each in second.outputs[:3]]
    assert sorted(written) == [
        "new value of rest.1.num_batches_tracked",
        "new value of rest.1.running_mean",
        "new value of rest.1.running_var",
    ]


def test_places():
    """Nodes know their module and line, backward nodes those of their forward node."""
    model = module(Block)
    with capture_graphs() as graphs:
        result = torch.compile(model, backend=graphs.backend)(tensor(2, 6))
        result.sum().backward()

    up, gelu = graphs.forward.node("addmm"), graphs.forward.node("gelu")
    assert (up.module, up.module_type) == ("up", "Linear")
    lines, first = inspect.getsourcelines(Block.forward)
    assert "F.gelu" in lines[gelu.source.line - first]
    backward = graphs.backward.node("gelu_backward")
    assert (backward.forward_node, backward.source) == ("gelu", gelu.source)


def test_results_and_options():
    """Results are those of eager execution, and options hold for every graph."""
    model, x = module(Block), tensor(2, 6)
    with capture_graphs(partition="min_cut", decompositions=["aten::gelu"]) as graphs:
        compiled = torch.compile(model, backend=graphs.backend, dynamic=True)
        result = compiled(x)
        result.sum().backward()

    torch.testing.assert_close(result, model(x))
    assert graphs.backward.partition == "min_cut"
    assert "aten::gelu" not in graphs.forward.names


def test_a_graph_that_cannot_be_captured_runs():
    """Where a compiler refuses, the program goes on with Dynamo's own graph."""

    def refuse(graph, inputs):
        msg = "not today"
        raise ValueError(msg)

    model, x = module(Block), tensor(2, 6)
    with capture_graphs(fw_compiler=refuse) as graphs:
        result = torch.compile(model, backend=graphs.backend)(x)

    assert same(result, model(x))
    (failure,) = graphs.failures
    assert failure.kind is FailureKind.COMPILER
    assert failure.message.endswith("ValueError: not today")


@pytest.mark.npu
@since_torch_npu("2.13", "renorm has a backward that can be traced")
def test_failure_of_a_backward_operator():
    """What Dynamo's graph fails at is told with what was traced before it."""

    def program(x):
        y = x.sin()
        return torch.renorm(y, 2, 0, 1.0)

    x = torch.ones(3, 4).npu().requires_grad_()
    with capture_graphs() as graphs:
        torch.compile(program, backend=graphs.backend)(x)

    (failure,) = graphs.failures
    assert failure.operator == "npu::npu_renorm_backward"
    assert failure.partial.names == ("aten::sin", "aten::renorm")
    lines, first = inspect.getsourcelines(program)
    assert "renorm" in lines[failure.source.line - first]


def test_after_the_block():
    """A graph that comes up after the block is not captured, and runs."""
    with capture_graphs() as graphs:
        compiled = torch.compile(torch.sin, backend=graphs.backend)
    assert same(compiled(torch.ones(2)), torch.ones(2).sin())
    assert len(graphs) == 0


@pytest.fixture(scope="module", name="gpt2")
def _gpt2():
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    config = transformers.GPT2Config(
        n_layer=1,
        n_head=2,
        n_embd=8,
        vocab_size=20,
        n_positions=8,
        bos_token_id=0,
        eos_token_id=0,
        loss_type="ForCausalLM",
    )
    config.use_cache = False
    return transformers.GPT2LMHeadModel(config).eval(), torch.randint(0, 20, (2, 6))


def test_language_model(gpt2):
    """A GPT-2 goes through all three routes, with tied weights named as such."""
    model, ids = gpt2
    expected = model(input_ids=ids, labels=ids)
    expected.loss.backward()
    gradient = model.transformer.wte.weight.grad.clone()
    routes = []
    with capture_graphs() as graphs:
        captured = graphs.capture(model, input_ids=ids, labels=ids)
        compiled = graphs.compile(model, eager_backward=True)
        through_dynamo = torch.compile(model, backend=graphs.backend)
        for run in (compiled, through_dynamo):
            model.zero_grad()
            result = run(input_ids=ids, labels=ids)
            result.loss.backward()
            routes.append(
                (type(result), result.loss, model.transformer.wte.weight.grad)
            )

    assert graphs.failures == ()
    for kind, loss, grad in routes:
        assert kind is type(expected)
        torch.testing.assert_close(loss, expected.loss)
        torch.testing.assert_close(grad, gradient)
    tied = captured.forward.input("lm_head.weight")
    assert tied.names == ("transformer.wte.weight", "lm_head.weight")
    assert captured.forward.outputs[0].name == "['loss']"
    attention = {each.module for each in captured.joint.nodes}
    assert "transformer.h.0.attn.c_attn" in attention
    last = graphs.captured.indices[-1]
    assert {"joint", "forward", "backward"} == {
        each.stage.value for each in graphs.at(last)
    }
