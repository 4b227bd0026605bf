# SPDX-License-Identifier: BSD-3-Clause
"""What a record of engine "dispatch_mode" says about a call."""

from __future__ import annotations

import inspect

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from npu_dispatch_inspect import (
    Phase,
    UsageError,
    capture_logs,
    inspect_dispatch,
    region,
    trace_ops,
)
from npu_dispatch_inspect._torch_private import modes


def line_of(text):
    """Number of the line of this file that has ``text``."""
    for number, line in enumerate(open(__file__, encoding="utf-8"), start=1):  # noqa: SIM115
        if text in line and "line_of" not in line:
            return number
    raise AssertionError(text)


class Pair(nn.Module):
    """Two layers, one inside another module."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(4, 4)
        self.rest = nn.Sequential(nn.GELU(), nn.Linear(4, 2))

    def forward(self, x):
        return self.rest(self.first(x))


def modules_of(trace, name):
    return [record.module for record in trace.find(name)]


def phases_of(trace, name):
    return [record.phase for record in trace.find(name)]


# Arguments and results


def test_arguments_are_named_by_the_schema():
    """Every argument has its schema name, in the order of the schema."""
    x = torch.ones(2, 3)
    with trace_ops() as trace:
        torch.sum(x, dim=1, keepdim=True)
    (record,) = trace
    assert [each.name for each in record.inputs] == ["self", "dim", "keepdim", "dtype"]
    assert record.argument("dim") == (1,)
    assert record.argument("keepdim") is True
    assert str(record.argument("self")) == "f32[2, 3]"


def test_defaults_are_there_and_marked():
    """An argument the caller left out has the schema's default and says so."""
    with trace_ops() as trace:
        torch.ones(2).add(torch.ones(2))
    alpha = {each.name: each for each in trace[2].inputs}["alpha"]
    assert (alpha.value, alpha.default) == (1, True)
    assert not trace[2].inputs[0].default


def test_an_argument_that_is_not_there_is_a_key_error():
    """Asking for an unknown argument raises."""
    with trace_ops() as trace:
        torch.ones(2)
    with pytest.raises(KeyError):
        trace[0].argument("nope")


def test_written_arguments_are_marked():
    """In-place and out= arguments are in `written`."""
    x, y = torch.ones(2), torch.empty(0)
    with trace_ops() as trace:
        x.add_(1)
        torch.add(x, 1, out=y)
        torch.relu(x)
    assert [record.written for record in trace] == [("self",), ("out",), ()]


def test_out_is_described_as_it_was_before_the_call():
    """The input is the tensor before the call, the output after it."""
    x, y = torch.ones(3), torch.empty(0)
    with trace_ops() as trace:
        torch.add(x, 1, out=y)
    (record,) = trace
    assert record.argument("out").shape == (0,)
    assert record.outputs[0].shape == (3,)
    assert record.argument("out").id == record.outputs[0].id


def test_inputs_are_those_of_the_moment_of_the_call():
    """A later change of shape does not change what an earlier record says."""
    x = torch.ones(2, 3)
    with trace_ops() as trace:
        x.sin()
        x.t_()
        x.sin()
    assert [record.inputs[0].value.shape for record in trace] == [
        (2, 3),
        (2, 3),
        (3, 2),
    ]
    assert trace[2].inputs[0].value.stride == (1, 3)


def test_the_same_tensor_has_the_same_id():
    """Identity follows the tensor, a storage id its memory."""
    x = torch.ones(2, 3)
    with trace_ops() as trace:
        y = x.t()
        z = x.sin()
        y.cos()
        x.data = z
        x.exp()
    t, sin, cos, exp = (
        trace.find("aten::t")[0],
        *trace.filter(
            lambda record: record.name in {"aten::sin", "aten::cos", "aten::exp"}
        ),
    )
    assert t.outputs[0].id == cos.inputs[0].value.id != t.inputs[0].value.id
    assert t.outputs[0].storage_id == t.inputs[0].value.storage_id
    assert sin.outputs[0].storage_id != t.inputs[0].value.storage_id
    assert exp.inputs[0].value.id == t.inputs[0].value.id
    assert exp.inputs[0].value.storage_id == sin.outputs[0].storage_id


