# SPDX-License-Identifier: BSD-3-Clause
"""What cannot be captured becomes a record: what, where, why, and what came before."""

from __future__ import annotations

import inspect
import warnings

import pytest
import torch
from torch import nn

from npu_dispatch_inspect import (
    Phase,
    SourceLocation,
    UsageError,
    assert_ops,
    capture_graphs,
)
from npu_dispatch_inspect.records.graphs import FailureKind, GraphStage
from tests.graph_cases import sine
from tests.versions import since_torch_npu


def grads(*shape):
    """A tensor that needs a gradient."""
    return torch.ones(*shape, requires_grad=True)


def line_of(function, text):
    """The location of the line of a function that has a text in it."""
    lines, first = inspect.getsourcelines(function)
    (number,) = (at for at, line in enumerate(lines) if text in line)
    return SourceLocation(
        file=inspect.getsourcefile(function),
        line=first + number,
        function=function.__qualname__
        if hasattr(function.__code__, "co_qualname")
        else function.__name__,
    )


def value(x):
    y = x.sin()
    if y.sum() > 0:
        return y
    return -y


def item(x):
    return x.exp() * x.cos().sum().item()


def picked(x):
    y = x * 2
    return y[y > 1]


CONSTANT = torch.ones(3)


def from_globals(x):
    return x.cos() * CONSTANT


class Masked(nn.Module):
    """A tensor that is neither parameter nor buffer."""

    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(2, 2)
        self.inner.mask = torch.ones(2)

    def forward(self, x):
        return self.inner(x) * self.inner.mask


@pytest.mark.parametrize(
    ("function", "text", "kind", "operator", "before"),
    [
        (
            value,
            "y.sum() > 0",
            "value",
            "aten::_local_scalar_dense",
            ["sin", "sum", "gt"],
        ),
        (item, ".item()", "value", "aten::_local_scalar_dense", ["exp", "cos", "sum"]),
        (picked, "y > 1", "shape", "aten::nonzero", ["mul", "gt"]),
    ],
)
def test_data_dependent(function, text, kind, operator, before):
    """What depends on values is found at its operator and line."""
    with capture_graphs() as graphs:
        captured = graphs.capture(function, grads(3))

    (failure,) = captured.failures
    assert failure.kind is FailureKind(f"data_dependent_{kind}")
    assert failure.operator == operator
    assert failure.source == line_of(function, text)
    assert failure.phase is Phase.FORWARD
    assert not failure.partial.complete
    found = [each.name.removeprefix("aten::") for each in failure.partial.operators]
    assert [each for each in found if each != "detach"] == before
    assert "torch.where" in failure.message
    assert failure.exception.type.endswith("Exception")


def test_asking_for_a_graph_says_why_there_is_none():
    """The set of graphs of a failed capture gives the reason."""
    with capture_graphs() as graphs:
        captured = graphs.capture(item, grads(3))

    assert not captured.complete
    with pytest.raises(UsageError, match="no forward graph: The program asks for"):
        captured.forward  # noqa: B018 - asking is the point


def test_closed_over_tensor():
    """A tensor from outside is named, wherever it comes from."""
    weight = torch.ones(3)

    def from_closure(x):
        return x.cos() * weight

    with capture_graphs() as graphs:
        for function, x in (
            (from_closure, grads(3)),
            (from_globals, grads(3)),
            (Masked(), grads(1, 2)),
        ):
            graphs.capture(function, x)

    assert [each.kind for each in graphs.failures] == [
        FailureKind.CLOSED_OVER_TENSOR
    ] * 3
    for failure, name in zip(
        graphs.failures, ("(weight)", "(CONSTANT)", "(inner.mask)"), strict=True
    ):
        assert name in failure.message
    assert_ops(graphs.failures[0].partial, ["aten::cos"])
    assert graphs.failures[0].source == line_of(from_closure, "weight")


def test_error_of_the_program():
    """What the program itself raises is told with its line."""

    def wrong(x):
        y = x.cos()
        return y @ y[None]

    with capture_graphs() as graphs:
        (failure,) = graphs.capture(wrong, grads(3)).failures

    assert failure.kind is FailureKind.OTHER
    assert failure.source == line_of(wrong, "y @ y")
    assert failure.exception.type == "RuntimeError"
    assert "aten::cos" in failure.partial.names


