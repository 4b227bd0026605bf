# SPDX-License-Identifier: BSD-3-Clause
"""The pytest plugin: every fixture, marker and option, in runs of pytest of its own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from npu_dispatch_inspect import OpTrace, load
from npu_dispatch_inspect._pytest_reports import _save
from tests.training_trace import HERE

pytest_plugins = "pytester"

ROOT = Path(__file__).parent.parent
CACHE = os.environ.get("XDG_CACHE_HOME", str(Path.home() / ".cache"))
SET_BY_STAND_IN = (
    "ASCEND_HOME_PATH",
    "ASCEND_OPP_PATH",
    "LD_LIBRARY_PATH",
    "NPU_DISPATCH_INSPECT_STANDIN_DEVICE",
)
NAMES_ONLY = """
    from npu_dispatch_inspect import assert_ops

    def test_long():
        assert_ops([f"aten::op{each}" for each in range(300)], [])
"""
"""Needs no torch, so that such a run is short."""


@pytest.fixture(autouse=True)
def _environment(monkeypatch):
    """A run of its own: plain CPU, no stand-in from this process, no options."""
    for name in (*SET_BY_STAND_IN, "PYTEST_ADDOPTS", "CI", "BUILD_NUMBER"):
        monkeypatch.delenv(name, raising=False)
    for name in [each for each in os.environ if each.startswith("PYTEST_XDIST")]:
        monkeypatch.delenv(name)
    # Wide enough for whole lines in the summary; no plugin but ours.
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setenv("TORCH_DEVICE_BACKEND_AUTOLOAD", "0")
    monkeypatch.setenv("XDG_CACHE_HOME", CACHE)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))


@pytest.fixture
def run(pytester):
    """Run pytest in the test's folder; its output and exit status."""

    def run(*arguments):
        plugin = ("-p", "npu_dispatch_inspect")
        return pytester.run(sys.executable, "-m", "pytest", *plugin, *arguments)

    return run


def text_of(result):
    """Everything pytest has printed."""
    return result.stdout.str()


def section(result, title):
    """The text below one title of the report."""
    lines = text_of(result).splitlines()
    start = next(
        number for number, each in enumerate(lines) if each.strip("-= ") == title
    )
    body = []
    for each in lines[start + 1 :]:
        if re.match(r"[-=_]{5,}", each):
            break
        body.append(each)
    return body


def test_report_of_a_failing_test_is_a_section_and_a_file(pytester, run, tmp_path):
    """dispatch_inspector shows and saves the report of a failing test only."""
    pytester.makepyfile("""
        import torch

        def test_fails(dispatch_inspector):
            with dispatch_inspector("scaled") as seen:
                torch.nn.functional.linear(torch.ones(1, 2), torch.ones(3, 2))
            assert [node.op.name for node in seen.find("aten::bmm")]

        def test_passes(dispatch_inspector):
            with dispatch_inspector() as seen:
                torch.ones(2).sin()
            assert seen.find("aten::sin")
    """)
    result = run(f"--npu-inspect-save={tmp_path}")
    result.assert_outcomes(passed=1, failed=1)
    shown = section(result, "Captured dispatch report")
    assert shown[0].startswith("device: cpu · torch ")
    assert any("aten::linear" in line for line in shown)
    assert "aten::sin" not in text_of(result)
    (saved,) = tmp_path.glob("*.report.jsonl")
    assert "test_fails" in saved.name
    assert load(saved).find("aten::linear")


def test_trace_of_a_failing_test_is_a_section(pytester, run):
    """A failing test shows its traces, a passing one does not."""
    pytester.makepyfile("""
        import torch
        from npu_dispatch_inspect import assert_has_ops

        def test_fails(op_tracer):
            with op_tracer("doubling") as trace:
                torch.ones(2) * 2
            assert_has_ops(trace, "aten::mm")

        def test_passes(op_tracer):
            with op_tracer() as trace:
                torch.ones(2).sin()
            assert_has_ops(trace, "aten::sin")
    """)
    result = run()
    result.assert_outcomes(passed=1, failed=1)
    shown = section(result, "Captured op trace (doubling)")
    assert [line.split()[:3] for line in shown[:4]] == [
        ["#", "phase", "operator"],
        ["0", "fwd", "aten::ones"],
        ["1", "fwd", "aten::mul.Tensor"],
        ["2", "operator", "calls"],
    ]
    assert shown[2].endswith("test_trace_of_a_failing_test_is_a_section.py:6")
    assert shown[4].startswith("device: cpu · torch ")
    assert "aten::sin" not in text_of(result)
    result.stdout.fnmatch_lines(
        [
            "E       AssertionError: missing op: aten::mm, traced 2 ops",
            "E         aten::mm: no similar name was traced",
            "FAILED *::test_fails - AssertionError: missing op: aten::mm, traced 2 ops",
        ]
    )
    # The test's own line is the last of the traceback.
    assert "_look.py" not in text_of(result)
    assert "counts.py" not in text_of(result)