def test_an_id_is_never_used_again():
    """200 tensors that die at once have 200 ids, wherever Python puts them."""
    with trace_ops() as trace:
        for _ in range(200):
            torch.empty(2)
    assert len({record.outputs[0].id for record in trace}) == 200
    assert len({record.outputs[0].storage_id for record in trace}) == 200


def test_outputs_die_when_the_program_drops_them():
    """The tracer holds no tensor, neither while it runs nor afterwards."""
    import weakref

    with trace_ops() as trace:
        x = torch.ones(4)
        y = x * 2
        seen = [weakref.ref(x), weakref.ref(y)]
        del x, y
        assert [each() for each in seen] == [None, None]
    assert len(trace) == 2


def test_several_outputs_are_several_values():
    """An operator with two results has two outputs; one with a list has its items."""
    with trace_ops() as trace:
        torch.ones(2, 3).max(dim=1)
        torch.ones(4).split(2)
    assert [str(each) for each in trace.find("aten::max.dim")[0].outputs] == [
        "f32[2]",
        "i64[2]",
    ]
    assert len(trace.find("aten::split*")[0].outputs) == 2


def test_an_operator_that_fails_is_in_the_trace():
    """The record is made before the call; it has the exception and no outputs."""
    with trace_ops() as trace, pytest.raises(RuntimeError):
        torch.ones(2, 3) @ torch.ones(2, 3)
    failed = trace[-1]
    assert failed.name == "aten::mm"
    assert failed.exception.type == "RuntimeError"
    assert "shapes" in failed.exception.message
    assert failed.outputs is None
    assert failed.duration_ns > 0


def test_times_are_in_order():
    """Host times count from the beginning of the block."""
    with trace_ops() as trace:
        torch.ones(2).sin()
    assert 0 < trace[0].start_ns < trace[1].start_ns
    assert trace[0].start_ns + trace[0].duration_ns <= trace[1].start_ns


def test_names_detail_has_operator_phase_and_module():
    """detail="names" leaves out values, lines and times, and nothing is made up."""
    net = Pair()
    with trace_ops(detail="names") as names:
        net(torch.ones(1, 4)).sum().backward()
    net.zero_grad()
    with trace_ops() as full:
        net(torch.ones(1, 4)).sum().backward()
    key = [
        (each.name, each.overload, each.phase, each.module, each.forward_index)
        for each in full
    ]
    assert [
        (each.name, each.overload, each.phase, each.module, each.forward_index)
        for each in names
    ] == key
    assert {
        (each.inputs, each.outputs, each.source, each.start_ns) for each in names
    } == {((), None, None, None)}


# Modules


def test_module_paths_start_at_the_root():
    """The path is the one that named_modules gives, for forward and backward."""
    net = Pair()
    with trace_ops() as trace:
        net(torch.ones(1, 4)).sum().backward()
    assert modules_of(trace.forward, "aten::addmm") == ["first", "rest.1"]
    assert modules_of(trace, "aten::gelu") == ["rest.0"]
    assert modules_of(trace, "aten::gelu_backward") == ["rest.0"]
    assert modules_of(trace.backward, "aten::mm") == ["rest.1", "rest.1", "first"]
    assert {each.root for each in trace.in_module("*")} == {"Pair"}
    assert trace.find("aten::gelu")[0].module_type == "GELU"


