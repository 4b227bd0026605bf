# SPDX-License-Identifier: BSD-3-Clause
"""What torch_npu writes about itself while it runs, one record per log line."""

from __future__ import annotations

import enum
from typing import NamedTuple

from attrs import frozen

from npu_dispatch_inspect.records.log_lines import (
    LoggedArgument,
    LogOrigin,
    LogRecord,
    LogStyle,
)

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
