# SPDX-License-Identifier: BSD-3-Clause
"""The command line, as a user starts it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


def cli(*arguments, cwd=ROOT, **environment):
    """Run ``python -m npu_dispatch_inspect`` and return the finished process."""
    return subprocess.run(
        [sys.executable, "-m", "npu_dispatch_inspect", *arguments],
        capture_output=True,
        text=True,
        check=False,
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **environment},
    )


@pytest.mark.npu
def test_demo_shows_linear_and_a_training_step_on_npu():
    """The demo traces the real torch_npu and says that it ran on the stand-in."""
    shown = cli("demo")
    assert shown.returncode == 0, shown.stderr
    text = shown.stdout
    assert text.startswith("nn.Linear(128, 64) on npu:0, forward and backward\n")
    rows = [line.split() for line in text.splitlines()]
    forward = [row[2] for row in rows if len(row) > 2 and row[1] == "fwd"]
    backward = [row[2] for row in rows if len(row) > 2 and row[1] == "bwd"]
    assert forward == ["aten::t", "aten::addmm", "aten::sum"]
    assert "aten::mm" in backward
    assert "device: stand-in (Ascend910B1), nothing is computed" in text
    assert "npu::npu_fusion_attention" in text or "addmm 3" in text


@pytest.mark.npu
@pytest.mark.parametrize("name", ["Ascend910B1", "Ascend310P3", "Ascend910_9391"])
def test_run_gives_the_script_its_device(tmp_path, name):
    """A script run on the stand-in sees the device that was asked for."""
    script = tmp_path / "script.py"
    script.write_text(
        "import sys, torch\n"
        "print(torch.npu.get_device_name(), torch.npu.device_count(), sys.argv[1:])\n"
    )
    shown = cli(
        "run", "--stand-in", "--device-name", name, "--device-count", "3",
        str(script), "--flag", "word",
    )  # fmt: skip
    assert shown.returncode == 0, shown.stderr
    assert shown.stdout == f"{name} 3 ['--flag', 'word']\n"


@pytest.mark.npu
def test_run_module(tmp_path):
    """A module is run as ``python -m`` would run it."""
    (tmp_path / "program.py").write_text(
        "import sys, torch\nprint(__name__, torch.npu.is_available(), sys.argv[1:])\n"
    )
    shown = cli("run", "--stand-in", "-m", "program", "x", cwd=tmp_path)
    assert shown.returncode == 0, shown.stderr
    assert shown.stdout == "__main__ True ['x']\n"


def test_run_passes_the_exit_status_and_traceback_on(tmp_path):
    """The script's own exit status and error are the command's."""
    (tmp_path / "leave.py").write_text("import sys; sys.exit(7)\n")
    (tmp_path / "fail.py").write_text("raise ValueError('theirs')\n")
    assert cli("run", str(tmp_path / "leave.py")).returncode == 7
    failed = cli("run", str(tmp_path / "fail.py"))
    assert failed.returncode == 1
    assert "ValueError: theirs" in failed.stderr


def test_run_without_stand_in_is_plain_python(tmp_path):
    """Without --stand-in nothing of the kind is loaded."""
    script = tmp_path / "script.py"
    script.write_text(
        "import sys; print('torch' in sys.modules, sys.argv, sys.path[0])\n"
    )
    shown = cli("run", str(script), "a")
    assert shown.stdout == f"False {[str(script), 'a']} {tmp_path}\n"


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("run", "missing.py"), "There is no script 'missing.py'; use -m"),
        (("run", "-m", "no.such.module"), "There is no module 'no.such.module'"),
        (("run",), "required: script"),
        (("frobnicate",), "invalid choice: 'frobnicate'"),
        (("run", "--stand-in", "--device-count", "0", "setup.py"), "no script"),
    ],
)
def test_mistakes_are_one_sentence_and_status_2(arguments, sentence):
    """A user's mistake gives one clear sentence, no traceback, status 2."""
    shown = cli(*arguments)
    assert shown.returncode == 2
    assert sentence in shown.stderr
    assert "Traceback" not in shown.stderr


@pytest.mark.npu
def test_stand_in_errors_are_one_sentence_and_status_2(tmp_path):
    """What the stand-in refuses is said the same way."""
    script = tmp_path / "script.py"
    script.write_text("")
    shown = cli("run", "--stand-in", "--device-count", "0", str(script))
    assert shown.returncode == 2
    assert "device_count must be a whole number" in shown.stderr
    assert "Traceback" not in shown.stderr
