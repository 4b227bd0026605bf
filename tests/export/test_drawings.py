# SPDX-License-Identifier: BSD-3-Clause
"""DOT and Mermaid: boxes and arrows of calls, chains and graphs."""

from __future__ import annotations

import re

import attrs
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from npu_dispatch_inspect import Argument, OpRecord, OpTrace, TensorSpec, UsageError
from npu_dispatch_inspect.export.dot import dot_text
from npu_dispatch_inspect.export.mermaid import mermaid_text
from npu_dispatch_inspect.records import TaskKind, TaskRecord
from npu_dispatch_inspect.records.chains import ChainNode, Launch, Verdict
from npu_dispatch_inspect.records.graphs import (
    CapturedGraph,
    GraphInput,
    GraphNode,
    GraphOutput,
    GraphStage,
    InputKind,
    OutputKind,
)
from npu_dispatch_inspect.records.paths import (
    Explanation,
    PathStep,
    PredictedCall,
    StepAction,
)
from npu_dispatch_inspect.records.registrations import ComputedKernel
from npu_dispatch_inspect.traces.graphs import GraphSet
from npu_dispatch_inspect.traces.report import DispatchReport
from tests.report_examples import DEVICE, training_step
from tests.serialization.examples import ENVIRONMENT, THINGS

QUOTED = r'"(?:[^"\\]|\\.)*"'
DOT_LINE = re.compile(
    rf"digraph \{{|\}}|  \}}|  rankdir=(LR|TB)|  node \[.*\]|  label={QUOTED}"
    rf"|  subgraph cluster_\d+ \{{|  top \[style=invis, label=\"\", width=0\]"
    rf"|  top -> {QUOTED} \[style=invis\]|  {QUOTED} -> {QUOTED}"
    rf"|  {QUOTED} \[label={QUOTED}, fillcolor=\"#\w+\"\]"
)
LABEL = r'\["[^"]*"\]'
MERMAID_LINE = re.compile(
    rf"flowchart (LR|TD)|  classDef \w+Box [\w:#,-]+|  subgraph s\d+{LABEL}|  end"
    rf"|  (n\d+|more){LABEL}:::\w+Box|  n\d+ --> n\d+"
)


def dot(thing):
    """The lines of a DOT file, each of a known shape."""
    lines = "".join(dot_text(thing)).split("\n")[:-1]
    assert [line for line in lines if not DOT_LINE.fullmatch(line)] == []
    return lines


def mermaid(thing):
    """The lines of a Mermaid file, each of a known shape."""
    lines = "".join(mermaid_text(thing)).split("\n")[:-1]
    assert [line for line in lines if not MERMAID_LINE.fullmatch(line)] == []
    return [line for line in lines if not line.startswith("  classDef")]


def trace_of(*records):
    """A trace of records."""
    return OpTrace(records=records, environment=ENVIRONMENT)


def graph():
    """``(x @ w.t()).relu()`` as a graph of three nodes."""
    x = TensorSpec(dtype="float32", device="npu:0", shape=(2, 8))
    return CapturedGraph(
        stage=GraphStage.FORWARD,
        environment=ENVIRONMENT,
        inputs=(
            GraphInput(index=0, variable="w", kind=InputKind.PARAMETER, name="fc.weight", value=x),
            GraphInput(index=1, variable="x", kind=InputKind.ARGUMENT, name="x", value=x),
        ),
        nodes=(
            GraphNode(index=0, variable="t", name="aten::t", takes=("w",), outputs=(x,)),
            GraphNode(index=1, variable="mm", name="aten::mm", takes=("x", "t"), outputs=(x,), module="fc"),
            GraphNode(index=2, variable="relu", name="aten::relu", takes=("mm",), outputs=(x,)),
        ),
        outputs=(GraphOutput(index=0, variable="relu", kind=OutputKind.RESULT, name=""),),
    )  # fmt: skip