def test_every_trace_of_a_tracer_is_kept(pytester, run):
    """A tracer used twice, and several tracers, in a fixture as well."""
    pytester.makepyfile("""
        import pytest, torch

        @pytest.fixture
        def model(op_tracer):
            with op_tracer("setup"):
                return torch.ones(2)

        def test_fails(model, op_tracer):
            tracer = op_tracer("twice")
            with tracer:
                model.sin()
            with tracer:
                model.cos()
            assert 0
    """)
    result = run()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "*Captured op trace (setup)*",
            "*aten::ones*",
            "*Captured op trace (twice)*",
            "*aten::sin*",
            "*Captured op trace (twice)*",
            "*aten::cos*",
        ]
    )


def test_markers(pytester, run):
    """forbid_ops and max_ops fail a test that passed, in its call phase."""
    pytester.makepyfile("""
        import unittest
        import pytest, torch

        @pytest.mark.forbid_ops("aten::mul", "npu::*")
        def test_forbidden():
            torch.ones(2) * 2

        @pytest.mark.forbid_ops("aten::mul", phase="backward")
        def test_forbidden_elsewhere():
            torch.ones(2) * 2

        @pytest.mark.max_ops(1)
        def test_too_many():
            torch.ones(2) * 2

        @pytest.mark.max_ops(1, ignore=["aten::ones"])
        def test_few():
            torch.ones(2) * 2

        @pytest.mark.max_ops(0)
        class TestLimits:
            @pytest.mark.max_ops(2)
            def test_closest_counts(self):
                torch.ones(2) * 2

        class Case(unittest.TestCase):
            @pytest.mark.forbid_ops("aten::sin")
            def test_unittest(self):
                torch.ones(2).sin()

        @pytest.mark.forbid_ops("aten::sin")
        def test_own_failure():
            torch.ones(2).sin()
            assert 1 == 2

        @pytest.mark.forbid_ops("aten::sin")
        def test_skip():
            torch.ones(2).sin()
            pytest.skip("later")

        @pytest.mark.forbid_ops
        def test_nothing_named():
            pass

        @pytest.mark.max_ops("two")
        def test_no_number():
            pass

        @pytest.mark.max_ops(2, colour="red")
        def test_wrong_option():
            pass
    """)
    result = run("--strict-markers")
    result.assert_outcomes(passed=3, failed=7, skipped=1)
    result.stdout.fnmatch_lines_random(
        [
            "FAILED *::test_forbidden - Failed: forbid_ops: forbidden op: aten::mul.Tensor (once)*",
            "FAILED *::test_too_many - Failed: max_ops: expected at most 1 op, traced 2",
            "FAILED *::test_unittest - Failed: forbid_ops: forbidden op: aten::sin (once)*",
            "FAILED *::test_own_failure - assert 1 == 2",
            "FAILED *::test_nothing_named - Failed: forbid_ops names the operators: *",
            "FAILED *::test_no_number - Failed: max_ops takes one number: max_ops(40).",
            "FAILED *::test_wrong_option - Failed: max_ops: *unexpected keyword*'colour'",
        ]
    )
    assert "During handling" not in text_of(result)
    assert section(result, "Captured op trace (test_too_many, dispatch_mode)")


def test_npu_markers_without_npu(pytester, run):
    """requires_npu skips and says why; no_cpu_fallback has nothing to say on a CPU."""
    pytester.makepyfile("""
        import pytest

        @pytest.mark.requires_npu
        def test_npu():
            raise AssertionError

        @pytest.mark.no_cpu_fallback
        def test_cpu():
            import torch
            torch.digamma(torch.ones(2))
    """)
    result = run("-rs")
    result.assert_outcomes(passed=1, skipped=1)
    result.stdout.fnmatch_lines(["SKIPPED * needs an NPU: torch_npu *"])


