# SPDX-License-Identifier: BSD-3-Clause
"""What the real torch_npu logs on the stand-in, captured live."""

from __future__ import annotations

import contextlib
import copy
import logging
import os
import pickle
import re
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import pytest

from npu_dispatch_inspect import LogTrace, UsageError, capture_logs, trace_ops
from npu_dispatch_inspect.records import OpPluginCall, TaskKind
from tests.command_line import PATIENCE, without_exit_line

pytestmark = pytest.mark.npu

torch = pytest.importorskip("torch")
F = torch.nn.functional


@pytest.fixture(name="x", scope="module")
def _x():
    """A small matrix on the NPU."""
    return torch.ones(4, 6, device="npu")


@pytest.fixture(name="encoder")
def _encoder():
    """A training step of a transformer layer, as a function."""
    layer = torch.nn.TransformerEncoderLayer(64, 4, 128, batch_first=True).npu()
    optimizer = torch.optim.AdamW(layer.parameters(), lr=1e-3)
    words = torch.randn(2, 16, 64).npu()

    def step():
        optimizer.zero_grad()
        layer(words).pow(2).mean().backward()
        optimizer.step()

    return step


def sequence(trace):
    """Entries of op-plugin and launches in the order of the log."""
    return [
        f"(L){each.name}" if isinstance(each, OpPluginCall) else each.name
        for each in trace
        if isinstance(each, OpPluginCall) or each in trace.launches
    ]


ROUTES = {
    "linear": (
        lambda x: F.linear(x, torch.ones(3, 6).npu(), torch.ones(3).npu()),
        "(L)addmm aclnnAddmm",
    ),
    "mm": (lambda x: torch.mm(x, x.t()), "(L)mm aclnnMm"),
    "bmm": (lambda x: torch.bmm(x[None], x.t()[None]), "(L)bmm aclnnBatchMatMul"),
    "einsum": (
        lambda x: torch.einsum("ij,kj->ik", x, x),
        "(L)bmm aclnnBatchMatMul",
    ),
    "gelu": (F.gelu, "(L)gelu_out aclnnGelu"),
    "silu": (F.silu, "(L)silu aclnnSilu"),
    "dropout": (
        lambda x: F.dropout(x, 0.5),
        "(L)native_dropout aclnnDropoutGenMaskV2 aclnnDropoutDoMask",
    ),
    "contiguous": (lambda x: x.t().contiguous(), "aclnnInplaceCopy"),
    "half": (lambda x: x.half(), "aclnnInplaceCopy"),
    "clone": (lambda x: x.clone(), "aclnnInplaceCopy"),
}
"""Measured with torch_npu 2.13.0: the whole log sequence of one call."""

LAUNCHES = {
    "rms_norm": (
        lambda x: F.rms_norm(x, (6,), torch.ones(6).npu()),
        "PowTensorScalar Mean InplaceAdds Rsqrt Mul Mul",
    ),
    "add number": (lambda x: x + 1, "Adds"),
    "number minus": (lambda x: 1 - x, "Rsubs"),
    "divide": (lambda x: x / 2, "Divs"),
    "power": (lambda x: x**2, "PowTensorScalar"),
    "compare": (lambda x: x > 0, "GtScalar"),
    "multiply": (lambda x: x * x[:1], "Mul"),
    "nanmean": (
        lambda x: x.nanmean(),
        "NeTensor InplaceLogicalNot ReduceSum ReduceNansum Div",
    ),
    "one_hot": (
        lambda x: F.one_hot(x.long().flatten(), 3),
        "InplaceCopy InplaceFillScalar InplaceFillScalar OneHot",
    ),
}
"""The launches alone."""


