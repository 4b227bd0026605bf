# SPDX-License-Identifier: BSD-3-Clause
"""Commands on saved files and logs: ``show``, ``diff``, ``export``, ``logs``.

All of them run where an import of torch would fail.
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from npu_dispatch_inspect import OpTrace, load, save, summarize_logs
from npu_dispatch_inspect.cli import main
from tests.command_line import cli, without_torch
from tests.report_examples import training_step
from tests.table_examples import TABLE
from tests.training_trace import RECORDS, TRACE

LOGS = Path(__file__).parent / "data" / "logs"
LINEAR = str(LOGS / "v2.13.0-linear.log")
ADDMM = "aclnnAddmm(f32[64], f32[32, 128], f32[128, 64], f32[32, 64])"
ZOO = str(LOGS / "v2.13.0-args_zoo.log")


@pytest.fixture(scope="module", name="saved")
def saved_files(tmp_path_factory):
    """A folder with a trace, a longer one, a report and two tables."""
    folder = tmp_path_factory.mktemp("saved")
    save(TRACE, folder / "trace.json")
    save(
        OpTrace(records=RECORDS[1:], environment=TRACE.environment),
        folder / "other.jsonl",
    )
    save(training_step(), folder / "report.jsonl.gz")
    save(TABLE, folder / "table.json.gz")
    save(TABLE.select(*TABLE.names[1:]), folder / "fewer.json")
    return folder


@pytest.fixture(name="run")
def run_in_folder(saved, monkeypatch, capsys):
    """Run a command in that folder: status, output, errors."""
    monkeypatch.chdir(saved)
    monkeypatch.delenv("COLUMNS", raising=False)

    def run(*arguments):
        status = main(list(arguments))
        shown = capsys.readouterr()
        return status, shown.out, shown.err

    return run


@pytest.mark.parametrize("limit", [(), ("--limit", "2")])
def test_columns(run, monkeypatch, limit):
    """COLUMNS says how wide a text is that goes to no terminal."""
    whole = run("show", "report.jsonl.gz", *limit)[1].splitlines()
    monkeypatch.setenv("COLUMNS", "90")
    narrow = run("show", "report.jsonl.gz", *limit)[1].splitlines()
    assert max(map(len, narrow[2:8])) <= 90 < max(map(len, whole[2:8]))


class TestWithoutTorch:
    """As separate programs, in which torch cannot be imported."""

    def test_show_export_diff_and_logs(self, saved, tmp_path):
        """None of the four imports torch, for any kind of file."""
        blocked = without_torch(tmp_path / "blocked")
        target = str(tmp_path / "report.html")
        for arguments, status in (
            (("show", "report.jsonl.gz"), 0),
            (("diff", "table.json.gz", "fewer.json"), 1),
            (("export", "report.jsonl.gz", target), 0),
            (("logs", LINEAR), 0),
        ):
            shown = cli(*arguments, cwd=saved, **blocked)
            assert shown.returncode == status, shown.stderr
            assert "Traceback" not in shown.stderr
        assert Path(target).read_text(encoding="utf-8").startswith("<!doctype html>")

    def test_standard_input(self, saved, tmp_path):
        """``-`` takes a plain or a packed file, and a log."""
        blocked = without_torch(tmp_path)
        for name in ("trace.json", "report.jsonl.gz", "table.json.gz"):
            given = (saved / name).read_bytes()
            piped = cli("show", "-", stdin=given, binary=True, **blocked)
            named = cli("show", name, cwd=saved, binary=True, **blocked)
            assert (piped.returncode, piped.stdout) == (0, named.stdout), piped.stderr
        log = Path(LINEAR).read_bytes()
        assert (
            cli("logs", "-", stdin=log, binary=True, **blocked).stdout
            == cli("logs", LINEAR, binary=True, **blocked).stdout
        )

    def test_what_is_wrong_with_standard_input_is_told_of_it(self, tmp_path):
        """A file that comes by a pipe is called standard input."""
        blocked = without_torch(tmp_path)
        shown = cli("show", "-", stdin='{"schema": "other"}', **blocked)
        assert (shown.returncode, shown.stdout) == (2, "")
        assert shown.stderr.startswith("npu-dispatch-inspect: standard input ")
        assert shown.stderr.count("\n") == 1


class TestShow:
    """``show``."""

    def test_a_trace_is_shown_as_it_prints(self, run):
        """Without options the text is that of `print`."""
        assert run("show", "trace.json") == (0, f"{TRACE}\n", "")

    def test_filters_and_limit(self, run):
        """Filters choose calls, --limit and --all how many are shown."""
        status, text, _ = run(
            "show", "trace.json", "--module", "mlp.fc*", "--phase", "backward"
        )
        assert status == 0
        assert [line.split()[0] for line in text.splitlines()[1:-1]] == [
            "9",
            "10",
            "12",
        ]
        _, text, _ = run("show", "trace.json", "--op", "aten::mm", "--limit", "1")
        assert text.splitlines()[1].startswith("9  bwd    aten::mm")
        assert text.splitlines()[2:] == ["... 1 more", "2 operator calls"]
        assert "more" not in run("show", "trace.json", "--all")[1]

    def test_a_report_and_its_fallbacks(self, run):
        """--fallback leaves what the CPU computed."""
        status, text, _ = run("show", "report.jsonl.gz")
        assert (status, text) == (0, f"{training_step()}\n")
        _, text, _ = run("show", "report.jsonl.gz", "--fallback", "--json")
        chains = json.loads(text)["chains"]
        assert [each["op"]["qualified_name"] for each in chains] == [
            "aten::digamma.out"
        ]
        assert chains[0]["verdict"] == "CPU fallback"

    def test_a_log(self, run):
        """A log file is shown as a saved log is."""
        status, text, _ = run("show", LINEAR)
        assert status == 0
        assert "aclnnAddmm" in text
        _, text, _ = run("show", LINEAR, "--op", "aclnnMm", "--limit", "1")
        assert text.splitlines()[-1].startswith("  #52      aclnnMm(f32[64, 32]")

    def test_a_table(self, run):
        """A registration table is shown; --op and --limit choose operators."""
        assert run("show", "table.json.gz")[1] == f"{TABLE}\n"
        _, text, _ = run("show", "table.json.gz", "--limit", "1")
        assert text.splitlines()[1].startswith(TABLE.names[0])
        assert f"... {len(TABLE) - 1} more; --all shows them" in text

    def test_json(self, run):
        """The records are objects with the names of their fields."""
        content = json.loads(run("show", "trace.json", "--op", "aten::t", "--json")[1])
        assert {
            name: content[name]
            for name in ("command", "format", "kind", "engine", "truncated")
        } == {
            "command": "show",
            "format": 1,
            "kind": "OpTrace",
            "engine": "dispatch_mode",
            "truncated": False,
        }  # fmt: skip
        first = content["records"][0]
        assert (first["qualified_name"], first["phase"]) == ("aten::t", "forward")
        assert first["inputs"][0]["value"]["shape"] == [8, 8]

    @pytest.mark.parametrize(
        ("arguments", "sentence"),
        [
            (("trace.json", "--fallback"), "--fallback says nothing about trace.json, which holds a trace of operator calls."),
            (("trace.json", "--rank", "1"), "--rank says nothing about trace.json, which holds a trace of operator calls."),
            (("table.json.gz", "--phase", "forward"), "--phase says nothing about table.json.gz, which holds a dispatch table."),
            ((LINEAR, "--module", "fc"), f"--module says nothing about {LINEAR}, which holds a log."),
        ],
    )  # fmt: skip
    def test_a_filter_that_says_nothing_is_refused(self, run, arguments, sentence):
        """Nothing is filtered silently by what a file does not have."""
        assert run("show", *arguments) == (2, "", f"npu-dispatch-inspect: {sentence}\n")

    def test_a_file_that_was_cut_off(self, run, tmp_path):
        """It is refused, with the option that shows what is there."""
        cut = tmp_path / "cut.jsonl"
        save(TRACE, cut)
        cut.write_text("".join(cut.read_text().splitlines(keepends=True)[:4]))
        status, text, error = run("show", str(cut))
        assert (status, text) == (2, "")
        assert "show --partial takes what is there" in error
        status, text, _ = run("show", str(cut), "--partial")
        assert status == 0
        assert "cut off after 3 records" in text


class TestDiff:
    """``diff``."""

    def test_the_same(self, run):
        """Status 0, and a sentence."""
        assert run("diff", "trace.json", "trace.json") == (
            0, "no difference: 13 ops on both sides\n", "",
        )  # fmt: skip

    def test_a_difference(self, run):
        """Status 1, and the files' names for the sides."""
        status, text, error = run("diff", "trace.json", "other.jsonl")
        assert (status, error) == (1, "")
        assert text.splitlines()[:3] == [
            "op sequence differs: 1 only in trace.json (trace.json 13, other.jsonl 12)",
            "  first difference: aten::t at #0 in mlp.fc1 only in trace.json",
            "                    model.py:31",
        ]

    def test_quiet_and_filters(self, run):
        """--quiet says nothing; filters decide what is compared."""
        assert run("diff", "-q", "trace.json", "other.jsonl") == (1, "", "")
        assert (
            run("diff", "-q", "trace.json", "other.jsonl", "--phase", "backward")[0]
            == 0
        )
        assert (
            run("diff", "-q", "trace.json", "other.jsonl", "--ignore", "aten::t")[0]
            == 0
        )
        assert (
            run("diff", "-q", "trace.json", "other.jsonl", "--module", "mlp.fc1")[0]
            == 1
        )
        assert (
            run("diff", "-q", "trace.json", "report.jsonl.gz", "--op", "none")[0] == 0
        )

    def test_json(self, run):
        """Each difference has index, module and line on its side."""
        status, text, _ = run("diff", "trace.json", "other.jsonl", "--json")
        assert status == 1
        assert json.loads(text) == {
            "command": "diff",
            "format": 1,
            "same": False,
            "what": "ops",
            "left": {"name": "trace.json", "count": 13},
            "right": {"name": "other.jsonl", "count": 12},
            "differences": [
                {
                    "kind": "only left",
                    "what": "call",
                    "left": {
                        "name": "aten::t",
                        "index": 0,
                        "phase": "forward",
                        "module": "mlp.fc1",
                        "line": "model.py:31",
                    },
                    "right": None,
                    "changes": [],
                    "graph": None,
                }
            ],
            "notes": [],
        }

    def test_logs_and_tables(self, run):
        """Two logs are compared by launches, two tables by registrations."""
        status, text, _ = run("diff", LINEAR, ZOO)
        assert status == 1
        assert text.startswith("launch sequence differs: ")
        status, text, _ = run("diff", "table.json.gz", "fewer.json")
        assert status == 1
        assert text.startswith("registrations differ: ")

    @pytest.mark.parametrize(
        ("arguments", "sentence"),
        [
            (("trace.json", "table.json.gz"), "A dispatch table can be compared with a dispatch table, not with OpTrace."),
            (("trace.json", "trace.json", "--details", "colour"), "There is no detail 'colour': choose from tensors, arguments, phase, module, kernel, verdict, launches."),
        ],
    )  # fmt: skip
    def test_trouble_is_status_2(self, run, arguments, sentence):
        """What cannot be compared is trouble, not a difference."""
        assert run("diff", *arguments) == (2, "", f"npu-dispatch-inspect: {sentence}\n")


