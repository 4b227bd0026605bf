# SPDX-License-Identifier: BSD-3-Clause
"""Compiled functions under engine "dispatcher"."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from shutil import which

import pytest
import torch

from npu_dispatch_inspect import trace_ops

BACKENDS = [
    "eager",
    "aot_eager",
    pytest.param(
        "inductor",
        marks=[
            pytest.mark.skipif(not which("gcc"), reason="needs a compiler"),
            pytest.mark.skipif(
                torch.__version__.startswith("2.7."),
                reason="with torch_npu 2.7.1 Inductor has no code for the CPU",
            ),
        ],
    ),
]


@pytest.fixture(autouse=True)
def fresh():
    """No compiled code from other tests, and no variables that inductor sets."""
    torch._dynamo.reset()
    before = set(os.environ)
    yield
    torch._dynamo.reset()
    for name in set(os.environ) - before - {"PYTEST_CURRENT_TEST"}:
        del os.environ[name]


def compiled(function, backend="eager", **options):
    """A compiled function, and the list that grows with each compilation."""
    from torch._dynamo.backends.registry import lookup_backend

    compilations = []

    def counting(graph, inputs):
        compilations.append(graph.code)
        return lookup_backend(backend)(graph, inputs)

    return torch.compile(function, backend=counting, **options), compilations


def wave(x):
    """Two graphs with a break between them."""
    y = (x.sin() + x).cos()
    torch._dynamo.graph_break()
    return y * 2


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("first", ["before", "inside"])
def test_compiled_once(backend, first):
    """Neither the block nor its end makes Dynamo compile again."""
    function, compilations = compiled(wave, backend)
    x = torch.randn(3, requires_grad=True)
    expected = wave(x)
    if first == "before":
        function(x)

    with trace_ops(engine="dispatcher"):
        inside = function(x)
        function(x).sum().backward()
    after = function(x)

    assert len(compilations) == 2
    torch.testing.assert_close(inside, expected)
    torch.testing.assert_close(after, expected)


def test_graphs_are_the_same():
    """What Dynamo traces inside a block is what it traces outside."""

    def function(x):
        made = torch.nn.Parameter(x.detach() * 1.5)
        return made + x.shape[0] + torch.tensor(2)

    outside, expected = compiled(function)
    outside(torch.ones(3))
    torch._dynamo.reset()
    inside, actual = compiled(function)
    with trace_ops(engine="dispatcher"):
        inside(torch.ones(3))

    assert actual == expected


def test_graph_is_seen_and_so_is_what_follows():
    """A finished graph's calls are recorded, and those after the compiled function."""
    function, _ = compiled(wave)
    x = torch.randn(3)
    function(x)

    with trace_ops(engine="dispatcher") as trace:
        function(x)
        x.tan()

    tops = [record.name for record in trace if record.depth == 0]
    assert tops == ["aten::sin", "aten::add", "aten::cos", "aten::mul", "aten::tan"]


def test_compilation_itself_is_not_seen():
    """Fake tensors and the like stay out of the trace."""
    function, compilations = compiled(wave, "aot_eager")
    with trace_ops(engine="dispatcher") as trace:
        function(torch.randn(3))
    assert len(compilations) == 2
    tops = [record.name for record in trace if record.depth == 0]
    assert tops == ["aten::randn", "aten::sin", "aten::add", "aten::cos", "aten::mul"]


def test_error_in_a_compiled_function():
    """The thread is traced on after a compiled function has raised."""

    def function(x):
        torch._dynamo.graph_break()
        raise ValueError(x)

    failing, _ = compiled(function)
    with trace_ops(engine="dispatcher") as trace:
        with pytest.raises(ValueError):  # noqa: PT011 - compared below
            failing(torch.ones(1))
        torch.ones(1).tan()
    assert trace.names[-1] == "aten::tan"


def test_forced_to_run_eagerly():
    """With the stance "force_eager" nothing is compiled and everything is seen."""
    function, compilations = compiled(wave)
    x = torch.randn(3)
    stance = torch.compiler.set_stance("force_eager")
    with stance, trace_ops(engine="dispatcher") as trace:
        function(x)
    assert compilations == []
    assert trace.names[:3] == ("aten::sin", "aten::add", "aten::cos")


def test_fullgraph():
    """fullgraph=True compiles and runs inside."""
    function, compilations = compiled(torch.sin, fullgraph=True)
    with trace_ops(engine="dispatcher") as trace:
        function(torch.ones(2))
    assert len(compilations) == 1
    assert "aten::sin" in trace.names


def test_nested_and_disabled():
    """A compiled function that calls a disabled one sees the thread right again."""

    @torch.compiler.disable
    def outside(x):
        return x.tan()

    function, compilations = compiled(lambda x: outside(x.sin()).cos())
    x = torch.ones(2)
    function(x)
    with trace_ops(engine="dispatcher") as trace:
        function(x)
        x.exp()
    assert trace.names == ("aten::sin", "aten::tan", "aten::cos", "aten::exp")
    assert len(compilations) == 2


def test_dynamo_imported_inside_a_block():
    """The first torch.compile of a process may come in a traced block."""
    program = """
        import torch
        from npu_dispatch_inspect import trace_ops
        count = []
        def backend(graph, inputs):
            count.append(graph)
            return graph.forward
        with trace_ops(engine="dispatcher") as trace:
            assert "torch._dynamo" not in __import__("sys").modules
            function = torch.compile(lambda x: torch.nn.Parameter(x).sin(), backend=backend)
            function(torch.ones(2))
            torch.ones(1).tan()
        function(torch.ones(2))
        assert len(count) == 1, count
        assert trace.names[-1] == "aten::tan", trace.names
        assert not [each for each in __import__("sys").meta_path if "_Finder" == type(each).__name__]
    """
    result = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        env={**os.environ, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr


def test_dynamo_never_imported():
    """A block without torch.compile imports no Dynamo and leaves no import hook."""
    program = """
        import sys, torch
        from npu_dispatch_inspect import trace_ops
        before = list(sys.meta_path)
        with trace_ops(engine="dispatcher"):
            torch.nn.Linear(2, 2)(torch.ones(1, 2))
        assert "torch._dynamo" not in sys.modules
        assert sys.meta_path == before
    """
    result = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        env={**os.environ, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
