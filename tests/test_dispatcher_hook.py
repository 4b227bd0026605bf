# SPDX-License-Identifier: BSD-3-Clause
"""Engine "dispatcher": what it sees, and that the program does not notice."""

from __future__ import annotations

import copy
import gc
import io
import os
import threading
import warnings
import weakref

import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.nn import functional as F  # noqa: N812 - the usual name
from torch.profiler import ProfilerActivity, profile
from torch.testing._internal.two_tensor import TwoTensor
from torch.utils._python_dispatch import TorchDispatchMode

from npu_dispatch_inspect import UsageError, read_dispatch_table, trace_ops
from npu_dispatch_inspect._torch_private import redispatch
from npu_dispatch_inspect.capture import _dispatcher_hook
from npu_dispatch_inspect.capture._hook_engine import DispatcherEngine


def traced(**options):
    """A tracer of the engine under test."""
    return trace_ops(engine="dispatcher", **options)


def outline(trace):
    """Names, indented by depth."""
    return [
        "  " * record.depth + record.name.removeprefix("aten::") for record in trace
    ]


class Mode(TorchDispatchMode):
    """Keeps the names of what it is asked about."""

    def __init__(self):
        super().__init__()
        self.names = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        """Note the call and go on."""
        self.names.append(str(func))
        return func(*args, **(kwargs or {}))


class TestTree:
    """What is recorded, and inside what."""

    def test_composites_and_what_kernels_call(self):
        """A linear layer with a bias is a composite over t and addmm."""
        layer, x = nn.Linear(4, 3), torch.ones(2, 4)
        with traced() as trace:
            layer(x)
        assert outline(trace)[:6] == [
            "linear",
            "  t",
            "    transpose",
            "      as_strided",
            "  addmm",
            "    expand",
        ]
        assert [record.parent for record in trace][:5] == [None, 0, 1, 2, 0]

    def test_autocast_goes_through_linear_twice(self):
        """Casts first, then the same operator below the autocast key."""
        layer, x = nn.Linear(4, 3), torch.ones(2, 4)
        with torch.autocast("cpu", dtype=torch.bfloat16), traced() as trace:
            layer(x)
        roots = [record for record in trace if record.depth <= 1]
        assert [record.name for record in roots] == [
            "aten::linear",
            "aten::to",
            "aten::to",
            "aten::to",
            "aten::linear",
        ]
        assert roots[0].keys[0] == roots[0].kernel.key == "AutocastCPU"
        assert roots[4].keys[0] == "AutogradCPU"
        assert roots[4].kernel.kind == "math kernel"

    def test_kernel_and_keys(self):
        """The key alive that ranks highest is the one whose kernel ran."""
        x = torch.ones(2, requires_grad=True)
        with traced() as trace:
            x.sin()
            with torch.no_grad():
                x.detach().sin()
        first, *_, last = [record for record in trace if record.name == "aten::sin"]
        assert (first.keys[0], first.kernel.kind) == ("AutogradCPU", "autograd kernel")
        assert first.kernel.site.startswith("VariableType_")
        assert "TESTING_ONLY_GenericMode" not in first.keys
        assert last.keys[-1] == "CPU"

    def test_custom_operators_are_open(self):
        """What the Python body of a custom operator calls is inside its record."""

        @torch.library.custom_op("hook_test::twice", mutates_args=())
        def twice(x: torch.Tensor) -> torch.Tensor:
            return x.sin().cos()

        x = torch.ones(2)
        with traced() as trace:
            twice(x)
        names = outline(trace)
        top = names.index("hook_test::twice")
        assert [name.strip() for name in names[top + 1 :]] == ["sin", "cos"]

    def test_failing_call_is_recorded(self):
        """An operator that raises is in the trace with its exception, at every level."""
        with traced() as trace, pytest.raises(RuntimeError, match="shapes"):
            torch.ones(2, 3) @ torch.ones(2, 3)
        failed = [record for record in trace if record.exception]
        assert [record.name for record in failed] == ["aten::matmul", "aten::mm"]
        assert failed[1].parent == failed[0].index
        with traced() as trace:
            torch.ones(1)
        assert trace[0].depth == 0

    def test_backward_belongs_to_forward(self):
        """Phase and forward call of backward calls are known here as well."""
        layer, x = nn.Linear(4, 3), torch.ones(2, 4)
        with traced() as trace:
            layer(x).sum().backward()
        (mm,) = [
            each
            for each in trace
            if each.name == "aten::mm" and each.phase.value == "backward"
        ]
        assert trace[mm.forward_index].name == "aten::addmm"

    def test_optimizer_step_has_its_phase(self):
        """The label around a step is followed, and is itself no record."""
        layer = nn.Linear(2, 2)
        steps = torch.optim.SGD(layer.parameters(), lr=0.1)
        layer(torch.ones(1, 2)).sum().backward()
        with traced() as trace:
            steps.step()
        assert {record.phase.value for record in trace} == {"optimizer"}
        assert not [name for name in trace.names if name.startswith("profiler::")]

    def test_names_only(self):
        """With less detail the tree and the keys are the same."""
        layer, x = nn.Linear(4, 3), torch.ones(2, 4)
        with traced() as full:
            layer(x)
        with traced(detail="names") as names:
            layer(x)
        assert outline(names) == outline(full)
        assert [each.keys for each in names] == [each.keys for each in full]


