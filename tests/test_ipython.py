# SPDX-License-Identifier: BSD-3-Clause
"""The magics, in a real IPython shell."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import npu_dispatch_inspect
from npu_dispatch_inspect import DispatchReport, OperatorEntry, OpTrace, Phase

pytest.importorskip("IPython")
torch = pytest.importorskip("torch")


@pytest.fixture(scope="module", name="running")
def _running(tmp_path_factory):
    """One shell for all tests: IPython keeps its shells alive anyway."""
    from IPython.core.interactiveshell import InteractiveShell
    from traitlets.config import Config

    hook = sys.excepthook
    shell = InteractiveShell(
        ipython_dir=str(tmp_path_factory.mktemp("ipython")),
        config=Config({"HistoryManager": {"hist_file": ":memory:"}}),
    )
    shell.colors = "nocolor"
    shell.run_cell("%load_ext npu_dispatch_inspect")
    yield shell
    sys.excepthook = hook


@pytest.fixture(name="shell")
def _shell(running, monkeypatch):
    """The shell with what was displayed, and variables of this test alone."""
    displayed = []
    monkeypatch.setattr("IPython.display.display", displayed.append)
    # Where a call came from is asked of the shell that runs.
    monkeypatch.setattr("IPython.get_ipython", lambda: running)
    running.displayed = displayed
    before = dict(running.user_ns)
    running.user_ns["torch"] = torch
    running.user_ns["x"] = torch.ones(2, 3)
    yield running
    running.user_ns.clear()
    running.user_ns.update(before)


def run(shell, *lines):
    """Run a cell of these lines; what it raised is in the result."""
    return shell.run_cell("\n".join(lines), store_history=True)


def error_of(shell, capsys, *lines):
    """The one line that IPython shows for a mistake of the user."""
    result = run(shell, *lines)
    assert not result.success
    said = capsys.readouterr()
    assert "Traceback" not in said.out + said.err
    (line,) = (said.err or said.out).strip().splitlines()
    return line


class TestTraceOps:
    def test_shows_and_keeps_the_trace(self, shell):
        """The trace is displayed and is in the variable; the last value is the cell's."""
        result = run(shell, "%%trace_ops mine", "y = x @ x.T", "y + 1")
        trace = shell.user_ns["mine"]
        assert isinstance(trace, OpTrace)
        assert trace.names == ("aten::permute", "aten::mm", "aten::add")
        assert trace.label == "mine"
        assert [each is trace for each in shell.displayed] == [True]
        assert torch.equal(result.result, torch.full((2, 2), 4.0))
        assert torch.equal(shell.user_ns["y"], torch.full((2, 2), 3.0))

    def test_lines_are_those_of_the_cell(self, shell):
        """The number is the cell's own, and its magic stands in line 1."""
        number = shell.execution_count
        run(shell, "%%trace_ops mine", "", "x.sin()")
        (record,) = shell.user_ns["mine"]
        assert (record.source.file, record.source.line) == (f"In[{number}]", 3)

    def test_functions_of_other_cells(self, shell):
        """A call in a function of an earlier cell has that cell's number."""
        number = shell.execution_count
        run(shell, "def double(x):", "    return x * 2")
        run(shell, "%%trace_ops mine", "double(x);")
        (record,) = shell.user_ns["mine"]
        assert (record.source.file, record.source.line) == (f"In[{number}]", 2)

    def test_without_a_name(self, shell):
        """The trace is shown all the same."""
        run(shell, "%%trace_ops", "x.sin();")
        assert shell.displayed[0].names == ("aten::sin",)

    def test_quiet(self, shell):
        """--quiet keeps the trace and shows nothing."""
        run(shell, "%%trace_ops mine --quiet", "x.sin()")
        assert shell.displayed == []
        assert len(shell.user_ns["mine"]) == 1

    def test_engine(self, shell):
        """--engine dispatcher shows composites."""
        run(shell, "%%trace_ops mine --engine dispatcher", "x.matmul(x.t());")
        assert "aten::matmul" in shell.user_ns["mine"].names

    def test_max_ops(self, shell):
        """--max-ops bounds the trace."""
        run(shell, "%%trace_ops mine --max-ops 1", "x.sin().cos()")
        assert shell.user_ns["mine"].truncated

    @pytest.mark.parametrize("last", ["x.sin();", "x.sin();  # quiet"])
    def test_semicolon(self, shell, last):
        """A semicolon at the end shows no value, as everywhere in IPython."""
        assert run(shell, "%%trace_ops", last).result is None

    def test_magics_inside(self, shell):
        """Other magics and shell assignments work inside the cell."""
        run(shell, "%%trace_ops mine", "here = %pwd", "x.sin();")
        assert isinstance(shell.user_ns["here"], str)
        assert shell.user_ns["mine"].names == ("aten::sin",)

    def test_a_cell_that_raises(self, shell, capsys):
        """What it ran until then is shown, and the error is its own, at its line."""
        result = run(shell, "%%trace_ops mine", "y = x.sin()", "x @ x", "x.cos()")
        assert isinstance(result.error_in_exec, RuntimeError)
        assert "y" in shell.user_ns
        (trace,) = shell.displayed
        assert trace.names == ("aten::sin", "aten::mm")
        assert trace[1].exception.type == "RuntimeError"
        shown = capsys.readouterr().out
        assert "----> 3 x @ x" in shown
        assert "npu_dispatch_inspect/ipython.py" not in shown

    def test_interrupted(self, shell):
        """An interrupted cell shows its trace as well."""
        result = run(shell, "%%trace_ops", "x.sin()", "raise KeyboardInterrupt")
        assert isinstance(result.error_in_exec, KeyboardInterrupt)
        assert shell.displayed[0].names == ("aten::sin",)

    def test_nothing_is_left_on(self, shell):
        """After the cell nothing is recorded any more."""
        run(shell, "%%trace_ops mine", "x.sin()", "x @ x")
        run(shell, "x.cos()")
        assert len(shell.user_ns["mine"]) == 2

    def test_training_step(self, shell):
        """Phases are told apart as in a script."""
        run(
            shell,
            "%%trace_ops mine",
            "w = torch.ones(3, requires_grad=True)",
            "(x * w).sum().backward()",
        )
        trace = shell.user_ns["mine"]
        assert {each.phase for each in trace} == {Phase.FORWARD, Phase.BACKWARD}