class TestRoutes:
    @pytest.mark.parametrize("name", ROUTES)
    def test_whole_sequence(self, name, x):
        """Entries and launches of a call, as measured."""
        call, expected = ROUTES[name]
        call(x)

        with capture_logs("op_plugin") as trace:
            call(x)

        seen = " ".join(each for each in sequence(trace) if "ones" not in each).replace(
            "aclnnInplaceOne ", ""
        )
        if name == "linear":
            seen = seen[seen.index("(L)addmm") :]
        assert expected == seen

    @pytest.mark.parametrize("name", LAUNCHES)
    def test_launches(self, name, x):
        """The aclnn operators of a call, as measured."""
        call, expected = LAUNCHES[name]

        with capture_logs("op_plugin") as trace:
            call(x)

        names = [each.removeprefix("aclnn") for each in trace.names]
        if name == "rms_norm":
            names = names[names.index("PowTensorScalar") :]
        assert expected.split() == names

    def test_fallback(self, x):
        """An operator without NPU kernel warns once, and the warning passes on."""
        with capture_logs() as trace:
            torch.special.i1e(x)

        assert ("aten::special_i1e.out",) == tuple(
            each.operator for each in trace.fallbacks
        ) or () == trace.fallbacks


def profiled(function):
    """The aclnn events of a run, each with its chain of callers' events."""
    with torch.autograd.profiler.profile(use_kineto=False) as profile:
        function()
    events = sorted(profile.function_events, key=lambda each: each.time_range.start)
    chains = []
    for event in events:
        if event.name.startswith("aclnn"):
            chain, parent = [], event.cpu_parent
            while parent is not None:
                chain.append(parent)
                parent = parent.cpu_parent
            chains.append((event.name, chain))
    return chains


class TestIndependentSource:
    """`torch.autograd.profiler` sees the same launches without any log."""

    @pytest.mark.parametrize("engine", ["dispatch_mode", "dispatcher"])
    @pytest.mark.parametrize("logs_first", [True, False])
    def test_training_steps_are_attributed(self, encoder, engine, logs_first):
        """Two AdamW steps: every launch, forward and backward, to its own call."""
        chains = []

        def steps():
            chains.extend(profiled(lambda: (encoder(), encoder())))

        if logs_first:
            with capture_logs() as logs, trace_ops(engine=engine) as ops:
                steps()
        else:
            with trace_ops(engine=engine) as ops, capture_logs() as logs:
                steps()

        assert [name for name, _ in chains] == list(logs.names)
        assert 186 == len(logs.launches)
        assert () == logs.unattributed
        assert {"inside the call"} == {each.attribution for each in logs.launches}
        pairs = set()
        for (_, chain), launch in zip(chains, logs.launches, strict=True):
            name = ops[launch.op].name
            same = [event.id for event in chain if event.name == name]
            assert same, f"{launch.name} is not below {name} for the profiler"
            pairs.add((launch.op, same[0]))
        # One event for each call and one call for each event: not only the names
        # agree.
        calls, events = zip(*pairs, strict=True)
        assert len(pairs) == len(set(calls)) == len(set(events))

    def test_tasks_of_a_training_step(self, encoder):
        """Each launch has its task, written, run and read."""
        with capture_logs() as logs:
            encoder()

        operators = [task for task in logs.tasks if task.kind is TaskKind.OPERATOR]
        assert list(logs.names) == [task.name for task in operators]
        assert all(task.executed and task.ret == 0 for task in logs.tasks)
        assert [each.index for each in logs.launches] == [
            task.launch for task in operators
        ]
        assert all(task.queued_us is not None for task in operators)