def test_a_shared_module_has_the_path_of_each_place():
    """One instance in two owners is named after the owner that calls it."""
    shared = nn.Linear(4, 4)

    class Owner(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = shared

        def forward(self, x):
            return self.inner(x)

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.left, self.right = Owner(), Owner()

        def forward(self, x):
            return self.right(self.left(x))

    with trace_ops() as trace:
        Net()(torch.ones(1, 4)).sum().backward()
    assert modules_of(trace.forward, "aten::addmm") == ["left.inner", "right.inner"]
    assert set(modules_of(trace.backward, "aten::mm")) == {"left.inner", "right.inner"}


def test_a_module_with_two_names_in_one_owner_has_both():
    """The call cannot tell which name was meant, so none is left out."""
    net = nn.Module()
    net.a = net.b = nn.Sequential(nn.Linear(4, 4))
    net.forward = lambda x: net.b(x)
    with trace_ops() as trace:
        net(torch.ones(1, 4))
    assert modules_of(trace, "aten::addmm") == ["a.0|b.0"]
    assert (
        len(trace.in_module("a.*"))
        == len(trace.in_module("b.0"))
        == len(trace.in_module("?.0"))
    )
    assert len(trace.in_module("b.0")) > 0


def test_two_roots_of_one_class_are_told_apart():
    """The second instance of a class is numbered, in the order of this trace."""
    first, second = nn.Linear(2, 2), nn.Linear(2, 2)
    with trace_ops() as outer:
        first(torch.ones(1, 2))
        with trace_ops() as inner:
            second(torch.ones(1, 2))
    assert [each.root for each in outer.find("aten::addmm")] == ["Linear", "Linear#2"]
    assert [each.root for each in inner.find("aten::addmm")] == ["Linear"]


def test_a_module_that_nobody_owns_is_named_by_its_class():
    """A helper made inside forward is shown between angle brackets."""

    class Net(nn.Module):
        def forward(self, x):
            return nn.Linear(4, 4)(x)

    with trace_ops() as trace:
        Net()(torch.ones(1, 4))
    assert modules_of(trace, "aten::addmm") == ["<Linear>"]


def test_an_exception_in_a_module_leaves_no_path_behind():
    """Calls after a forward that raised are outside of it."""

    class Failing(nn.Module):
        def forward(self, x):
            x.sin()
            msg = "no"
            raise ValueError(msg)

    net = nn.Sequential(Failing())
    with trace_ops() as trace:
        with pytest.raises(ValueError, match="no"):
            net(torch.ones(1))
        torch.ones(1).cos()
    assert modules_of(trace, "aten::sin") == ["0"]
    assert modules_of(trace, "aten::cos") == [None]


def test_user_hooks_and_classes_are_left_alone():
    """No hook is registered and forward hooks of the user run as ever."""
    net = Pair()
    seen = []
    net.first.register_forward_hook(lambda *_: seen.append("hook"))
    before = {name: len(module._forward_hooks) for name, module in net.named_modules()}
    with trace_ops() as trace:
        net(torch.ones(1, 4))
        assert {
            name: len(module._forward_hooks) for name, module in net.named_modules()
        } == before
    assert seen == ["hook"]
    assert modules_of(trace, "aten::gelu") == ["rest.0"]


# Source lines and regions


def test_the_source_is_the_users_line():
    """File, line and function are those of the nearest line that is not torch's."""

    def work(x):
        return nn.functional.gelu(x)  # the line of gelu

    with trace_ops() as trace:
        work(torch.ones(2))
    source = trace.find("aten::gelu")[0].source
    assert source.file == __file__
    assert source.line == line_of("# the line of gelu")
    assert source.function.endswith("work")


def test_the_line_of_a_module_of_torch_is_where_it_is_called():
    """Inside torch's own modules the line is the one outside of them."""
    net = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    with trace_ops() as trace:
        net(torch.ones(1, 2))  # the line of the net
    assert {each.source.line for each in trace} == {line_of("# the line of the net")}


def test_a_backward_call_has_the_line_of_backward():
    """The line of a backward call is where backward was called."""
    x = torch.ones(2, requires_grad=True)
    with trace_ops() as trace:
        y = x.sin().sum()
        y.backward()  # the line of backward
    assert {each.source.line for each in trace.backward} == {
        line_of("# the line of backward")
    }


def test_lines_of_code_without_a_file_are_kept():
    """A line that somebody typed has the name Python gives to its place."""
    code = compile("import torch\ntorch.ones(2)", "<typed>", "exec")
    with trace_ops() as trace:
        exec(code, {})
    assert (trace[-1].source.file, trace[-1].source.line) == ("<typed>", 2)


def test_regions_nest_and_are_inherited_by_backward():
    """The labels around a call are in its record, outermost first."""
    x = torch.ones(2, requires_grad=True)
    with trace_ops() as trace:
        with region("outer"):
            y = x.sin()
            with region("inner"):
                z = y.cos()
        z.sum().backward()
    assert trace.find("aten::sin")[0].regions == ("outer",)
    assert trace.in_region("inner").forward.names == ("aten::cos",)
    assert trace.in_region("inner").backward.find("aten::mul*")[0].regions == (
        "outer",
        "inner",
    )
    assert trace.find("aten::sum")[0].regions == ()


def test_region_without_a_tracer_does_nothing():
    """Model code may be labelled for good."""
    with region("attention") as entered:
        torch.ones(2)
    assert entered is None


# Phases and forward links


def test_each_backward_call_names_its_forward_call():
    """The link goes to the very call, whatever was called in between."""
    x = torch.ones(2, requires_grad=True)
    with trace_ops() as trace:
        a = x.sin()
        with torch.no_grad():
            x.exp()
        b = x.cos()
        (a * b).sum().backward()
    names = trace.names
    links = {
        (each.autograd_node, names[each.forward_index])
        for each in trace.backward
        if each.forward_index is not None
    }
    assert links == {
        ("SinBackward0", "aten::sin"),
        ("CosBackward0", "aten::cos"),
        ("MulBackward0", "aten::mul"),
        ("SumBackward0", "aten::sum"),
    }


def test_a_node_named_without_forward_is_linked():
    """The node of nll_loss_forward has no "forward" in its name."""
    x = torch.randn(2, 3, requires_grad=True)
    with trace_ops() as trace:
        nn.functional.cross_entropy(x, torch.tensor([0, 1])).backward()
    backward = trace.find("aten::nll_loss_backward")[0]
    assert trace[backward.forward_index].name == "aten::nll_loss_forward"


def test_a_node_made_before_the_block_has_no_forward_call():
    """A forward that was not traced is not replaced by another call."""
    x = torch.ones(2, requires_grad=True)
    y = x.sin()
    with trace_ops() as trace:
        torch.ones(2, requires_grad=True).exp()
        y.sum().backward()
    sin = trace.backward.filter(lambda each: each.autograd_node == "SinBackward0")
    assert len(sin) > 0
    assert {each.forward_index for each in sin} == {None}


def test_a_node_whose_call_was_not_seen_is_not_given_to_the_next_call():
    """A node made while the tracer pauses belongs to no recorded call."""
    x = torch.ones(2, requires_grad=True)
    tracer = trace_ops()
    with tracer as trace:
        with tracer.pause():
            y = x.sin()
        with torch.no_grad():
            torch.ones(2)
        y.backward(torch.ones(2))
    sin = trace.backward.filter(lambda each: each.autograd_node == "SinBackward0")
    assert len(sin) > 0
    assert {each.forward_index for each in sin} == {None}


def test_the_first_gradient_is_backward():
    """The ones that backward begins with are made before any autograd node runs."""
    x = torch.ones(2, requires_grad=True)
    with trace_ops() as trace:
        x.sum().backward()
        torch.ones_like(x)
    assert phases_of(trace, "aten::ones_like") == [Phase.BACKWARD, Phase.FORWARD]


@pytest.mark.parametrize("detail", ["full", "names"])
def test_phases_of_a_training_step(detail):
    """Forward, backward, clipping, step and zeroing are told apart."""
    net = Pair()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, foreach=False)
    with trace_ops(detail=detail) as trace:
        optimizer.zero_grad(set_to_none=False)
        loss = net(torch.ones(1, 4)).sum()
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 1.0, foreach=False)
        optimizer.step()
        optimizer.zero_grad(set_to_none=False)
        loss * 2
    assert set(phases_of(trace, "aten::addmm")) == {Phase.FORWARD}
    assert set(phases_of(trace, "aten::mm")) == {Phase.BACKWARD}
    assert set(phases_of(trace, "aten::linalg_vector_norm")) == {Phase.OTHER}
    assert set(phases_of(trace, "aten::zero_")) == {Phase.OTHER}
    assert set(phases_of(trace, "aten::add_.Tensor")) == {Phase.OPTIMIZER}
    assert trace[-1].phase is Phase.FORWARD