def no_meta_library():
    """An operator whose backward has no meta kernel."""
    library = torch.library.Library("inspect_graphs", "FRAGMENT")
    library.define("double(Tensor x) -> Tensor")
    library.define("double_backward(Tensor g) -> Tensor")
    library.impl("double", lambda x: x * 2, "Meta")
    library.impl("double", lambda x: x * 2, "CPU")
    library.impl("double_backward", lambda g: g * 2, "CPU")

    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            with torch._C._AutoDispatchBelowAutograd():
                return torch.ops.inspect_graphs.double(x)

        @staticmethod
        def backward(ctx, g):
            return torch.ops.inspect_graphs.double_backward(g)

    library.impl("double", Double.apply, "Autograd")
    return library


def test_backward_without_meta_kernel():
    """A backward operator that fails is told at the line of its forward operator."""
    library = no_meta_library()

    def program(x):
        y = x.sin()
        z = torch.ops.inspect_graphs.double(y)
        return z.sum()

    try:
        with capture_graphs() as graphs:
            (failure,) = graphs.capture(program, grads(3)).failures
    finally:
        library._destroy()

    assert failure.kind is FailureKind.NO_META_KERNEL
    assert failure.operator == "inspect_graphs::double_backward"
    assert failure.phase is Phase.BACKWARD
    assert "torch.library.register_fake" in failure.message
    assert failure.partial.names[:3] == (
        "aten::sin",
        "inspect_graphs::double",
        "aten::sum",
    )


def test_compiler_that_raises():
    """A compiler's exception is told; the graphs up to it are there."""

    def refuse(graph, inputs):
        msg = "not today"
        raise ValueError(msg)

    with capture_graphs(bw_compiler=refuse, fw_compiler=lambda g, _: g) as graphs:
        captured = graphs.capture(sine, grads(3), grads(3))

    (failure,) = captured.failures
    assert failure.kind is FailureKind.COMPILER
    assert failure.stage is GraphStage.BACKWARD
    assert failure.message == (
        "The compiler of the backward graph raised ValueError: not today"
    )
    assert [each.stage.value for each in captured] == ["joint", "forward", "backward"]


def test_partition_that_raises():
    """A partition function's exception is told; the joint graph is there."""

    def cut(*args, **kwargs):
        msg = "no"
        raise ValueError(msg)

    with capture_graphs(partition=cut) as graphs:
        captured = graphs.capture(sine, grads(3), grads(3))

    (failure,) = captured.failures
    assert failure.kind is FailureKind.PARTITION
    assert failure.message == "The partition function cut raised ValueError: no"
    assert [each.stage.value for each in captured] == ["joint"]


def test_hidden_result():
    """Tensors in a result that cannot be opened are noted, or refused to be compiled."""

    class Box:
        def __init__(self, x):
            self.x = x

    def boxed(x):
        return x.sin(), Box(x.cos())

    with capture_graphs() as graphs:
        captured = graphs.capture(boxed, grads(3))
        assert any("Tensors inside [1] (Box)" in each for each in captured.notes)
        result = graphs.compile(boxed)(grads(3))

    assert torch.equal(result[1].x, torch.ones(3).cos())
    (failure,) = graphs.failures
    assert failure.kind is FailureKind.UNSUPPORTED_VALUE
    assert "[1] (Box)" in failure.message


class Slot:
    """A class without a dictionary."""

    __slots__ = ("x",)

    def __init__(self, x):
        self.x = x


