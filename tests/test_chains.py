# SPDX-License-Identifier: BSD-3-Clause
"""Joining hand-made records: every verdict, and the fact that decided it."""

from __future__ import annotations

import pytest

from npu_dispatch_inspect import Verdict
from npu_dispatch_inspect.chains import NAMED_BY_TASK, NAMED_TO_PROFILER, join
from npu_dispatch_inspect.records import (
    AclnnRecord,
    Argument,
    Environment,
    ExceptionRecord,
    ExecutionRecord,
    KernelChoice,
    LoggedArgument,
    MissingReason,
    OpRecord,
    QueueAction,
    QueueRecord,
    QueueState,
    QueueTask,
    TaskKind,
    TaskRun,
    TensorSpec,
)
from npu_dispatch_inspect.records.chains import NativeCall
from npu_dispatch_inspect.traces._copies import copies_in
from npu_dispatch_inspect.traces.logs import LogTrace
from npu_dispatch_inspect.traces.ops import OpTrace

HERE = Environment(tool="0", python="3", platform="here")

FILTERED = Environment(
    tool="0", python="3", platform="p", switches=(("TORCH_NPU_LOGS_FILTER", "+x"),)
)

NPU = (KernelChoice(key="PrivateUse1", kind="kernel", site="RegisterNPU.cpp:1"),)
CPU = (KernelChoice(key="CPU", kind="kernel", site="RegisterCPU.cpp:1"),)
FALLBACK = (
    KernelChoice(
        key="PrivateUse1", kind="backend fallback", site="VariableFallbackKernel.cpp:1"
    ),
)
COMPOSITE = (
    KernelChoice(
        key="AutogradPrivateUse1", kind="math kernel", site="RegisterComposite.cpp:1"
    ),
)
SELECT = (
    KernelChoice(
        key="BackendSelect", kind="kernel", site="RegisterBackendSelect.cpp:1"
    ),
)


def spec(storage, device="npu:0", shape=(2,)):
    """A tensor by its storage."""
    return TensorSpec(dtype="float32", device=device, shape=shape, storage_id=storage)


def call(
    index, name, path=NPU, *, parent=None, inputs=(), written=(), outputs=(), **more
):
    """One call; ``written`` are arguments that it writes to."""
    return OpRecord(
        index=index,
        name=name,
        parent=parent,
        depth=0 if parent is None else 1,
        inputs=(
            *(
                Argument(name=f"w{n}", value=each, written=True)
                for n, each in enumerate(written)
            ),
            *(
                Argument(name=f"a{n}" if n else "self", value=each)
                for n, each in enumerate(inputs)
            ),
        ),
        outputs=tuple(outputs),
        path=path,
        **more,
    )


def launched(index, name, op, **more):
    """A launch line that was given to a call."""
    return AclnnRecord(
        index=index,
        offset=index,
        text=f"{name}\n",
        name=name,
        command="EXEC_NPU_CMD",
        op=op,
        **more,
    )


def queued(index, name, op, function):
    """The lines of one task: written by the call, run by the consumer, read."""
    task = QueueTask(kind=TaskKind.OPERATOR, name=name)
    run = TaskRun(function=function, name=name)
    return [
        QueueRecord(
            index=index, offset=index, text="w\n", action=QueueAction.WRITE, task=task,
            state=QueueState(0, 7, 7, 1), op=op,
        ),
        ExecutionRecord(index=index + 1, offset=index + 1, text="s\n", run=run),
        QueueRecord(
            index=index + 2, offset=index + 2, text="r\n", action=QueueAction.READ, task=task,
            state=QueueState(0, 8, 7, 1),
        ),
    ]  # fmt: skip


def chains(*calls, logs=(), **more):
    """The chains of calls and log records; ``missing`` and others go to the log."""
    options = {
        name: more.pop(name) for name in ("truncated", "native_calls") if name in more
    }
    trace = OpTrace(
        records=calls,
        environment=more.pop("environment", HERE),
        engine="dispatcher",
        truncated=options.get("truncated", False),
    )
    if "log_environment" in more:
        more["environment"] = more.pop("log_environment")
    lines = None if logs is None else LogTrace(records=logs, **more)
    return join(trace, lines, options.get("native_calls"))


def judged(*calls, logs=(), **more):
    """Verdict and reason of the first chain."""
    first = chains(*calls, logs=logs, **more).chains[0]
    return first.verdict, first.why


