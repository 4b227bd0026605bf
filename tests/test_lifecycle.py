# SPDX-License-Identifier: BSD-3-Clause
"""Blocks that begin and end in every order; the leak guard watches each test."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import gc
import os
import threading
import weakref

import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode, _get_current_dispatch_mode

from npu_dispatch_inspect import Phase, UsageError, region, trace_ops
from npu_dispatch_inspect.capture._recorder import Recorder

ENGINES = ("dispatch_mode", "dispatcher")

both_engines = pytest.mark.parametrize("engine", ENGINES)


def calls(trace, name):
    """How often an operator was called at the top; one engine sees inside kernels."""
    return sum(record.name == name for record in trace)


@both_engines
def test_nested_tracers_each_record_once(engine):
    """The inner block is in both traces, once."""
    with trace_ops(engine=engine) as outer:
        torch.ones(2).sin()
        with trace_ops(engine=engine) as inner:
            torch.ones(2).cos()
        torch.ones(2).exp()
    assert calls(inner, "aten::cos") == calls(outer, "aten::cos") == 1
    assert calls(inner, "aten::exp") == calls(inner, "aten::sin") == 0
    assert calls(outer, "aten::sin") == calls(outer, "aten::exp") == 1


@both_engines
def test_an_active_tracer_cannot_be_entered_again(engine):
    """A sentence says what to do; the block that runs is not harmed."""
    tracer = trace_ops(engine=engine)
    with tracer as trace:
        with pytest.raises(UsageError, match="second one"), tracer:
            pass
        torch.ones(2).sin()
    assert calls(trace, "aten::sin") == 1


@both_engines
def test_a_tracer_can_be_used_again(engine):
    """Each block has a trace of its own; the first one keeps its records."""
    tracer = trace_ops(engine=engine)
    with tracer as first:
        torch.ones(2).sin()
    with tracer as second:
        torch.ones(2).cos()
    assert (calls(first, "aten::sin"), calls(first, "aten::cos")) == (1, 0)
    assert (calls(second, "aten::sin"), calls(second, "aten::cos")) == (0, 1)
    assert tracer.trace is second


@both_engines
def test_tracers_may_be_left_in_the_order_they_were_entered(engine):
    """Leaving the outer one first takes off that one and no other."""
    first, second = trace_ops(engine=engine), trace_ops(engine=engine)
    a = first.__enter__()
    b = second.__enter__()
    torch.ones(2).sin()
    first.__exit__(None, None, None)
    torch.ones(2).cos()
    second.__exit__(None, None, None)
    torch.ones(2).exp()
    assert (calls(a, "aten::sin"), calls(a, "aten::cos"), calls(a, "aten::exp")) == (
        1,
        0,
        0,
    )
    assert (calls(b, "aten::sin"), calls(b, "aten::cos"), calls(b, "aten::exp")) == (
        1,
        1,
        0,
    )


class Foreign(TorchDispatchMode):
    """Somebody else's mode."""

    def __init__(self):
        super().__init__()
        self.seen = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.seen.append(func.name())
        return func(*args, **(kwargs or {}))


def test_other_modes_stay_where_they_are():
    """Leaving under a foreign mode keeps that mode, and its place."""
    tracer, mode = trace_ops(), Foreign()
    with contextlib.ExitStack() as stack:
        trace = tracer.__enter__()
        stack.enter_context(mode)
        tracer.__exit__(None, None, None)
        assert _get_current_dispatch_mode() is mode
        torch.ones(2).sin()
    assert mode.seen == ["aten::ones", "aten::sin"]
    assert len(trace) == 0


def test_torchs_own_modes_stay_where_they_are():
    """Leaving under FakeTensorMode leaves it on."""
    from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

    tracer = trace_ops()
    tracer.__enter__()
    with FakeTensorMode():
        tracer.__exit__(None, None, None)
        assert isinstance(torch.ones(2), FakeTensor)
    assert len(tracer.trace) == 0


def test_other_modes_see_what_they_saw():
    """A mode below or above the tracer is asked as often as without it."""

    def work():
        x = torch.ones(2, requires_grad=True)
        (x * 2).sum().backward()

    with Foreign() as alone:
        work()
    with Foreign() as below, trace_ops():
        work()
    with trace_ops() as trace, Foreign() as above:
        work()
    assert alone.seen == below.seen == above.seen
    assert [record.name for record in trace] == [
        each.partition(".")[0] for each in alone.seen
    ]


def test_leaving_twice_does_nothing():
    """A second exit is ignored."""
    tracer = trace_ops()
    with tracer as trace:
        torch.ones(2)
    tracer.__exit__(None, None, None)
    assert len(trace) == 1


