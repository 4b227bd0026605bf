# SPDX-License-Identifier: BSD-3-Clause
"""``doctor``: findings of one line, each with what to do."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import pytest

from npu_dispatch_inspect.cli import _findings, _probes, main
from npu_dispatch_inspect.cli._findings import Finding, release, switches
from tests.command_line import environment

SILENCED = (
    "do    logger dispatch: prints no tasks on the stand-in: TASK_QUEUE_ENABLE is 0: "
    "operators run without the queue -> Start the program with TASK_QUEUE_ENABLE=1, "
    "or without it"
)
SWITCHES = [each.name for each in _findings._SWITCHES]


@pytest.fixture(autouse=True)
def no_switches(monkeypatch):
    """No switch is set but those that a test sets."""
    for name in SWITCHES:
        monkeypatch.delenv(name, raising=False)


def found(findings, what):
    """The one finding about something."""
    (only,) = [each for each in findings if each.what == what]
    return only


def installed(monkeypatch, **versions):
    """Let other versions seem to be installed; None stands for nothing."""
    real = _findings.installed_version

    def version(package):
        name = package.replace("-", "_")
        return versions[name] if name in versions else real(package)

    for module in (_findings, _probes):
        monkeypatch.setattr(module, "installed_version", version)


class TestPackages:
    """What is installed, and whether it fits."""

    def test_here(self):
        """The library, torch and the extras of this environment."""
        findings = list(_findings.packages())
        assert found(findings, "torch").level == "ok"
        assert found(findings, "npu-dispatch-inspect").told.endswith(
            "Python {}.{}.{}".format(*sys.version_info)
        )
        assert {each.level for each in findings} <= {"ok", "note"}

    def test_torch_is_missing_or_too_old(self, monkeypatch):
        """Both need doing, and a command is named."""
        installed(monkeypatch, torch=None)
        missing = found(_findings.packages(), "torch")
        assert (missing.level, missing.action) == ("do", "pip install torch")
        installed(monkeypatch, torch="2.5.1")
        old = found(_findings.packages(), "torch")
        assert (old.level, old.told) == (
            "do", "2.5.1 is too old: this library needs 2.6 or newer",
        )  # fmt: skip

    def test_versions_that_do_not_fit(self, monkeypatch):
        """torch_npu pins one release of torch; post releases and builds are the same."""
        installed(monkeypatch, torch="2.9.1+cpu", torch_npu="2.7.1.post2")
        misfit = found(_findings.packages(), "torch_npu")
        assert str(misfit) == (
            "do    torch_npu: 2.7.1.post2 needs torch 2.7.1, and torch 2.9.1+cpu is "
            "installed -> pip install torch==2.7.1 torch_npu==2.7.1.post2"
        )
        installed(monkeypatch, torch="2.7.1+cpu", torch_npu="2.7.1.post2")
        assert found(_findings.packages(), "torch_npu").level == "ok"

    def test_without_torch_npu_nothing_needs_doing(self, monkeypatch):
        """Its absence is a note."""
        installed(monkeypatch, torch_npu=None)
        assert found(_findings.packages(), "torch_npu").level == "note"

    def test_a_missing_extra_is_a_note(self, monkeypatch):
        """It says what the extra is for and how to have it."""
        installed(monkeypatch, rich=None)
        assert str(found(_findings.packages(), "extra [rich]")) == (
            "note  extra [rich]: rich not installed (for colours and progress bars) "
            "-> pip install 'npu-dispatch-inspect[rich]'"
        )

    @pytest.mark.parametrize(
        ("text", "numbers"),
        [("2.7.1.post2", (2, 7, 1)), ("2.13.0+cpu", (2, 13, 0)), ("2.6", (2, 6))],
    )
    def test_release(self, text, numbers):
        """The release that two versions are compared by."""
        assert release(text) == numbers


class TestSwitches:
    """Environment variables that change routes or silence logs."""

    def test_none(self):
        """That none is set is said."""
        assert [str(each) for each in switches()] == [
            "ok    switches: none is set that changes routes or silences logs"
        ]

    @pytest.mark.parametrize(
        ("name", "value", "level"),
        [
            ("TASK_QUEUE_ENABLE", "0", "do"),
            ("TASK_QUEUE_ENABLE", "2", "note"),
            ("ASCEND_LAUNCH_BLOCKING", "1", "do"),
            ("TORCH_NPU_LOGS_FILTER", "+aclnnAdd", "do"),
            ("TORCH_LOGS", "+dynamo", "note"),
            ("TORCH_NPU_LOGS", "op_plugin", "note"),
            ("TORCH_DEVICE_BACKEND_AUTOLOAD", "0", "note"),
            ("TORCH_NPU_FALLBACK_CPU_DISABLE", "1", "note"),
        ],
    )
    def test_one(self, monkeypatch, name, value, level):
        """What is set is told with its value; what silences logs needs doing."""
        monkeypatch.setenv(name, value)
        (finding,) = switches()
        assert (finding.what, finding.level) == (f"{name}={value}", level)
        assert (finding.action is not None) or level == "note"

    @pytest.mark.parametrize(
        ("name", "value"), [("TASK_QUEUE_ENABLE", "1"), ("ASCEND_LAUNCH_BLOCKING", "0")]
    )
    def test_a_value_that_changes_nothing(self, monkeypatch, name, value):
        """The default, written out, is no finding."""
        monkeypatch.setenv(name, value)
        assert [each.what for each in switches()] == ["switches"]


class TestWhyNot:
    """Why torch_npu does not import, from what Python said."""

    @pytest.mark.parametrize(
        ("status", "errors", "told", "action"),
        [
            (1, "ModuleNotFoundError: No module named 'yaml'", "fails: the module yaml is missing", "pip install pyyaml"),
            (-6, "RuntimeError: Duplicated key 'pinned_reserve_segment_size_mb'", "fails: torch is a build for CUDA (unknown), which this torch_npu does not bear", "install torch as a CPU build: pip install torch --index-url https://download.pytorch.org/whl/cpu"),
            (1, "ImportError: libtorch_npu.so: undefined symbol: _ZN3c10", "fails: torch_npu 2.7.1 does not fit torch 2.7.1", "pip install torch==2.7.1 torch_npu==2.7.1"),
            (-11, "", "fails: the process died of SIGSEGV", "python -c 'import torch, torch_npu' shows all of it"),
            (1, "Traceback\nValueError: something else.\n", "fails: ValueError: something else", "python -c 'import torch, torch_npu' shows all of it"),
        ],
    )  # fmt: skip
    def test_reasons(self, monkeypatch, status, errors, told, action):
        """Each reason that is known has its own action."""
        installed(monkeypatch, torch="2.7.1", torch_npu="2.7.1")
        monkeypatch.setattr(_probes, "cuda_of_torch", lambda: None)
        finding = _probes._why_not(status, errors)
        assert (finding.level, finding.told, finding.action) == ("do", told, action)

    def test_cann_is_missing(self, monkeypatch, tmp_path):
        """Without CANN it is a note; where CANN is, its set_env.sh is not in force."""
        errors = "ImportError: libhccl.so: cannot open shared object file: No such file"
        finding = _probes._why_not(1, errors)
        assert finding.level == "note"
        assert finding.told.startswith("fails without CANN (libhccl.so is missing)")
        assert "TORCH_DEVICE_BACKEND_AUTOLOAD=0" in finding.action
        monkeypatch.setenv("ASCEND_HOME_PATH", str(tmp_path))
        finding = _probes._why_not(1, errors)
        assert (finding.level, finding.told) == (
            "do", "fails: CANN is here, but libhccl.so is not found",
        )  # fmt: skip

    @pytest.mark.parametrize(
        ("line", "cuda"),
        [("cuda: Optional[str] = None", None), ("cuda = '12.8'", "12.8"), ("cuda: Optional[str] = '12.6'", "12.6")],
    )  # fmt: skip
    def test_the_cuda_of_a_build(self, monkeypatch, tmp_path, line, cuda):
        """It is read from torch's own version file, without importing torch."""
        (tmp_path / "version.py").write_text(f"debug = False\n{line}\n")

        class Spec:
            submodule_search_locations = (str(tmp_path),)

        monkeypatch.setattr(_findings, "find_spec", lambda _: Spec)
        assert _findings.cuda_of_torch() == cuda


