# SPDX-License-Identifier: BSD-3-Clause
"""The command line, as a user starts it."""

from __future__ import annotations

import os
import re

import pytest

from npu_dispatch_inspect import load
from tests.command_line import ROOT, cli


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
    # The README shows some of the rows, so its columns may be narrower.
    readme = (ROOT / "README.md").read_text("utf-8")
    (excerpt,) = re.findall(r"(?s)```text\n(nn\.Linear.*?)```", readme)
    wanted = [
        line.split()
        for line in excerpt.splitlines()
        if line not in ("", "...") and not line.startswith("device: ")  # has versions
    ]
    assert [line for line in wanted if line not in rows] == []


@pytest.mark.npu
def test_run_without_cann_names_the_stand_in(tmp_path):
    """Where torch fails because torch_npu finds no CANN, the way on is told."""
    script = tmp_path / "program.py"
    script.write_text("import torch\n")
    names = (
        name
        for name in os.environ
        if name.startswith(("ASCEND", "LD_LIBRARY", "NPU_DISPATCH_INSPECT_STANDIN"))
    )
    shown = cli("run", str(script), **dict.fromkeys(names, ""))
    assert (shown.returncode, "libhccl.so" in shown.stderr) == (1, True)
    assert (
        "npu-dispatch-inspect: torch_npu cannot be imported without CANN: --stand-in "
        "runs the program without an NPU.\n"
    ) in shown.stderr


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


def test_run_without_torch_is_plain_python(tmp_path):
    """A program that does not import torch runs as without us, and is told so."""
    script = tmp_path / "script.py"
    script.write_text(
        "import sys; print('torch' in sys.modules, sys.argv, sys.path[0])\n"
    )
    shown = cli("run", str(script), "a")
    assert shown.stdout == f"False {[str(script), 'a']} {tmp_path}\n"
    assert shown.stderr == (
        "npu-dispatch-inspect: The program did not import torch, so there is nothing "
        "to report.\n"
    )


@pytest.mark.npu
def test_run_reports_what_an_unmodified_script_ran(tmp_path):
    """The report goes to standard error; --save writes it, --only shows a part."""
    script = tmp_path / "script.py"
    script.write_text(
        "import os, sys\n"
        "os.environ['TASK_QUEUE_ENABLE'] = '1'\n"
        "import torch\n"
        "layer = torch.nn.Linear(8, 4).npu()\n"
        "print('before', file=sys.stderr)\n"
        "layer(torch.ones(2, 8).npu()).sum().backward()\n"
        "print('theirs')\n"
    )
    saved = tmp_path / "report.json"
    shown = cli(
        "run", "--stand-in", "--only", "aten::linear", "--save", str(saved), str(script)
    )  # fmt: skip
    assert (shown.returncode, shown.stdout) == (0, "theirs\n")
    said, report = shown.stderr.split("device: ")
    assert "before\n" in said
    first, _, heading, *tree = report.splitlines()
    assert first.startswith("stand-in (Ascend910B1), nothing is computed")
    assert "TASK_QUEUE_ENABLE=1" in first
    assert heading == "Linear, script.py:6"
    assert [next(word for word in line.split() if word[0] == "a") for line in tree[:4]] == [
        "aten::linear", "aten::t", "aten::addmm", "aclnnAddmm",
    ]  # fmt: skip
    whole = load(saved)
    assert [launch.name for launch in whole.launches] == [
        "aclnnAddmm", "aclnnReduceSum", "aclnnInplaceFillScalar", "aclnnMm", "aclnnReduceSum",
    ]  # fmt: skip
    assert whole.environment.stand_in


def test_run_says_how_to_see_what_a_long_report_leaves_out(tmp_path):
    """The text is cut where a program made many calls; the last line says what helps."""
    script = tmp_path / "script.py"
    script.write_text(
        "import os\n"
        "os.environ['TORCH_DEVICE_BACKEND_AUTOLOAD'] = '0'\n"
        "import torch\n"
        "for _ in range(61):\n"
        "    torch.ones(1)\n"
    )
    shown = cli("run", str(script))
    assert "... 1 more call\n" in shown.stderr
    assert shown.stderr.splitlines()[-1] == (
        "npu-dispatch-inspect: Not all calls are shown: --save report.html keeps them "
        "all, --only PATTERN shows a part."
    )


def test_run_reports_a_script_that_dies(tmp_path):
    """Its traceback has no frame of ours, its report says what it died of."""
    script = tmp_path / "script.py"
    script.write_text(
        "import torch\n"
        "def step(x):\n"
        "    try:\n"
        "        torch.mm(x, x)\n"
        "    except RuntimeError as error:\n"
        "        raise ValueError('wrong shape') from error\n"
        "step(torch.ones(2, 3))\n"
    )
    shown = cli("run", str(script), TORCH_DEVICE_BACKEND_AUTOLOAD="0")
    assert shown.returncode == 1
    assert "npu_dispatch_inspect" not in shown.stderr.split("\ndevice: ")[0]
    frames = [line for line in shown.stderr.splitlines() if line.startswith("  File ")]
    assert [frame.split("line ")[1] for frame in frames] == [
        "4, in step", "7, in <module>", "6, in step",
    ]  # fmt: skip
    assert "the block died of ValueError: wrong shape" in shown.stderr


@pytest.mark.parametrize(
    ("end", "status"), [("sys.exit(7)", 7), ("sys.exit('no')", 1), ("sys.exit()", 0)]
)
def test_run_reports_a_script_that_leaves(tmp_path, end, status):
    """A status of its own is passed on after the report."""
    script = tmp_path / "script.py"
    script.write_text(f"import sys, torch\ntorch.ones(2) * 2\n{end}\n")
    shown = cli(
        "run", "--only", "aten::mul*", str(script), TORCH_DEVICE_BACKEND_AUTOLOAD="0"
    )
    assert shown.returncode == status
    assert "aten::mul.Tensor" in shown.stderr
    assert "died" not in shown.stderr


@pytest.mark.npu
def test_run_captures_lines_of_torch_npu_that_the_script_imports(tmp_path):
    """Where torch does not load torch_npu itself, lines are captured from its import on."""
    script = tmp_path / "script.py"
    script.write_text(
        "import torch\nimport torch_npu\nx = torch.ones(2, 2).npu()\ntorch.mm(x, x)\n"
    )
    shown = cli(
        "run", "--stand-in", "--only", "nothing", "--save", str(tmp_path / "r.jsonl"), str(script),
        TORCH_DEVICE_BACKEND_AUTOLOAD="0",
    )  # fmt: skip
    assert shown.returncode == 0
    assert "Nothing that ran matches 'nothing'." in shown.stderr
    assert [each.name for each in load(tmp_path / "r.jsonl").launches] == ["aclnnMm"]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("run", "missing.py"), "There is no script 'missing.py'; use -m"),
        (("run", "-m", "no.such.module"), "There is no module 'no.such.module'"),
        (("run",), "required: script"),
        (("frobnicate",), "invalid choice: 'frobnicate'"),
        (("run", "--stand-in", "--device-count", "0", "setup.py"), "no script"),
        (
            ("run", "--save", "no/such/file.json", "README.md"),
            "there is no such folder",
        ),
        (("run", "--save", "file", "README.md"), "The suffix decides the format"),
        (("run", "--max-ops", "-1", "README.md"), "--max-ops must be a whole number"),
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