def test_a_users_optimizer_has_a_step_too():
    """A class derived from Optimizer is followed like torch's own."""

    class Signs(torch.optim.Optimizer):
        def __init__(self, params):
            super().__init__(params, {})

        @torch.no_grad()
        def step(self, closure=None):
            for group in self.param_groups:
                for each in group["params"]:
                    each.sub_(each.grad.sign())

    net = nn.Linear(2, 1)
    optimizer = Signs(net.parameters())
    with trace_ops() as trace:
        net(torch.ones(1, 2)).sum().backward()
        optimizer.step()
    assert trace.optimizer.names == ("aten::sign", "aten::sub_") * 2


@pytest.mark.parametrize("detail", ["full", "names"])
def test_a_closure_inside_a_step_is_forward_and_backward(detail):
    """What LBFGS has computed for it is not its own work."""
    net = nn.Linear(2, 1)
    optimizer = torch.optim.LBFGS(net.parameters(), max_iter=2)
    x, y = torch.ones(3, 2), torch.zeros(3, 1)

    def closure():
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(net(x), y)
        loss.backward()
        return loss

    with trace_ops(detail=detail) as trace:
        optimizer.step(closure)
    assert set(phases_of(trace, "aten::addmm")) == {Phase.FORWARD}
    assert set(phases_of(trace, "aten::mse_loss")) == {Phase.FORWARD}
    assert set(phases_of(trace, "aten::mse_loss_backward")) == {Phase.BACKWARD}
    assert set(phases_of(trace, "aten::dot")) == {Phase.OPTIMIZER}
    assert modules_of(trace, "aten::addmm")[0] == ""


