# SPDX-License-Identifier: BSD-3-Clause
"""How computed values get where they belong, and who does not see it."""

import threading
import warnings

import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import checkpoint

from npu_dispatch_inspect import capture_logs, trace_ops

pytestmark = [pytest.mark.npu, pytest.mark.filterwarnings("ignore")]

NPU = "npu:0"


def numbers(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def both(function, *tensors):
    """What a function gives on the CPU and on the NPU."""
    moved = [each.to(NPU) for each in tensors]
    return function(*[each.clone() for each in tensors]), function(*moved)


def same(function, *tensors):
    expected, actual = both(function, *tensors)
    if isinstance(expected, torch.Tensor):
        expected, actual = [expected], [actual]
    for want, got in zip(expected, actual, strict=True):
        torch.testing.assert_close(got.cpu(), want)


def test_writing_through_views_reaches_what_they_view(computed):
    """In-place operators on strided, offset and transposed views write there only."""

    def change(x):
        x.t()[1:3].mul_(2)
        x[:, ::2].add_(x[:, 1::2])
        x.diagonal().zero_()
        x[1].copy_(x[2].flip(0))
        torch.sub(x[0], 1.5, out=x[3])
        return x

    same(change, numbers(4, 4))


def test_out_arguments_get_the_result_and_its_size(computed):
    """out= of the right size, of another size, and of another type."""

    def outs(x):
        right, small = torch.empty_like(x), x.new_empty(0)
        kept = torch.empty(3, 4, dtype=torch.float64, device=x.device)
        torch.exp(x, out=right)
        torch.mm(x.t(), x, out=small)
        torch.add(x, 1, out=kept)
        values, places = x.new_empty(3), x.new_empty(3, dtype=torch.long)
        torch.max(x, 1, out=(values, places))
        return right, small, kept.float(), values, places

    same(outs, numbers(3, 4))


def test_foreach_changes_every_tensor_of_a_list(computed):
    """Lists of tensors, in place and not, with numbers of their own."""

    def lists(a, b):
        made = torch._foreach_mul([a, b], 2.0)
        torch._foreach_addcmul_([a, b], made, made, [0.5, 1.5])
        torch._foreach_sqrt_(made := torch._foreach_abs([a, b]))
        return a, b, *made, *torch._foreach_norm([a, b])

    same(lists, numbers(3), numbers(2, 2, seed=1))


def test_copies_and_casts_between_devices(computed):
    """To the device and back, with another type, through pinned memory, to another NPU."""
    x = numbers(3, 4) * 100
    for dtype in (torch.int32, torch.float16, torch.bool, torch.complex64):
        assert torch.equal(x.to(dtype), x.to(NPU).to(dtype).cpu())
        assert torch.equal(x.to(dtype), x.to(NPU).to("cpu", dtype))
    pinned = x.pin_memory().to(NPU, non_blocking=True)
    pinned.add_(1)
    back = torch.empty(3, 4).pin_memory()
    back.copy_(pinned, non_blocking=True)
    assert torch.equal(x + 1, back)
    assert torch.equal(x.t(), x.to(NPU).t().to("npu:1").cpu())


def test_strides_and_layout_are_torch_npus_own(computed):
    """A contiguous copy has the elements in order; `resize_` takes them along."""
    x = numbers(3, 4)
    turned = x.to(NPU).t()
    assert torch.equal(x.t(), turned.contiguous().cpu())
    assert (4, 1) != turned.stride()
    grown = x.to(NPU).flatten()
    grown.resize_(2000)
    assert torch.equal(x.flatten(), grown[:12].cpu())


def test_complex_views_are_read_and_written_as_what_they_are(computed):
    """Conjugated and negated views."""

    def views(x):
        z = torch.view_as_complex(x)
        w = z.clone()
        w.conj().mul_(1j)
        return z.conj() * 2, z.conj().imag + 1, z.conj() @ z, torch.view_as_real(w)

    same(views, numbers(3, 2))


def test_numbers_keep_promoting_like_numbers(computed):
    """In ``x + 1`` the operator and its kernel are given what stands for a number."""
    half, whole = torch.ones(2, dtype=torch.bfloat16), torch.ones(2, dtype=torch.int32)

    def promoted(half, whole):
        return half + 1.5, 2 - whole, whole / 2, whole * 1.5, half.eq(1), whole + True

    same(promoted, half, whole)


def test_what_the_cpu_has_no_half_kernel_for_is_computed_wider(computed):
    """A type that the CPU's kernel lacks goes through float32 and back."""
    x = numbers(8, 8).to(torch.float8_e4m3fn)
    with pytest.raises(NotImplementedError, match="not implemented for"):
        x + x
    from npu_dispatch_inspect.values._plan import Plan

    given = Plan(torch.ops.aten.add.Tensor).compute((x, x), {})
    assert torch.equal(x.float() * 2, given.returned[0])


def test_falling_back_to_the_cpu_gives_its_values(computed):
    """An operator without a kernel on the NPU takes the CPU's, results come back."""
    same(torch.lgamma, numbers(4).abs() + 1)
    same(lambda x: torch.fmax(x, x.flip(0)), numbers(4))


def test_gradients_of_gradients(computed):
    """Double backward, function transforms, and hooks see values."""

    def twice(x):
        y = (x @ x).tanh().sum()
        x_grad = torch.autograd.grad(y, x, create_graph=True)[0]
        return torch.autograd.grad(x_grad.square().sum(), x)[0]

    same(lambda x: twice(x.requires_grad_()), numbers(3, 3))
    same(torch.func.hessian(lambda x: (x**3).sum()), numbers(3))
    same(torch.vmap(lambda x: x @ x.t()), numbers(2, 3, 4))


def test_other_threads_compute_too(computed):
    """A thread of the program's own needs nothing for it."""
    seen = []
    worker = threading.Thread(
        target=lambda: seen.append((torch.arange(4.0, device=NPU) * 2).tolist())
    )
    worker.start()
    worker.join()
    assert [[0.0, 2.0, 4.0, 6.0]] == seen


def test_random_numbers_follow_the_devices_generator(computed):
    """The same after the same seed or state, others otherwise; the CPU's are untouched."""
    torch.manual_seed(3)
    expected = torch.randn(5)
    torch.manual_seed(3)
    state = torch.get_rng_state()
    first, second = torch.randn(5, device=NPU), torch.randn(5, device=NPU)
    kept = torch.npu.get_rng_state()
    third = torch.rand(5, device=NPU)
    torch.npu.set_rng_state(kept)

    assert torch.equal(expected, first.cpu())
    assert not torch.equal(first.cpu(), second.cpu())
    assert torch.equal(third.cpu(), torch.rand(5, device=NPU).cpu())
    assert torch.equal(state, torch.get_rng_state())
    torch.npu.manual_seed(3)
    assert torch.equal(first.cpu(), torch.randn(5, device=NPU).cpu())


RANDOM = {
    "bernoulli": lambda g: torch.full((64,), 0.3, device=NPU).bernoulli(**g),
    "bernoulli_": lambda g: torch.empty(64, device=NPU).bernoulli_(0.3, **g),
    "exponential_": lambda g: torch.empty(64, device=NPU).exponential_(**g),
    "multinomial": lambda g: torch.ones(64, device=NPU).multinomial(32, **g),
    "normal": lambda g: torch.normal(torch.zeros(64, device=NPU), 1.0, **g),
    "random_": lambda g: torch.empty(64, device=NPU).random_(0, 99, **g),
    "randint": lambda g: torch.randint(99, (64,), device=NPU, **g),
    "randperm": lambda g: torch.randperm(64, device=NPU, **g),
    "uniform_": lambda g: torch.empty(64, device=NPU).uniform_(**g),
}


@pytest.mark.parametrize("name", RANDOM)
def test_random_operators_are_reproducible(computed, name):
    """Each draw differs from the one before; a seed, or a generator's, repeats it."""
    draw = RANDOM[name]
    torch.manual_seed(8)
    state = torch.get_rng_state()
    first, second = draw({}).cpu(), draw({}).cpu()
    torch.manual_seed(8)
    assert torch.equal(first, draw({}).cpu())
    assert not torch.equal(first, second)
    generator = torch.Generator(NPU).manual_seed(8)
    assert torch.equal(first, draw({"generator": generator}).cpu())
    torch.manual_seed(8)
    assert torch.equal(state, torch.get_rng_state())


def test_dropout_drops_the_same_in_forward_and_backward(computed):
    """Also when a checkpoint runs the forward again; about the share asked for."""
    drop = nn.Dropout(0.25)
    x = torch.ones(100, 100, device=NPU, requires_grad=True)
    y = checkpoint(lambda x: drop(x * 1), x, use_reentrant=False)
    y.sum().backward()
    kept = y.detach().cpu()

    assert torch.equal(kept, x.grad.cpu())
    torch.testing.assert_close(kept.unique(), torch.tensor([0.0, 1 / 0.75]))
    assert abs((kept == 0).float().mean().item() - 0.25) < 0.03


@pytest.mark.parametrize("engine", ["dispatcher", "dispatch_mode"])
def test_tracers_see_the_programs_own_calls(computed, engine):
    """No operator of the CPU is recorded: every tensor in the records is the device's."""
    x = numbers(3, 4).to(NPU).requires_grad_()
    with trace_ops(engine=engine) as trace:
        y = x @ x.t()
        torch.where(y > 0, y, y * 0.5).sum().backward()
    devices = {
        each.device
        for record in trace.records
        for each in (*record.input_tensors, *record.output_tensors)
        if each.shape
    }
    assert {NPU} == devices
    assert {"forward", "backward"} == {each.phase.value for each in trace.records}


def test_modes_and_the_profiler_see_the_programs_own_calls(computed):
    """A dispatch mode, a device as a mode, and torch.profiler see no call more."""
    names = []

    class Names(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            names.append(str(function))
            return function(*args, **(kwargs or {}))

    x = numbers(3, 4).to(NPU)
    with Names(), torch.device("meta"):
        y = x @ x.t()
    with torch.profiler.profile() as profile:
        (x @ x.t()).relu()
    events = {each.key: each.count for each in profile.key_averages()}

    assert ["aten.t.default", "aten.matmul.default"] == names
    torch.testing.assert_close(y.cpu(), numbers(3, 4) @ numbers(3, 4).t())
    operators = {name: count for name, count in events.items() if "aten::" in name}
    assert {
        "aten::t": 1, "aten::transpose": 1, "aten::as_strided": 1, "aten::matmul": 1,
        "aten::relu": 1,
    } == operators  # fmt: skip


def test_log_lines_are_those_of_the_program(computed):
    """One operator, one op_plugin line, one launch; no drain of the queue."""
    x = numbers(3, 4).to(NPU)
    torch.npu.synchronize()
    with capture_logs() as logs:
        x * x
    assert ["aclnnMul"] == [each.name for each in logs.launches]


def test_compiled_functions_compute(computed):
    """Graphs that Dynamo and AOTAutograd made run with values."""
    model = nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.Linear(8, 2))
    x = numbers(3, 4)
    expected = model(x)
    model = model.to(NPU)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        actual = torch.compile(model, backend="aot_eager")(x.to(NPU))
    actual.sum().backward()
    torch.testing.assert_close(actual.cpu(), expected)
    assert model[0].weight.grad.abs().sum().item() > 0


def test_tables_do_not_change_and_nothing_is_left(python):
    """Every table reads as without values; when they end, kernels are torch_npu's again."""
    done = python(
        """
        from npu_dispatch_inspect import standin
        standin.load()
        import torch, torch_npu
        from npu_dispatch_inspect import compare_tables, read_dispatch_table, values
        before = torch._C._dispatch_dump("aten::mul.Tensor")
        table = read_dispatch_table()
        end = values.switch_on()
        assert torch._C._dispatch_dump("aten::mul.Tensor") != before
        assert not compare_tables(table, read_dispatch_table())
        x = torch.full((2,), 3.0, device="npu")
        assert (x * 2).tolist() == [6.0, 6.0]
        end()
        end()
        assert torch._C._dispatch_dump("aten::mul.Tensor") == before
        assert not hasattr(torch.Tensor, "_wrapped_number")
        """
    )
    assert (0, "") == (done.returncode, done.stdout), done.stderr