def test_markers_and_options_are_documented(run):
    """--markers, --fixtures and --help list what there is, all with a prefix."""
    markers = text_of(run("--markers"))
    for each in ("forbid_ops(", "max_ops(", "no_cpu_fallback:", "requires_npu("):
        assert f"@pytest.mark.{each}" in markers
    fixtures = text_of(run("--fixtures"))
    for each in (
        "op_tracer",
        "npu_log_capture",
        "dispatch_inspector",
        "dispatch_table [session scope]",
    ):
        assert f"\n{each} -- " in fixtures
    shown = text_of(run("--help"))
    for each in ("stand-in", "trace={off,failed,all}", "save=DIR"):
        assert f"--npu-inspect-{each}" in shown
    for each in (
        "npu_inspect_stand_in",
        "npu_inspect_trace",
        "npu_inspect_save",
        "verbosity_npu_inspect",
    ):
        assert f"\n  {each} (" in shown


@pytest.mark.npu
def test_npu_fixtures_and_markers_on_the_stand_in(pytester, run, monkeypatch):
    """Everything that needs an NPU works on the stand-in."""
    monkeypatch.delenv("TORCH_DEVICE_BACKEND_AUTOLOAD")
    pytester.makepyfile("""
        import pytest, torch
        from npu_dispatch_inspect import assert_kernel, assert_launches, standin

        @pytest.mark.requires_npu
        def test_npu():
            assert standin.is_loaded()
            assert torch.ones(2).npu().device.type == "npu"

        @pytest.mark.requires_npu(stand_in=False)
        def test_real():
            raise AssertionError

        @pytest.mark.no_cpu_fallback
        def test_fallback():
            torch.digamma(torch.ones(2).npu())

        @pytest.mark.no_cpu_fallback
        def test_no_fallback():
            torch.ones(2).npu() + 1

        def test_log(npu_log_capture):
            x = torch.ones(2).npu()
            with npu_log_capture("op_plugin") as logs:
                x + 1
            assert_launches(logs, ["aclnnAdds"])
            assert 0, "show it"

        def test_table(dispatch_table):
            assert_kernel(dispatch_table, "aten::relu", file="RegisterNPU.cpp")

        def test_table_again(dispatch_table):
            assert dispatch_table.complete
    """)
    result = run("-rs", "--npu-inspect-stand-in")
    result.assert_outcomes(passed=4, failed=2, skipped=1)
    result.stdout.fnmatch_lines_random(
        [
            "SKIPPED * needs a real NPU: this is the stand-in",
            "no_cpu_fallback: 1 operator falls back for PrivateUse1: aten::digamma.out (of *)",
            "*aclnnAdds*EXEC_NPU_CMD*",
            "* log lines, 1 launches",
        ]
    )


@pytest.mark.npu
@pytest.mark.parametrize("how", ["option", "variable", "ini"])
def test_stand_in_is_loaded_before_torch(pytester, run, monkeypatch, how):
    """By option, variable or ini key, even where a conftest.py imports torch."""
    monkeypatch.delenv("TORCH_DEVICE_BACKEND_AUTOLOAD")
    pytester.makeconftest("import torch")
    if how == "ini":
        pytester.makeini("[pytest]\nnpu_inspect_stand_in = true\n")
    if how == "variable":
        monkeypatch.setenv("NPU_DISPATCH_INSPECT_STANDIN", "1")
    pytester.makepyfile("""
        import torch

        def test_npu():
            assert torch.npu.is_available()
    """)
    run(*(["--npu-inspect-stand-in"] if how == "option" else [])).assert_outcomes(
        passed=1
    )


@pytest.mark.npu
def test_stand_in_after_torch_is_refused(pytester):
    """One sentence and pytest's status for wrong usage, no traceback."""
    result = pytester.run(
        sys.executable,
        "-c",
        "import torch, pytest, sys; sys.exit(pytest.main(['--npu-inspect-stand-in']))",
    )
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert result.stderr.str().startswith("ERROR: ")
    assert "torch" in result.stderr.str()
    assert "Traceback" not in result.stderr.str() + text_of(result)


@pytest.mark.parametrize(
    ("arguments", "rows"),
    [
        (["-q"], 2),
        ([], 10),
        (["-v"], 50),
        (["-vv"], 300),
        (["-o", "verbosity_npu_inspect=1"], 50),
    ],
)
def test_verbosity(pytester, run, arguments, rows):
    """Half the rows are for one kind of difference: 5, 20, 100 rows, then all."""
    pytester.makepyfile(NAMES_ONLY)
    result = run(*arguments)
    result.assert_outcomes(failed=1)
    shown = re.findall(r"^E +\+ #\d+", text_of(result), re.MULTILINE)
    assert len(shown) == rows
    assert ("more rows: -v; the whole trace" in text_of(result)) == (rows < 300)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            ["-o", "npu_inspect_trace=some"],
            "ERROR: npu_inspect_trace is off, failed or all, not 'some'.",
        ),
        (
            ["-o", "verbosity_npu_inspect=loud"],
            "ERROR: verbosity_npu_inspect is a whole number or auto*",
        ),
    ],
)
def test_wrong_settings(run, options, message):
    """A setting that cannot be understood ends the run with one sentence."""
    result = run(*options)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([message])