@pytest.mark.parametrize(
    ("function", "take"),
    [
        pytest.param(lambda x: (x * i for i in (1, 2)), list, id="generator"),
        pytest.param(lambda x: {"a": x * 2}.values(), list, id="view of a dictionary"),
        pytest.param(lambda x: {x * 2}, list, id="set"),
        pytest.param(lambda x: lambda: x * 2, lambda f: [f()], id="function"),
        pytest.param(lambda x: Slot(x * 2), lambda box: [box.x], id="slots"),
        pytest.param(
            lambda x: [[x * 2]].__iter__(), lambda it: next(it), id="iterator"
        ),
    ],
)
def test_hidden_in_any_object(function, take):
    """Wherever a result keeps a tensor, it is never one of the tracing."""
    x = torch.ones(2)
    with capture_graphs() as graphs:
        found = take(graphs.compile(function)(x))

    assert [each.tolist() for each in found] == [
        each.tolist() for each in take(function(x))
    ]
    (failure,) = graphs.failures
    assert failure.kind is FailureKind.UNSUPPORTED_VALUE


def test_tensors_of_a_transform():
    """Inside torch.func.vmap a capture says why it cannot be done."""
    found = []
    with capture_graphs() as graphs:
        torch.func.vmap(lambda x: found.append(graphs.capture(sine_of, x)) or x)(
            torch.ones(3, 2)
        )

    (failure,) = found[0].failures
    assert failure.kind is FailureKind.UNSUPPORTED_VALUE
    assert failure.message.startswith("x is a tensor of torch.func.vmap")


def sine_of(x):
    """A function with an argument."""
    return x.sin()


def test_failing_function_still_runs():
    """A compiled function whose capture failed runs as it is, and fails once only."""
    with capture_graphs() as graphs:
        compiled = graphs.compile(item)
        x = grads(3)
        first, second = compiled(x), compiled(x)

    assert torch.equal(first, item(x))
    assert torch.equal(second, first)
    assert len(graphs.failures) == 1


def test_nothing_is_printed(capfd):
    """A failure is a record, and neither a warning nor a line on the screen."""
    library = no_meta_library()
    double = torch.ops.inspect_graphs.double
    try:
        with warnings.catch_warnings(record=True) as warned, capture_graphs() as graphs:
            warnings.simplefilter("always")
            graphs.capture(lambda x: double(x.sin()).sum(), grads(3))
            graphs.capture(item, grads(3))
    finally:
        library._destroy()

    assert len(graphs.failures) == 2
    assert [str(each.message) for each in warned] == []
    assert capfd.readouterr() == ("", "")


ANOTHER = since_torch_npu("2.13", "the operator is another one or can be traced")


@pytest.mark.npu
@pytest.mark.parametrize(
    ("function", "shapes", "operator", "before"),
    [
        pytest.param(
            lambda a, b: nn.functional.kl_div(a, b, reduction="sum"),
            [(3, 4), (3, 4)],
            "npu::kl_div_target_backward",
            "aten::kl_div",
            marks=ANOTHER,
        ),
        pytest.param(
            lambda a: torch.renorm(a, 2, 0, 1.0),
            [(3, 4)],
            "npu::npu_renorm_backward",
            "aten::renorm",
            marks=ANOTHER,
        ),
        (
            lambda a: nn.functional.binary_cross_entropy_with_logits(
                a, torch.zeros_like(a)
            ),
            [(3, 4)],
            "npu::npu_binary_cross_entropy_with_logits_backward",
            "aten::binary_cross_entropy_with_logits",
        ),
        (
            lambda a: torch.fft.rfft(a).abs(),
            [(16,)],
            "npu::fft_r2c_backward",
            "aten::_fft_r2c",
        ),
        pytest.param(
            lambda a: torch.stft(a, 16, return_complex=True).abs(),
            [(64,)],
            "npu::stft_backward",
            "aten::stft",
            marks=ANOTHER,
        ),
    ],
)
def test_npu_backward_without_meta_kernel(function, shapes, operator, before):
    """Backward operators of torch_npu that have no meta kernel are told by name."""
    args = [grads(*shape).detach().npu().requires_grad_() for shape in shapes]
    with capture_graphs() as graphs:
        (failure,) = graphs.capture(function, *args).failures

    assert failure.kind is FailureKind.NO_META_KERNEL
    assert failure.operator == operator
    assert failure.phase is Phase.BACKWARD
    assert failure.source.function.endswith("<lambda>")
    assert before in failure.partial.names
    forward = [each for each in failure.partial.operators if each.name == before]
    assert failure.source == forward[0].source