@both_engines
@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
def test_an_exception_goes_on_its_way_and_the_records_stay(engine, error):
    """What was recorded until then can be looked at."""
    tracer = trace_ops(engine=engine)
    with pytest.raises(error), tracer as trace:
        torch.ones(2).sin()
        raise error
    assert calls(trace, "aten::sin") == 1
    assert trace is tracer.trace


@both_engines
def test_an_interrupt_inside_an_operator_ends_its_record(engine):
    """The call is there with the exception it ended with."""
    with torch.library._scoped_library("npu_inspect_life", "DEF") as library:
        library.define("interrupted(Tensor x) -> Tensor")

        def interrupted(x):
            x.sin()
            raise KeyboardInterrupt

        library.impl("interrupted", interrupted, "CompositeExplicitAutograd")
        op = torch.ops.npu_inspect_life.interrupted
        with trace_ops(engine=engine) as trace:
            with pytest.raises(KeyboardInterrupt):
                op(torch.ones(2))
            torch.ones(2).cos()
        (failed,) = trace.find("npu_inspect_life::*")
        assert failed.exception.type == "KeyboardInterrupt"
        assert trace.find("aten::cos")[0].depth == 0


@both_engines
def test_signals_at_any_moment_leave_the_records_readable(engine):
    """Interrupts between any two instructions do not tear a row apart."""
    import signal

    handled = []

    def interrupt(*_):
        handled.append(torch.ones(1).neg())
        # One shot each: at a fixed rate a slow machine would be in handlers for ever.
        if len(handled) < 30:
            signal.setitimer(signal.ITIMER_REAL, 0.0002 + 0.00001 * len(handled))

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        with trace_ops(engine=engine) as trace:
            x = torch.ones(2)
            signal.setitimer(signal.ITIMER_REAL, 0.0002)
            while len(handled) < 30:
                x.add_(torch.ones(2))
            x.add_(torch.ones(2))
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    # A handler that runs while the mode itself is at work is not seen by it.
    assert calls(trace, "aten::neg") <= len(handled)
    assert [record.index for record in trace] == list(range(len(trace)))
    assert {len(record.inputs) for record in trace.find("aten::add_.Tensor")} == {3}


@both_engines
def test_a_generator_closed_half_way_takes_off_its_own_tracer(engine):
    """The consumer's own block is not left in its place."""

    def produce():
        with trace_ops(engine=engine) as trace:
            yield trace
            yield None

    with trace_ops(engine=engine) as outer:
        producer = produce()
        inner = next(producer)
        torch.ones(2).sin()
        producer.close()
        torch.ones(2).cos()
    assert (calls(outer, "aten::sin"), calls(outer, "aten::cos")) == (1, 1)
    assert (calls(inner, "aten::sin"), calls(inner, "aten::cos")) == (1, 0)


def test_a_generator_that_is_thrown_away_leaves_nothing():
    """The block ends when Python collects the generator."""

    def produce():
        with trace_ops():
            yield

    producer = produce()
    next(producer)
    del producer
    gc.collect()
    assert torch._C._len_torch_dispatch_stack() == 0


def test_generators_may_end_their_regions_in_any_order():
    """A label goes when its own block ends."""

    def labelled(name):
        with region(name):
            yield

    with trace_ops() as trace:
        a, b = labelled("a"), labelled("b")
        next(a)
        next(b)
        torch.ones(1)
        a.close()
        torch.ones(2)
        b.close()
        torch.ones(3)
    assert [record.regions for record in trace] == [("a", "b"), ("b",), ()]


def test_asyncio_tasks_leave_nothing_behind():
    """Two tasks with a tracer and a region each; both end when they like."""

    async def work(name, steps):
        with trace_ops(name) as trace:
            for _ in range(steps):
                with region(name):
                    torch.ones(2)
                    await asyncio.sleep(0)
        return trace

    async def main():
        return await asyncio.gather(work("short", 2), work("long", 4))

    short, long = asyncio.run(main())
    # A tracer sees its thread, whatever task runs on it.
    assert len(short) >= 2
    assert len(long) >= 4
    with trace_ops() as after:
        torch.ones(2)
    assert after[0].regions == ()


@both_engines
def test_another_thread_is_not_seen_and_the_trace_says_so(engine):
    """threads="current" has the calls of its own thread; the note counts the others."""
    with trace_ops(engine=engine) as trace:
        torch.ones(2).sin()
        thread = threading.Thread(target=lambda: torch.ones(2).cos())
        thread.start()
        thread.join()
    assert (calls(trace, "aten::sin"), calls(trace, "aten::cos")) == (1, 0)
    assert len(trace.notes) == 1
    assert trace.notes[0].startswith("1 thread was started inside the block")
    assert not trace.complete


