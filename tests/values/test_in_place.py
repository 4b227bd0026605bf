# SPDX-License-Identifier: BSD-3-Clause
"""Operators whose values are computed where they lie, after torch_npu's kernel."""

import sys

import pytest
import torch

from npu_dispatch_inspect import ValuesError, trace_ops

pytestmark = [pytest.mark.npu, pytest.mark.filterwarnings("ignore")]

NPU = "npu:0"


def numbers(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def same(function, *tensors):
    """A function changes its arguments on the NPU as it does on the CPU."""
    expected = [each.clone() for each in tensors]
    actual = [each.to(NPU) for each in tensors]
    function(*expected)
    function(*actual)
    for want, got in zip(expected, actual, strict=True):
        torch.testing.assert_close(got.cpu(), want)


def every_sort(a, b):
    """Kernels that call other operators, in place, on lists and with new results."""
    torch._foreach_addcdiv_([a, b], [b, a], [a.abs() + 1, b.abs() + 1], [0.5, 2.0])
    torch._foreach_mul_([a, b], 3.0)
    a.copy_(b.t().clone().t() + torch.ones_like(b) * torch.zeros(1, device=b.device))
    torch._foreach_copy_([b], torch._foreach_sqrt([a.abs()]))
    a.round_().add_(b.trunc())


@pytest.mark.parametrize("engine", ["dispatcher", "dispatch_mode", None])
def test_nothing_is_done_twice(computed, engine):
    """What a kernel calls inside changes nothing, whoever stands in between."""
    if engine is None:
        same(every_sort, numbers(3, 4), numbers(3, 4, seed=1))
        return
    with trace_ops(engine=engine) as trace:
        same(every_sort, numbers(3, 4), numbers(3, 4, seed=1))
    assert "aten::_foreach_addcdiv_" in trace.names


def test_a_tensor_twice_in_a_list_is_changed_twice(computed):
    """One after the other, as on the CPU; also where it is an operand as well."""
    same(lambda x: torch._foreach_add_([x, x], 1.0), numbers(3))
    same(lambda x: torch._foreach_mul_([x, x], [x, x]), numbers(3))
    same(lambda x: x.mul_(x), numbers(3))


def test_neighbours_in_one_buffer_are_changed_alone(computed):
    """Flat parameters: slices of one buffer that touch, and every second element."""

    def change(x):
        torch._foreach_add_([x[:3], x[3:5], x[5:]], [1.0, 2.0, 3.0])
        torch._foreach_mul_([x[::2]], [x[1::2]])

    same(change, numbers(8))


def test_operands_that_overlap_are_read_before_anything_is_written(computed):
    """Lists in which the CPU refuses what torch_npu takes: values of before count."""
    x = numbers(5)
    moved = x.to(NPU)
    torch._foreach_add_([moved[1:]], [moved[:-1]])
    assert torch.equal(x[1:] + x[:-1], moved[1:].cpu())
    square = numbers(3, 3)
    moved = square.to(NPU)
    torch._foreach_sub_([moved], [moved.t()])
    assert torch.equal(square - square.t(), moved.cpu())


def test_views_that_are_conjugated_or_negated_are_written_as_that(computed):
    """Torch itself refuses them in a list that is written."""

    def change(z):
        w = torch.view_as_complex(z)
        w.conj().mul_(1j)
        negated = w.conj().imag
        negated.add_(negated)
        w.real.mul_(torch._foreach_abs([w.conj()])[0])
        w.real.sub_(negated)
        w.copy_(w.conj())
        negated.zero_()
        negated.fill_(2)

    same(change, numbers(3, 2))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_in_lists(computed, dtype):
    """One type, and two types in one list."""

    def change(a, b):
        torch._foreach_addcmul_([a, a], [a, a], [a, a], 0.5)
        torch._foreach_mul_([a, b], 0.5)

    same(change, numbers(3).to(dtype), numbers(3))


def test_a_list_that_is_refused_half_way_is_as_before(computed):
    """Of several types: the second one cannot be divided in place."""
    first, second = numbers(3).to(NPU), torch.arange(3, device=NPU)
    before = first.cpu()
    with pytest.raises(RuntimeError):
        torch._foreach_sqrt_([first, second])
    assert torch.equal(before, first.cpu())
    assert [0, 1, 2] == second.tolist()


def test_a_call_that_only_the_cpu_refuses_says_so(computed, monkeypatch):
    """The tensor stays as it was."""
    from npu_dispatch_inspect.values import _arguments

    def refuse(*_):
        raise IndexError

    x = numbers(3).to(NPU)
    before = x.cpu()
    with monkeypatch.context() as patch:
        patch.setattr(_arguments, "are_apart", refuse)
        with pytest.raises(ValuesError, match="the CPU cannot compute it"):
            x.add_(x.abs())
    assert torch.equal(before, x.cpu())


def test_calls_of_a_handler_inside_a_kernel_have_their_values(computed):
    """As from a signal's handler or a finaliser, between two operators of a kernel."""
    x, seen = numbers(3).to(NPU), torch.zeros(2, device=NPU)
    done = []

    def handler(frame, event, _):
        inside = (
            frame.f_back is not None and "values" in frame.f_back.f_code.co_filename
        )
        if event == "call" and inside and frame.f_code.co_name == "kernel" and not done:
            done.append(frame)
            seen.add_(1)

    sys.setprofile(handler)
    try:
        torch._foreach_addcdiv_([x], [x], [x], [1.0])
    finally:
        sys.setprofile(None)
    assert done
    assert [1.0, 1.0] == seen.tolist()
    torch.testing.assert_close(x.cpu(), numbers(3) + 1)


def test_gradients_through_operators_in_place(computed):
    """Autograd saves what was there before, and sees what is there after."""

    def gradient(x):
        x = x.clone().requires_grad_()
        y = (x * 2).sin().neg_()
        y.mul_(x.detach()).add_(x)
        y[1:].copy_(x[:-1].abs())
        return torch.autograd.grad(y.sum(), x)[0]

    x = numbers(4)
    torch.testing.assert_close(gradient(x.to(NPU)).cpu(), gradient(x))


def test_resizing_keeps_the_elements(computed):
    """To less room, back within the room there is, and to more."""
    x = numbers(6)
    moved = x.to(NPU)
    for size in (2, 6, 3000):
        moved.resize_(size)
        assert torch.equal(x[:size], moved[:6].cpu())
    moved.resize_as_(torch.empty(2, 9000, device=NPU))
    assert torch.equal(x, moved.flatten()[:6].cpu())