class TestVerdicts:
    def test_own_launch(self):
        """A call that launched is aclnn."""
        assert judged(call(0, "aten::mm"), logs=[launched(0, "aclnnMm", 0)]) == (
            Verdict.ACLNN,
            "It launched aclnnMm.",
        )

    def test_own_launch_and_an_error(self):
        """A call that launched and raised says both."""
        error = ExceptionRecord(type="RuntimeError", message="")
        seen = judged(
            call(0, "aten::mm", exception=error), logs=[launched(0, "aclnnMm", 0)]
        )
        assert seen == (Verdict.ACLNN, "It launched aclnnMm and raised RuntimeError.")

    def test_launch_of_a_call_inside(self):
        """A kernel whose inner call launched is aclnn through that one."""
        seen = judged(
            call(0, "aten::zeros"), call(1, "aten::zero_", parent=0),
            logs=[launched(0, "aclnnInplaceZero", 1)],
        )  # fmt: skip
        assert seen == (Verdict.ACLNN_VIA, "Its NPU kernel called aten::zero_.")

    def test_aclop_by_the_queue(self):
        """A task that the consumer runs by ExecFunc is an aclop."""
        joined = chains(call(0, "aten::mm"), logs=queued(0, "MatMul", 0, "ExecFunc"))
        (node,) = joined.chains
        assert (node.verdict, node.why) == (Verdict.ACLOP, "It ran MatMul as aclop.")
        assert [task.slot for task in node.aclops] == [7]

    def test_aclop_of_a_call_inside(self):
        """So is a kernel whose inner call ran one."""
        seen = judged(
            call(0, "aten::softmax"), call(1, "aten::_softmax", parent=0),
            logs=queued(0, "SoftmaxV2", 1, "ExecFunc"),
        )  # fmt: skip
        assert seen == (
            Verdict.ACLOP,
            "Its NPU kernel called aten::_softmax, run as aclop.",
        )

    def test_launch_and_aclop(self):
        """A call that did both is aclnn, and the aclop is said."""
        lines = [launched(0, "aclnnMm", 0), *queued(1, "Cast", 0, "ExecFunc")]
        assert judged(call(0, "aten::mm"), logs=lines) == (
            Verdict.ACLNN,
            "It launched aclnnMm, ran Cast as aclop.",
        )

    def test_fallback_by_the_tables(self):
        """The registered fallback decides, whatever was logged."""
        assert judged(call(0, "aten::digamma.out", FALLBACK), logs=None) == (
            Verdict.CPU_FALLBACK,
            (
                "The tables give it the PrivateUse1 backend fallback at "
                "VariableFallbackKernel.cpp:1."
            ),
        )

    def test_work_on_data_from_the_device_is_hidden_cpu(self):
        """A CPU call on what was copied from the NPU is a part of the kernel's work."""
        seen = judged(
            call(0, "aten::std", inputs=[spec(1)], outputs=[spec(4)]),
            call(
                1, "aten::copy_", parent=0, written=[spec(2, "cpu")], inputs=[spec(1)]
            ),
            call(
                2,
                "aten::std",
                CPU,
                parent=0,
                inputs=[spec(2, "cpu")],
                outputs=[spec(3, "cpu")],
            ),
        )
        assert seen == (
            Verdict.HIDDEN_CPU,
            "Its NPU kernel called aten::std on the CPU.",
        )

    def test_work_for_the_device_is_hidden_cpu(self):
        """So is one whose result is copied to the NPU."""
        seen = judged(
            call(0, "aten::randperm", outputs=[spec(4)]),
            call(1, "aten::randperm", CPU, parent=0, outputs=[spec(3, "cpu")]),
            call(
                2, "aten::copy_", parent=0, written=[spec(4)], inputs=[spec(3, "cpu")]
            ),
        )
        assert seen[0] is Verdict.HIDDEN_CPU

    def test_fallback_inside_a_kernel_is_hidden_cpu(self):
        """A kernel that calls an operator that falls back says which one."""
        seen = judged(
            call(0, "aten::outer"), call(1, "aten::inner", FALLBACK, parent=0)
        )
        assert seen == (
            Verdict.HIDDEN_CPU,
            "Its NPU kernel called aten::inner, which fell back to the CPU.",
        )

    def test_numbers_on_the_host_are_no_work(self):
        """A CPU call on a number that neither came nor goes decides nothing."""
        number = spec(9, "cpu", ())
        seen = judged(
            call(0, "aten::add", inputs=[spec(1)], outputs=[spec(2)]),
            call(1, "aten::mul", CPU, parent=0, inputs=[number], outputs=[number]),
        )
        assert seen == (
            Verdict.UNKNOWN,
            "It reached the PrivateUse1 kernel at RegisterNPU.cpp:1 and no launch was seen.",
        )

    def test_launch_and_cpu_work(self):
        """A kernel that did both is aclnn, and the rest is said."""
        seen = judged(
            call(0, "aten::topk", inputs=[spec(1)]),
            call(
                1, "aten::copy_", parent=0, written=[spec(2, "cpu")], inputs=[spec(1)]
            ),
            call(2, "aten::sort", CPU, parent=0, inputs=[spec(2, "cpu")]),
            logs=[launched(0, "aclnnTopk", 0)],
        )
        assert seen == (
            Verdict.ACLNN,
            "It launched aclnnTopk, and called aten::sort on the CPU.",
        )

    def test_view(self):
        """A result that shares an input's storage was not computed."""
        seen = judged(call(0, "aten::view", inputs=[spec(1)], outputs=[spec(1)]))
        assert seen == (Verdict.NO_LAUNCH, "It returned a view of an input.")

    def test_composite_of_views_is_a_view(self):
        """A composite whose calls all return views returns one."""
        seen = judged(
            call(0, "aten::t", COMPOSITE, inputs=[spec(1)], outputs=[spec(1)]),
            call(1, "aten::as_strided", parent=0, inputs=[spec(1)], outputs=[spec(1)]),
        )
        assert seen[0] is Verdict.NO_LAUNCH

    def test_in_place_on_the_same_storage_is_no_view(self):
        """An operator that writes shares its input's storage and is none."""
        seen = judged(call(0, "aten::relu_", written=[spec(1)], outputs=[spec(1)]))
        assert seen[0] is Verdict.UNKNOWN
        seen = judged(call(0, "aten::t_", written=[spec(1)], outputs=[spec(1)]))
        assert seen[0] is Verdict.NO_LAUNCH

    def test_format_cast_to_the_same_format(self):
        """One that returns its input has moved nothing; others have."""
        same = call(0, "npu::npu_format_cast", inputs=[spec(1)], outputs=[spec(1)])
        other = call(0, "npu::npu_format_cast", inputs=[spec(1)], outputs=[spec(2)])
        assert judged(same)[0] is Verdict.NO_LAUNCH
        assert judged(other)[0] is Verdict.COPY
        assert [copies_in(chains(each).chains) == () for each in (same, other)] == [
            True,
            False,
        ]

    def test_memory(self):
        """Making memory computes nothing."""
        seen = judged(call(0, "aten::empty", SELECT, outputs=[spec(1)]))
        assert seen == (
            Verdict.NO_LAUNCH,
            "It made or reshaped memory and computed nothing.",
        )

    def test_nothing_returned_and_nothing_queued(self):
        """A question that returns no tensor launched nothing, where all lines came."""
        question = call(0, "npu::get_npu_format", inputs=[spec(1)], outputs=[2])
        assert judged(question)[0] is Verdict.NO_LAUNCH
        assert judged(question, logs=None)[0] is Verdict.UNKNOWN
        jit = Environment(tool="0", python="3", platform="p", jit_compile=True)
        assert judged(question, environment=jit)[0] is Verdict.UNKNOWN

    def test_composite(self):
        """A kernel of every backend does nothing itself."""
        seen = judged(
            call(0, "aten::linear", COMPOSITE, outputs=[spec(3)]),
            call(1, "aten::addmm", parent=0),
            logs=[launched(0, "aclnnAddmm", 1)],
        )
        assert seen == (
            Verdict.COMPOSITE,
            (
                "It reached the AutogradPrivateUse1 math kernel at RegisterComposite.cpp:1, "
                "which calls other operators."
            ),
        )

    def test_composite_that_launched(self):
        """A composite launches nothing: what did was not recorded."""
        seen = judged(
            call(0, "aten::linear", COMPOSITE), logs=[launched(0, "aclnnAddmm", 0)]
        )
        assert seen == (
            Verdict.ACLNN_VIA,
            "It launched aclnnAddmm through calls that were not recorded.",
        )

    def test_kernel_of_another_backend(self):
        """On the CPU the chain ends in the kernel."""
        assert judged(call(0, "aten::mm", CPU), logs=None) == (
            Verdict.KERNEL,
            "It reached the CPU kernel at RegisterCPU.cpp:1.",
        )

    def test_factory_is_of_the_device_it_made_a_tensor_on(self):
        """BackendSelect hands on by the device that was asked for."""
        assert (
            judged(call(0, "aten::ones", SELECT, outputs=[spec(1, "cpu")]))[0]
            is Verdict.KERNEL
        )
        assert (
            judged(call(0, "aten::ones", SELECT, outputs=[spec(1)]))[0]
            is Verdict.UNKNOWN
        )

    def test_copy(self):
        """Data that the runtime moves is a copy, also inside the call that asked."""
        seen = judged(
            call(0, "aten::_to_copy", inputs=[spec(1)], outputs=[spec(2, "cpu")]),
            call(
                1, "aten::copy_", parent=0, written=[spec(2, "cpu")], inputs=[spec(1)]
            ),
        )
        assert seen == (
            Verdict.COPY,
            "It moved data by the runtime, not by an aclnn launch.",
        )

    def test_copy_whose_way_is_not_known(self):
        """Without log lines an aclnn launch may have moved it."""
        seen = judged(call(0, "aten::copy_", inputs=[spec(1)]), logs=None)
        assert seen == (
            Verdict.COPY,
            "Its work is to move data; how is not known; torch_npu's log lines were not captured.",
        )

    def test_copy_inside_does_not_make_a_copy(self):
        """A kernel that copies something may compute as well: that is not known."""
        seen = judged(
            call(0, "npu::something", inputs=[spec(1)], outputs=[spec(3)]),
            call(1, "aten::copy_", parent=0, written=[spec(3)], inputs=[spec(1)]),
        )
        assert seen[0] is Verdict.UNKNOWN

    def test_error_before_any_launch(self):
        """A call that raised is not judged by what it did not come to."""
        error = ExceptionRecord(type="ValueError", message="")
        assert judged(call(0, "aten::mm", exception=error)) == (
            Verdict.UNKNOWN,
            "It raised ValueError before any launch.",
        )

    def test_higher_order(self):
        """An operator without tables that called others is composite."""
        seen = judged(call(0, "higher_order::cond", ()), call(1, "aten::sin", parent=0))
        assert seen[0] is Verdict.COMPOSITE

    def test_kernel_not_observed(self):
        """Without a kernel and a launch nothing is known, except that a view is one."""
        assert judged(call(0, "aten::mm", ())) == (
            Verdict.UNKNOWN,
            "Its kernel was not observed.",
        )
        seen = judged(call(0, "aten::view", (), inputs=[spec(1)], outputs=[spec(1)]))
        assert seen[0] is Verdict.NO_LAUNCH


