# SPDX-License-Identifier: BSD-3-Clause
"""Run small programs in processes of their own: the stand-in must precede torch."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.command_line import PATIENCE, without_exit_line

HERE = Path(__file__).parent

# What a stand-in in the process of the tests, or a user, may have set.
_VARIABLES = (
    "ASCEND_CUSTOM_OPP_PATH",
    "ASCEND_HOME_PATH",
    "ASCEND_OPP_PATH",
    "ASCEND_TOOLKIT_HOME",
    "CC",
    "LD_LIBRARY_PATH",
    "NPU_DISPATCH_INSPECT_STANDIN_DEVICE",
    "TASK_QUEUE_ENABLE",
    "TORCH_DEVICE_BACKEND_AUTOLOAD",
    "TORCH_NPU_LOGS",
)

# torch_npu prints it on real devices of these kinds too.
EXPECTED_LINE = "require processing for 32 padding size"


def pytest_collection_modifyitems(items):
    """Skip everything here where torch_npu is not installed."""
    if find_spec("torch_npu") is not None:
        return
    skip = pytest.mark.skip(reason="torch_npu is not installed")
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker(skip)


def clean_environment(**changes):
    """Return the environment without a stand-in or a CANN, with the changes made."""
    root = HERE.parents[1]
    env = {name: text for name, text in os.environ.items() if name not in _VARIABLES}
    if (root / "npu_dispatch_inspect").is_dir() and _runs_from(root):
        env["PYTHONPATH"] = os.pathsep.join(
            filter(None, [str(root), env.get("PYTHONPATH")])
        )
    env.update({name: str(text) for name, text in changes.items()})
    return env


def _runs_from(root):
    """Tell whether these tests test the checkout, not an installed wheel."""
    import npu_dispatch_inspect

    return Path(npu_dispatch_inspect.__file__).is_relative_to(root)


class Finished:
    """What a program printed and how it ended."""

    def __init__(self, done):
        self.status = done.returncode
        self.out = done.stdout
        self.err = done.stderr

    @property
    def unexpected(self):
        """The lines of standard error that no real device would have caused."""
        return [
            line
            for line in without_exit_line(self.err).splitlines()
            if EXPECTED_LINE not in line
        ]

    def lines(self):
        """The lines of standard output."""
        return self.out.splitlines()


def run_program(code, *, check=True, timeout=PATIENCE, cwd=None, **env):
    """Run Python code in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        capture_output=True,
        check=False,
        text=True,
        timeout=timeout,
        env=clean_environment(**env),
        cwd=cwd,
    )
    finished = Finished(done)
    if check:
        assert finished.status == 0, f"{finished.out}\n{finished.err}"
    return finished


@pytest.fixture(name="run")
def run_fixture(tmp_path):
    """Run Python code in a process and folder of its own."""

    def run(code, **options):
        return run_program(code, cwd=tmp_path, **options)

    return run


LOAD = """
from npu_dispatch_inspect import standin
standin.load({arguments})
import torch
from torch import nn
from torch.nn import functional as F
"""


@pytest.fixture(name="run_on_npu")
def run_on_npu_fixture(run):
    """Run code that finds torch imported and the stand-in loaded."""

    def run_on_npu(code, *, arguments="", **options):
        whole = LOAD.format(arguments=arguments) + textwrap.dedent(code)
        return run(whole, **options)

    return run_on_npu
