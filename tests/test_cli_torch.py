# SPDX-License-Identifier: BSD-3-Clause
"""Commands that ask torch: ``table``, ``explain``, ``coverage``, ``graph``."""

from __future__ import annotations

import json
import sys

import pytest

from npu_dispatch_inspect import GraphSet, load, read_dispatch_table, trace_ops
from npu_dispatch_inspect.cli import main
from tests.command_line import cli

MODEL = """
import torch
from torch import nn

print("theirs")

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(8, 4)

    def forward(self, x):
        return torch.lgamma(self.fc(x))

class Sized(nn.Module):
    def __init__(self, size):
        super().__init__()

def scaled(x, *, by=2):
    return x * by

def values(x):
    return x[x > 0]

if __name__ == "__main__":
    Net()(torch.ones(2, 8)).sum().backward()
"""


@pytest.fixture(name="run")
def run_beside_a_model(tmp_path, monkeypatch, capsys):
    """Run a command next to ``net.py``: status, output, errors."""
    (tmp_path / "net.py").write_text(MODEL)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(sys, "argv", [*sys.argv])
    monkeypatch.delenv("COLUMNS", raising=False)

    def run(*arguments):
        monkeypatch.delitem(sys.modules, "net", raising=False)
        status = main(list(arguments))
        shown = capsys.readouterr()
        return status, shown.out, shown.err

    return run


def refused(run, *arguments):
    """The one line with which a command is refused, without the program's name."""
    status, text, error = run(*arguments)
    assert (status, text) == (2, "")
    *before, last, end = error.split("\n")
    assert end == ""
    assert set(before) <= {"theirs"}
    return last.removeprefix("npu-dispatch-inspect: ")


class TestTable:
    """``table``."""

    def test_one_operator_in_full(self, run):
        """A name shows its entries as they print."""
        status, text, error = run("table", "aten::relu")
        entries = read_dispatch_table("aten::relu")
        assert (status, error) == (0, "")
        assert text == "\n".join(f"{each}\n" for each in entries)

    def test_a_glob_is_a_line_for_each(self, run):
        """A pattern lists operators with what the device has."""
        status, text, _ = run("table", "aten::layer_nor?", "--device", "cpu")
        assert status == 0
        assert [line.split() for line in text.splitlines()] == [
            ["operator", "for", "CPU", "kernel"],
            ["aten::layer_norm", "composite", read_dispatch_table("aten::layer_norm").kernel("aten::layer_norm", "CPU").site],
            ["1", "operator"],
        ]  # fmt: skip

    def test_states_limits_and_json(self, run):
        """--state chooses, --limit cuts and says so, --json has everything."""
        _, text, _ = run(
            "table",
            "aten::*norm*",
            "--device",
            "cpu",
            "--state",
            "composite",
            "--limit",
            "2",
        )
        *rows, more, total = text.splitlines()
        assert len(rows) == 3
        count = int(total.split()[0])
        assert more == f"... {count - 2} more; --all shows them"
        content = json.loads(
            run(
                "table",
                "aten::*norm*",
                "--device",
                "cpu",
                "--state",
                "composite",
                "--json",
            )[1]
        )
        assert (content["command"], content["format"], content["key"]) == (
            "table",
            1,
            "CPU",
        )
        assert len(content["operators"]) == content["count"] == count
        assert {each["state"] for each in content["operators"]} == {"composite"}

    def test_numbers_of_the_whole_registry(self, run):
        """Without an operator the registry is told in numbers."""
        content = json.loads(run("table", "--device", "cpu", "--json")[1])
        whole = read_dispatch_table()
        assert content["states"] == {
            state.value: count for state, count in whole.counts("CPU").items()
        }
        assert "operators" not in content

    def test_saved_and_read_without_torch(self, run, tmp_path):
        """--save writes what --from reads."""
        run("table", "aten::relu", "--save", "relu.json")
        assert load(tmp_path / "relu.json") == read_dispatch_table("aten::relu")
        assert (
            run("table", "--from", "relu.json", "aten::relu")[1]
            == run("table", "aten::relu")[1]
        )

    def test_mistakes(self, run):
        """Unknown operators and keys are told with what is near."""
        assert refused(run, "table", "aten::layer_nrm") == (
            "There is no operator 'aten::layer_nrm': did you mean aten::layer_norm?"
        )
        assert refused(run, "table", "nothing::*") == (
            "No operator matches 'nothing::*': globs are over names such as 'aten::relu'."
        )
        assert refused(run, "table", "aten::relu", "--device", "XYZ").startswith(
            "There is no dispatch key 'XYZ': "
        )