class TestDoubt:
    @pytest.mark.parametrize(
        ("more", "words"),
        [
            ({"logs": None}, "torch_npu's log lines were not captured"),
            (
                {"missing": (MissingReason(what="dispatch", reason="r", remedy="r"),)},
                "dispatch lines are missing",
            ),
            ({"incomplete": ("lost",)}, "lines may be missing"),
            ({"log_environment": FILTERED}, "TORCH_NPU_LOGS_FILTER keeps lines"),
            (
                {"logs": [launched(0, "aclnnMm", None)]},
                "launches were seen that no call could be given",
            ),
            ({"truncated": True}, "the trace ends inside it"),
            (
                {
                    "environment": Environment(
                        tool="0", python="3", platform="p", jit_compile=True
                    )
                },
                "an aclop that the host waits for leaves no line",
            ),
        ],
    )
    def test_unknown_says_what_speaks_against_knowing(self, more, words):
        """Each reason for which a launch may have gone unseen is named."""
        verdict, why = judged(call(0, "aten::mm", outputs=[spec(1)]), **more)
        assert verdict is Verdict.UNKNOWN
        assert words in why

    def test_only_calls_that_were_open_are_in_doubt_at_the_end(self):
        """A truncated trace is whole up to the calls inside which it ends."""
        joined = chains(
            call(0, "aten::mm", outputs=[spec(1)]),
            call(1, "aten::outer", outputs=[spec(1)]),
            call(2, "aten::inner", parent=1, outputs=[spec(1)]),
            truncated=True,
        )
        doubts = [
            "the trace ends" in node.why for top in joined.chains for node in top.walk()
        ]
        assert doubts == [False, True, True]