HIGHER_ORDER = {
    "cond": lambda x: torch.cond(x.sum() > 0, torch.sin, torch.cos, (x,)),
    "while_loop": lambda x: torch._higher_order_ops.while_loop(
        lambda i, _: i < 3, lambda i, y: (i + 1, y.sin()), (torch.tensor(0), x)
    )[1],
    "checkpoint": lambda x: torch.utils.checkpoint.checkpoint(
        torch.sin, x, use_reentrant=False
    ),
}


class TestHigherOrderOperators:
    """They are dispatched in Python; the tracer must not stand in their way."""

    @pytest.mark.parametrize("name", HIGHER_ORDER)
    def test_run_as_without(self, name):
        """The result is that of the untraced program."""
        program, x = HIGHER_ORDER[name], torch.ones(3)
        expected = program(x)
        with traced():
            actual = program(x)
        assert torch.equal(actual, expected)

    def test_direct_call_is_a_record_with_its_branch_inside(self):
        """`cond` is a record, and the operators of the branch taken are inside."""
        cond = torch.ops.higher_order.cond
        x = torch.ones(3)
        with traced() as trace:
            cond(torch.tensor(True), torch.sin, torch.cos, (x,))
        above, below = [each for each in trace if each.name == "higher_order::cond"]
        assert below.parent == above.index  # once more below autograd, as linear is
        assert above.kernel is None
        inside = [each.name for each in trace if each.parent == below.index]
        assert "aten::sin" in inside
        assert "aten::cos" not in trace.names

    def test_flex_attention(self):
        """It runs, and gives what it gives without a tracer."""
        from torch.nn.attention.flex_attention import flex_attention

        q = torch.randn(1, 1, 16, 16)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            expected = flex_attention(q, q, q)
            with traced():
                actual = flex_attention(q, q, q)
        assert torch.equal(actual, expected)

    def test_created_inside_the_block(self):
        """One that did not exist at the entry is passed through."""
        with traced():

            class Fresh(torch._ops.HigherOrderOperator):
                def __init__(self):
                    super().__init__("hook_test_fresh")

                def __call__(self, x):
                    return super().__call__(x)

            fresh = Fresh()
            fresh.fallthrough(torch._C.DispatchKey.AutogradCPU)
            fresh.py_impl(torch._C.DispatchKey.CompositeExplicitAutograd)(torch.sin)
            result = fresh(torch.ones(2))
        del torch._ops._higher_order_ops["hook_test_fresh"]
        assert torch.equal(result, torch.ones(2).sin())