class TestAttribution:
    def test_call_and_launch(self, x):
        """The launch belongs to the call; a view launches nothing."""
        with capture_logs() as logs, trace_ops() as ops:
            x.t() + 1

        (launch,) = logs.launches
        assert "aten::add" == ops[launch.op].name
        assert (launch,) == logs.launches_of(launch.op)
        assert () == logs.launches_of(0)

    def test_launch_without_a_call(self, x):
        """`one_hot` launches above what the dispatch mode sees: it stays without."""
        index = x.long().flatten()
        with capture_logs() as logs, trace_ops() as ops:
            F.one_hot(index, 3)

        (launch,) = logs.find("aclnnOneHot").launches
        assert "aten::one_hot" not in ops.names
        assert (None, "no traced call around it") == (launch.op, launch.attribution)

    def test_entry_of_op_plugin(self, x):
        """It is given its call, too."""
        with capture_logs() as logs, trace_ops() as ops:
            torch.mm(x, x.t())

        assert ["aten::mm"] == [ops[each.op].name for each in logs.op_plugin_calls]

    def test_call_that_raises(self, x):
        """Its lines are its own, and those after it are not."""
        with capture_logs() as logs, trace_ops() as ops:
            with pytest.raises(RuntimeError):
                torch.mm(x, x)
            x + 1

        assert ["aten::add"] == [ops[each.op].name for each in logs.launches]

    def test_capture_inside_a_capture(self, x):
        """Both attribute the inner lines to the same call."""
        with trace_ops() as ops, capture_logs() as outer:
            x + 1
            with capture_logs() as inner:
                x * 2

        (launch,) = inner.launches
        assert "aten::mul" == ops[launch.op].name
        assert ["aten::add", "aten::mul"] == [
            ops[each.op].name for each in outer.launches
        ]

    def test_capture_of_a_part_of_the_trace(self, x):
        """Calls before and after the capture have no launches in it."""
        with trace_ops() as ops:
            x + 1
            with capture_logs() as logs:
                x * 2
            x - 1

        assert [ops.names.index("aten::mul")] == [each.op for each in logs.launches]

    def test_nothing_was_traced(self, x):
        """Without a tracer there is no answer, also no negative one."""
        with capture_logs() as logs:
            x + 1

        assert [(None, None)] == [(each.op, each.attribution) for each in logs.launches]

    def test_tracer_that_ended_before(self, x):
        """A tracer outside the block has nothing to say about it."""
        with trace_ops():
            x + 1
        with capture_logs() as logs:
            x + 1

        assert [None] == [each.attribution for each in logs.launches]


class TestBlock:
    def test_levels_are_as_before(self, x, capfd):
        """Nothing is logged after the block, and nothing of it passes through."""
        with capture_logs() as logs:
            x + 1
        x + 2
        torch.npu.synchronize()

        assert ("aclnnAdds",) == logs.names
        assert "aclnn" not in capfd.readouterr().err

    def test_keep(self, x, capfd):
        """The log lines pass through as well, in order."""
        with capture_logs("op_plugin", keep=True):
            os.write(2, b"before\n")
            x + 1
            os.write(2, b"after\n")

        err = capfd.readouterr().err
        assert re.search(r"before\n.*aclnnAdds EXEC_NPU_CMD.*after\n", err, re.DOTALL)

    def test_exception(self, x, capfd):
        """It goes on its way, and everything is put back."""

        def fail():
            print("seen", file=sys.stderr)
            x + 1
            raise ZeroDivisionError

        capture = capture_logs()
        with pytest.raises(ZeroDivisionError):
            capture(fail)()

        logs = capture.trace

        assert ("aclnnAdds",) == logs.names
        assert "seen\n" == capfd.readouterr().err

    def test_generator_that_is_closed_half_way(self, x, capfd):
        """Its block ends with it."""

        def steps():
            with capture_logs() as logs:
                yield logs
                yield None

        running = steps()
        logs = next(running)
        x + 1
        running.close()
        x + 2

        assert ("aclnnAdds",) == logs.names

    def test_trace_inside_the_block(self, x):
        """It shows what has come so far."""
        with capture_logs() as logs:
            x + 1
            first = logs.names
            x * 2

        assert (("aclnnAdds",), ("aclnnAdds", "aclnnMuls")) == (first, logs.names)

    def test_trace_is_a_value(self, x):
        """It can be pickled and copied, and equals its copy."""
        with capture_logs(label="sum") as logs:
            x + 1

        assert logs == pickle.loads(pickle.dumps(logs)) == copy.deepcopy(logs)
        assert "sum" == logs.label
        assert isinstance(logs, LogTrace)
        assert logs.environment.stand_in

    def test_decorator(self, x):
        """Each call is a block."""
        capture = capture_logs()

        @capture
        def add():
            return x + 1

        add()

        assert ("aclnnAdds",) == capture.trace.names

    def test_threads(self, x):
        """A capture sees the launches of every thread."""
        with capture_logs() as logs:
            threads = [threading.Thread(target=lambda: x + 1) for _ in range(4)]
            for each in threads:
                each.start()
            for each in threads:
                each.join()

        assert ("aclnnAdds",) * 4 == logs.names

    def test_nested_levels(self, x):
        """The inner block adds a logger, and takes it away again."""
        with capture_logs("op_plugin") as outer:
            x + 1
            with capture_logs("dispatch", level="debug") as inner:
                x + 1
            x + 1

        assert 3 == len(outer.launches)
        assert 1 == len(inner.tasks) == len(outer.tasks)

    def test_debug_level(self, x):
        """It adds the memory layout of the arguments."""
        with capture_logs("op_plugin", level="debug") as logs:
            x + 1

        details = [each for each in logs if type(each).__name__ == "DetailRecord"]
        assert ["add", "aclnnAdds"] == [each.name for each in details]
        assert details[0].details[0][1].startswith("Tensor npu_format: 2")


