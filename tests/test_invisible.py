# SPDX-License-Identifier: BSD-3-Clause
"""The program does the same with and without a tracer, compiled or not."""

from __future__ import annotations

import weakref

import pytest
import torch
from torch import nn

from npu_dispatch_inspect import region, trace_ops
from tests.versions import since_torch

ENGINES = ("dispatch_mode", "dispatcher")
both_engines = pytest.mark.parametrize("engine", ENGINES)
both_leave_compiled = pytest.mark.parametrize(
    "engine",
    [
        pytest.param(
            "dispatch_mode",
            marks=since_torch("2.9", "a mode makes compiled functions run eagerly"),
        ),
        "dispatcher",
    ],
)


class Counting:
    """A backend of torch.compile that counts compilations and runs."""

    def __init__(self):
        self.compiled = self.ran = 0

    def __call__(self, graph, _):
        self.compiled += 1

        def run(*args):
            self.ran += 1
            return graph(*args)

        return run

    @property
    def counts(self):
        return self.compiled, self.ran


@pytest.fixture(autouse=True)
def fresh_compiler():
    """No test sees what another has compiled."""
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


class Net(nn.Module):
    """Two layers and a dropout; forward is the test's, so Dynamo looks at it."""

    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(4, 4), nn.Linear(4, 2)

    def forward(self, x):
        return self.last(torch.relu(self.first(x)))


@both_leave_compiled
def test_a_compiled_function_stays_compiled(engine):
    """First called inside the block: compiled once, run each time, also afterwards."""
    backend = Counting()
    function = torch.compile(lambda x: x.sin().cos(), backend=backend)
    with trace_ops(engine=engine):
        function(torch.ones(3))
        function(torch.ones(3))
    assert backend.counts == (1, 2)
    function(torch.ones(3))
    with trace_ops(engine=engine):
        function(torch.ones(3))
    assert backend.counts == (1, 4)


@both_leave_compiled
def test_a_function_compiled_before_is_not_compiled_again(engine):
    """First called before the block: the same graph runs in it and after it."""
    backend = Counting()
    function = torch.compile(lambda x: x.sin().cos(), backend=backend)
    function(torch.ones(3))
    with trace_ops(engine=engine):
        function(torch.ones(3))
    function(torch.ones(3))
    assert backend.counts == (1, 3)


@both_leave_compiled
@pytest.mark.parametrize("way", ["torch.compile", "net.compile"])
def test_a_compiled_module_stays_compiled(engine, way):
    """Both ways to compile a module, inside and outside of a block."""
    backend = Counting()
    net = Net()
    if way == "net.compile":
        net.compile(backend=backend)
        compiled = net
    else:
        compiled = torch.compile(net, backend=backend)
    compiled(torch.ones(1, 4))
    with trace_ops(engine=engine):
        compiled(torch.ones(1, 4))
    compiled(torch.ones(1, 4))
    assert backend.counts == (1, 3)


@both_engines
def test_a_module_compiled_inside_is_one_graph(engine):
    """The graph compiled under a tracer is the graph compiled without one."""

    def graphs(context):
        torch._dynamo.reset()
        seen = []

        def backend(graph, _):
            seen.append([(node.op, str(node.target)) for node in graph.graph.nodes])
            return graph

        torch.manual_seed(0)
        with context:
            torch.compile(Net(), backend=backend)(torch.ones(1, 4))
        return seen

    assert graphs(trace_ops(engine=engine)) == graphs(torch.enable_grad())


@both_engines
def test_fullgraph_works_inside(engine):
    """No graph break is caused, by the tracer or by a module's path."""
    net = Net()
    function = torch.compile(lambda x: net(x) * 2, backend="eager", fullgraph=True)
    expected = net(torch.ones(1, 4)) * 2
    with trace_ops(engine=engine):
        assert torch.equal(function(torch.ones(1, 4)), expected)


@since_torch("2.9", "Dynamo does not look into a context manager of contextlib")
def test_a_region_in_compiled_code_is_no_graph_break():
    """Labels may stand in functions that are compiled whole."""

    def work(x):
        with region("scale"):
            return x * 2

    backend = Counting()
    function = torch.compile(work, backend=backend, fullgraph=True)
    assert torch.equal(function(torch.ones(2)), torch.full((2,), 2.0))
    with trace_ops():
        assert torch.equal(function(torch.ones(2)), torch.full((2,), 2.0))
    assert backend.counts == (1, 2)


@both_engines
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_compiled_training_computes_the_same(engine, backend):
    """Loss and gradients of a compiled module, traced or not."""

    def train(context):
        torch._dynamo.reset()
        torch.manual_seed(0)
        net = Net()
        compiled = torch.compile(net, backend=backend)
        with context:
            loss = compiled(torch.ones(2, 4)).sum()
            loss.backward()
        return [loss, *(each.grad for each in net.parameters())]

    expected = train(torch.enable_grad())
    actual = train(trace_ops(engine=engine))
    assert all(map(torch.equal, actual, expected))


