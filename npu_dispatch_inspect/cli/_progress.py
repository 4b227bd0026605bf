# SPDX-License-Identifier: BSD-3-Clause
"""How far long work is: on standard error, only on a terminal, where rich is installed."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator

__all__ = ["counted"]


@contextlib.contextmanager
def counted(what: str) -> Iterator[Callable[[int, int], None] | None]:
    """A function to call with (done, all); None where nobody would see it.

    Args:
        what: what is being done: ``"reading registrations"``.
    """
    if not sys.stderr.isatty():
        yield None
        return
    try:
        import rich.console
        import rich.progress
    except ImportError:
        yield None
        return
    shown = rich.progress.Progress(
        console=rich.console.Console(stderr=True),
        transient=True,
        # Else rich would send what is printed meanwhile to standard error.
        redirect_stdout=False,
    )
    with shown:
        task = shown.add_task(what, total=None)
        yield lambda done, whole: shown.update(task, completed=done, total=whole)