class TestRegistrations:
    """The kernels are on the operators while somebody traces, and not after."""

    def test_no_row_is_left(self):
        """Both dumps of an operator read as before once the last tracer has ended."""

        def dumps():
            return (
                torch._C._dispatch_dump("aten::add.Tensor"),
                torch._C._dispatch_dump_table("aten::add.Tensor").replace(
                    fallthrough, ""
                ),
            )

        with traced():
            pass
        # One fallthrough for all operators stays, for threads that a tracer left
        # behind with the key on.
        (fallthrough,) = [
            line + "\n"
            for line in torch._C._dispatch_dump_table("aten::add.Tensor").splitlines()
            if line.startswith(redispatch.GENERIC_KEY)
        ]
        before = dumps()
        with traced():
            assert dumps() != before
            with traced():
                pass
            assert dumps() != before
        assert dumps() == before
        assert "fallthrough" in fallthrough

    def test_table_reader_does_not_show_them(self):
        """Reading tables inside a block gives the program's own registrations."""
        name = "aten::relu.default"
        expected = read_dispatch_table(name)[name].registrations
        with traced():
            assert read_dispatch_table(name)[name].registrations == expected

    def test_operator_registered_inside_is_passed_through_and_seen_next_time(self):
        """A library that comes later works, and is traced from the next entry on."""
        with torch.library._scoped_library("hook_later", "FRAGMENT") as library:
            with traced() as first:
                library.define("late(Tensor x) -> Tensor")
                library.impl("late", lambda x: x.sin(), "CompositeExplicitAutograd")
                torch.ops.hook_later.late(torch.ones(2))
            with traced() as second:
                torch.ops.hook_later.late(torch.ones(2))
        assert first.names == ("aten::ones", "aten::empty", "aten::fill_", "aten::sin")
        assert second.names[-2:] == ("hook_later::late", "aten::sin")

    def test_operator_defined_anew(self):
        """A name that now means another operator gets a kernel for the new one."""
        x = torch.ones(2)
        for schema, call in (("(Tensor x)", (x,)), ("(Tensor x, int n)", (x, 2))):
            with torch.library._scoped_library("hook_anew", "FRAGMENT") as library:
                library.define(f"op{schema} -> Tensor")
                library.impl("op", lambda x, *_: x.sin(), "CompositeExplicitAutograd")
                with traced() as trace:
                    torch.ops.hook_anew.op(*call)
                assert trace.names == ("hook_anew::op", "aten::sin")

    def test_names_without_a_schema_are_left_alone(self):
        """A kernel may be registered for an operator that nobody has defined."""
        library = torch._C._dispatch_library("IMPL", "hook_dangling", "", "", 0)
        library.impl("op", "CPU", lambda x: x, False)
        try:
            with traced() as trace:
                torch.ones(1)
        finally:
            library.reset()
        assert trace.names[0] == "aten::ones"