def test_a_tree_of_calls():
    """An arrow from each call to what it called; what came first stands first."""
    x = TensorSpec(dtype="float32", device="cpu", shape=(2,))
    trace = trace_of(
        OpRecord(index=0, name="aten::outer", module="fc", module_type="Linear"),
        OpRecord(
            index=1,
            name="aten::inner",
            parent=0,
            depth=1,
            inputs=(Argument(name="self", value=x),),
            outputs=(x,),
        ),
        OpRecord(index=2, name="aten::next"),
    )
    assert dot(trace)[3:] == [
        '  top [style=invis, label="", width=0]',
        '  "c0" [label="aten::outer\\nfc (Linear)", fillcolor="#e8f1fb"]',
        '  top -> "c0" [style=invis]',
        '  "c1" [label="aten::inner\\n(f32[2]) -> f32[2]", fillcolor="#e8f1fb"]',
        '  "c0" -> "c1"',
        '  "c2" [label="aten::next", fillcolor="#e8f1fb"]',
        '  top -> "c2" [style=invis]',
        "}",
    ]
    assert mermaid(trace) == [
        "flowchart LR",
        '  n0["aten::outer<br/>fc (Linear)"]:::callBox',
        '  n1["aten::inner<br/>(f32[2]) -#62; f32[2]"]:::callBox',
        "  n0 --> n1",
        '  n2["aten::next"]:::callBox',
    ]


def test_a_call_before_its_caller_has_its_arrow():
    """A trace that was put in another order."""
    trace = trace_of(
        OpRecord(index=1, name="aten::inner", parent=0),
        OpRecord(index=0, name="aten::o"),
    )
    assert '  "c0" -> "c1"' in dot(trace)
    assert "  n1 --> n0" in mermaid(trace)


def test_chains_go_down_to_the_task():
    """Call, kernel and verdict, launch, task; fallbacks stand out."""
    step = training_step()
    (launch,) = step.find("aten::mm")[0].launches
    task = TaskRecord(index=4, kind=TaskKind.OPERATOR, read=9)
    aclop = TaskRecord(index=5, kind=TaskKind.OPERATOR, name="MatMul")
    node = attrs.evolve(
        step.find("aten::mm")[0],
        launches=(Launch(record=launch.record, task=task),),
        aclops=(aclop,),
    )
    report = DispatchReport(
        chains=(node, *step.find("aten::digamma")), trace=step.trace, logs=step.logs
    )
    assert [line for line in dot(report)[4:] if "invis" not in line] == [
        (
            '  "c0" [label="aten::mm\\n(f32[2, 8], f32[8, 8]) -> f32[2, 8]\\nfc2 (Linear)\\n'
            'RegisterNPU.cpp:34325\\naclnn", fillcolor="#efe8fb"]'
        ),
        '  "c0_l0" [label="aclnnMm", fillcolor="#e2f5e6"]',
        '  "c0" -> "c0_l0"',
        '  "c0_t0" [label="task 4\\nexecuted", fillcolor="#f4f4f4"]',
        '  "c0_l0" -> "c0_t0"',
        '  "c0_a0" [label="aclop MatMul", fillcolor="#e2f5e6"]',
        '  "c0" -> "c0_a0"',
        (
            '  "c1" [label="aten::digamma.out\\n(f32[2, 8], f32[2, 8]) -> f32[2, 8]\\n'
            'VariableFallbackKernel.cpp:240\\nCPU fallback", fillcolor="#fde7dc"]'
        ),
        (
            '  "c2" [label="aten::copy_\\n(f32[2, 8], f32[2, 8]) -> f32[2, 8]\\n'
            'RegisterNPU.cpp:34325\\ncopy", fillcolor="#e8f1fb"]'
        ),
        '  "c1" -> "c2"',
        "}",
    ]
    assert mermaid(report)[-1] == "  n4 --> n5"


def test_a_captured_graph_has_its_edges():
    """Inputs by their names in the program, nodes, and what is returned."""
    assert dot(graph())[3:] == [
        "  subgraph cluster_0 {",
        '  label="forward graph 0"',
        '  "w" [label="w: parameter fc.weight\\nf32[2, 8]", fillcolor="#fff6d6"]',
        '  "x" [label="x: argument x\\nf32[2, 8]", fillcolor="#fff6d6"]',
        '  "t" [label="t = aten::t\\nf32[2, 8]", fillcolor="#e8f1fb"]',
        '  "w" -> "t"',
        '  "mm" [label="mm = aten::mm\\nf32[2, 8]\\nfc", fillcolor="#e8f1fb"]',
        '  "x" -> "mm"',
        '  "t" -> "mm"',
        '  "relu" [label="relu = aten::relu\\nf32[2, 8]", fillcolor="#e8f1fb"]',
        '  "mm" -> "relu"',
        '  "output.0" [label="output", fillcolor="#fff6d6"]',
        '  "relu" -> "output.0"',
        "  }",
        "}",
    ]
    assert mermaid(graph())[:3] == [
        "flowchart TD",
        '  subgraph s0["forward graph 0"]',
        '  n0["w: parameter fc.weight<br/>f32[2, 8]"]:::inputBox',
    ]


