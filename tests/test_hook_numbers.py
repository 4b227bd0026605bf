# SPDX-License-Identifier: BSD-3-Clause
"""Numbers that stand for tensors, under engine "dispatcher"."""

from __future__ import annotations

import threading

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils._python_dispatch import TorchDispatchMode

from npu_dispatch_inspect import trace_ops
from npu_dispatch_inspect.capture import _hook_threads
from tests.test_exactness import bits

X = torch.tensor([1.5, -2.0, 0.0])
HALF = X.half()
WHOLE = torch.tensor([1, 2, 3], dtype=torch.uint8)

EXPRESSIONS = {
    "int": lambda: X + 1,
    "float on half": lambda: HALF * 2.5,
    "float on uint8": lambda: WHOLE + 1.5,
    "int on uint8": lambda: WHOLE + 300,
    "bool": lambda: WHOLE + True,
    "complex": lambda: X * 2j,
    "number first": lambda: 1 - X,
    "zero": lambda: X / 0.0,
    "minus zero": lambda: X / -0.0,
    "not a number": lambda: X + float("nan"),
    "beyond int64": lambda: X.double() + (2**63 + 5),
    "where": lambda: torch.where(X > 0, X, 1),
    "two numbers": lambda: torch.where(X > 0, 1.0, 1.0),
    "keyword": lambda: torch.ops.aten.add.Tensor(X, other=2, alpha=3),
    "in place": lambda: X.clone().add_(1).mul_(2.5),
    "out": lambda: torch.add(X, 1, out=torch.empty(3)),
    "0-dim": lambda: torch.tensor(2.0).half() * 1.5,
    "comparison": lambda: (X > 1) | (X == 0),
    "remainder": lambda: X.remainder(0.7),
}


@pytest.mark.parametrize("name", EXPRESSIONS)
def test_promotion_is_that_of_the_number(name):
    """Dtype and bits of the result are those without a tracer, also the second time."""
    expression = EXPRESSIONS[name]
    expected = bits(expression())

    with trace_ops(engine="dispatcher"):
        actual = [bits(expression()) for _ in range(2)]

    assert actual == [expected, expected]


@pytest.mark.parametrize(
    "block",
    [
        torch.no_grad,
        torch.inference_mode,
        lambda: torch.autocast("cpu"),
        torch.autograd.graph.save_on_cpu,
        lambda: torch.autograd.set_detect_anomaly(True),
        FakeTensorMode,
    ],
    ids=["no_grad", "inference", "autocast", "hooks", "anomaly", "fake"],
)
def test_numbers_in_every_state_of_torch(block):
    """A number met for the first time under a mode gives the dtype it always gives."""

    def expression():
        x = torch.ones(3, dtype=torch.float16, requires_grad=True)
        return x * 1.25 + 7

    with block():
        expected = expression()
    with trace_ops(engine="dispatcher"), block():
        actual = expression()

    assert actual.dtype == expected.dtype
    assert actual.is_inference() == expected.is_inference()
    assert actual.requires_grad == expected.requires_grad


def test_the_record_has_the_number():
    """What the program wrote is what the record shows."""
    with trace_ops(engine="dispatcher") as trace:
        torch.ones(2) + 1.5

    (add,) = [record for record in trace if record.name == "aten::add"]
    assert add.argument("other") == 1.5


def test_numbers_in_lists_of_tensors():
    """A wrapped number that a program got hold of may also stand in a list."""
    product = torch.ones((), requires_grad=True) * 3
    number = product.grad_fn._saved_other  # autograd keeps the wrapped number itself
    expected = torch.stack([number, number])

    with trace_ops(engine="dispatcher"):
        actual = torch.stack([number, number])

    assert torch.equal(actual, expected)
    assert actual.dtype == expected.dtype


def test_a_number_handed_back_is_the_tensor_it_was():
    """An operator with nothing to do returns the wrapped number, not a Python number."""
    product = torch.ones((), requires_grad=True, dtype=torch.float64) * 3.5
    number = product.grad_fn._saved_other
    floats = torch.ones(2)
    expected = floats * number.to(torch.float64)

    with trace_ops(engine="dispatcher") as trace:
        same = number.to(torch.float64)
        product = floats * same

    assert same is number
    assert bits(product) == bits(expected)  # a tensor would have made it float64
    assert trace.find("aten::to")[0].argument("self") == 3.5


def test_kernels_written_in_python_are_still_given_numbers():
    """A Python kernel of the user's sees a number where it saw one without a tracer."""
    given = []

    def fmod(x, other):
        given.append(other)
        return x.clone()

    with torch.library._scoped_library("aten", "IMPL") as library:
        library.impl("fmod.Tensor", fmod, "CPU")
        torch.fmod(X, 2)
        with trace_ops(engine="dispatcher"):
            torch.fmod(X, 2)
            torch.fmod(X, 2)

    assert given == [2, 2, 2]
    assert {type(each) for each in given} == {int}


def test_symbolic_numbers():
    """A symbolic size used as a number stays a symbol in the graph."""

    def scaled(x):
        return x * x.shape[0] + x.shape[0] / 2

    arguments = (torch.ones(4),)
    expected = make_fx(scaled, tracing_mode="symbolic")(*arguments)

    with trace_ops(engine="dispatcher"):
        actual = make_fx(scaled, tracing_mode="symbolic")(*arguments)

    assert actual.code == expected.code


def test_numbers_inside_transforms():
    """A number that a function transform has wrapped is passed on as it is."""

    def function(x):
        return (2 * x.sin() * 0.5 + 1).sum()

    transformed = torch.func.hessian(function)
    expected = transformed(X)

    with trace_ops(engine="dispatcher"):
        actual = transformed(X)

    assert torch.equal(actual, expected)


def test_nothing_of_it_stays():
    """After the block tensors answer as they did."""
    with trace_ops(engine="dispatcher"):
        X + 1

    assert not hasattr(torch.Tensor, "_wrapped_number")
    assert not hasattr(X, "_wrapped_number")


def test_a_thread_that_is_not_traced_under_a_mode():
    """Notes of numbers that nobody picks up do not pile up."""

    class Plain(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            return func(*args, **(kwargs or {}))

    kept = []

    def work():
        with Plain():
            for _ in range(1000):
                X + 1
        kept.append(len(_hook_threads.thread.seen.numbers))

    with trace_ops(engine="dispatcher"):
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()

    assert kept[0] <= 64
