# SPDX-License-Identifier: BSD-3-Clause
"""Higher-order operators run as ever, and their branches are seen inside them."""

from __future__ import annotations

import pytest
import torch
from torch.utils.checkpoint import checkpoint

from npu_dispatch_inspect import trace_ops
from tests.versions import since_torch

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(autouse=True)
def fresh_compiler():
    """Control flow is compiled on the way; no test sees what another has compiled."""
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def conditional(x):
    return torch.cond(x.sum() > 0, lambda x: x.sin(), lambda x: x.cos(), (x,))


def loop(x):
    from torch._higher_order_ops import while_loop

    return while_loop(
        lambda i, _: i < 3, lambda i, x: (i + 1, x.sin()), (torch.tensor(0), x)
    )[1]


def scanned(x):
    from torch._higher_order_ops import scan

    return scan(lambda carry, each: (carry + each.sin(), carry * 2), x[0], x)[1]


def associative(x):
    from torch._higher_order_ops.associative_scan import associative_scan

    return associative_scan(lambda a, b: a * b, x, 0, combine_mode="generic")


def mapped(x):
    from torch._higher_order_ops.map import map as map_

    return map_(lambda each: each.sin(), x)


def attended(x):
    from torch.nn.attention.flex_attention import flex_attention

    query = x.expand(1, 1, 16, 16)
    return flex_attention(
        query, query, query, score_mod=lambda score, b, h, q, k: score + q - k
    )


PROGRAMS = {
    "cond": (conditional, "cond", "aten::sin"),
    "while_loop": (loop, "while_loop", "aten::sin"),
    "scan": (scanned, "scan", "aten::sin"),
    "map_impl": (mapped, "map_impl", "aten::sin"),
    "flex_attention": (attended, "flex_attention", "aten::sub*"),
}


@pytest.mark.parametrize("engine", ["dispatch_mode", "dispatcher"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_results_are_the_same(name, engine):
    """No operator raises under a tracer, and none computes anything else."""
    program = PROGRAMS[name][0]
    x = torch.rand(16, 16)
    expected = program(x)
    torch._dynamo.reset()
    with trace_ops(engine=engine) as trace:
        actual = program(x)
    assert torch.equal(actual, expected)
    assert not [record for record in trace if record.exception]


@since_torch("2.9", "a call under a mode makes compiled functions run eagerly for good")
@pytest.mark.parametrize("name", PROGRAMS)
def test_the_inside_stands_under_the_operator(name):
    """What a branch calls is a child of the higher-order operator's record."""
    program, operator, inner = PROGRAMS[name]
    with trace_ops() as trace:
        program(torch.rand(16, 16))
    (outer,) = trace.find(f"higher_order::{operator}")
    inside = [each for each in trace.find(inner) if each.parent == outer.index]
    assert inside
    assert {each.depth for each in inside} == {1}
    assert trace.find("aten::rand")[0].depth == 0
    assert trace.complete


def test_only_the_branch_that_runs_is_seen():
    """The other branch of cond is not executed for the record's sake."""
    with trace_ops() as trace:
        conditional(torch.ones(3))
        conditional(-torch.ones(3))
    first, second = trace.find("higher_order::cond")
    parents = {each.name: each.parent for each in trace if each.depth == 1}
    assert parents == {"aten::sin": first.index, "aten::cos": second.index}


@since_torch("2.9", "a call under a mode makes compiled functions run eagerly for good")
def test_functions_are_described_by_name():
    """The arguments of a higher-order operator are functions and tensors."""
    with trace_ops() as outer, trace_ops() as inner:
        conditional(torch.ones(3))
    for trace in (outer, inner):
        (record,) = trace.find("higher_order::cond")
        kinds = [getattr(each.value, "kind", None) for each in record.inputs]
        assert kinds == [None, "callable", "callable", None]
        assert {each.value.text for each in record.inputs[1:3]} == {"GraphModule"}
        assert [each.name for each in trace if each.depth == 1] == ["aten::sin"]


def test_an_exception_in_a_branch_ends_the_record():
    """The record of the operator has the exception, and nesting is back at the top."""
    from torch._higher_order_ops import while_loop
    from torch._higher_order_ops.while_loop import while_loop_op

    def body(i, x):
        msg = "no"
        raise ValueError(msg)

    assert while_loop is not None
    with trace_ops() as trace:
        with pytest.raises(ValueError, match="no"):
            while_loop_op(
                lambda i, _: i < 3, body, (torch.tensor(0), torch.ones(2)), ()
            )
        torch.ones(2).cos()
    (record,) = trace.find("higher_order::while_loop")
    assert record.exception.type == "ValueError"
    assert trace.find("aten::cos")[0].depth == 0


@since_torch("2.9", "a call under a mode makes compiled functions run eagerly for good")
def test_gradients_through_cond():
    """Backward through a branch works and is backward."""
    x = torch.ones(3, requires_grad=True)
    conditional(x).sum().backward()
    expected = x.grad.clone()
    torch._dynamo.reset()
    x.grad = None
    with trace_ops() as trace:
        conditional(x).sum().backward()
    assert torch.equal(x.grad, expected)
    assert "aten::mul" in trace.backward.names


@pytest.mark.parametrize("reentrant", [False, True])
def test_checkpoint_under_a_tracer(reentrant):
    """Both kinds run, compute the same, and mark what runs again."""

    def work(x):
        return checkpoint(lambda x: x.sin().cos(), x, use_reentrant=reentrant)

    x = torch.ones(3, requires_grad=True)
    work(x).sum().backward()
    expected, x.grad = x.grad, None
    with trace_ops() as trace:
        work(x).sum().backward()
    assert torch.equal(x.grad, expected)
    again = trace.filter(lambda each: each.recomputed)
    # The other kind stops when it has what it needs: cos is not run again.
    expected_again = {"aten::sin", "aten::cos"} if reentrant else {"aten::sin"}
    assert expected_again <= set(again.names)
    assert set(again.names) <= {*expected_again, "aten::detach"}
    assert not trace.find("aten::sin")[0].recomputed


def test_compiled_checkpoint_under_a_tracer():
    """The operator that stands for checkpointing in a compiled graph does not raise."""

    def work(x):
        return checkpoint(lambda x: x.sin().cos(), x, use_reentrant=False)

    x = torch.ones(3, requires_grad=True)
    compiled = torch.compile(work, backend="aot_eager")
    compiled(x).sum().backward()
    expected, x.grad = x.grad, None
    with trace_ops():
        compiled(x).sum().backward()
    assert torch.equal(x.grad, expected)


@since_torch("2.8", "there is no nested_compile_region")
def test_a_nested_compile_region_under_a_tracer():
    """invoke_subgraph insists on a graph module; it is let alone."""

    @torch.compiler.nested_compile_region
    def block(x):
        return x.sin()

    def work(x):
        return block(x) + block(x * 2)

    x = torch.ones(3)
    with trace_ops():
        actual = torch.compile(work, backend="eager", fullgraph=True)(x)
    assert torch.equal(actual, x.sin() + (x * 2).sin())


@since_torch("2.9", "it calls itself without end under any mode")
def test_associative_scan_under_a_tracer():
    """It is decomposed before it comes to a call; the program runs."""
    x = torch.rand(4, 2) + 1
    expected = x.cumprod(0)
    with trace_ops():
        actual = associative(x)
    assert torch.allclose(actual, expected)