class TestInspectDispatch:
    def test_shows_and_keeps_the_report(self, shell):
        """The report is displayed and is in the variable."""
        result = run(shell, "%%inspect_dispatch seen", "x.matmul(x.t())")
        report = shell.user_ns["seen"]
        assert isinstance(report, DispatchReport)
        assert [each is report for each in shell.displayed] == [True]
        assert report.find("aten::matmul")
        assert result.result.shape == (2, 2)

    def test_a_cell_that_raises(self, shell):
        """The report says what the block died of."""
        result = run(shell, "%%inspect_dispatch seen", "x.sin()", "x @ x")
        assert isinstance(result.error_in_exec, RuntimeError)
        assert shell.displayed[0].failure.exception.type == "RuntimeError"

    @pytest.mark.npu
    def test_launches(self, shell):
        """On the NPU the launches are there."""
        run(shell, "%%inspect_dispatch seen --quiet", "y = x.npu() * 2")
        assert "aclnnMuls" in [each.name for each in shell.user_ns["seen"].launches]


class TestDispatchTable:
    def test_one_overload(self, shell):
        """A name with its overload is shown in full."""
        found = run(shell, "%dispatch_table aten::addmm.out").result
        assert isinstance(found, OperatorEntry)
        assert found.qualified_name == "aten::addmm.out"

    def test_several_overloads(self, shell):
        """A name without one shows all overloads."""
        found = run(shell, "%dispatch_table aten::addmm").result
        assert {"default", "out"} <= set(found.overloads)

    def test_glob(self, shell):
        """A glob gives a table."""
        found = run(shell, "%dispatch_table aten::*layer_norm*").result
        assert "aten::native_layer_norm" in found.names

    def test_several_names(self, shell):
        """Several names give a table of these."""
        found = run(shell, "%dispatch_table aten::mm.out aten::mv.out").result
        assert found.names == ("aten::mm.out", "aten::mv.out")


class TestMistakes:
    @pytest.mark.parametrize(
        ("lines", "said"),
        [
            (["%%trace_ops 3a", "x"], "'3a' cannot be the name of a variable."),
            (["%%trace_ops 'a", "x"], "A quotation mark is open in \"'a\"."),
            (["%%trace_ops a --max-ops -1", "x"], "max_ops must be a whole number from 0 up, not -1."),
            (["%dispatch_table"], "%dispatch_table needs an operator's name: aten::addmm."),
            (["%%trace_ops", "await x"], "%%trace_ops cannot run 'await' outside a function: use 'with trace_ops()' inside an async function."),
        ],
    )  # fmt: skip
    def test_one_sentence(self, shell, capsys, lines, said):
        """A mistake is told in one sentence, without a traceback."""
        assert error_of(shell, capsys, *lines) == f"UsageError: {said}"

    def test_unknown_options_show_the_usage(self, shell, capsys):
        """What there is to write stands in the sentence."""
        said = error_of(shell, capsys, "%%trace_ops a --speed 3", "x")
        assert said.startswith("UsageError: Unrecognized arguments: --speed 3: write")
        assert "[--engine {dispatch_mode,dispatcher}]" in said

    def test_unknown_operator(self, shell, capsys):
        """The nearest names are offered."""
        said = error_of(shell, capsys, "%dispatch_table aten::addm")
        assert said.startswith("UsageError: There is no operator 'aten::addm'")
        assert "aten::addmm" in said

    def test_errors_of_the_cell_stay_its_own(self, shell):
        """An error of this package that the cell raises is not taken for a mistake."""
        result = run(
            shell,
            "%%trace_ops",
            "from npu_dispatch_inspect import UsageError",
            "raise UsageError('mine')",
        )
        assert type(result.error_in_exec) is npu_dispatch_inspect.UsageError

    def test_syntax_errors_stay_syntax_errors(self, shell):
        """What Python cannot read is told as Python tells it; nothing is traced."""
        result = run(shell, "%%trace_ops", "x +")
        assert isinstance(result.error_in_exec, SyntaxError)
        assert shell.displayed == []


def test_loading_is_light():
    """%load_ext imports neither torch nor torch_npu: the stand-in may still be loaded."""
    code = (
        "import sys\n"
        "from IPython.core.interactiveshell import InteractiveShell\n"
        "shell = InteractiveShell()\n"
        "assert shell.run_cell('%load_ext npu_dispatch_inspect').success\n"
        "print(sorted({'torch', 'torch_npu'} & set(sys.modules)))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"


def test_the_pages_cells_run(shell):
    """Every cell that the page about notebooks shows runs as written."""
    page = Path(__file__).parent.parent / "docs" / "notebooks.md"
    blocks = re.findall(r"```text\n(%.*?)```", page.read_text("utf-8"), re.DOTALL)
    assert len(blocks) == 4
    for block in blocks:
        assert run(shell, block).success
    assert shell.user_ns["trace"].backward.names
    assert shell.user_ns["seen"].find("aten::matmul")