class TestExplain:
    """``explain``."""

    def test_an_operator(self, run):
        """The way to the CPU's kernel."""
        status, text, _ = run(
            "explain",
            "aten::addmm",
            "f32[4]",
            "f32[2,3]",
            "f32[3,4]",
            "--device",
            "cpu",
        )
        assert status == 0
        row = text.splitlines()[1]
        assert row.startswith(
            "aten::addmm(f32[4], f32[2, 3], f32[3, 4])  AutogradCPU passes on -> CPU runs"
        )

    def test_an_expression_and_json(self, run):
        """Names in an expression stand for the tensors that follow."""
        content = json.loads(
            run(
                "explain",
                "F.gelu(x, approximate='tanh')",
                "x=f16[2,3]",
                "--grad",
                "--device",
                "cpu",
                "--json",
            )[1]
        )
        (call,) = content["calls"]
        assert call["qualified_name"] == "aten::gelu"
        tensor = call["inputs"][0]["value"]
        assert (tensor["dtype"], tensor["shape"], tensor["requires_grad"]) == (
            "float16",
            [2, 3],
            True,
        )

    def test_a_module_of_a_script(self, run):
        """What the script prints goes to standard error."""
        status, text, error = run(
            "explain", "net.py:Net", "f32[2,8]", "--device", "cpu"
        )
        assert (status, error) == (0, "theirs\n")
        names = [
            line.lstrip("│├└─ ").partition("(")[0] for line in text.splitlines()[1:]
        ]
        assert names[:2] == ["aten::linear", "aten::t"]
        assert "aten::lgamma" in names

    @pytest.mark.parametrize("asked", [None, 80])
    def test_width(self, run, monkeypatch, asked):
        """Without a terminal text has 140 columns at most, or those that COLUMNS names."""
        if asked:
            monkeypatch.setenv("COLUMNS", str(asked))
        call = "torch.nn.TransformerEncoderLayer(64, 4)(x)"
        _, text, _ = run("explain", call, "x=f32[2,3,64]", "--device", "cpu")
        widths = [len(line) for line in text.splitlines()]
        assert (asked or 140) - 20 < max(widths) <= (asked or 140)
        assert "not visible from outside" in text

    def test_modes(self, run):
        """--inference, --no-grad and --autocast are those around the call."""
        call = ("explain", "aten::mm", "f32[2,2]", "f32[2,2]", "--device", "cpu")
        assert "AutogradCPU" in run(*call)[1]
        assert "Autocast" in run(*call, "--autocast", "bfloat16")[1]
        assert "AutogradCPU" not in run(*call, "--inference")[1]

    def test_lists_keywords_and_dtypes(self, run):
        """Lists of tensors, names, numbers and torch's dtypes are understood."""
        content = json.loads(
            run(
                "explain",
                "aten::cat",
                "[f32[2], f32[3]]",
                "dim=0",
                "--device",
                "cpu",
                "--json",
            )[1]
        )
        tensors, dim = (each["value"] for each in content["calls"][0]["inputs"])
        assert ([each["shape"] for each in tensors], dim) == ([[2], [3]], 0)
        assert (
            run(
                "explain",
                "aten::zeros",
                "[2,2]",
                "dtype=torch.float16",
                "--device",
                "cpu",
            )[0]
            == 0
        )

    @pytest.mark.parametrize(
        ("arguments", "sentence"),
        [
            (("aten::addmn",), "There is no operator 'aten::addmn': did you mean aten::addm"),
            (("aten::mm", "f99[2]"), "There is no dtype 'f99': write one as torch does, or short: f64, f32, f16, bf16, c32, c64, c128, i64, i32, i16, i8, u64."),
            (("aten::mm", "f32[2"), "The argument 'f32[2' cannot be understood: write a tensor as f32[2,3], anything else as in Python, and texts in quotes."),
            (("aten::mm", "self=f32[2,2]", "f32[2,2]"), "'f32[2,2]' follows an argument with a name: give it a name, or put it first."),
            (("torch.mm(x, x", "x=f32[2,2]"), "The expression 'torch.mm(x, x' is no Python: '(' was never closed."),
            (("torch.mm(x, y)", "x=f32[2,2]"), "torch.mm(x, y) could not be followed: NameError: name 'y' is not defined."),
            (("torch.mm(x, x)", "f32[2,2]"), "The arguments of an expression need names: x='f32[2,3]'."),
            (("aten::mm", "f32[2,2]", "--device", "abacus"), "There is no device 'abacus' here: "),
            (("net.py:Nut", "f32[2,8]"), "net.py has no 'Nut': write module:callable as it is there."),
            (("net.py:Sized", "f32[2,8]"), "net.py:Sized cannot be made without arguments ("),
            (("nut.py:Net", "f32[2,8]"), "There is no script 'nut.py'."),
            (("no_such_module:f",), "no_such_module could not be run: ModuleNotFoundError: No module named 'no_such_module'."),
        ],
    )  # fmt: skip
    def test_mistakes(self, run, arguments, sentence):
        """Each mistake is one line that says what to do."""
        assert refused(run, "explain", *arguments).startswith(sentence)


