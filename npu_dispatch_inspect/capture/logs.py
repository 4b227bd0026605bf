# SPDX-License-Identifier: BSD-3-Clause
"""Capture torch_npu's log lines: `LogCapture` and its shortcut `capture_logs`."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from types import TracebackType
from typing import Final

from npu_dispatch_inspect.capture._attribution import attribute
from npu_dispatch_inspect.capture._decorator import Decorator
from npu_dispatch_inspect.capture._levels import LevelRequest, switch
from npu_dispatch_inspect.capture._missing import explain_missing
from npu_dispatch_inspect.capture._streams import Reading
from npu_dispatch_inspect.environment import read_environment
from npu_dispatch_inspect.errors import UsageError
from npu_dispatch_inspect.npu_logs import LogParser
from npu_dispatch_inspect.traces.logs import LogTrace

__all__ = ["LogCapture", "capture_logs"]

DEFAULT_LOGGERS: Final = ("op_plugin", "dispatch")
LAST_LINE: Final = 0.001
"""Seconds in which the queue's thread ends a line that it began before it was told."""
Level = int | str


class LogCapture(Decorator):
    """Read what torch_npu logs in a block; a context manager and a decorator.

    Args:
        loggers: names of torch_npu's loggers, ``"op_plugin"`` and ``"dispatch"``
            where none are given.
        level: ``"info"`` or ``"debug"``, one for all or one for each logger.
            None is INFO for op_plugin (its debug level prints the memory layout
            of every argument) and DEBUG for all others.
        keep: let the lines through to standard error as well.
        label: a name for people.

    Raises:
        UsageError: an argument is not one of those above, this torch_npu has no
            such logger or no way to switch it while it runs, the capture is
            entered twice, or it is used without brackets.

    Inside the block the loggers are on, whatever TORCH_NPU_LOGS says; afterwards
    they have the levels that they had. Everything else that is written to
    standard error meanwhile, by Python, C++ or another process, is passed on
    byte for byte when the outermost capture ends.

    A capture sees the lines of all threads of the process. A process that is
    forked inside the block passes nothing on itself, its parent does.

    Example:
        >>> import torch
        >>> from npu_dispatch_inspect import capture_logs
        >>> layer, x = torch.nn.Linear(8, 4).npu(), torch.ones(2, 8).npu()
        >>> with capture_logs() as logs:
        ...     y = layer(x)
        >>> logs.names
        ('aclnnAddmm',)
    """

    def __init__(
        self,
        *loggers: str,
        level: Level | Mapping[str, Level] | None = None,
        keep: bool = False,
        label: str | None = None,
    ) -> None:
        if loggers and callable(loggers[0]):
            msg = "capture_logs needs its brackets: write @capture_logs() above the function."
            raise UsageError(msg)
        self._request = LevelRequest(loggers or DEFAULT_LOGGERS, level)
        self._keep = keep
        self._label = label
        self._run: _Run | None = None
        self.trace: LogTrace | None = None
        """The trace of the last block, or of the one that is running."""

    def __enter__(self) -> LogTrace:
        """Begin to capture.

        Returns:
            The trace that is being filled.
        """
        if self._run is not None:
            msg = (
                "This capture is already on; make a second one with capture_logs() "
                "to capture inside its block."
            )
            raise UsageError(msg)
        run = _Run(self._request, keep=self._keep, label=self._label)
        run.start()
        self._run = run
        self.trace = LogTrace.of_source(run)
        return self.trace

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Stop capturing; an exception of the block goes on its way."""
        run, self._run = self._run, None
        if run is not None:
            run.stop()


capture_logs = LogCapture
"""``with capture_logs() as logs:`` — see `LogCapture`."""


class _Run:
    """One captured block, and the source of its trace."""

    def __init__(self, request: LevelRequest, *, keep: bool, label: str | None) -> None:
        self.finished = False
        self._request = request
        self._label = label
        self._reading = Reading(keep=keep)
        self._levels = request.levels()
        self._environment = read_environment()

    def start(self) -> None:
        # Lines of what was queued before belong to no call of the block.
        self._synchronize()
        self._reading.begin()
        try:
            switch.add(self, self._levels)
        except BaseException:
            self._reading.end()
            raise

    def stop(self) -> None:
        try:
            # The queue's thread may still be writing.
            self._synchronize()
            switch.remove(self)
            if sys.modules["torch"].npu.is_initialized():
                time.sleep(LAST_LINE)
        finally:
            self._reading.end()
            self._environment = read_environment()
            self.finished = True

    def _synchronize(self) -> None:
        torch = sys.modules["torch"]
        if not torch.npu.is_initialized() or torch.npu.is_current_stream_capturing():
            return
        try:
            torch.npu.synchronize()
        except RuntimeError as error:
            # It is raised again where the program itself waits for the device.
            words = str(error).partition("\n")[0]
            self._reading.problems.append(
                f"The device could not be waited for, its last lines may be missing: {words}"
            )

    def snapshot(self) -> LogTrace:
        records = attribute(LogParser().feed_all(self._reading.read()), self._reading)
        problems = tuple(self._reading.problems)
        return LogTrace(
            records=records,
            environment=self._environment,
            label=self._label,
            incomplete=problems,
            missing=explain_missing(
                records, self._levels, self._environment, lost=bool(problems)
            ),
        )