class TestStandIn:
    """Whether the stand-in can be built."""

    @pytest.mark.npu
    def test_no_compiler_and_no_cache(self, monkeypatch, tmp_path):
        """Each lack is said with what to do."""
        # As in a fresh shell: the tests' own stand-in is no CANN.
        monkeypatch.setenv("CC", "no-such-compiler")
        (finding,) = _probes.stand_in()
        assert str(finding) == (
            "do    stand-in: cannot be built: The C compiler named in CC "
            "(no-such-compiler) was not found -> unset CC or set it to a compiler that "
            "exists"
        )
        monkeypatch.delenv("CC")
        (tmp_path / "file").write_text("")
        monkeypatch.setenv("NPU_DISPATCH_INSPECT_CACHE", str(tmp_path / "file"))
        (finding,) = _probes.stand_in()
        assert (finding.level, finding.what) == ("do", "stand-in")
        assert "cannot write to its cache folder" in finding.told


class TestCommand:
    """The command itself."""

    def test_quick_json(self, monkeypatch, capsys):
        """--quick imports nothing; the status says whether something needs doing."""
        assert main(["doctor", "--quick"]) == 0
        assert capsys.readouterr().out.endswith("\n\nnothing needs doing\n")
        monkeypatch.setenv("ASCEND_LAUNCH_BLOCKING", "1")
        assert main(["doctor", "--quick", "--json"]) == 1
        content = json.loads(capsys.readouterr().out)
        assert (content["fine"], content["to_do"]) == (False, 1)
        assert {
            "level": "do",
            "what": "ASCEND_LAUNCH_BLOCKING=1",
            "told": "every operator is waited for, and no line about tasks is printed",
            "action": "unset ASCEND_LAUNCH_BLOCKING, unless an error is being looked for",
        } in content["findings"]

    def test_every_finding_is_one_line(self, capsys):
        """A level, what it is about, what was found, and perhaps what to do."""
        main(["doctor", "--quick"])
        lines = capsys.readouterr().out.splitlines()
        assert lines[-2:] == ["", "nothing needs doing"]
        for line in lines[:-2]:
            assert re.fullmatch(r"(ok  |note|do  )  \S.*: \S.*", line)

    @pytest.mark.npu
    def test_engines_and_loggers_are_tried(self):
        """In processes of their own: what is silenced is found silent, with the reason."""
        plain = {
            name: text
            for name, text in environment().items()
            if not name.startswith(("ASCEND_", "NPU_DISPATCH_INSPECT_STANDIN"))
            and name != "LD_LIBRARY_PATH"
        }
        shown = subprocess.run(
            [sys.executable, "-m", "npu_dispatch_inspect", "doctor"],
            capture_output=True,
            text=True,
            check=False,
            env={**plain, "TASK_QUEUE_ENABLE": "0"},
        )
        assert (shown.returncode, shown.stderr) == (1, "")
        lines = shown.stdout.splitlines()
        assert "ok    import torch: works" in lines
        assert any(
            line.startswith("note  import torch_npu: fails without CANN (lib")
            for line in lines
        )
        assert any(
            line.startswith("ok    stand-in: loads, built with ") for line in lines
        )
        assert [line for line in lines if "on the stand-in" in line] == [
            "ok    engine dispatch_mode: works on the stand-in",
            "ok    engine dispatcher: works on the stand-in",
            "ok    registration table: works on the stand-in",
            "ok    explain: works on the stand-in",
            "ok    graph capture: works on the stand-in",
            "ok    logger op_plugin: prints launches on the stand-in",
            SILENCED,
        ]
        assert lines[-1] == "2 things need doing"


def test_a_finding_without_an_action():
    """Nothing follows where nothing is to be done."""
    assert (
        str(Finding(level="ok", what="torch", told="2.13.0")) == "ok    torch: 2.13.0"
    )
