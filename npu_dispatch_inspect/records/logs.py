# SPDX-License-Identifier: BSD-3-Clause
"""What torch_npu writes about itself while it runs, one record per log line."""

from __future__ import annotations

import enum
import re
from typing import NamedTuple

from attrs import frozen

from npu_dispatch_inspect.records.values import Argument, Value

__all__ = [
    "AclnnRecord",
    "AsyncErrorRecord",
    "DetailRecord",
    "DroppedRecord",
    "ExecutionRecord",
    "FallbackWarning",
    "LogOrigin",
    "LogRecord",
    "LogStyle",
    "LoggedArgument",
    "MissingReason",
    "OpPluginCall",
    "QueueAction",
    "QueueRecord",
    "QueueState",
    "QueueTask",
    "TaskKind",
    "TaskRecord",
    "TaskRun",
]


_TIME = re.compile(r"[\d-]+[ T-]\d\d:\d\d:\d\d[.:][\d.]+")
_CLOCK = re.compile(r"(\d\d):(\d\d):(\d\d)[:.](\d{3})\.?(\d{3})?")


class LogStyle(enum.Enum):
    """The shape of the text in front of a message."""

    GLOG = "glog"
    """``I0715 11:20:31.045123 812 FILE:LINE] ``: no year, no thread, no logger."""
    THREADED = "threaded"
    """``[812] [2026-01-15 11:20:31:045] torch_npu.dispatch: [INFO] [890] ``."""
    PLAIN = "plain"
    """``[2025-06-02 11:20:31:045] torch_npu.op_plugin: [INFO] ``: no process."""
    PLOG = "plog"
    """CANN's own files: ``[ERROR] APP(812,python):2026-... [file:line]tid ...``."""
    TORCH = "torch"
    """PyTorch's own warnings: ``[W715 11:20:31.045123456 file:line] Warning: ``."""
    BARE = "bare"
    """No prefix: a line that somebody else wrote."""


class QueueAction(enum.Enum):
    """What one line says about the task queue."""

    ENQUEUE = "enqueue"
    WRITE = "write"
    READ = "read"
    READ_FAILED = "read failed"
    FULL = "full"
    FULL_WAIT = "full wait"
    FULL_WAIT_END = "full wait end"
    IDLE_WAIT = "idle wait"
    """The consumer found nothing to do."""
    IDLE_WAIT_END = "idle wait end"
    DRAIN = "drain"
    """The caller wants the queue empty before it goes on."""
    DRAIN_WAIT = "drain wait"
    DRAIN_WAIT_END = "drain wait end"
    DRAIN_END = "drain end"
    OTHER = "other"


class TaskKind(enum.Enum):
    """What a task of the queue is."""

    OPERATOR = "operator"
    COPY = "copy"
    EVENT = "event"
    UNKNOWN = "unknown"


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


@frozen(kw_only=True)
class OpPluginCall(LogRecord):
    """A function of op-plugin was entered (``exec aten``).

    The name is that of the C++ function, not of the ATen operator: it may end
    in ``_out`` or ``_symint``. It is printed before the choice of a path, so it
    does not prove that an aclnn operator follows.
    """

    name: str
    arguments: tuple[LoggedArgument, ...] | None = None
    """None where they were not parsed."""
    truncated: str | None = None
    """Why the list of arguments ends early, None where it is whole."""
    op: int | None = None
    """Index of the traced call around it, None where none was seen."""


@frozen(kw_only=True)
class AclnnRecord(LogRecord):
    """An aclnn operator was launched."""

    name: str
    """``"aclnnAddmm"``."""
    command: str
    """``"EXEC_NPU_CMD"``, ``"EXEC_NPU_CMD_SYNC"``, ..."""
    stream: int | None = None
    """-1 where torch_npu does not know it, None where the version prints none."""
    aic_num: int | None = None
    aiv_num: int | None = None
    task_queue: int | None = None
    arguments: tuple[LoggedArgument, ...] | None = None
    """None where they were not parsed."""
    truncated: str | None = None
    """Why the list of arguments ends early, None where it is whole."""
    op: int | None = None
    """Index of the traced call that launched it, None where none was seen.

    Where several tracers were on, it is of the trace that began last.
    """
    attribution: str | None = None
    """How `op` was found, or why it was not; None where nothing was traced."""

    @property
    def synchronous(self) -> bool:
        """The host waits for the result, whose shape depends on the data."""
        return self.command.endswith("_SYNC")

    def argument(self, name: str) -> LoggedArgument:
        """One argument by the name that the log gives it.

        Raises:
            KeyError: the record has no argument of that name.
        """
        for each in self.arguments or ():
            if each.name == name:
                return each
        raise KeyError(name)


