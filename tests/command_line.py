# SPDX-License-Identifier: BSD-3-Clause
"""Starting the command line as a user does."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

__all__ = ["ROOT", "cli", "environment", "without_torch"]

ROOT = Path(__file__).parent.parent


def environment(**variables):
    """This process's variables, with its packages and others besides."""
    # rich must not think of a terminal of some width.
    plain = {name: text for name, text in os.environ.items() if name != "COLUMNS"}
    return {**plain, "PYTHONPATH": os.pathsep.join(sys.path), **variables}


def cli(*arguments, cwd=ROOT, stdin=None, binary=False, **variables):
    """Run ``python -m npu_dispatch_inspect`` and return the finished process."""
    return subprocess.run(
        [sys.executable, "-m", "npu_dispatch_inspect", *arguments],
        capture_output=True,
        text=not binary,
        check=False,
        cwd=cwd,
        **({"stdin": subprocess.DEVNULL} if stdin is None else {"input": stdin}),
        env=environment(**variables),
        timeout=300,
    )


def without_torch(folder):
    """Variables with which any import of torch or torch_npu fails loudly."""
    for name in ("torch", "torch_npu"):
        (folder / name).mkdir(parents=True, exist_ok=True)
        (folder / name / "__init__.py").write_text("raise RuntimeError('imported')\n")
    return {"PYTHONPATH": os.pathsep.join([str(folder), *sys.path])}