def test_a_step_taken_inside_backward_is_a_step():
    """An optimizer called from a gradient hook is no backward work."""
    weight = torch.ones(2, requires_grad=True)
    optimizer = torch.optim.SGD([weight], lr=0.1, foreach=False)
    weight.register_post_accumulate_grad_hook(lambda _: optimizer.step())
    with trace_ops() as trace:
        (weight * 2).sum().backward()
    assert phases_of(trace, "aten::add_.Tensor") == [Phase.OPTIMIZER]
    assert Phase.BACKWARD in {each.phase for each in trace}


def test_loss_scaling_is_neither_forward_nor_step():
    """The work of GradScaler is "other", the step inside it a step."""
    net = nn.Linear(2, 1)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, foreach=False)
    scaler = torch.amp.GradScaler("cpu")
    with trace_ops() as trace:
        scaler.scale(net(torch.ones(1, 2)).sum()).backward()
        scaler.step(optimizer)
        scaler.update()
    assert set(phases_of(trace, "aten::_amp_foreach*")) == {Phase.OTHER}
    assert set(phases_of(trace, "aten::_amp_update*")) == {Phase.OTHER}
    assert set(phases_of(trace, "aten::add_.Tensor")) == {Phase.OPTIMIZER}


def test_double_backward_is_backward_and_linked():
    """The second pass names the backward calls of the first."""
    x = torch.ones(2, requires_grad=True)
    with trace_ops() as trace:
        (grad,) = torch.autograd.grad(x.sin().sum(), x, create_graph=True)
        grad.sum().backward()
    cos = trace.find("aten::cos")[0]
    second = [each for each in trace if each.autograd_node == "CosBackward0"]
    assert cos.phase is Phase.BACKWARD
    assert {each.forward_index for each in second} == {cos.index}