@frozen(kw_only=True)
class DetailRecord(LogRecord):
    """What the debug level adds about the arguments of a call."""

    name: str
    details: tuple[tuple[str, str], ...] | None = None
    """Argument name and text; None where they were not parsed."""
    truncated: str | None = None


class QueueState(NamedTuple):
    """The numbers at the end of a line about the task queue."""

    device: int
    write_idx: int | None = None
    """The slot that is written next."""
    read_idx: int | None = None
    """The slot that is read next, or was just read."""
    status: int | None = None
    """0 initialised, 1 running; others mean that it stops or failed."""
    ret: int | None = None
    """Result of the wait or of the task, where the line has one."""


@frozen(kw_only=True)
class QueueTask:
    """What the queue holds in one slot."""

    kind: TaskKind
    name: str | None = None
    """The operator; None for copies and events."""
    event: str | None = None
    """Address of the event."""
    copy: tuple[int, int, int] | None = None
    """Bytes at the source, bytes at the target, aclrtMemcpyKind."""


@frozen(kw_only=True)
class QueueRecord(LogRecord):
    """One line about the task queue."""

    action: QueueAction
    task: QueueTask | None = None
    """None where the line names no task."""
    state: QueueState
    op: int | None = None
    """Index of the traced call that wrote the task, None where none was seen."""

    @property
    def name(self) -> str | None:
        """The operator of the task, None where the line names none."""
        return None if self.task is None else self.task.name


@frozen(kw_only=True)
class TaskRun:
    """What the consumer thread does with one task."""

    function: str
    """``"ExecFuncOpApi"`` runs aclnn operators, ``"ExecFunc"`` those of aclop."""
    name: str | None = None
    """The operator; None for copies and events."""
    how: str | None = None
    """The aclop way taken: ``"aclopCompileAndExecute"``."""
    stream: str | None = None
    event: str | None = None
    finished: bool = False
    """False where the line says that it begins."""
    ret: int | None = None


@frozen(kw_only=True)
class ExecutionRecord(LogRecord):
    """The consumer thread began or finished one task."""

    run: TaskRun

    @property
    def name(self) -> str | None:
        """The operator, None for copies and events."""
        return self.run.name

    @property
    def finished(self) -> bool:
        """The line says that the task ran; else that it begins."""
        return self.run.finished


@frozen(kw_only=True)
class DroppedRecord(LogRecord):
    """torch_npu could not print a record: too long, it was dropped whole.

    This is said once per process, so there may have been more.
    """


@frozen(kw_only=True)
class FallbackWarning(LogRecord):
    """An operator has no NPU kernel and runs on the CPU.

    torch_npu warns once per operator and process, so the absence of this
    record does not prove the absence of a fallback.
    """

    operator: str
    """As the warning names it: ``"aten::digamma.out"``."""


@frozen(kw_only=True)
class AsyncErrorRecord(LogRecord):
    """An error surfaced; on a queue the guilty launch may be an earlier one."""

    operator: str | None = None
    """The operator that was current when the error surfaced."""
    code: int | None = None
    """``507015``; None where the line has none."""
    preceding: tuple[str, ...] = ()
    """Names of the last launches of the same source before it, latest last."""


@frozen(kw_only=True)
class TaskRecord:
    """One task of the queue from writing to reading.

    Written and read lines are paired by slot; a side that the log does not have
    is None, for the log may begin or end in the middle.
    """

    index: int
    kind: TaskKind
    name: str | None = None
    device: int | None = None
    pid: int | None = None
    rank: int | None = None
    source: str | None = None
    slot: int | None = None
    """Position in the ring of 4096."""
    event: str | None = None
    copy: tuple[int, int, int] | None = None
    written: int | None = None
    """Index of the log record that wrote it."""
    started: int | None = None
    """Index of the log record that began to run it."""
    finished: int | None = None
    """Index of the log record that says it ran."""
    read: int | None = None
    """Index of the log record that took it out of the queue, after it ran."""
    ret: int | None = None
    """Result of the run; None where the log does not tell."""
    launch: int | None = None
    """Index of the aclnn launch that made it."""
    stream: str | None = None
    queued_us: int | None = None
    """Host time from writing to the end of the run; None where it is not known."""

    @property
    def executed(self) -> bool:
        """The log shows that it ran."""
        return self.read is not None or self.finished is not None


@frozen(kw_only=True)
class MissingReason:
    """Why lines that one might expect are not in a trace."""

    what: str
    """``"dispatch"``, ``"op_plugin"``, ``"everything"``."""
    reason: str
    """One sentence."""
    remedy: str
    """One sentence that says what to do."""