class TestRefusals:
    def test_logger_that_does_not_exist(self):
        """It says which there are."""
        with pytest.raises(
            UsageError, match=r"has no logger 'opplugin'; it has .*op_plugin"
        ):
            capture_logs("opplugin").__enter__()

    @pytest.mark.parametrize("level", ["loud", 17, {"op_plugin": "loud"}])
    def test_level_that_does_not_exist(self, level):
        """It says which there are."""
        with pytest.raises(UsageError, match="level must be one of debug, info"):
            capture_logs("op_plugin", level=level)

    def test_level_for_another_logger(self):
        """A typing error does not pass."""
        with pytest.raises(UsageError, match="which the capture does not ask for"):
            capture_logs("op_plugin", level={"dispatch": "info"})

    def test_without_brackets(self):
        """It says how to write it."""
        with pytest.raises(UsageError, match="needs its brackets"):

            @capture_logs
            def function():
                """Nothing."""

    def test_twice(self):
        """One object is one block at a time."""
        capture = capture_logs()
        with capture, pytest.raises(UsageError, match="already on"):
            capture.__enter__()


class TestMissing:
    def what(self, logs):
        """What the reasons are about."""
        return [each.what for each in logs.missing]

    def test_nothing_is(self, x):
        """Launches and tasks came."""
        with capture_logs() as logs:
            x + 1

        assert () == logs.missing

    def test_nothing_ran(self):
        """The block did not use the NPU."""
        with capture_logs() as logs:
            torch.ones(2) + 1

        (reason,) = logs.missing
        assert "No operator ran on an NPU" in reason.reason

    def test_lost_lines_say_nothing_of_what_ran(self, x):
        """Where the program closed the stream, nobody knows what ran."""
        with capture_logs() as logs:
            x + 1
            ours = os.stat(2)
            for each in range(3, 1024):
                with contextlib.suppress(OSError):
                    if os.path.samestat(os.stat(each), ours):
                        os.close(each)

        assert () == logs.missing
        assert not logs.complete
        assert "closed the captured stream" in " ".join(logs.incomplete)

    def test_op_plugin_was_not_asked_for(self, x):
        """Its lines do not come by themselves."""
        with capture_logs("dispatch") as logs:
            x + 1

        assert ["op_plugin"] == self.what(logs)

    def test_level_of_dispatch(self, x):
        """INFO shows waits only."""
        with capture_logs(level={"dispatch": logging.INFO}) as logs:
            x + 1

        assert ["dispatch"] == self.what(logs)

    def test_level_of_op_plugin(self, x):
        """WARNING shows nothing."""
        with capture_logs("op_plugin", level="warning") as logs:
            x + 1

        assert ["op_plugin"] == self.what(logs)


PROGRAM = """
import sys
{before}
from npu_dispatch_inspect import standin
standin.load()
import torch, torch_npu
from npu_dispatch_inspect import capture_logs
x = torch.ones(2, device="npu")
torch.npu.synchronize()
print("begin", file=sys.stderr)
x + 1
print("block", file=sys.stderr)
with capture_logs() as logs:
    x + 1
print("end", file=sys.stderr)
x + 1
torch.npu.synchronize()
print(len(logs.launches), len(logs.tasks))
for each in logs.missing:
    print(each.what, each.reason)
"""