@since_torch("2.9", "a call under a mode makes compiled functions run eagerly for good")
def test_records_of_a_compiled_region_say_so():
    """What runs inside is marked, what runs around it is not."""
    function = torch.compile(lambda x: x.sin().cos(), backend="aot_eager")
    x = torch.ones(3, requires_grad=True)
    function(x)
    with trace_ops() as trace:
        y = x * 2
        function(y).sum().backward()
    compiled = {record.name for record in trace if record.compiled}
    assert {"aten::sin", "aten::cos", "aten::neg"} <= compiled
    assert not trace.find("aten::mul.Tensor")[0].compiled
    assert not trace.find("aten::sum")[0].compiled
    assert [each.phase.value for each in trace.find("aten::neg")] == ["backward"]


def test_a_graph_module_of_the_users_is_not_compiled():
    """torch.fx graphs that people run themselves are ordinary modules."""
    graph = torch.fx.symbolic_trace(Net())
    with trace_ops() as trace:
        graph(torch.ones(1, 4))
    assert {record.compiled for record in trace} == {False}
    assert [record.module for record in trace.find("aten::addmm")] == ["first", "last"]


def test_tracing_does_not_import_dynamo(python):
    """Importing the compiler costs seconds; the tracer does without."""
    done = python(
        """
        import sys, torch
        from torch import nn
        from npu_dispatch_inspect import region, trace_ops
        before = "torch._dynamo" in sys.modules
        for engine in ("dispatch_mode", "dispatcher"):
            with trace_ops(engine=engine, threads="all") as trace:
                with region("r"):
                    nn.Sequential(nn.Linear(2, 2), nn.ReLU())(torch.ones(1, 2)).sum().backward()
            print(len(str(trace)) > 0, before == ("torch._dynamo" in sys.modules))
        """
    )
    assert done.stderr == ""
    assert done.stdout.splitlines() == ["True True"] * 2


def test_nothing_is_printed(python):
    """What is written to stdout and stderr is the program's own, to the byte."""
    program = """
        import sys, threading, warnings, torch
        {}
        with {}:
            torch.ones(2, requires_grad=True).sin().sum().backward()
            print("out"); print("err", file=sys.stderr)
            warnings.warn("mine", stacklevel=1)
            try: torch.ones(2) @ torch.ones(3)
            except RuntimeError as error: print(error)
            thread = threading.Thread(target=lambda: torch.ones(2).sin() / missing)
            thread.start(); thread.join()
            print(sorted(vars(thread)))
    """
    plain = python(program.format("import contextlib", "contextlib.nullcontext()"))
    assert plain.stderr.count("Traceback") == 1
    for engine in ENGINES:
        traced = python(
            program.format(
                "from npu_dispatch_inspect import trace_ops",
                f"trace_ops(engine={engine!r}, threads='all')",
            )
        )
        assert (traced.stdout, traced.stderr) == (plain.stdout, plain.stderr)


@since_torch("2.3", "swap_tensors")
@both_engines
def test_tensors_can_be_swapped(engine):
    """As a model's are when it is converted; ours are not the references it looks for."""
    net, other = nn.Linear(3, 3), torch.ones(3, 3)

    def work():
        with torch.no_grad():
            net(torch.ones(1, 3)) + other.sum()
        torch.__future__.set_swap_module_params_on_conversion(True)
        try:
            net.double()
        finally:
            torch.__future__.set_swap_module_params_on_conversion(False)
        torch.utils.swap_tensors(other, torch.zeros(2))
        theirs = weakref.ref(other)
        with pytest.raises(RuntimeError, match="weakref"):
            torch.utils.swap_tensors(other, torch.ones(3, 3))
        del theirs
        torch.utils.swap_tensors(other, torch.ones(3, 3))
        return net(torch.ones(1, 3, dtype=torch.double))

    with trace_ops(engine=engine) as outer, trace_ops(engine=engine) as trace:
        work()
        assert weakref.getweakrefs(net.weight)
    net.float()
    work()
    assert not weakref.getweakrefs(net.weight)
    assert not weakref.getweakrefs(other)
    first, last = trace.find("aten::addmm")
    bias = [each.argument("self") for each in (first, last)]
    assert [each.dtype for each in bias] == ["float32", "float64"]
    assert bias[0].id == bias[1].id  # it is the same object
    assert len(outer) == len(trace)