class TestSameProgram:
    """What the program computes, raises, warns and keeps is the same."""

    @pytest.mark.parametrize(
        "program",
        [
            lambda: torch.ones(3)[10],
            lambda: torch.ones(2) @ torch.ones(3),
            lambda: torch.linalg.inv(torch.zeros(2, 2)),
            lambda: torch.ones(3).index_select(0, torch.tensor([7])),
            lambda: torch.ones(2).view(3),
            lambda: torch.ones(2, device="meta").item(),
            lambda: torch.ones(2, requires_grad=True).add_(1),
            lambda: torch.zeros(2, dtype=torch.int).mean(),
            lambda: torch.ones(2).transpose(0, 5),
            lambda: torch.empty(10**15),
            lambda: torch.add(torch.ones(2), "one"),
            lambda: torch.multinomial(torch.tensor([-1.0, 1.0]), 1),
        ],
    )
    def test_exceptions(self, program):
        """Type and message of an error are torch's own."""

        def caught():
            with pytest.raises(Exception) as info:  # noqa: PT011 - compared below
                program()
            return type(info.value), str(info.value)

        expected = caught()
        with traced():
            assert caught() == expected

    def test_warnings_point_at_the_user(self):
        """A warning from C++ names the program's file and line."""

        def warned():
            with warnings.catch_warnings(record=True) as seen:
                warnings.simplefilter("always")
                torch.add(torch.ones(2, 3), torch.ones(2, 3), out=torch.empty(5))
            return [(str(each.message), each.filename, each.lineno) for each in seen]

        expected = warned()
        with traced():
            actual = warned()
        assert expected
        assert actual == expected

    def test_interrupt_out_of_a_kernel(self):
        """KeyboardInterrupt goes through, and the trace keeps what was there."""

        @torch.library.custom_op("hook_test::interrupted", mutates_args=())
        def interrupted(x: torch.Tensor) -> torch.Tensor:
            x.sin()
            raise KeyboardInterrupt

        with traced() as trace, pytest.raises(KeyboardInterrupt):
            interrupted(torch.ones(2))
        assert trace.records[-1].name == "aten::sin"
        (record,) = [each for each in trace if each.name == "hook_test::interrupted"][
            :1
        ]
        assert record.exception.type == "KeyboardInterrupt"

    def test_no_tensor_is_kept(self):
        """What the program drops is gone, results and intermediate results alike."""
        with traced():
            x = torch.ones(1000)
            gone = weakref.ref(x)
            (x * 2).sum()
            del x
            assert gone() is None

    def test_an_exception_keeps_no_intermediate_tensor(self):
        """The traceback of a failed call does not hold the arguments of inner calls."""
        with traced(), pytest.raises(RuntimeError) as caught:
            torch.ones(2, 3).t() @ torch.ones(5, 5)
        held = [
            value
            for entry in caught.traceback
            if "npu_dispatch_inspect" in str(entry.path)
            for value in entry.frame.f_locals.values()
            if isinstance(value, torch.Tensor)
        ]
        assert not held

    def test_a_profiler_inside_sees_the_programs_operators(self):
        """The tracer adds nothing to what torch.profiler reports."""

        def profiled():
            layer = nn.Linear(4, 3)
            with profile(activities=[ProfilerActivity.CPU]) as profiler:
                (layer(torch.ones(2, 4)) * 1.75).sum().backward()
            return sorted((each.key, each.count) for each in profiler.key_averages())

        profiled()
        expected = profiled()
        with traced():
            actual = profiled()
        assert [each for each in actual if "::" in each[0]] == [
            each for each in expected if "::" in each[0]
        ]

    def test_autograd_numbers_its_nodes_alike(self):
        """No autograd node is made that the program does not make."""

        def nodes():
            first = torch.autograd._get_sequence_nr()
            (torch.ones(2, requires_grad=True) * 3.25 + 1).sum().backward()
            return torch.autograd._get_sequence_nr() - first

        expected = nodes()
        with traced():
            assert nodes() == expected

    def test_state_of_torch_after_an_error(self):
        """The thread's keys are as before, whatever went wrong."""
        before = str(torch._C._dispatch_tls_local_include_set())
        with pytest.raises(ZeroDivisionError), traced():
            torch.func.vmap(lambda x: x / (1 // 0))(torch.ones(2))
        assert str(torch._C._dispatch_tls_local_include_set()) == before


class TestFeatures:
    """One program per feature that is known to trip tracers."""

    def same(self, program):
        """The result is the same with a tracer."""
        expected = program()
        with traced() as trace:
            actual = program()
        assert trace
        if isinstance(expected, torch.Tensor):
            assert torch.equal(actual, expected)
        else:
            assert actual == expected

    def test_printing(self):
        """A tensor prints as it does."""
        self.same(lambda: repr(torch.arange(2000.0)) + repr(torch.ones(2).to_sparse()))

    def test_saving_and_loading(self):
        """torch.save and torch.load work inside."""

        def program():
            file = io.BytesIO()
            torch.save({"weight": torch.ones(3), "layer": nn.Linear(2, 2)}, file)
            file.seek(0)
            return torch.load(file, weights_only=False)["weight"]

        self.same(program)

    def test_deepcopy_of_modules(self):
        """Modules made and copied inside are whole."""

        def program():
            torch.manual_seed(0)
            return copy.deepcopy(nn.GRU(2, 3)).weight_hh_l0.detach()

        self.same(program)

    def test_quantized(self):
        """Quantized tensors go through."""

        def program():
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                x = torch.quantize_per_tensor(torch.arange(4.0), 0.5, 1, torch.qint8)
            return (x.reshape(2, 2).dequantize() + 1).sum()

        self.same(program)

    def test_generators(self):
        """Random numbers from a generator are the same."""
        self.same(
            lambda: (
                torch.rand(4, generator=torch.Generator().manual_seed(3))
                + torch.randn(4, generator=torch.Generator().manual_seed(5))
            )
        )

    def test_make_fx(self):
        """The traced graph has the same code."""
        self.same(lambda: make_fx(lambda x: x.sin() + 1)(torch.ones(2)).code)

    def test_make_fx_symbolic(self):
        """With symbolic shapes as well."""
        self.same(
            lambda: (
                make_fx(lambda x: x.view(-1) * x.shape[0], tracing_mode="symbolic")(
                    torch.ones(2, 3)
                ).code
            )
        )

    def test_export(self):
        """torch.export gives the same graph."""
        layer = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3), nn.ReLU()).eval()
        self.same(
            lambda: torch.export.export(layer, (torch.ones(4, 2),)).graph_module.code
        )

    def test_functionalization(self):
        """Functionalized in-place code gives the same graph."""

        def program():
            def function(x):
                y = x.clone()
                y.add_(1).view(-1)[0].mul_(2)
                return y

            return make_fx(torch.func.functionalize(function))(torch.ones(2, 2)).code

        self.same(program)

    def test_fake_tensors(self):
        """A FakeTensorMode computes shapes as it does, and its calls are recorded."""

        def program():
            with FakeTensorMode():
                layer = nn.Linear(4, 3)
                return tuple(layer(torch.ones(2, 4) * 2).shape)

        self.same(program)

    @pytest.mark.filterwarnings("ignore")
    def test_jit(self):
        """Scripted and traced functions compute the same."""
        scripted = torch.jit.script(_scripted)

        def program():
            module = torch.jit.trace(lambda x: x.sin() + 1, torch.ones(2))
            return scripted(torch.ones(3), 2) + module(torch.ones(3)).sum()

        self.same(program)

    def test_wrapper_subclass(self):
        """Both levels are recorded: the subclass's call and those on its parts."""
        x = TwoTensor(torch.ones(2), torch.zeros(2))
        with traced() as trace:
            y = x.sin()
        assert type(y) is TwoTensor
        assert [name for name in trace.names if name == "aten::sin"] == [
            "aten::sin"
        ] * 3
        (outer,) = [each for each in trace if each.depth == 0]
        assert "Python" in outer.keys

    def test_dtensor(self):
        """DTensor on a fake process group redistributes and computes the same shapes."""
        import torch.distributed as dist
        from torch.distributed.device_mesh import DeviceMesh
        from torch.distributed.tensor import Shard, distribute_tensor
        from torch.testing._internal.distributed.fake_pg import FakeStore

        dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)
        try:
            mesh = DeviceMesh("cpu", [0, 1])
            x = distribute_tensor(torch.ones(4, 4), mesh, [Shard(0)])

            def program():
                return tuple((x @ x).to_local().shape)

            self.same(program)
        finally:
            dist.destroy_process_group()

    def test_with_a_mode_of_the_user(self):
        """The mode is asked about the same operators; both levels are recorded."""
        x = torch.ones(2, 4)

        def program():
            layer = nn.Linear(4, 3)
            with Mode() as mode:
                (layer(x) + 1.5).sum().backward()
            return mode.names

        self.same(program)

    def test_fused_and_foreach(self):
        """Operators on lists of tensors, some of them in place."""

        def program():
            tensors = [torch.ones(2), torch.ones(3)]
            torch._foreach_mul_(tensors, 2)
            torch._foreach_add_(tensors, [1.0, 2.0])
            return torch.cat(tensors)

        self.same(program)

    def test_conjugates_and_negatives(self):
        """Lazy conjugation is resolved where it was."""
        x = torch.tensor([1 + 2j, 3 - 1j])
        self.same(lambda: (x.conj() @ x).imag.neg() + torch._neg_view(x.real))

    def test_copy_on_write(self):
        """A lazily cloned tensor stays lazy until the program writes."""

        def program():
            lazy = torch._lazy_clone(torch.ones(4))
            lazy.view(2, 2)
            return torch._C._is_cow_tensor(lazy)

        self.same(program)


