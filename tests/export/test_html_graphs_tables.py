# SPDX-License-Identifier: BSD-3-Clause
"""HTML pages of captured graphs and of the dispatcher's tables."""

from __future__ import annotations

from npu_dispatch_inspect.export.htmlpage import html_report
from npu_dispatch_inspect.records import (
    Argument,
    ExceptionRecord,
    Phase,
    SourceLocation,
)
from npu_dispatch_inspect.records.graphs import (
    CapturedGraph,
    FailureKind,
    GraphBreak,
    GraphFailure,
    GraphInput,
    GraphNode,
    GraphOutput,
    GraphStage,
    InputKind,
    OutputKind,
    SavedTensor,
)
from npu_dispatch_inspect.traces.graphs import GraphSet
from tests.export.html_pages import data_of, details_of, rows_of, words_of
from tests.report_examples import DEVICE, NET, tensor
from tests.table_examples import TABLE

LINE = SourceLocation(file=NET, line=5, function="step")
X = tensor(1, 4, 8)
FORWARD = CapturedGraph(
    stage=GraphStage.FORWARD,
    nodes=(
        GraphNode(
            index=0,
            variable="relu",
            name="aten::relu",
            inputs=(Argument(name="self", value=X),),
            outputs=(X,),
            takes=("primals_1",),
            module="act",
            module_type="ReLU",
            source=LINE,
            sequence=1,
            decomposed_from="aten::hardtanh",
        ),
    ),
    inputs=(
        GraphInput(
            index=0, variable="primals_1", kind=InputKind.ARGUMENT, name="x", value=X
        ),
    ),
    outputs=(
        GraphOutput(index=0, variable="relu", kind=OutputKind.RESULT, name="", value=X),
    ),
    saved_for_backward=(SavedTensor(variable="relu", value=X, bytes=128),),
    code="def forward(self, primals_1):\n    if 1 < 2 & 3: pass\n",
    environment=DEVICE,
)
BACKWARD = CapturedGraph(
    stage=GraphStage.BACKWARD,
    nodes=(
        GraphNode(
            index=0,
            variable="threshold",
            name="aten::threshold_backward",
            phase=Phase.BACKWARD,
            forward_node="relu",
        ),
        GraphNode(index=1, variable="again", name="aten::relu", recomputed=True),
    ),
    environment=DEVICE,
)
FAILURE = GraphFailure(
    index=0,
    kind=FailureKind.OTHER,
    message="It cannot be captured.",
    source=LINE,
    exception=ExceptionRecord(type="RuntimeError", message="no"),
)


class TestGraphs:
    """Nodes are rows, one graph after the other."""

    PAGE = html_report(GraphSet(graphs=(FORWARD, BACKWARD), environment=DEVICE))

    def test_nodes_of_all_graphs_are_rows(self):
        """Each row says its graph, variable, origin and line."""
        rows = rows_of(self.PAGE)
        assert [(row["graph"], row["op"], row["phase"]) for row in rows] == [
            ("forward", "aten::relu", "forward"),
            ("backward", "aten::threshold_backward", "backward"),
            ("backward", "aten::relu", "recomputed"),
        ]
        assert (rows[0]["variable"], rows[0]["module"]) == ("relu", "act")
        assert (rows[0]["origin"], rows[0]["line"]) == ("aten::hardtanh", "net.py:5")

    def test_a_backward_node_leads_to_its_forward_node(self):
        """The partner stands in the other graph."""
        assert data_of(self.PAGE)["partner"] == {"1": 0}

    def test_marks(self):
        """Saved, recomputed and decomposed nodes are marked."""
        data = data_of(self.PAGE)
        keys = [tag["key"] for tag in data["tags"]]
        assert keys == ["saved", "recomputed", "decomposed"]
        assert data["marks"] == [0b101, 0, 0b010]

    def test_what_is_saved_goes_in_and_comes_out(self):
        """The overview lists saved tensors with bytes, inputs, outputs and the code."""
        words = words_of(self.PAGE)
        assert "2 graphs captured. Operators: forward 1, backward 2." in words
        assert "128 bytes saved" in words
        assert "relu: f32[4, 8] 128 bytes" in words
        assert "primals_1: argument x f32[4, 8] output: relu f32[4, 8]" in words
        assert "if 1 < 2 & 3: pass" in words

    def test_details_name_what_a_node_takes(self):
        """The edges of the graph, and what the node was made from."""
        details = dict(details_of(self.PAGE, 0))
        assert details["Takes"] == [["primals_1"]]
        assert details["Node"][0] == ["decomposed from", "aten::hardtanh", ""]

    def test_one_graph_alone(self):
        """A single graph has the same page."""
        page = html_report(FORWARD)
        assert "<h1>Captured forward graph</h1>" in page
        assert len(rows_of(page)) == 1

    def test_graphs_of_several_captures_are_told_apart(self):
        """Where there are several captures, each graph has its number."""
        second = CapturedGraph(
            stage=GraphStage.FORWARD, index=1, nodes=FORWARD.nodes, environment=DEVICE
        )
        page = html_report(GraphSet(graphs=(FORWARD, second), environment=DEVICE))
        assert [row["graph"] for row in rows_of(page)] == ["forward 0", "forward 1"]

    def test_failures_and_breaks_are_the_verdict(self):
        """A capture that failed comes first, with its line."""
        broken = GraphBreak(index=0, reason="a print", source=LINE)
        graphs = GraphSet(
            failures=(FAILURE,), breaks=(broken,), notes=("Said.",), environment=DEVICE
        )
        words = words_of(html_report(graphs))
        assert "1 capture did not come to an end." in words
        assert "It cannot be captured. net.py:5" in words
        assert "a print net.py:5" in words
        assert "Said." in words


class TestTables:
    """Operators are rows."""

    PAGE = html_report(TABLE)

    def test_every_operator_is_a_row_with_its_kernels(self):
        """State and winner on the NPU, the CPU's kernel, the schema."""
        row = next(each for each in rows_of(self.PAGE) if each["op"] == "aten::mm")
        assert row == {
            "op": "aten::mm",
            "verdict": "own kernel",
            "kernel": "RegisterNPU.cpp:1",
            "cpu": "RegisterCPU_0.cpp:3",
            "autograd": "",
            "file": "RegisterNPU.cpp",
            "schema": "aten::mm() -> ()",
        }
        assert len(rows_of(self.PAGE)) == len(TABLE)

    def test_states_are_counted(self):
        """The overview counts what the operators have on the NPU."""
        words = words_of(self.PAGE)
        assert f"{len(TABLE)} operator overloads in the tables." in words
        assert "On NPU: " in words

    def test_details_have_registrations_and_winners(self):
        """Every registration with its key, and which kernel wins for which keys."""
        row = [each["op"] for each in rows_of(self.PAGE)].index("aten::mm")
        details = dict(details_of(self.PAGE, row))
        assert details["Registrations"][0] == ["CPU", "RegisterCPU_0.cpp:1", ""]
        assert ["kernel", "RegisterNPU.cpp:1", "PrivateUse1"] in (
            details["What wins, by key"]
        )

    def test_namespaces_are_the_tree(self):
        """The tree beside the table has the namespaces."""
        data = data_of(self.PAGE)
        names = {data["strings"][name] for name in data["tree"]["names"]}
        assert names == {name.partition("::")[0] for name in TABLE.names}