@both_engines
def test_threads_started_inside_are_seen_when_asked_for(engine):
    """threads="all" records them, numbered from 1, with their modules and phases."""
    net = nn.Linear(2, 2)

    def work():
        net(torch.ones(1, 2)).sum().backward()

    with trace_ops(engine=engine, threads="all") as trace:
        torch.ones(2).sin()
        threads = [threading.Thread(target=work) for _ in range(3)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
    assert trace.complete
    assert sorted({record.thread for record in trace}) == [0, 1, 2, 3]
    addmm = trace.find("aten::addmm")
    assert [record.module for record in addmm] == [""] * 3
    assert calls(trace, "aten::addmm") == 3
    assert {record.phase for record in trace.find("aten::ones_like")} == {
        Phase.BACKWARD
    }
    assert {record.module for record in trace.backward.find("aten::mm")} == {""}


def test_pools_and_threads_of_threads_are_seen():
    """An executor's workers, and what they start themselves."""

    def inner():
        torch.ones(2).cos()

    def work(_):
        torch.ones(2).sin()
        thread = threading.Thread(target=inner)
        thread.start()
        thread.join()

    with (
        trace_ops(threads="all") as trace,
        concurrent.futures.ThreadPoolExecutor(2) as pool,
    ):
        list(pool.map(work, range(4)))
    assert (calls(trace, "aten::sin"), calls(trace, "aten::cos")) == (4, 4)


def test_threads_that_take_the_identities_of_ended_ones_one_after_the_other(
    monkeypatch,
):
    """Both keep their rows, also where neither has made a call when the other begins."""
    identity = [1]
    monkeypatch.setattr(threading, "get_ident", lambda: identity[0])
    recorder = Recorder(nesting=False)
    operator, arguments = torch.ops.aten.sin.default, (torch.ones(2),)

    def call():
        recorder.end(recorder.begin(operator, arguments, {}), arguments[0])

    for identity[0] in (1, 2):
        call()
    for identity[0] in (1, 2):
        recorder.new_thread()
    for identity[0] in (1, 2):
        call()
    assert len(recorder.rows()) == 4


def test_a_thread_class_of_the_users_runs_as_it_is():
    """A `run` of one's own is called, with its attributes as they were."""

    class Worker(threading.Thread):
        def run(self):
            self.attributes = set(vars(self))
            torch.ones(2).sin()

    plain = Worker()
    plain.start()
    plain.join()
    with trace_ops(threads="all") as trace:
        worker = Worker()
        worker.start()
        worker.join()
    assert calls(trace, "aten::sin") == 1
    assert worker.attributes == plain.attributes


def test_an_exception_in_a_thread_is_the_threads():
    """It reaches threading's own hook and nothing is left behind."""
    seen = []
    hook, threading.excepthook = threading.excepthook, seen.append

    def work():
        msg = "no"
        raise ValueError(msg)

    try:
        with trace_ops(threads="all"):
            thread = threading.Thread(target=work)
            thread.start()
            thread.join()
    finally:
        threading.excepthook = hook
    assert [each.exc_type for each in seen] == [ValueError]


@both_engines
def test_a_thread_that_outlives_the_block_is_recorded_no_more(engine):
    """Its calls end with the block, and the trace says that it was running."""
    began, go_on = threading.Event(), threading.Event()
    depth = []

    def work():
        torch.ones(2).sin()
        began.set()
        go_on.wait()
        torch.ones(2).cos()

    def watched():
        work()
        depth.append(torch._C._len_torch_dispatch_stack())

    with trace_ops(engine=engine, threads="all") as trace:
        thread = threading.Thread(target=watched)
        thread.start()
        began.wait()
    go_on.set()
    thread.join()
    assert (calls(trace, "aten::sin"), calls(trace, "aten::cos")) == (1, 0)
    assert trace.notes[0].startswith("1 thread was still running")


@both_engines
def test_a_call_that_outlives_the_block_has_no_known_results(engine):
    """By then the tracer has let go of all tensors, and says so."""
    inside, go_on = threading.Event(), threading.Event()
    made = []

    def wait(x):
        inside.set()
        go_on.wait()
        made.append(x + 1)
        return made[0]

    with torch.library._scoped_library("outlives", "DEF") as library:
        library.define("wait(Tensor x) -> Tensor")
        library.impl("wait", wait, "CPU")
        thread = threading.Thread(target=torch.ops.outlives.wait, args=(torch.ones(2),))
        with trace_ops(engine=engine, threads="all") as trace:
            thread.start()
            inside.wait()
        go_on.set()
        thread.join()
    (call,) = trace.find("outlives::wait")
    assert call.argument("x").shape == (2,)
    assert [each.kind for each in call.outputs] == ["unknown"]
    assert trace.notes[-1] == (
        "The results of outlives.wait.default are not known: RuntimeError: the block had "
        "ended by then"
    )
    assert not weakref.getweakrefs(made[0])


@both_engines
def test_two_threads_may_cross_their_blocks(engine):
    """Each sees its own calls; no flag of the process stays set."""
    entered, left = threading.Event(), threading.Event()
    other = []

    def work():
        with trace_ops(engine=engine) as trace:
            entered.set()
            left.wait()
            torch.ones(2).cos()
        other.append(trace)

    thread = threading.Thread(target=work)
    with trace_ops(engine=engine) as trace:
        thread.start()
        entered.wait()
        torch.ones(2).sin()
    left.set()
    thread.join()
    assert (calls(trace, "aten::sin"), calls(trace, "aten::cos")) == (1, 0)
    assert (calls(other[0], "aten::sin"), calls(other[0], "aten::cos")) == (0, 1)


def test_a_block_left_on_another_thread_says_so():
    """Recording ends; the mode goes when its own thread traces again."""
    tracer = trace_ops()
    trace = tracer.__enter__()
    torch.ones(2)
    thread = threading.Thread(target=tracer.__exit__, args=(None, None, None))
    thread.start()
    thread.join()
    torch.ones(3)
    assert len(trace) == 1
    assert any("another thread" in note for note in trace.notes)
    with trace_ops():
        pass
    assert torch._C._len_torch_dispatch_stack() == 0


def test_backward_on_another_python_thread_is_that_threads():
    """It is not seen by "current"; "all" sees it and links it to its forward."""
    x = torch.ones(2, requires_grad=True)

    def work(threads):
        with trace_ops(threads=threads) as trace:
            total = x.sin().sum()
            thread = threading.Thread(target=total.backward)
            thread.start()
            thread.join()
        return trace

    assert len(work("current").backward) == 0
    trace = work("all")
    sin = [record for record in trace if record.autograd_node == "SinBackward0"]
    assert {record.thread for record in sin} == {1}
    assert {record.forward_index for record in sin} == {
        trace.find("aten::sin")[0].index
    }


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@both_engines
@pytest.mark.filterwarnings("ignore")
def test_a_forked_child_is_not_recorded(engine, tmp_path):
    """The child runs untraced; the parent's trace and file are the parent's alone."""
    path = tmp_path / "trace.jsonl"
    with trace_ops(engine=engine, sink=path) as trace:
        torch.ones(2).sin()
        child = os.fork()
        if child == 0:
            status = 1
            with contextlib.suppress(BaseException):
                torch.ones(2).cos()
                clean = torch._C._len_torch_dispatch_stack() == 0
                status = 0 if clean and len(trace.find("aten::cos")) == 0 else 2
            os._exit(status)
        _, status = os.waitpid(child, 0)
        torch.ones(2).exp()
    assert os.waitstatus_to_exitcode(status) == 0
    assert (calls(trace, "aten::sin"), calls(trace, "aten::cos")) == (1, 0)
    assert calls(trace, "aten::exp") == 1
    assert any("forked" in note for note in trace.notes)


def test_a_module_may_be_left_and_entered_under_any_tracer():
    """Blocks that begin or end inside a forward leave no path behind."""
    tracers = [trace_ops(), trace_ops()]

    class Net(nn.Module):
        def forward(self, x):
            tracers[0].__exit__(None, None, None)
            tracers[1].__enter__()
            return x.sin()

    with contextlib.suppress(RuntimeError):
        tracers[0].__enter__()
        Net()(torch.ones(2))
    torch.ones(2).cos()
    tracers[1].__exit__(None, None, None)
    with trace_ops() as after:
        torch.ones(2)
    assert tracers[1].trace.find("aten::cos")[0].module is None
    assert after[0].module is None


def test_an_engine_that_cannot_start_leaves_nothing(monkeypatch):
    """A failure on the way in takes back what had been done."""
    from npu_dispatch_inspect.capture import ops

    class Broken(ops.ENGINES["dispatch_mode"]):
        def start(self):
            msg = "no"
            raise RuntimeError(msg)

    monkeypatch.setitem(ops.ENGINES, "dispatch_mode", Broken)
    with pytest.raises(RuntimeError, match="no"), trace_ops(threads="all"):
        pass