def _scripted(x: torch.Tensor, n: int) -> torch.Tensor:
    for _ in range(n):
        x = x * 1.5 + n
    return x.sum()


class TestLifeCycle:
    """Any order of entries and exits leaves nothing behind."""

    def test_nested_tracers_each_record_once(self):
        """The outer trace has everything, the inner one its part."""
        with traced() as outer:
            torch.ones(1).sin()
            with traced() as inner:
                torch.ones(1).cos()
            torch.ones(1).tan()
        assert [each for each in outer.names if each[-3:] in {"sin", "cos", "tan"}] == [
            "aten::sin",
            "aten::cos",
            "aten::tan",
        ]
        assert inner.names == ("aten::ones", "aten::empty", "aten::fill_", "aten::cos")
        assert [each.depth for each in inner] == [0, 1, 1, 0]

    def test_exits_in_another_order(self):
        """Each tracer sees until its own exit."""
        first, second = traced(), traced()
        one = first.__enter__()
        two = second.__enter__()
        x = torch.ones(1)
        first.__exit__(None, None, None)
        x.sin()
        second.__exit__(None, None, None)
        x.cos()
        assert "aten::sin" not in one.names
        assert two.names[-1] == "aten::sin"

    def test_together_with_the_other_engine(self):
        """A mode's calls are recorded at their own level; the mode sees what it saw."""
        layer, x = nn.Linear(4, 3), torch.ones(2, 4)
        with trace_ops() as alone:
            layer(x)
        with traced() as below, trace_ops() as above:
            layer(x)
        assert above.names == alone.names == ("aten::t", "aten::addmm")
        assert below.names[:4] == (
            "aten::linear",
            "aten::t",
            "aten::t",
            "aten::transpose",
        )

    def test_generator_closed_half_way(self):
        """A block inside a generator ends when the generator is closed."""

        def numbers():
            with traced():
                yield torch.ones(1)
                yield torch.ones(2)

        before = str(torch._C._dispatch_tls_local_include_set())
        generator = numbers()
        next(generator)
        generator.close()
        del generator
        gc.collect()
        assert str(torch._C._dispatch_tls_local_include_set()) == before

    def test_exit_from_another_thread(self):
        """The entering thread is no longer recorded, and its operators still run."""
        tracer = traced()
        trace = tracer.__enter__()
        thread = threading.Thread(target=tracer.__exit__, args=(None, None, None))
        thread.start()
        thread.join()
        assert torch.ones(2).sin().shape == (2,)
        assert "aten::sin" not in trace.names
        with traced() as again:
            torch.ones(1).cos()
        assert again.names[-1] == "aten::cos"

    def test_exit_inside_an_operator(self):
        """A tracer may end while a call is under way."""
        tracer = traced()

        @torch.library.custom_op("hook_test::ends", mutates_args=())
        def ends(x: torch.Tensor) -> torch.Tensor:
            tracer.__exit__(None, None, None)
            return x.sin()

        trace = tracer.__enter__()
        result = ends(torch.ones(2))
        assert torch.equal(result, torch.ones(2).sin())
        assert "hook_test::ends" in trace.names

    def test_stopping_twice(self):
        """The second stop does nothing."""
        from npu_dispatch_inspect.capture._recorder import Recorder

        engine = DispatcherEngine(Recorder(nesting=True))
        engine.start()
        engine.stop()
        engine.stop()
        with traced() as trace:
            torch.ones(1)
        assert trace.names[0] == "aten::ones"

    def test_entry_that_fails(self, monkeypatch):
        """An error while kernels are put in place leaves none of them."""

        def broken(_kernels):
            raise MemoryError

        monkeypatch.setattr(redispatch, "register_kernels", broken)
        with pytest.raises(MemoryError), traced():
            pass
        monkeypatch.undo()
        assert "_make_subclass" not in vars(torch.Tensor)
        assert redispatch.GENERIC_KEY not in torch._C._dispatch_dump("aten::add.Tensor")

    def test_torch_that_lacks_what_it_needs(self, monkeypatch):
        """One sentence names what is missing and the engine that works."""
        monkeypatch.setattr(
            redispatch, "missing_features", lambda: ("redispatch_boxed",)
        )
        with pytest.raises(
            UsageError, match=r'redispatch_boxed; use engine="dispatch_'
        ):
            _dispatcher_hook.require_support()

    @pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")
    @pytest.mark.filterwarnings("ignore::DeprecationWarning")
    def test_fork_inside(self):
        """A forked child runs untraced; the parent's trace does not notice."""
        with traced() as trace:
            torch.ones(1).sin()
            child = os.fork()
            if child == 0:
                alive = torch.ones(2).cos().shape == (2,)
                alive = alive and "aten::cos" not in trace.names
                os._exit(0 if alive else 1)
            _, status = os.waitpid(child, 0)
            torch.ones(1).tan()
        assert os.waitstatus_to_exitcode(status) == 0
        assert trace.names[-1] == "aten::tan"


