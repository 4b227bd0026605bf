# SPDX-License-Identifier: BSD-3-Clause
"""An unmodified program under inspection, from its import of torch to its end."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from npu_dispatch_inspect._imports import ImportWatch
from npu_dispatch_inspect.errors import InspectError

if TYPE_CHECKING:
    from npu_dispatch_inspect.capture.inspector import DispatchInspector
    from npu_dispatch_inspect.traces.report import DispatchReport

__all__ = ["Inspection", "own_traceback", "show_error"]

_PACKAGE = str(Path(__file__).parent.parent) + os.sep
_RUNPY = ("<frozen runpy>", "runpy.py")


class Inspection:
    """Inspects from the moment at which the program has imported torch.

    Not earlier: the program may set variables before it imports torch, and one that
    never does is to run as fast as without us.
    """

    def __init__(self, *, max_ops: int | None) -> None:
        self.problems: list[str] = []
        self._max_ops = max_ops
        self._inspector: DispatchInspector | None = None
        self._finder = ImportWatch({"torch": self._begin, "torch_npu": self._npu})

    def __enter__(self) -> Inspection:  # noqa: PYI034 - Self is in typing from 3.11 on
        """Wait for torch, or begin at once where it is there."""
        if "torch" in sys.modules:
            self._begin()
        sys.meta_path.insert(0, self._finder)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Stop inspecting; an exception of the program goes on its way."""
        if self._finder in sys.meta_path:
            sys.meta_path.remove(self._finder)
        if self._inspector is not None:
            self._inspector.__exit__(kind, error, traceback)
        elif error is not None and _lacks_cann(error):
            self.problems.append(
                "torch_npu cannot be imported without CANN: --stand-in runs the program "
                "without an NPU."
            )

    @property
    def report(self) -> DispatchReport | None:
        """None where the program did not import torch."""
        return self._inspector.report if self._inspector is not None else None

    def _begin(self) -> None:
        from npu_dispatch_inspect.capture.inspector import DispatchInspector

        inspector = DispatchInspector(max_ops=self._max_ops, threads="all")
        try:
            inspector.__enter__()
        except InspectError as error:
            # The program runs all the same; what is missing is said at its end.
            self.problems.append(str(error))
        else:
            self._inspector = inspector

    def _npu(self) -> None:
        # Where torch loads torch_npu itself, this comes before `_begin`.
        if self._inspector is not None:
            self._inspector.capture_logs()


def _lacks_cann(error: BaseException) -> bool:
    """Whether it is torch's error about torch_npu, which it loads by itself."""
    return "torch_npu" in str(error) and isinstance(error.__cause__, ImportError)


def show_error(error: BaseException) -> None:
    """Show what the program raised, as Python does at its end.

    Raises:
        SystemExit: the program's own `sys.excepthook` left.
    """
    kind, traceback = type(error), own_traceback(error)
    try:
        hook = sys.excepthook
    except AttributeError:
        print("sys.excepthook is missing", file=sys.stderr, flush=True)
        sys.__excepthook__(kind, error, traceback)
        return
    try:
        hook(kind, error, traceback)
    except SystemExit:
        raise
    except BaseException as second:  # noqa: BLE001 - Python goes on as well
        second.__context__ = None
        print("Error in sys.excepthook:", file=sys.stderr, flush=True)
        sys.__excepthook__(type(second), second, own_traceback(second))
        print("\nOriginal exception was:", file=sys.stderr, flush=True)
        sys.__excepthook__(kind, error, traceback)


def own_traceback(error: BaseException) -> TracebackType | None:
    """The traceback of an error without our frames, nor those of its causes."""
    seen: set[int] = set()
    pending: list[BaseException | None] = [error]
    while pending:
        each = pending.pop()
        if each is None or id(each) in seen:
            continue
        seen.add(id(each))
        each.__traceback__ = _without_ours(each.__traceback__)
        pending += [each.__cause__, each.__context__]
    return error.__traceback__


def _without_ours(traceback: TracebackType | None) -> TracebackType | None:
    kept: list[TracebackType] = []
    while traceback is not None:
        file = traceback.tb_frame.f_code.co_filename
        ours = file.startswith(_PACKAGE) or (not kept and file.endswith(_RUNPY))
        if not ours:
            kept.append(traceback)
        traceback = traceback.tb_next
    below: TracebackType | None = None
    for each in reversed(kept):
        below = TracebackType(below, each.tb_frame, each.tb_lasti, each.tb_lineno)
    return below