def test_graphs_of_a_set_stand_apart():
    """The same variable in two graphs is two boxes."""
    graphs = GraphSet(
        graphs=[graph(), attrs.evolve(graph(), stage=GraphStage.JOINT, complete=False)],
        environment=ENVIRONMENT,
    )
    lines = dot(graphs)
    assert '  "g0_x" -> "g0_mm"' in lines
    assert '  "g1_x" -> "g1_mm"' in lines
    assert '  label="joint graph 0 (up to the failure)"' in lines


def test_an_explanation_shows_the_way():
    """Where each predicted call ends, and what is not known."""
    kernel = ComputedKernel(kind="kernel", file="a/RegisterCPU.cpp", line=7)
    step = PathStep(key="CPU", action=StepAction.RUNS, kernel=kernel)
    inner = PredictedCall(name="aten::addmm", steps=(step,))
    outer = PredictedCall(name="aten::linear", calls=(inner,), unknown="reason")
    assert [
        line for line in dot(Explanation(calls=(outer,)))[4:-1] if "invis" not in line
    ] == [
        '  "c0" [label="aten::linear\\ninside unknown: reason", fillcolor="#e8f1fb"]',
        '  "c1" [label="aten::addmm\\nCPU: runs\\nRegisterCPU.cpp:7", fillcolor="#e8f1fb"]',
        '  "c0" -> "c1"',
    ]


NASTY = 'a"b\\n<script>alert(1)</script>#60;`x`;%%end\n|{}[]() \u4e2d \\ & --> "]'


def test_names_of_the_program_are_escaped():
    """Quotes, line ends and markup stay text."""
    trace = trace_of(OpRecord(index=0, name=NASTY))
    assert (
        '  "c0" [label="a\\"b\\\\n<script>alert(1)</script>#60;`x`;%%end '
        '|{}[]() \u4e2d \\\\ & --> \\"]", fillcolor="#e8f1fb"]'
    ) in dot(trace)
    assert mermaid(trace) == [
        "flowchart LR",
        (
            '  n0["a#34;b#92;n#60;script#62;alert(1)#60;/script#62;#35;60#59;#96;x#96;#59;%%end '
            '|{}[]() \u4e2d #92; #38; --#62; #34;]"]:::callBox'
        ),
    ]


@pytest.mark.parametrize(
    "name",
    ["op_trace", "dispatch_report", "explanation", "captured_graph", "graph_set"],
)
@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_whatever_the_records_hold_is_drawn(name, data):
    """Every line has a shape that the languages know."""
    thing = data.draw(THINGS[name])
    dot(thing)
    mermaid(thing)


def test_mermaid_says_what_it_has_no_room_for():
    """It refuses charts with more than 500 arrows; DOT has no limit."""
    calls = [
        OpRecord(index=n, name="aten::x", parent=0 if n else None) for n in range(2000)
    ]
    lines = mermaid(trace_of(*calls))
    assert sum("-->" in line for line in lines) == 480
    assert (
        lines[-1] == '  more["... 1519 more boxes: a .dot file has them all"]:::noteBox'
    )
    assert sum(" -> " in line for line in dot(trace_of(*calls))) == 2000


def test_mermaid_is_short_enough():
    """It refuses charts of more than 50,000 characters."""
    calls = [OpRecord(index=n, name="aten::" + "x" * 90) for n in range(2000)]
    text = "".join(mermaid_text(trace_of(*calls)))
    assert 40_000 < len(text) < 50_000
    assert "more boxes" in text


def test_deep_chains_are_drawn():
    """Deeper than Python's stack."""
    node = None
    for n in reversed(range(3000)):
        op = OpRecord(index=n, name="aten::x")
        node = ChainNode(
            op=op, verdict=Verdict.UNKNOWN, why="", children=(node,) if node else ()
        )
    report = DispatchReport(chains=(node,), trace=OpTrace(environment=DEVICE))
    assert len(dot(report)) == 2 * 3000 + 5


@pytest.mark.parametrize("write", [dot_text, mermaid_text])
def test_what_cannot_be_drawn_is_told(write):
    """The sentence names what can be."""
    with pytest.raises(UsageError, match="not a LogTrace"):
        write(training_step().logs)