class TestThreads:
    """Whose calls are seen."""

    def test_other_threads_are_not_recorded(self):
        """A plain thread started inside the block is not the block's."""
        with traced() as trace:
            thread = threading.Thread(target=lambda: torch.ones(3).sin())
            thread.start()
            thread.join()
        assert trace.names == ()

    def test_each_thread_its_own(self):
        """Tracers of several threads at once do not mix."""
        names = {}
        barrier = threading.Barrier(3)

        def work(function):
            with traced() as trace:
                barrier.wait()
                for _ in range(50):
                    getattr(x, function)()
                barrier.wait()
            names[function] = set(trace.names), len(trace)

        x = torch.ones(4)
        threads = [
            threading.Thread(target=work, args=(each,))
            for each in ("sin", "cos", "tan")
        ]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        assert names == {
            each: ({f"aten::{each}"}, 50) for each in ("sin", "cos", "tan")
        }

    @pytest.mark.npu
    def test_autograd_threads_are_recorded(self):
        """Backward on a device runs on a thread of its own, and is in the trace."""
        x = torch.ones(3, device="npu:0", requires_grad=True)
        with traced() as trace:
            (x * 2).sum().backward()
        assert {record.thread for record in trace} == {0, 1}
        on_device = [record.name for record in trace if record.thread == 1]
        assert "aten::mul" in on_device
        assert {
            record.depth for record in trace if record.thread == 1 and not record.parent
        } == {0}

    @pytest.mark.npu
    def test_autograd_threads_serve_whoever_asks(self):
        """Two threads that run backward at once each get their own calls."""
        counts = {}
        barrier = threading.Barrier(2)

        def work(name, times):
            x = torch.ones(3, device="npu:0", requires_grad=True)
            y = x
            for _ in range(times):
                y = y.sin()
            with traced() as trace:
                barrier.wait()
                y.sum().backward()
                barrier.wait()
            counts[name] = sum(each.name == "aten::cos" for each in trace)

        threads = [
            threading.Thread(target=work, args=("few", 5)),
            threading.Thread(target=work, args=("many", 40)),
        ]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        assert counts == {"few": 5, "many": 40}