def test_trace_options(pytester, run):
    """Off shows no trace, all shows those of passing tests with -rA."""
    pytester.makepyfile("""
        import torch

        def test_fails(op_tracer):
            with op_tracer("one"):
                torch.ones(2).sin()
            assert 0

        def test_passes(op_tracer):
            with op_tracer("two"):
                torch.ones(2).cos()
    """)
    assert "Captured op" not in text_of(run("--npu-inspect-trace=off", "-rA"))
    shown = text_of(run("-o", "npu_inspect_trace=all", "-rA"))
    assert "Captured op trace (one)" in shown
    assert "Captured op trace (two)" in shown


def test_saved_traces(pytester, run):
    """Traces of failing tests are files that load; what cannot be saved is said."""
    pytester.makepyfile("""
        import pytest, torch

        @pytest.mark.parametrize("text", ["a/b c", "x" * 300])
        def test_fails(op_tracer, text):
            with op_tracer("one"):
                torch.ones(2).sin()
            with op_tracer("two"):
                torch.ones(2).cos()
            assert 0

        def test_passes(op_tracer):
            with op_tracer():
                torch.ones(2)
    """)
    result = run("--npu-inspect-save=out/traces", "--npu-inspect-trace=off")
    result.assert_outcomes(failed=2, passed=1)
    saved = sorted(pytester.path.glob("out/traces/*"))
    assert len(saved) == 4
    assert max(len(each.name) for each in saved) < 150
    traces = [load(each) for each in saved]
    assert {trace.names for trace in traces} == {
        ("aten::ones", "aten::sin"),
        ("aten::ones", "aten::cos"),
    }
    shown = section(result, "Saved op traces")
    assert shown[0] == "out/traces/test_saved_traces.py-test_fails[a-b-c].jsonl"


def test_what_cannot_be_saved_is_said(tmp_path):
    """A folder that cannot be made does not hide the failure of the test."""
    taken = tmp_path / "taken"
    taken.touch()
    (line,) = _save(
        [OpTrace(environment=HERE)], SimpleNamespace(nodeid="x"), str(taken)
    )
    assert line.startswith("not saved: ")


def test_xdist(pytester, run):
    """Sections and files come from worker processes too."""
    pytester.makepyfile("""
        import pytest, torch

        @pytest.mark.parametrize("number", range(4))
        def test_fails(op_tracer, number):
            with op_tracer(f"number {number}"):
                torch.ones(2).sin()
            assert 0

        @pytest.mark.max_ops(0)
        def test_marked():
            torch.ones(2)
    """)
    result = run("-p", "xdist", "-n", "2", "--npu-inspect-save=out")
    result.assert_outcomes(failed=5)
    for number in range(4):
        assert f"Captured op trace (number {number})" in text_of(result)
    assert len(list(pytester.path.glob("out/*.jsonl"))) == 5
    assert "max_ops: expected at most 0 ops, traced 1" in text_of(result)


@pytest.mark.parametrize(
    "plugin",
    [
        "cacheprovider",
        "logging",
        "skipping",
        "terminalreporter",
        "assertion",
        "unittest",
    ],
)
def test_other_plugins_may_be_off(pytester, run, plugin):
    """Nothing here needs another plugin of pytest."""
    pytester.makepyfile(
        NAMES_ONLY
        + """
    import pytest

    @pytest.mark.requires_npu
    def test_skipped():
        raise AssertionError
    """
    )
    result = run("-p", f"no:{plugin}", "-k", "long")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert "INTERNALERROR" not in text_of(result) + result.stderr.str()


def test_installed_it_is_there_and_may_be_off(pytester, monkeypatch):
    """It needs no -p; -p no:npu_dispatch_inspect takes it away, nothing else."""
    monkeypatch.delenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD")
    pytester.makepyfile(NAMES_ONLY)
    pytest = [sys.executable, "-m", "pytest"]
    assert "--npu-inspect-save" in text_of(pytester.run(*pytest, "--help"))
    off = ("-p", "no:npu_dispatch_inspect")
    pytester.run(*pytest, *off).assert_outcomes(failed=1)
    assert "npu-inspect" not in text_of(pytester.run(*pytest, *off, "--help"))


