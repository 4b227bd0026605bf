# SPDX-License-Identifier: BSD-3-Clause
"""The task queue's lines become tasks.

The lines of a task come from two threads, and the file shows them in the order
in which they were written, not in that of the queue. What holds them together
is the slot, one of 4096 per process and device.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterable, Iterator
from typing import Final

from attrs import define

from npu_dispatch_inspect.records import (
    AclnnRecord,
    ExecutionRecord,
    LogOrigin,
    LogRecord,
    QueueAction,
    QueueRecord,
    TaskKind,
    TaskRecord,
)

__all__ = ["pair_tasks", "queue_waits"]

REORDERED: Final = 256
"""Records by which a read line may stand before its write line in the file."""

_DAY: Final = 24 * 3600 * 1_000_000
_WAIT_ENDS: Final = {
    QueueAction.FULL_WAIT_END: QueueAction.FULL_WAIT,
    QueueAction.IDLE_WAIT_END: QueueAction.IDLE_WAIT,
    QueueAction.DRAIN_WAIT_END: QueueAction.DRAIN_WAIT,
}


@define
class _Task:
    """A task whose lines are still being gathered."""

    order: int
    origin: LogOrigin
    device: int
    slot: int | None
    written: QueueRecord | None = None
    read: QueueRecord | None = None
    started: ExecutionRecord | None = None
    finished: ExecutionRecord | None = None
    launch: AclnnRecord | None = None

    @property
    def name(self) -> str | None:
        """The operator; the line of the reader is right where both name one."""
        for line in (self.read, self.started, self.written):
            if line is not None and line.name is not None:
                return line.name
        return None

    def record(self, index: int) -> TaskRecord:
        """The finished record."""
        told = self.read or self.written
        task = told.task if told is not None else None
        name = self.name
        kind = task.kind if task else TaskKind.UNKNOWN
        if name is not None:
            kind = TaskKind.OPERATOR
        run = self.finished or self.started
        ret = self.finished.run.ret if self.finished else None
        if ret is None and self.read is not None:
            ret = self.read.state.ret
        return TaskRecord(
            index=index,
            kind=kind,
            name=name,
            device=self.device,
            pid=self.origin.pid,
            rank=self.origin.rank,
            source=self.origin.source,
            slot=self.slot,
            event=task.event if task and kind is TaskKind.EVENT else None,
            copy=task.copy if task else None,
            written=self.written.index if self.written else None,
            started=self.started.index if self.started else None,
            finished=self.finished.index if self.finished else None,
            read=self.read.index if self.read else None,
            ret=ret,
            launch=self.launch.index if self.launch else None,
            stream=run.run.stream if run else None,
            queued_us=_between(self.written, self.read),
        )


@define
class _Runs:
    """What one consumer ran, its begin and its end, not yet given to a task."""

    waiting: deque[tuple[ExecutionRecord | None, ExecutionRecord | None]]

    def note(self, record: ExecutionRecord) -> None:
        """Take one more line of the consumer."""
        if not record.finished:
            self.waiting.append((record, None))
        elif self.waiting and self.waiting[-1][1] is None:
            self.waiting[-1] = (self.waiting[-1][0], record)
        else:
            self.waiting.append((None, record))

    def take(
        self, name: str | None
    ) -> tuple[ExecutionRecord | None, ExecutionRecord | None]:
        """The oldest run of an operator, or of something else where name is None."""
        for number, (started, finished) in enumerate(self.waiting):
            some = started or finished
            if some is not None and some.name == name:
                del self.waiting[number]
                return started, finished
        return None, None


def pair_tasks(records: Iterable[LogRecord]) -> tuple[TaskRecord, ...]:
    """The tasks that the queue's lines tell of, in the order of their first line."""
    pairing = _Pairing()
    for record in records:
        if isinstance(record, QueueRecord):
            pairing.queue(record)
        elif isinstance(record, ExecutionRecord):
            pairing.execution(record)
        elif isinstance(record, AclnnRecord):
            pairing.launch(record)
    return tuple(task.record(number) for number, task in enumerate(pairing.finish()))


