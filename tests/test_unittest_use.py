# SPDX-License-Identifier: BSD-3-Clause
"""The examples of docs/testing.md, run as a user would: pytest, unittest, snapshots."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "testing.md").read_text(encoding="utf-8")
BLOCK = re.compile(r"<!-- file: (\S+?)(?:, (.+?))? -->\n```python\n(.*?)```", re.DOTALL)
FILES = {name: (options or "", code) for name, options, code in BLOCK.findall(PAGE)}
NPU = [name for name, (options, _) in FILES.items() if "needs: npu" in options]
SNAPSHOTS = [name for name in FILES if "snapshot" in name]
PLAIN = [name for name in FILES if name not in (*NPU, *SNAPSHOTS)]


def run(folder, *arguments, **variables):
    """Run Python in a folder, without the stand-in of this process; its output."""
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("ASCEND", "LD_LIBRARY", "NPU_DISPATCH", "PYTEST"))
    }
    environment |= {
        "PYTHONPATH": str(ROOT),
        "COLUMNS": "200",
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        "TORCH_DEVICE_BACKEND_AUTOLOAD": "0",
        **variables,
    }
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


def write(folder, *names):
    """Write blocks of the page as the files they are named."""
    for name in names:
        (folder / name).write_text(FILES[name][1], encoding="utf-8")


def pytest_run(folder, *arguments, **variables):
    """Run pytest with the plugin."""
    return run(
        folder, "-m", "pytest", "-p", "npu_dispatch_inspect", *arguments, **variables
    )


def test_the_page_has_examples():
    """Nothing is passed over because a mark is misspelt."""
    assert len(FILES) == PAGE.count("```python") == PAGE.count("<!-- file:") == 9
    assert len(SNAPSHOTS) == 3
    assert len(NPU) == 1


def test_examples_on_a_cpu(tmp_path):
    """Every example without special needs passes; what needs an NPU is skipped."""
    write(tmp_path, *PLAIN)
    done = pytest_run(tmp_path, "-q", "--strict-markers")
    assert "7 passed, 1 skipped" in done.stdout, done.stdout


def test_unittest_alone(tmp_path):
    """The same functions under `python -m unittest`; a failure shows the test's line."""
    write(tmp_path, "test_with_unittest.py")
    done = run(tmp_path, "-m", "unittest", "-q", "test_with_unittest")
    assert done.stderr.strip().endswith("OK")
    path = tmp_path / "test_with_unittest.py"
    path.write_text(
        path.read_text().replace('"aten::t", "aten::addmm"', '"aten::addmm"')
    )
    done = run(tmp_path, "-m", "unittest", "-q", "test_with_unittest")
    assert (
        "AssertionError: op sequence differs: 1 unexpected (expected 1, traced 2)"
        in done.stderr
    )
    shown = re.findall(r'File "(.+?)"', done.stderr)
    assert [Path(each).name for each in shown] == ["test_with_unittest.py"]


@pytest.mark.npu
def test_examples_on_the_stand_in(tmp_path):
    """The op-plugin-style test and the markers on torch_npu; as a program too."""
    write(tmp_path, *NPU, "test_markers.py")
    there = {"TORCH_DEVICE_BACKEND_AUTOLOAD": "1"}
    done = pytest_run(tmp_path, "-q", "--npu-inspect-stand-in", **there)
    assert "4 passed" in done.stdout, done.stdout
    start = (
        "import runpy\n"
        "from npu_dispatch_inspect import standin\n"
        "standin.load()\n"
        f"runpy.run_path({NPU[0]!r}, run_name='__main__')"
    )
    done = run(tmp_path, "-c", start, **there)
    assert "Ran 2 tests" in done.stderr, done.stderr
    assert "OK" in done.stderr


@pytest.mark.parametrize("name", SNAPSHOTS)
def test_snapshot_recipes(tmp_path, name):
    """Each recipe writes a snapshot, then passes, and fails for another program."""
    options = dict(each.split(": ") for each in FILES[name][0].split(", "))
    module = name.removesuffix(".py").rpartition("_")[2]
    if find_spec({"inline": "inline_snapshot"}.get(module, module)) is None:
        pytest.skip(f"{module} is not installed")
    plugin = ["-p", options["plugin"]] if "plugin" in options else []
    update = [options["update"]] if "update" in options else []
    variables = {options["accept"]: "1"} if "accept" in options else {}
    write(tmp_path, name)
    done = pytest_run(tmp_path, *plugin, *update, **variables)
    written = [
        each
        for each in tmp_path.rglob("*")
        if each.suffix in (".py", ".ambr") and "aten::addmm" in _read(each)
    ]
    assert written, done.stdout
    # The same snapshot beside a program that calls something else.
    for each in written:
        copy = each.with_name(each.name.replace(module, "other"))
        copy.write_text(_read(each))
    other = tmp_path / name.replace(module, "other")
    other.write_text(_read(tmp_path / name).replace("layer(x)", "layer(x).relu()"))
    done = pytest_run(tmp_path, *plugin)
    assert "1 failed, 1 passed" in done.stdout, done.stdout


def _read(path):
    return path.read_text(encoding="utf-8", errors="replace")
