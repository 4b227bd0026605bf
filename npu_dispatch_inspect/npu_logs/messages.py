# SPDX-License-Identifier: BSD-3-Clause
"""Messages of one line: the task queue, the consumer thread, warnings, errors."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from npu_dispatch_inspect.npu_logs.grammar import (
    ERROR,
    ERROR_CODE,
    ERROR_OPERATOR,
    FALLBACK,
    NOTHING_LOGGED,
)
from npu_dispatch_inspect.npu_logs.sources import decoded
from npu_dispatch_inspect.records.logs import (
    AsyncErrorRecord,
    DroppedRecord,
    ExecutionRecord,
    FallbackWarning,
    LogRecord,
    QueueAction,
    QueueRecord,
    QueueState,
    QueueTask,
    TaskKind,
    TaskRun,
)

if TYPE_CHECKING:
    from npu_dispatch_inspect.npu_logs.building import Head

__all__ = ["MessageParser", "warning"]

CACHE_SIZE: Final = 20_000
STATE_CACHE_SIZE: Final = 2_000
"""The same numbers come in a few lines in a row, and hardly ever again."""

_ACTIONS: Final = {
    "Enqueue: start": QueueAction.ENQUEUE,
    "WriteQueue: write success": QueueAction.WRITE,
    "WriteQueue: taskqueue is full": QueueAction.FULL,
    "Enqueue: taskqueue is full, wait for efd_write": QueueAction.FULL_WAIT,
    "Enqueue: taskqueue is full, wait for efd_write end": QueueAction.FULL_WAIT_END,
    "ReadQueue: read success": QueueAction.READ,
    "ReadQueue: read failed": QueueAction.READ_FAILED,
    "Dequeue: taskqueue is empty, wait for efd_read": QueueAction.IDLE_WAIT,
    "Dequeue: taskqueue is empty, wait for efd_read end": QueueAction.IDLE_WAIT_END,
    "MakeSureQueueEmpty: start": QueueAction.DRAIN,
    "MakeSureQueueEmpty: wait for efd_empty": QueueAction.DRAIN_WAIT,
    "MakeSureQueueEmpty: wait for efd_empty end": QueueAction.DRAIN_WAIT_END,
    "MakeSureQueueEmpty: clearing successful": QueueAction.DRAIN_END,
}
_TASK = re.compile(
    r", the current (?:working operator name is (?P<name>.*)"
    r"|copy params are srclen=(?P<src>\d+), dstlen=(?P<dst>\d+), kind=(?P<kind>\d+)"
    r"|working event is (?P<event>\S+))"
)
_STATE = re.compile(
    r"(-?\d+)(?:, write_idx = (\d+))?(?:, read_idx = (\d+))?(?:, status = (-?\d+))?"
    r"(?:, (?:s|ret) = (-?\d+))?(?:, acl_ret = -?\d+)?\s*"
)
_EXECUTION = re.compile(
    r"(?P<function>ExecFuncOpApi|ExecFunc): Op (?P<name>\S+) Run"
    r"(?: with (?P<way>\w+)|, (?P<note>[Cc]ustom hand.*?))?"
    r"(?:, ret = (?P<ret>-?\d+))?\.?"
)
_EVENT_EXECUTION = re.compile(
    r"(?P<function>\w+Func) Run(?:, stream = (?P<stream>\w+))?"
    r"(?:, event = (?P<event>\w+))?(?:, ret = (?P<ret>-?\d+))?\.?"
)


class MessageParser:
    """Builds the record of a message that has no argument lines.

    Most of these messages come again and again: what they say is parsed once
    and shared by the records.
    """

    def __init__(self) -> None:
        """Start with nothing remembered."""
        self._queue: dict[str, tuple[QueueAction, QueueTask | None]] = {}
        self._states: dict[str, QueueState | None] = {}
        self._runs: dict[str, TaskRun] = {}

    def parse(self, message: str, head: Head) -> LogRecord:
        """The record of one message with what its prefix gave."""
        told, mark, numbers = message.partition(", device = ")
        if mark:
            state = self._states.get(numbers) or self._state(numbers)
            if state is not None:
                action, task = self._queue.get(told) or self._told(told)
                return QueueRecord(action=action, task=task, state=state, **head)
        elif message.startswith("device = "):
            return self.parse(f", {message}", head)
        elif " Run" in message:
            run = self._runs.get(message) or self._run(message)
            if run is not None:
                return ExecutionRecord(run=run, **head)
        return warning(message, head)

    def _state(self, text: str) -> QueueState | None:
        found = _STATE.fullmatch(text)
        if found is None:
            return None
        if len(self._states) >= STATE_CACHE_SIZE:
            self._states.clear()
        numbers = [None if each is None else int(each) for each in found.groups()]
        state = self._states[text] = QueueState._make(numbers)
        return state

    def _told(self, text: str) -> tuple[QueueAction, QueueTask | None]:
        if len(self._queue) >= CACHE_SIZE:
            self._queue.clear()
        told = self._queue[text] = _queue_words(decoded(text))
        return told

    def _run(self, message: str) -> TaskRun | None:
        run = _task_run(decoded(message))
        if run is not None:
            if len(self._runs) >= CACHE_SIZE:
                self._runs.clear()
            self._runs[message] = run
        return run


def warning(message: str, head: Head) -> LogRecord:
    """A fallback warning, an error that surfaced, or the line as it is."""
    found = FALLBACK.search(message)
    if found is not None:
        return FallbackWarning(operator=decoded(found[1]), **head)
    if NOTHING_LOGGED.search(message):
        return DroppedRecord(**head)
    if ERROR.search(message):
        operator = ERROR_OPERATOR.search(message)
        code = ERROR_CODE.search(message)
        return AsyncErrorRecord(
            operator=operator[operator.lastindex or 0] if operator else None,
            code=int(code[1]) if code else None,
            **head,
        )
    return LogRecord(**head)


def _queue_words(text: str) -> tuple[QueueAction, QueueTask | None]:
    found = _TASK.search(text)
    words = text[: found.start()] if found else text
    action = _ACTIONS.get(words, QueueAction.OTHER)
    if found is None:
        return action, None
    if found["src"]:
        copy = (int(found["src"]), int(found["dst"]), int(found["kind"]))
        return action, QueueTask(kind=TaskKind.COPY, copy=copy)
    if found["event"]:
        return action, QueueTask(kind=TaskKind.EVENT, event=found["event"])
    return action, QueueTask(kind=TaskKind.OPERATOR, name=found["name"])


def _task_run(text: str) -> TaskRun | None:
    found = _EXECUTION.fullmatch(text)
    if found is not None:
        return TaskRun(
            function=found["function"],
            name=found["name"],
            how=found["way"] or found["note"],
            finished=found["ret"] is not None,
            ret=None if found["ret"] is None else int(found["ret"]),
        )
    found = _EVENT_EXECUTION.fullmatch(text)
    if found is None:
        return None
    return TaskRun(
        function=found["function"],
        stream=found["stream"],
        event=found["event"],
        finished=found["ret"] is not None,
        ret=None if found["ret"] is None else int(found["ret"]),
    )
