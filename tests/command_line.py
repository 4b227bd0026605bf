# SPDX-License-Identifier: BSD-3-Clause
"""Starting the command line as a user does."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from pathlib import Path

__all__ = [
    "PATIENCE",
    "ROOT",
    "cli",
    "environment",
    "wait_until",
    "without_exit_line",
    "without_torch",
]

ROOT = Path(__file__).parent.parent
PATIENCE = 300
"""Seconds that a program may take: importing torch alone can be a minute's work on a
machine that has much else to do."""

_EXIT_LINE = r"(?m)^.*Dequeue: taskqueue is empty, wait for efd_read end.*\n?"


def without_exit_line(written):
    """What a program wrote, as text or bytes, without a line that is torch_npu's own.

    Now and then, with or without an inspector, the queue's thread outlives the level
    of its log at exit and says that it stopped waiting.
    """
    if isinstance(written, bytes):
        return re.sub(_EXIT_LINE.encode(), b"", written)
    return re.sub(_EXIT_LINE, "", written)


def environment(**variables):
    """This process's variables, with its packages and others besides."""
    # rich must not think of a terminal of some width.
    plain = {name: text for name, text in os.environ.items() if name != "COLUMNS"}
    return {**plain, "PYTHONPATH": os.pathsep.join(sys.path), **variables}


def cli(*arguments, cwd=ROOT, stdin=None, binary=False, **variables):
    """Run ``python -m npu_dispatch_inspect`` and return the finished process."""
    done = subprocess.run(
        [sys.executable, "-m", "npu_dispatch_inspect", *arguments],
        capture_output=True,
        text=not binary,
        check=False,
        cwd=cwd,
        **({"stdin": subprocess.DEVNULL} if stdin is None else {"input": stdin}),
        env=environment(**variables),
        timeout=PATIENCE,
    )
    done.stderr = without_exit_line(done.stderr)
    return done


def wait_until(ready):
    """Look until something is so; whether it is, when patience ends."""
    for _ in range(PATIENCE * 50):
        if ready():
            return True
        time.sleep(0.02)
    return False


def without_torch(folder):
    """Variables with which any import of torch or torch_npu fails loudly."""
    for name in ("torch", "torch_npu"):
        (folder / name).mkdir(parents=True, exist_ok=True)
        (folder / name / "__init__.py").write_text("raise RuntimeError('imported')\n")
    return {"PYTHONPATH": os.pathsep.join([str(folder), *sys.path])}