class TestSources:
    def test_launch_without_a_line(self):
        """A launch that torch_npu did not print is known by its task."""
        joined = chains(
            call(0, "aten::mm"), logs=queued(0, "aclnnMm", 0, "ExecFuncOpApi")
        )
        (launch,) = joined.chains[0].launches
        assert (launch.name, launch.record.attribution) == ("aclnnMm", NAMED_BY_TASK)
        assert launch.task.read is not None
        assert joined.chains[0].verdict is Verdict.ACLNN

    def test_launch_with_a_line_has_its_task(self):
        """A line and its task are one launch."""
        lines = [launched(0, "aclnnMm", 0), *queued(1, "aclnnMm", 0, "ExecFuncOpApi")]
        (launch,) = chains(call(0, "aten::mm"), logs=lines).chains[0].launches
        assert launch.record.text == "aclnnMm\n"
        assert (launch.task.slot, launch.task.executed) == (7, True)

    def test_profiler_fills_in_what_no_line_tells(self):
        """Its names count for calls of which there are no lines, and settle doubts."""
        calls = (NativeCall(name="aclnnMm", op=0), NativeCall(name="NonZero", op=1))
        joined = chains(
            call(0, "aten::mm"), call(1, "aten::nonzero"), call(2, "aten::x", outputs=[1]),
            logs=None, native_calls=calls,
        )  # fmt: skip
        first, second, third = joined.chains
        assert first.launches[0].record.attribution == NAMED_TO_PROFILER
        assert [node.verdict for node in joined.chains] == [
            Verdict.ACLNN, Verdict.ACLOP, Verdict.NO_LAUNCH,
        ]  # fmt: skip
        assert second.aclops[0].name == "NonZero"
        assert third.launches == ()

    def test_profiler_does_not_count_twice(self):
        """Where there are lines they are what counts."""
        joined = chains(
            call(0, "aten::mm"),
            logs=[launched(0, "aclnnMm", 0)],
            native_calls=(NativeCall(name="aclnnMm", op=0),),
        )
        assert len(joined.chains[0].launches) == 1