class TestCoverage:
    """``coverage``."""

    def test_a_model(self, run):
        """A module is followed without running it."""
        content = json.loads(
            run(
                "coverage",
                "net.py:Net",
                "f32[2,8]",
                "--device",
                "cpu",
                "--key",
                "CPU",
                "--json",
            )[1]
        )
        assert (content["key"], content["source"], content["complete"]) == (
            "CPU",
            "prediction",
            True,
        )
        states = {each["operator"]: each["state"] for each in content["calls"]}
        assert (states["aten::linear"], states["aten::addmm"]) == (
            "composite",
            "own kernel",
        )

    def test_a_script_a_file_and_names(self, run, tmp_path):
        """A script is run, a file read, and names are looked up."""
        by_script = json.loads(run("coverage", "net.py", "--key", "CPU", "--json")[1])
        assert by_script["source"] == "trace"
        assert "aten::mm" in {each["operator"] for each in by_script["calls"]}
        with trace_ops() as trace:
            import torch

            torch.ones(2).lgamma()
        trace.save(tmp_path / "trace.json")
        by_file = json.loads(run("coverage", "trace.json", "--key", "CPU", "--json")[1])
        assert [each["operator"] for each in by_file["calls"]] == [
            "aten::ones",
            "aten::lgamma",
        ]
        _, text, _ = run("coverage", "--ops", "aten::lgamma", "--key", "CPU")
        assert [line.split()[:1] for line in text.splitlines()[1:3]] == [
            ["aten::lgamma.out"], ["aten::lgamma"],
        ]  # fmt: skip

    @pytest.mark.npu
    def test_what_the_npu_leaves_to_the_cpu(self, run):
        """The fallback is named, and the kernel that may use the CPU."""
        content = json.loads(
            run(
                "coverage",
                "--ops",
                "aten::lgamma.out",
                "aten::std.correction",
                "--json",
            )[1]
        )
        assert [(each["operator"], each["state"]) for each in content["calls"]] == [
            ("aten::lgamma.out", "backend fallback"), ("aten::std.correction", "own kernel"),
        ]  # fmt: skip
        assert content["calls"][1]["risk"] == "with a correction that is no integer"

    def test_mistakes(self, run):
        """Unknown names and files that hold no calls are refused."""
        assert refused(run, "coverage", "--ops", "aten::lgama").startswith(
            "There is no operator 'aten::lgama': did you mean aten::lgamma"
        )
        assert refused(run, "coverage", "net.py", "f32[2]") == (
            "net.py takes no arguments here: a callable is named as file.py:name."
        )
        assert refused(
            run, "coverage", "--ops", "aten::mm", "--table", "net.py"
        ).startswith("net.py is neither")


class TestGraph:
    """``graph``."""

    def test_stages(self, run):
        """All graphs of a call, or one of them."""
        status, text, error = run("graph", "net.py:Net", "f32[2,8]", "--device", "cpu")
        assert (status, error) == (0, "theirs\n")
        assert [line.partition(" graph")[0] for line in text.splitlines() if " graph 0:" in line] == [
            "joint", "forward", "backward",
        ]  # fmt: skip
        content = json.loads(
            run(
                "graph",
                "net.py:Net",
                "f32[2,8]",
                "--device",
                "cpu",
                "--stage",
                "forward",
                "--json",
            )[1]
        )
        (graph,) = content["graphs"]
        assert graph["stage"] == "forward"
        assert [each["name"] for each in graph["nodes"]] == [
            "aten::t",
            "aten::addmm",
            "aten::lgamma",
        ]

    def test_code_and_save(self, run, tmp_path):
        """--code shows Python, --save writes what show and diff read."""
        _, text, _ = run(
            "graph",
            "net.py:scaled",
            "f32[2]",
            "by=3",
            "--device",
            "cpu",
            "--code",
            "--save",
            "g.json",
        )
        assert text.startswith("# inference\n")
        assert "torch.ops.aten.mul.Tensor(" in text
        assert isinstance(load(tmp_path / "g.json"), GraphSet)
        assert run("diff", "g.json", "g.json")[0] == 0

    def test_what_cannot_be_captured(self, run):
        """The reason is one line, and the status 2."""
        assert refused(
            run, "graph", "net.py:values", "f32[2]", "--device", "cpu"
        ).startswith(
            "net.py:23: The size of what aten::nonzero returns depends on values: "
        )

    def test_mistakes(self, run):
        """A stage that is not there, a file that cannot be written."""
        assert refused(
            run,
            "graph",
            "net.py:scaled",
            "f32[2]",
            "--device",
            "cpu",
            "--stage",
            "joint",
        ) == ("There is no joint graph here: there is inference.")
        assert refused(
            run, "graph", "net.py:scaled", "f32[2]", "--save", "no/g.json"
        ) == ("no/g.json cannot be written: there is no such folder.")


@pytest.mark.npu
def test_the_stand_in_is_loaded_where_there_is_no_cann():
    """As a program of its own, a command finds the NPU's kernels without CANN."""
    shown = cli("explain", "aten::mm", "f32[2,2]", "f32[2,2]")
    assert shown.returncode == 0, shown.stderr
    assert "PrivateUse1 runs" in shown.stdout