def test_without_torch(pytester, run):
    """Where torch is not installed, other tests run and a fixture says what it needs."""
    pytester.makeconftest("""
        import sys
        sys.modules["torch"] = sys.modules["torch_npu"] = None
    """)
    pytester.makepyfile("""
        import pytest
        from npu_dispatch_inspect import assert_ops

        def test_names():
            assert_ops(["aten::t"], ["aten::t"])

        def test_tracer(op_tracer):
            pass

        def test_table(dispatch_table):
            pass

        @pytest.mark.requires_npu
        def test_npu():
            pass

        @pytest.mark.max_ops(3)
        def test_marked():
            pass
    """)
    result = run("-rs")
    result.assert_outcomes(passed=1, errors=2, skipped=1, failed=1)
    result.stdout.fnmatch_lines_random(
        [
            "op_tracer needs torch: it is not installed.",
            "dispatch_table needs torch: it is not installed.",
            "SKIPPED * needs an NPU: torch_npu is not installed",
        ]
    )


@pytest.mark.npu
def test_torch_that_cannot_be_imported(pytester, run, monkeypatch):
    """torch_npu without CANN breaks the import of torch; the way out is named."""
    monkeypatch.delenv("TORCH_DEVICE_BACKEND_AUTOLOAD")
    pytester.makepyfile("""
        import pytest

        def test_tracer(op_tracer):
            pass

        @pytest.mark.requires_npu
        def test_npu():
            pass
    """)
    result = run("-rs")
    result.assert_outcomes(errors=1, skipped=1)
    result.stdout.fnmatch_lines_random(
        [
            "op_tracer needs torch: importing it fails (*); * run pytest with --npu-inspect-stand-in, *"
        ]
    )


def test_comparison_of_traces(pytester, run):
    """``trace == other`` fails with the first difference in the few lines pytest shows."""
    pytester.makepyfile("""
        import torch
        from npu_dispatch_inspect import OpTrace

        def test_ops(op_tracer):
            with op_tracer() as a:
                torch.ones(2).sin()
            with op_tracer() as b:
                torch.ones(2).cos()
            assert a == b

        def test_rest(op_tracer):
            with op_tracer("x") as a:
                torch.ones(2)
            b = OpTrace(records=a.records, environment=a.environment, label="y")
            assert a == b

        def test_names(op_tracer):
            with op_tracer() as a:
                torch.ones(2)
            assert a == ["aten::ones"]
    """)
    result = run("--npu-inspect-trace=off")
    result.assert_outcomes(failed=3)
    result.stdout.fnmatch_lines(
        [
            "E       assert op sequence differs: 1 only in left, 1 only in right (left 2, right 2)",
            "E         first difference: aten::sin at #1 in left, aten::cos at #1 in right",
            "E       assert traces of the same 1 op differ in other ways",
            "E         of the traces: label",
            "E       AssertionError: assert OpTrace(1 ops*",
        ]
    )


def test_importing_the_plugin_is_light():
    """Neither torch nor attrs is imported for runs that use nothing of this."""
    code = (
        "import sys, npu_dispatch_inspect.pytest_plugin\n"
        "heavy = {'torch', 'torch_npu', 'attr', 'attrs', 'cattrs', 'numpy'}\n"
        "print(*sorted(heavy & set(sys.modules)))"
    )
    # pytest imports attrs itself in some versions, so that is subtracted.
    before = "import sys, pytest; print(*sorted({'attr', 'attrs'} & set(sys.modules)))"
    shown, plain = (
        subprocess.run(
            [sys.executable, "-c", each], capture_output=True, text=True, check=True
        ).stdout.split()
        for each in (code, before)
    )
    assert shown == plain


def test_a_run_that_uses_nothing_stays_light(pytester, run):
    """A whole run with the plugin imports no torch either."""
    pytester.makepyfile("""
        import sys

        def test_light():
            assert not {"torch", "attr", "cattrs"} & set(sys.modules)
    """)
    run().assert_outcomes(passed=1)


def test_entry_point():
    """Pytest finds the plugin where this library is installed."""
    from importlib.metadata import entry_points

    (found,) = (
        each
        for each in entry_points(group="pytest11")
        if each.name == "npu_dispatch_inspect"
    )
    assert found.value == "npu_dispatch_inspect.pytest_plugin"