@pytest.mark.npu
class TestNpu:
    """Trees on an NPU, under the real torch_npu."""

    def test_autocast_linear(self):
        """Three casts, then linear again, as t and addmm."""
        layer = nn.Linear(4, 3).to("npu:0")
        x = torch.ones(2, 4, device="npu:0")
        with torch.autocast("npu", dtype=torch.float16), traced() as trace:
            layer(x)
        shallow = [record for record in trace if record.depth <= 1]
        assert [each.name.removeprefix("aten::") for each in shallow] == [
            "linear",
            "to",
            "to",
            "to",
            "linear",
        ]
        assert shallow[0].keys[0] == "AutocastPrivateUse1"
        assert shallow[4].keys[0] == "AutogradPrivateUse1"
        inner = [each.name for each in trace if each.parent == shallow[4].index]
        assert inner == ["aten::t", "aten::addmm"]

    def test_conv2d(self):
        """conv2d is convolution is _convolution."""
        x, w = torch.ones(1, 2, 5, 5, device="npu:0"), torch.ones(3, 2, 3, 3).npu()
        with traced() as trace:
            F.conv2d(x, w)
        assert outline(trace)[:3] == ["conv2d", "  convolution", "    _convolution"]

    @pytest.mark.filterwarnings("ignore")
    def test_digamma_falls_back_to_the_cpu(self):
        """The fallback's copies to the host and back are inside the out variant."""
        x = torch.ones(3, device="npu:0")
        with traced() as trace:
            torch.digamma(x)
        names = outline(trace)
        assert names[0] == "digamma"
        out = next(
            each for each in trace if each.name == "aten::digamma" and each.depth == 1
        )
        inside = {each.name for each in trace if each.index > out.index}
        assert {"aten::_to_cpu", "aten::_to_copy", "aten::copy_"} <= inside
        assert "aten::_copy_from_and_resize" in inside

    def test_attention(self):
        """Without a float mask, attention is one fused NPU operator."""
        q = torch.randn(1, 2, 8, 16, device="npu:0", dtype=torch.float16)
        with traced() as trace:
            F.scaled_dot_product_attention(q, q, q)
        assert trace[0].name == "aten::scaled_dot_product_attention"
        (fused,) = [
            each for each in trace if each.name.startswith("npu::npu_fusion_attention")
        ][:1]
        assert fused.depth == 1

    def test_matmul(self):
        """A 3-dimensional matmul is an operator of its own here, not a composite."""
        a, b = torch.ones(2, 3, 4, device="npu:0"), torch.ones(4, 5, device="npu:0")
        with traced() as trace:
            a @ b
        assert trace[0].name == "aten::matmul"
        assert "PrivateUse1" in trace[0].keys
        assert "aten::bmm" not in trace.names

    def test_kernel_of_addmm(self):
        """Below autograd the kernel is torch_npu's own."""
        layer = nn.Linear(4, 3).to("npu:0")
        x = torch.ones(2, 4, device="npu:0")
        with torch.no_grad(), traced() as trace:
            layer(x)
        (addmm,) = [each for each in trace if each.name == "aten::addmm"]
        assert addmm.kernel.key in {"AutogradPrivateUse1", "PrivateUse1"}