class TestExport:
    """``export``."""

    def test_suffixes_decide(self, run, tmp_path):
        """A file goes from one format into another and back."""
        target = tmp_path / "trace.jsonl.gz"
        assert run("export", "trace.json", str(target)) == (
            0, "", f"npu-dispatch-inspect: {target} is written.\n",
        )  # fmt: skip
        assert load(target) == TRACE

    def test_logs(self, run, tmp_path):
        """A log becomes a file of records."""
        target = tmp_path / "log.jsonl"
        status, text, _ = run("export", LINEAR, str(target), "--json")
        assert status == 0
        assert json.loads(text) == {
            "command": "export",
            "format": 1,
            "read": LINEAR,
            "kind": "LogTrace",
            "written": str(target),
            "bytes": target.stat().st_size,
        }
        assert load(target).names[0] == "aclnnAddmm"

    def test_nothing_is_overwritten(self, run, tmp_path):
        """A file that exists stays, unless --force is given."""
        target = tmp_path / "trace.json"
        target.write_text("mine")
        status, _, error = run("export", "trace.json", str(target))
        assert (status, target.read_text()) == (2, "mine")
        assert error.endswith("trace.json exists: --force replaces it.\n")
        assert run("export", "trace.json", str(target), "--force")[0] == 0
        assert load(target) == TRACE

    def test_an_unknown_suffix(self, run, tmp_path):
        """The sentence lists the suffixes, and no file is made."""
        target = tmp_path / "trace.foo"
        status, _, error = run("export", "trace.json", str(target))
        assert status == 2
        assert "use one of .json, .jsonl" in error
        assert not target.exists()