def run(before="", **environment):
    """Run the program above; lines of standard output, parts of standard error."""
    variables = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("TORCH_NPU_LOGS", "TORCH_LOGS", "TASK_QUEUE"))
    }
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(PROGRAM.format(before=before))],
        capture_output=True,
        check=True,
        text=True,
        cwd=Path(__file__).parents[1],
        env={**variables, **environment},
        timeout=PATIENCE,
    )
    _, begin, rest = without_exit_line(done.stderr).partition("begin\n")
    before_block, _, rest = rest.partition("block\n")
    inside, _, after = rest.partition("end\n")
    assert begin
    return done.stdout.splitlines(), (before_block, inside, after)


class TestProcesses:
    """Switches that torch_npu reads once, when it starts."""

    def test_levels_of_the_environment_come_back(self):
        """TORCH_NPU_LOGS holds before and after, and the block has its own."""
        out, (before, inside, after) = run(TORCH_NPU_LOGS="op_plugin")

        assert "1 1" == out[0]
        assert "" == inside
        for part in (before, after):
            assert "aclnnAdds EXEC_NPU_CMD" in part
            assert "Queue" not in part

    def test_other_switch_of_the_environment(self):
        """TORCH_LOGS, which torch_npu does not listen to, does not either."""
        out, parts = run(TORCH_LOGS="op_plugin")

        assert "1 1" == out[0]
        assert ("", "", "") == parts

    def test_queue_that_is_off(self):
        """The reason is in the trace."""
        out, _ = run(TASK_QUEUE_ENABLE="0")

        assert [
            "1 0",
            "dispatch TASK_QUEUE_ENABLE is 0: operators run without the queue.",
        ] == out

    def test_blocking_launches(self):
        """The reason is in the trace."""
        out, _ = run(ASCEND_LAUNCH_BLOCKING="1")

        assert "1 0" == out[0]
        assert out[1].startswith("dispatch ASCEND_LAUNCH_BLOCKING is set")

    def test_interactive_python(self):
        """torch_npu turns the queue off there."""
        out, _ = run(before="sys.ps1 = '>>> '")

        assert "1 0" == out[0]
        assert "interactive Python" in out[1]

    def test_filter(self):
        """Lines that do not match are not printed."""
        out, _ = run(TORCH_NPU_LOGS_FILTER="+nothing")

        assert "0 0" == out[0]
        assert "everything TORCH_NPU_LOGS_FILTER=+nothing" in out[1]

    def test_full_disk(self):
        """The program goes on, the trace says so, and C++ can write again."""
        before = """
import resource
_, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
"""
        program = PROGRAM.format(before=before).replace(
            "with capture_logs() as logs:\n    x + 1",
            """
resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, hard))
with capture_logs() as full:
    for _ in range(300):
        x + 1
resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
print(full.incomplete, file=sys.stdout)
with capture_logs() as logs:
    x + 1
""",
        )
        done = subprocess.run(
            [sys.executable, "-c", program],
            capture_output=True,
            check=True,
            text=True,
            cwd=Path(__file__).parents[1],
            timeout=PATIENCE,
        )

        first, second = done.stdout.splitlines()
        assert "The temporary file is full" in first
        assert "1 1" == second

    def test_torch_npu_is_not_imported(self):
        """One sentence."""
        done = subprocess.run(
            [
                sys.executable,
                "-c",
                textwrap.dedent(
                    """
                    from npu_dispatch_inspect import UsageError, capture_logs
                    try:
                        capture_logs().__enter__()
                    except UsageError as error:
                        print(error)
                    """
                ),
            ],
            capture_output=True,
            check=True,
            text=True,
            cwd=Path(__file__).parents[1],
            env={**os.environ, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"},
            timeout=PATIENCE,
        )

        assert done.stdout.startswith("There are no log lines without torch_npu")


class TestTracersOfNames:
    def test_inside_the_capture(self, x):
        """It notes where calls end, for there is somebody to ask."""
        with capture_logs() as logs, trace_ops(detail="names") as ops:
            x + 1

        assert ["aten::add"] == [ops[each.op].name for each in logs.launches]

    def test_around_the_capture(self, x):
        """It does not, and then there is no answer."""
        with trace_ops(detail="names"), capture_logs() as logs:
            x + 1

        assert [(None, None)] == [(each.op, each.attribution) for each in logs.launches]