class _Pairing:
    """The state of one pass over the records."""

    def __init__(self) -> None:
        self._tasks: list[_Task] = []
        self._unread: dict[Hashable, list[_Task]] = {}
        self._unwritten: dict[Hashable, _Task] = {}
        self._runs: dict[tuple[Hashable, ...], _Runs] = {}
        self._launches: dict[Hashable, list[AclnnRecord]] = {}

    def launch(self, record: AclnnRecord) -> None:
        """A launch: its task is written next."""
        key = (*_process(record.origin), record.name)
        self._launches.setdefault(key, []).append(record)

    def execution(self, record: ExecutionRecord) -> None:
        """A line of the consumer: its read line follows."""
        key = (*_process(record.origin), record.origin.tid)
        self._runs.setdefault(key, _Runs(deque())).note(record)

    def queue(self, record: QueueRecord) -> None:
        """A line about the queue."""
        if record.action is QueueAction.WRITE:
            self._write(record)
        elif record.action in (QueueAction.READ, QueueAction.READ_FAILED):
            self._read(record)

    def _write(self, record: QueueRecord) -> None:
        key = (*_process(record.origin), record.state.device, record.state.write_idx)
        early = self._unwritten.pop(key, None)
        if (
            early is not None
            and early.written is None
            and record.index - early.order <= REORDERED
            and record.name in (None, early.name)
        ):
            early.written = record
            return
        task = self._new(record, record.state.write_idx)
        task.written = record
        self._unread.setdefault(key, []).append(task)

    def _read(self, record: QueueRecord) -> None:
        key = (*_process(record.origin), record.state.device, record.state.read_idx)
        waiting = self._unread.get(key, [])
        # With one queue per stream several tasks share a slot: the name decides.
        task = next(
            (each for each in waiting if each.name in (None, record.name)), None
        )
        if task is None:
            task = self._unwritten[key] = self._new(record, record.state.read_idx)
        else:
            waiting.remove(task)
        task.read = record
        runs = self._runs.get((*_process(record.origin), record.origin.tid))
        if runs is not None:
            task.started, task.finished = runs.take(record.name)

    def _new(self, record: QueueRecord, slot: int | None) -> _Task:
        task = _Task(
            order=record.index,
            origin=record.origin,
            device=record.state.device,
            slot=slot,
        )
        self._tasks.append(task)
        return task

    def finish(self) -> list[_Task]:
        """Give what is left to the tasks that were never read, and the launches."""
        for task in self._tasks:
            if task.read is None:
                self._take_run(task)
        for task in reversed(self._tasks):
            if task.written is not None and task.name is not None:
                task.launch = self._latest_launch(task, task.written.index)
        return self._tasks

    def _take_run(self, task: _Task) -> None:
        for (*process, _thread), runs in self._runs.items():
            if tuple(process) == _process(task.origin):
                task.started, task.finished = runs.take(task.name)
                return

    def _latest_launch(self, task: _Task, before: int) -> AclnnRecord | None:
        """The launch right before a task was written; asked from the last task on."""
        launches = self._launches.get((*_process(task.origin), task.name), [])
        while launches and launches[-1].index > before:
            launches.pop()
        return launches.pop() if launches else None


def queue_waits(records: Iterable[LogRecord]) -> Iterator[tuple[QueueAction, int]]:
    """The waits that ended: what was waited for, and how many microseconds."""
    begun: dict[Hashable, QueueRecord] = {}
    for record in records:
        if not isinstance(record, QueueRecord):
            continue
        origin = record.origin
        key = (*_process(origin), origin.tid, record.state.device)
        if record.action in _WAIT_ENDS.values():
            begun[(*key, record.action)] = record
        elif record.action in _WAIT_ENDS:
            wait = _WAIT_ENDS[record.action]
            begin = begun.pop((*key, wait), None)
            lasted = _between(begin, record)
            if lasted is not None:
                yield wait, lasted


def _process(origin: LogOrigin) -> tuple[str | None, int | None, int | None]:
    return origin.source, origin.rank, origin.pid


def _between(begin: LogRecord | None, end: LogRecord | None) -> int | None:
    """Microseconds between two lines, also over midnight."""
    if begin is None or end is None:
        return None
    first, last = begin.microseconds, end.microseconds
    if first is None or last is None:
        return None
    return (last - first) % _DAY