def test_backward_inside_forward_keeps_the_inner_path():
    """A module that differentiates in its forward does not swallow the paths."""

    class Physics(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = nn.Linear(2, 1)

        def forward(self, x):
            y = torch.tanh(self.net(x))
            return torch.autograd.grad(y.sum(), x, create_graph=True)[0]

    with trace_ops() as trace:
        Physics()(torch.ones(1, 2, requires_grad=True))
    assert modules_of(trace.backward, "aten::mm") == ["net"]


def test_several_passes_over_one_graph_are_all_linked():
    """retain_graph does not confuse the links."""
    x = torch.ones(2, requires_grad=True)
    with trace_ops() as trace:
        y = x.sin()
        total = y.sum()
        total.backward(retain_graph=True)
        total.backward()
    sin = [each for each in trace if each.autograd_node == "SinBackward0"]
    assert {each.forward_index for each in sin} == {trace.find("aten::sin")[0].index}
    assert len([each for each in sin if each.name == "aten::mul"]) == 2


def test_a_custom_function_is_seen_from_the_inside():
    """The operators of both passes are there, the node has the function's name."""

    class Square(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x.pow(2)

        @staticmethod
        def backward(ctx, grad):
            (x,) = ctx.saved_tensors
            return grad * 2 * x

    x = torch.ones(2, requires_grad=True)
    with trace_ops() as trace:
        Square.apply(x).sum().backward()
    inside = [each for each in trace if each.autograd_node == "SquareBackward"]
    assert [each.name for each in inside if each.name == "aten::mul"] == [
        "aten::mul"
    ] * 2
    assert {each.forward_index for each in inside} == {
        trace.find("aten::pow*")[0].index
    }
    assert inside[0].source.function.endswith("backward")


def test_a_node_that_torch_has_no_class_for_has_its_own_name():
    """All such nodes share a Python class: it tells no name, nor does a program's."""

    class Cube(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x**3

        @staticmethod
        def backward(ctx, grad):
            return grad * 3

    scripted = torch.jit.script(_fused)
    x = torch.ones(2, requires_grad=True)
    for _ in range(4):  # the graph that is differentiated as one is made by then
        y = scripted(x)
    kind = type(y.grad_fn)
    names = []
    for detail in ("full", "names"):
        for _ in range(2):
            with trace_ops(detail=detail) as trace:
                Cube.apply(scripted(x)).sum().backward()
            names.append({each.autograd_node for each in trace.backward})
    assert "torch::jit::(anonymous namespace)::DifferentiableGraphBackward" in names[0]
    assert {"CubeBackward", "SumBackward0"} < names[0]
    assert names == names[:1] * 4
    assert modes.node_names[type(x.sum().grad_fn)] == "SumBackward0"
    assert not {kind, Cube._backward_cls} & set(modes.node_names)


def _fused(x):
    return (x * x + x).tanh() * x


def test_a_module_called_by_a_hook_keeps_its_own_name():
    """Inside backward, a module that a hook calls is not the module of the node."""
    probe, net = nn.Tanh(), nn.Linear(2, 2)
    with trace_ops() as trace:
        y = net(torch.ones(1, 2))
        y.register_hook(lambda grad: probe(grad))
        y.sum().backward()
    tanh = trace.find("aten::tanh")[0]
    assert (tanh.root, tanh.module, tanh.phase) == ("Tanh", "", Phase.BACKWARD)


@pytest.mark.parametrize("reentrant", [False, True])
@pytest.mark.parametrize("detail", ["full", "names"])
def test_recomputation_is_marked_and_keeps_its_path(reentrant, detail):
    """What runs again under checkpointing says so, and where in the model it is."""

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.block = nn.Sequential(nn.Linear(4, 4), nn.GELU())

        def forward(self, x):
            return checkpoint(self.block, x, use_reentrant=reentrant)

    with trace_ops(detail=detail) as trace:
        Net()(torch.ones(1, 4, requires_grad=True)).sum().backward()
    addmm = trace.find("aten::addmm")
    assert [each.recomputed for each in addmm] == [False, True]
    assert [each.phase for each in addmm] == [Phase.FORWARD, Phase.BACKWARD]
    assert [each.module for each in addmm] == ["block.0", "block.0"]
    assert {each.root for each in addmm} == {"Net"}
    backward = trace.find("aten::gelu_backward")[0]
    assert not backward.recomputed
    assert backward.module == "block.1"


def test_transforms_are_traced():
    """vmap, grad and jvp run as they are; the operators are those of the batch."""
    x = torch.randn(3, 2)
    with trace_ops() as trace:
        torch.func.vmap(torch.sin)(x)
        torch.func.grad(lambda each: each.sin().sum())(x)
        torch.func.jvp(torch.cos, (x,), (x,))
    assert trace.names.count("aten::sin") >= 2
    assert "aten::cos" in trace.names
    assert trace.complete


def test_autocast_casts_are_seen():
    """The casts that autocast puts in are operators of the module."""
    net = nn.Linear(4, 4)
    with trace_ops() as trace, torch.autocast("cpu", dtype=torch.bfloat16):
        net(torch.ones(1, 4))
    assert modules_of(trace, "aten::_to_copy") == ["", "", ""]


# The tracer's own arguments


def test_max_ops_cuts_and_says_so():
    """So many records, then the mark; the program runs on."""
    with trace_ops(max_ops=2) as trace:
        x = torch.ones(2).sin().cos().exp()
    assert trace.names == ("aten::ones", "aten::sin")
    assert trace.truncated
    assert not trace.complete
    assert x.shape == (2,)
    with trace_ops(max_ops=2) as trace:
        torch.ones(2).sin()
    assert not trace.truncated


def test_pause_leaves_out_a_part():
    """Inside pause() nothing is recorded; it may be nested."""
    tracer = trace_ops()
    with tracer as trace:
        torch.ones(2)
        with tracer.pause():
            torch.zeros(2)
            with tracer.pause():
                torch.zeros(2)
            torch.zeros(2)
        torch.ones(2)
    assert trace.names == ("aten::ones", "aten::ones")


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        ({"engine": "magic"}, "dispatch_mode"),
        ({"detail": "some"}, "names"),
        ({"threads": "none"}, "current"),
        ({"max_ops": -1}, "whole number"),
        ({"max_ops": True}, "whole number"),
        ({"sink": 3}, "path"),
    ],
)
def test_a_wrong_argument_says_what_is_right(arguments, part):
    """One sentence names the values that can be given."""
    with pytest.raises(UsageError, match=part):
        trace_ops(**arguments)


def test_a_decorator_without_brackets_is_told_of():
    """@trace_ops above a function would trace nothing."""
    with pytest.raises(UsageError, match="brackets"):

        @trace_ops
        def work():
            """Never called."""


async def a_coroutine(): ...


def a_generator():
    yield


async def an_async_generator():
    yield


@pytest.mark.parametrize("kind", [trace_ops, capture_logs, inspect_dispatch])
@pytest.mark.parametrize(
    "function", [a_coroutine, a_generator, an_async_generator], ids=lambda f: f.__name__
)
def test_a_function_that_runs_later_cannot_be_decorated(kind, function):
    """Its block would be over before its body runs, so it is refused."""
    with pytest.raises(UsageError) as caught:
        kind()(function)
    assert str(caught.value) == (
        f"{function.__name__} runs after its call has returned, so nothing of it "
        f"would be seen: write the block inside the function."
    )


def test_a_decorated_function_is_a_block():
    """Each call makes a new trace; the function stays what it was."""
    tracer = trace_ops("work")

    @tracer
    def work(times):
        """Do it."""
        for _ in range(times):
            torch.ones(2)
        return times

    assert work(3) == 3
    assert tracer.trace.names == ("aten::ones",) * 3
    assert work(1) == 1
    assert len(tracer.trace) == 1
    assert (work.__name__, work.__doc__) == ("work", "Do it.")
    assert tracer.trace.label == "work"
    assert list(inspect.signature(work).parameters) == ["times"]


def test_pause_outside_a_block_is_told_of():
    """pause() needs a block to pause in."""
    with pytest.raises(UsageError, match="inside"), trace_ops().pause():
        pass


def test_the_trace_can_be_read_while_it_is_filled():
    """Inside the block the trace shows what has been recorded so far."""
    with trace_ops() as trace:
        torch.ones(2)
        before = trace.records
        torch.zeros(2)
        assert (len(before), len(trace)) == (1, 2)
    assert trace.names == ("aten::ones", "aten::zeros")
    assert trace[0] == before[0]