class TestLogger:
    def reading(self, index):
        """The two calls by which the logger reads a 0-dim tensor."""
        return [
            call(
                index, "aten::to", overload="dtype_layout", parent=0,
                inputs=[spec(5, shape=())], outputs=[spec(6, "cpu", ())],
            ),
            call(
                index + 1, "aten::to", overload="dtype", parent=0,
                inputs=[spec(6, "cpu", ())], outputs=[spec(6, "cpu", ())],
            ),
        ]  # fmt: skip

    @pytest.mark.parametrize(("printed", "left"), [(0, 4), (1, 2), (2, 0)])
    def test_as_many_as_were_printed(self, printed, left):
        """So many pairs are the logger's as 0-dim tensors stand in the call's lines."""
        arguments = tuple(
            LoggedArgument(name="self", value=None, kind="NPU scalar Tensor")
            for _ in range(printed)
        )
        joined = chains(
            call(0, "aten::mul"), *self.reading(1), *self.reading(3),
            logs=[launched(0, "aclnnMul", 0, arguments=arguments)],
        )  # fmt: skip
        assert len(joined.chains[0].children) == left
        assert joined.logger_calls == 4 - left

    def test_numbers_on_the_host(self):
        """A 0-dim CPU tensor is read by one call."""
        arguments = (
            LoggedArgument(name="other", value=None, kind="CPU scalar Tensor"),
        )
        number = spec(8, "cpu", ())
        widened = call(
            1,
            "aten::to",
            CPU,
            overload="device",
            parent=0,
            inputs=[number],
            outputs=[number],
        )
        joined = chains(
            call(0, "aten::add"), widened,
            logs=[launched(0, "aclnnAdds", 0, arguments=arguments)],
        )  # fmt: skip
        assert (joined.chains[0].children, joined.logger_calls) == ((), 1)


def test_deep_chains_need_no_recursion():
    """A chain of any depth is joined and walked."""
    depth = 20_000
    calls = [
        call(n, "aten::x", COMPOSITE, parent=n - 1 if n else None) for n in range(depth)
    ]
    (chain,) = chains(*calls).chains
    assert sum(1 for _ in chain.walk()) == depth