@since_torch("2.3", "swap_tensors")
@both_engines
def test_a_swapped_tensor_is_described_as_what_it_has_become(engine):
    """Also as one that has no memory of its own, on which others still are."""
    base, other = torch.arange(4.0), torch.zeros(0)
    other.set_(base.untyped_storage(), 0, (4,))
    with trace_ops(engine=engine) as trace:
        torch.add(base, other)
        torch.utils.swap_tensors(other, torch.eye(4).to_sparse())
        base[1:].neg()
        other.neg()
    add, of_base, of_other = (
        each
        for each in trace
        if each.parent is None and each.name in ("aten::add", "aten::neg")
    )
    before, after = add.argument("other"), of_other.argument("self")
    assert before.storage_id == of_base.argument("self").storage_id
    assert (before.id, "strided") == (after.id, before.layout)
    assert (after.layout, after.storage_id) == ("sparse_coo", None)
    assert trace.notes == ()


def test_the_traceback_of_an_error_is_the_programs():
    """The exception object is the one that was raised; type and text are as ever."""

    def work():
        return torch.ones(2, 3) @ torch.ones(2, 3)

    with pytest.raises(RuntimeError) as plain:
        work()
    with trace_ops(), pytest.raises(RuntimeError) as traced:
        work()
    assert str(traced.value) == str(plain.value)
    assert traced.value.__cause__ is traced.value.__context__ is None


@both_engines
def test_random_numbers_are_the_same(engine):
    """Neither torch's nor Python's generators are touched."""
    import random

    def draw():
        return (
            torch.rand(3).tolist(),
            torch.nn.functional.dropout(torch.ones(8)).tolist(),
            random.random(),
        )

    random.seed(0)
    torch.manual_seed(0)
    expected = draw()
    random.seed(0)
    torch.manual_seed(0)
    with trace_ops(engine=engine):
        actual = draw()
    assert actual == expected


@both_engines
def test_aliasing_and_versions_are_the_same(engine):
    """Views stay views, in-place calls count as ever, gradients are stolen as ever."""

    def work():
        x = torch.ones(4, requires_grad=True)
        y = x.detach()
        view = y.view(2, 2)
        view.add_(1)
        same = y.data_ptr() == view.data_ptr()
        (x * 2).sum().backward()
        grad = x.grad
        (x * 2).sum().backward()
        return same, y._version, view._base is not None, x.grad is grad, x.grad.tolist()

    expected = work()
    with trace_ops(engine=engine):
        actual = work()
    assert actual == expected


@both_engines
def test_modules_can_be_pickled_and_copied_inside(engine):
    """Nothing of ours is in a module or a class that is written out meanwhile."""
    import copy
    import io

    net = Net()
    with trace_ops(engine=engine):
        copied = copy.deepcopy(net)
        file = io.BytesIO()
        torch.save(net, file)
    file.seek(0)
    loaded = torch.load(file, weights_only=False)
    assert vars(copied).keys() == vars(net).keys() == vars(loaded).keys()
    assert torch.equal(loaded(torch.ones(1, 4)), net(torch.ones(1, 4)))


@both_engines
def test_a_module_class_that_overrides_call_runs_as_it_is(engine):
    """A `__call__` of the user's own is called, in its own way."""

    class Loud(nn.Module):
        def __call__(self, x):
            return super().__call__(x) + 1

        def forward(self, x):
            return x * 2

    with trace_ops(engine=engine) as trace:
        result = Loud()(torch.ones(2))
    assert result.tolist() == [3.0, 3.0]
    assert trace.find("aten::mul.Tensor")[0].module == ""


def test_export_and_make_fx_give_the_same_graphs():
    """Torch's own tracing under a tracer sees the program, not the tracer."""
    from torch.fx.experimental.proxy_tensor import make_fx

    net = Net()

    def graphs():
        exported = torch.export.export(net, (torch.ones(1, 4),))
        made = make_fx(lambda x: x.sin() @ x)(torch.ones(2, 2))
        return exported.graph_module.code, made.code

    expected = graphs()
    with trace_ops():
        actual = graphs()
    assert actual == expected


@both_engines
@pytest.mark.parametrize(
    "block", [torch.enable_grad, torch.no_grad, torch.inference_mode]
)
def test_a_kernel_that_returns_nothing_does_no_harm(engine, block, device):
    """The NPU kernel of `as_strided_` in torch_npu 2.6 does, and `squeeze_` calls it."""
    with block():
        x, y = torch.ones(2, 1, 3, device=device), torch.ones(2, 3, device=device)
        with trace_ops(engine=engine) as trace:
            x.squeeze_(1)
            result = y.as_strided_([3], [2], 0)
    assert result is y
    assert (x.shape, y.shape, y.stride()) == ((2, 3), (3,), (2,))
    assert trace.counts()["aten::as_strided_"] == (
        1 if engine == "dispatch_mode" else 2
    )
    assert trace.find("aten::as_strided_")[-1].outputs[0].shape == (3,)
    if block is not torch.inference_mode:
        assert (x._version, y._version) == (1, 1)


@both_engines
def test_dynamo_that_is_only_loaded_is_no_note(engine):
    """Torch's optimizers load it; where nothing is compiled a trace is complete."""
    with trace_ops(engine=engine) as trace:
        torch.ones(2).sin()
    assert torch._dynamo
    assert trace.complete