class TestLogs:
    """``logs``."""

    def test_the_summary_comes_first_then_launches(self, run):
        """The counts, then the launches in order as far as the limit."""
        status, text, error = run("logs", LINEAR, "--limit", "2")
        assert (status, error) == (0, "")
        summary, _, launches = text.partition("\n\nlaunches:\n")
        assert summary == str(summarize_logs(LINEAR))
        assert launches.splitlines() == [
            f"  #9       {ADDMM}  [cut at a NUL byte]",
            "  #25      aclnnReduceSum(f32[32, 64], f32[])",
            "  ... 3 more; --all shows them",
        ]

    def test_json_is_one_object(self, run):
        """Summary, errors and launches of all files are one JSON object."""
        content = json.loads(run("logs", LINEAR, ZOO, "--json", "--limit", "7")[1])
        assert list(content) == [
            "command", "format", "files", "summary", "errors", "notes", "launch_count", "launches",
        ]  # fmt: skip
        assert len(content["launches"]) == 7
        assert content["launches"][0] == {
            "file": LINEAR,
            "index": 9,
            "time": content["launches"][0]["time"],
            "pid": content["launches"][0]["pid"],
            "rank": None,
            "source": None,
            "name": "aclnnAddmm",
            "signature": ADDMM,
            "stream": 0,
            "truncated": "cut at a NUL byte",
        }
        assert [each["file"] for each in content["launches"]] == [LINEAR] * 5 + [
            ZOO
        ] * 2
        whole = summarize_logs(LINEAR) + summarize_logs(ZOO)
        assert content["summary"]["launches"] == dict(whole.launches)
        assert content["launch_count"] == whole.launches.total()

    def test_an_empty_list_is_json_too(self, run):
        """No launch at all is an empty list."""
        content = json.loads(run("logs", LINEAR, "--json", "--limit", "0")[1])
        assert (content["launches"], content["launch_count"]) == ([], 5)

    def test_filters(self, run):
        """Only lines that fit are counted and shown."""
        content = json.loads(run("logs", LINEAR, "--name", "aclnnReduce*", "--json")[1])
        assert [each["name"] for each in content["launches"]] == ["aclnnReduceSum"] * 2
        assert content["summary"]["records"] > 2
        nobody = json.loads(run("logs", LINEAR, "--rank", "7", "--json")[1])
        assert nobody["summary"]["records"] == 0

    def test_all_launches_of_several_files(self, run):
        """--all shows every launch, with its file in front."""
        text = run("logs", LINEAR, ZOO, "--all")[1]
        count = (summarize_logs(LINEAR) + summarize_logs(ZOO)).launches.total()
        rows = [line for line in text.splitlines() if line.startswith("  #")]
        assert len(rows) == count
        assert rows[0].startswith(f"  #9       {LINEAR}: aclnnAddmm(")

    def test_compressed_and_in_several_processes(self, run, tmp_path):
        """Packed files and --jobs give the same summary."""
        packed = tmp_path / "zoo.log.gz"
        packed.write_bytes(gzip.compress(Path(ZOO).read_bytes()))
        summary = str(summarize_logs(ZOO))
        assert run("logs", str(packed), "--limit", "0")[1] == f"{summary}\n"
        assert run("logs", ZOO, "--limit", "0", "--jobs", "2")[1] == f"{summary}\n"

    def test_errors_are_listed_with_the_launches_before(self, run, tmp_path):
        """An error of the device names its operator, its code and what ran before."""
        log = tmp_path / "error.log"
        head = "[81234] [2026-01-15 11:20:31:045] torch_npu."
        log.write_text(
            f"{head}op_plugin: [INFO] [81290] aclnnMm EXEC_NPU_CMD with task_queue = 1\n\n"
            "RuntimeError: The Inner error is reported as above. Since the operator is "
            "called asynchronously, the current working operator name is aclnnAdd. "
            "error code is 507015\n"
        )
        _, text, _ = run("logs", str(log))
        assert (
            "errors: 1\n  aclnnAdd, error 507015\n    the launches before it: aclnnMm\n"
            in text
        )
