# SPDX-License-Identifier: BSD-3-Clause
"""What every log line has, whoever wrote it and whatever it says."""

from __future__ import annotations

import enum
import re

from attrs import frozen

from npu_dispatch_inspect.records.values import Argument, Value

__all__ = ["LogOrigin", "LogRecord", "LogStyle", "LoggedArgument"]

_TIME = re.compile(r"[\d-]+[ T-]\d\d:\d\d:\d\d[.:][\d.]+")
_CLOCK = re.compile(r"(\d\d):(\d\d):(\d\d)[:.](\d{3})\.?(\d{3})?")


class LogStyle(enum.Enum):
    """The shape of the text in front of a message."""

    GLOG = "glog"
    """``I0715 11:20:31.045123 812 FILE:LINE]``: no year, no thread, no logger."""
    THREADED = "threaded"
    """``[812] [2026-01-15 11:20:31:045] torch_npu.dispatch: [INFO] [890]``."""
    PLAIN = "plain"
    """``[2025-06-02 11:20:31:045] torch_npu.op_plugin: [INFO]``: no process."""
    PLOG = "plog"
    """CANN's own files: ``[ERROR] APP(812,python):2026-... [file:line]tid ...``."""
    TORCH = "torch"
    """PyTorch's own warnings: ``[W715 11:20:31.045123456 file:line] Warning:``."""
    BARE = "bare"
    """No prefix: a line that somebody else wrote."""


@frozen(kw_only=True)
class LoggedArgument(Argument):
    """One argument as the log shows it.

    The name is the C++ expression at the place of the call, not the schema's
    name. What the log does not show is marked, never filled in.
    """

    kind: str
    """The type as printed: ``"Tensor"``, ``"Scalar Double"``, ``"IntArrayRef"``."""
    data_ptr: int | None = None
    """Address of a tensor's data, of the first one in a tensor list."""
    length: int | None = None
    """How many elements a list really had; None for what is not a list."""
    shown: Value = None
    """The number printed for a tensor without dimensions."""
    known: bool = True
    """False where torch_npu could not print this type or the text is not understood."""

    @property
    def partial(self) -> bool:
        """The log shows only the first elements of a list."""
        return (
            self.length is not None
            and isinstance(self.value, tuple)
            and len(self.value) < self.length
        )


@frozen(kw_only=True)
class LogOrigin:
    """Who wrote a line and where: what many lines have in common."""

    style: LogStyle = LogStyle.BARE
    level: str | None = None
    """``"DEBUG"``, ``"INFO"``, ``"WARNING"``, ``"ERROR"`` or ``"CRITICAL"``."""
    logger: str | None = None
    """``"torch_npu.dispatch"``.

    The glog style does not print it: there it follows from the file, and is
    None where the file does not tell.
    """
    pid: int | None = None
    tid: int | None = None
    rank: int | None = None
    file: str | None = None
    line: int | None = None
    source: str | None = None
    """What a launcher put in front of the line: ``"rank0"``, ``"Worker pid=1341"``."""

    @property
    def foreign(self) -> bool:
        """torch_npu did not write the line."""
        return self.style in (LogStyle.BARE, LogStyle.TORCH) or (
            self.style is LogStyle.GLOG and self.logger is None
        )


@frozen(kw_only=True)
class LogRecord:
    """One log line with everything that its prefix tells.

    A line whose message has no class of its own, and a line that is not
    torch_npu's at all, are kept as plain `LogRecord` objects.
    """

    index: int
    """Position among the records of one source."""
    offset: int
    """Position of the first byte in the source."""
    text: str
    """All of it as it was written, line ends included.

    Bytes that are not UTF-8 are kept as surrogates, so
    ``text.encode("utf-8", "surrogateescape")`` gives back the source.
    """
    start: int = 0
    """Where in `text` the message begins."""
    origin: LogOrigin = LogOrigin()
    runs: tuple[tuple[int, int], ...] = ()
    """Where lines of others lie in between: (offset, length) of each stretch."""

    @property
    def message(self) -> str:
        """The first line of the message, without prefix and line end."""
        return self.text[self.start :].split("\n", 1)[0].rstrip("\r")

    @property
    def foreign(self) -> bool:
        """torch_npu did not write this line."""
        return self.origin.foreign

    @property
    def level(self) -> str | None:
        """The level of the line, as `LogOrigin` has it."""
        return self.origin.level

    @property
    def logger(self) -> str | None:
        """The logger of the line, as `LogOrigin` has it."""
        return self.origin.logger

    @property
    def time(self) -> str | None:
        """When it was written, as printed; the glog style has no year."""
        times = _TIME.findall(self.text[: self.start])
        return times[-1] if times else None

    @property
    def microseconds(self) -> int | None:
        """Time of day in microseconds, to the precision of the log."""
        found = _CLOCK.search(self.time or "")
        if found is None:
            return None
        hours, minutes, seconds, milliseconds, rest = found.groups(default="0")
        whole = (int(hours) * 60 + int(minutes)) * 60 + int(seconds)
        return whole * 1_000_000 + int(milliseconds) * 1000 + int(rest)
