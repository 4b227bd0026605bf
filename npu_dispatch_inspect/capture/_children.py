# SPDX-License-Identifier: BSD-3-Clause
"""Which processes this one has started."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

__all__ = ["children"]


def children() -> frozenset[int]:
    """The processes that this one has started and that have not been waited for.

    Where the system does not list them, 0 stands for them all.
    """
    found: set[int] = set()
    listed = False
    for task in Path("/proc/self/task").iterdir():
        # A thread that ends meanwhile takes its list along; its children are
        # then on that of another.
        with contextlib.suppress(OSError):
            found.update(map(int, (task / "children").read_text().split()))
            listed = True
    if listed:
        return frozenset(found)
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except OSError:
        return frozenset()
    return frozenset({0})
