# SPDX-License-Identifier: BSD-3-Clause
"""Engine "dispatcher" against torch.profiler without any tracer, program by program."""

from __future__ import annotations

import warnings
from collections import Counter

import pytest
import torch
from torch.profiler import ProfilerActivity, profile
from torch.testing._internal.two_tensor import TwoTensor
from torch.utils._python_dispatch import TorchDispatchMode

from npu_dispatch_inspect import trace_ops
from tests.programs import PROGRAMS

ON_NPU = (
    "linear",
    "matmul_3d",
    "conv_norm_pool",
    "softmax",
    "norms",
    "attention",
    "encoder_layer",
    "gather_scatter",
    "views_in_place",
    "scalar_arithmetic",
    "double_backward",
    "checkpointed",
    "adamw",
    "autocast",
    "modules_made_inside",
)

CASES = [
    *(pytest.param("cpu", name, id=f"cpu-{name}") for name in PROGRAMS),
    *(
        pytest.param("npu:0", name, id=f"npu-{name}", marks=pytest.mark.npu)
        for name in ON_NPU
    ),
]


@pytest.fixture(autouse=True)
def quiet():
    """Programs that use beta features say so; that is not the subject here."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def operators():
    """Names, without overload, of all that the dispatcher knows."""
    return {
        name.partition(".")[0]
        for name in torch._C._dispatch_get_all_op_names()
        if not name.startswith("profiler::")
    }


def profiled(program, device):
    """(operator, the operator it is inside of) of each call, as the profiler has it.

    The profiler also has entries that are no operators: labels, autograd nodes,
    and torch_npu's launches. What is inside one of them is inside its parent.
    """
    known = operators()
    found = []

    def walk(events, parent):
        for event in events:
            name = event.name
            if name in known:
                found.append((name, parent))
            walk(event.children, name if name in known else parent)

    with profile(activities=[ProfilerActivity.CPU]) as profiler:
        program(device)
    walk(profiler.profiler.kineto_results.experimental_event_tree(), None)
    return found


def recorded(trace):
    """The same of a trace."""
    names = [record.name for record in trace]
    return [
        (record.name, None if record.parent is None else names[record.parent])
        for record in trace
    ]


def bits(tensor):
    """What must be equal to the last bit, also where a value is not a number."""
    if tensor.layout is not torch.strided:
        tensor = tensor.to_dense()
    tensor = tensor.detach().resolve_conj().cpu().contiguous()
    return tensor.dtype, tuple(tensor.shape), tensor.view(-1).view(torch.uint8).tolist()


@pytest.mark.parametrize(("device", "name"), CASES)
def test_counts_and_parents_are_the_profilers(device, name):
    """Every operator is recorded as often, and inside the same operator, as it ran."""
    program = PROGRAMS[name]
    program(device)  # caches of kernels and libraries fill at the first run
    expected = profiled(program, device)

    with trace_ops(engine="dispatcher") as trace:
        program(device)

    assert Counter(recorded(trace)) == Counter(expected)


@pytest.mark.parametrize(
    ("device", "name"), [case for case in CASES if "cpu" in case.id]
)
def test_order_is_the_profilers(device, name):
    """On one thread the calls stand in the order in which they began."""
    program = PROGRAMS[name]
    program(device)
    expected = profiled(program, device)

    with trace_ops(engine="dispatcher") as trace:
        program(device)

    assert recorded(trace) == expected


@pytest.mark.parametrize("engine", ["dispatcher", "dispatch_mode"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_results_are_bit_identical(name, engine):
    """Results, gradients and random numbers are those of the untraced program."""
    program = PROGRAMS[name]
    expected = [bits(each) for each in program("cpu")]
    state = torch.random.get_rng_state()

    with trace_ops(engine=engine):
        actual = program("cpu")

    assert [bits(each) for each in actual] == expected
    assert torch.equal(torch.random.get_rng_state(), state)


class Passing(TorchDispatchMode):
    """A mode of the user's that does nothing."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        """Go on."""
        return func(*args, **(kwargs or {}))


def under_a_mode(_device):
    with Passing():
        return PROGRAMS["encoder_layer"]("cpu")


def on_wrapper_subclasses(_device):
    x = TwoTensor(torch.ones(2, 2), torch.zeros(2, 2))
    return [((x @ x) * 1.5 + x.sin()).a]


def on_jagged_tensors(_device):
    parts = [torch.ones(2, 4), torch.ones(3, 4)]
    both = torch.nested.nested_tensor(parts, layout=torch.jagged)
    return [(both * 2).sin().values()]


@pytest.mark.parametrize("program", [under_a_mode, on_wrapper_subclasses])
def test_inside_python_handlers(program):
    """What a `__torch_dispatch__` calls is seen inside the call that it handles."""
    program("cpu")
    expected = profiled(program, "cpu")

    with trace_ops(engine="dispatcher") as trace:
        program("cpu")

    assert recorded(trace) == expected


def test_the_limit_of_handlers():
    """What a handler calls past the function it was given is the one thing not seen."""
    on_jagged_tensors("cpu")
    expected = Counter(profiled(on_jagged_tensors, "cpu"))

    with trace_ops(engine="dispatcher") as trace:
        on_jagged_tensors("cpu")

    unseen = Counter({("aten::detach", "aten::_nested_get_values"): 1})
    assert expected - Counter(recorded(trace)) == unseen


def test_a_dispatch_mode_changes_what_runs():
    """The reason for this engine: under a mode, gradients are not added in place."""
    expected = Counter(name for name, _ in profiled(PROGRAMS["fan_in"], "cpu"))

    with trace_ops(engine="dispatch_mode") as trace:
        PROGRAMS["fan_in"]("cpu")

    assert expected["aten::add_"] > 0
    assert "aten::add_" not in trace.names
