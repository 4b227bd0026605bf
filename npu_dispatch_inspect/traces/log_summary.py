# SPDX-License-Identifier: BSD-3-Clause
"""What a log says in numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any, Final

from attrs import Factory, fields, frozen

from npu_dispatch_inspect.records import (
    AclnnRecord,
    FallbackWarning,
    LoggedArgument,
    LogRecord,
    LogStyle,
    OpPluginCall,
    QueueAction,
    QueueRecord,
    TaskKind,
    TensorSpec,
)
from npu_dispatch_inspect.records.printed import Printed
from npu_dispatch_inspect.traces._queue import queue_waits

__all__ = ["LogSummary", "summarize"]

_MOVES: Final = {
    "aclnnInplaceCopy": (("src",), ("dst", "selfRef")),
    "aclnnCast": (("self",), ("result", "out")),
}
"""Operators that only move or convert: names of what they read, of what they write."""


@frozen(kw_only=True, hash=False)
class LogSummary(Printed):
    """Counts of what the records of a log tell.

    Summaries of parts of a log add up: ``first + second``. A wait that begins
    in one part and ends in the next is in neither.

    Example:
        >>> from npu_dispatch_inspect import summarize_logs
        >>> summary = summarize_logs("tests/data/logs/v2.13.0-linear.log")
        >>> summary.launches["aclnnReduceSum"], dict(summary.op_plugin)["addmm"]
        (2, 1)
    """

    records: int = 0
    foreign: int = 0
    """Lines that torch_npu did not write, warnings of PyTorch included."""
    bare: int = 0
    """Those of them without any prefix that is known."""
    op_plugin: Counter[str] = Factory(Counter)
    """Entries of op-plugin functions by name."""
    launches: Counter[str] = Factory(Counter)
    """aclnn launches by name."""
    signatures: Counter[str] = Factory(Counter)
    """aclnn launches by name and tensors: ``"aclnnMm(f32[4, 8], f32[8, 2])"``."""
    fallbacks: Counter[str] = Factory(Counter)
    """Operators that a warning says run on the CPU."""
    copies: Counter[str] = Factory(Counter)
    """Copies by what is moved: ``"device"``, ``"host to device"``, ..."""
    copied_bytes: Counter[str] = Factory(Counter)
    """Bytes of those copies that tell their size."""
    casts: Counter[str] = Factory(Counter)
    """Copies that change the dtype: ``"float16 -> float32"``."""
    waits: Counter[str] = Factory(Counter)
    """Waits for the queue that ended: ``"full wait"``, ``"idle wait"``, ..."""
    waited_us: Counter[str] = Factory(Counter)
    """Microseconds of those waits."""
    truncated: int = 0
    """Records whose arguments end early."""

    def __add__(self, other: LogSummary) -> LogSummary:
        """The summary of both parts together."""
        return LogSummary(
            **{name: getattr(self, name) + getattr(other, name) for name in _FIELDS}
        )


_FIELDS: Final = tuple(each.name for each in fields(LogSummary))
_COPY_KINDS: Final = {
    0: "host to host",
    1: "host to device",
    2: "device to host",
    3: "device to device",
}


class _Counts:
    def __init__(self) -> None:
        self.numbers: Counter[str] = Counter()
        self.by: dict[str, Counter[str]] = {
            name: Counter()
            for name in _FIELDS
            if name not in ("records", "foreign", "bare", "truncated")
        }

    def note(self, record: LogRecord) -> None:
        self.numbers["records"] += 1
        if record.foreign:
            self.numbers["foreign"] += 1
            self.numbers["bare"] += record.origin.style is LogStyle.BARE
        if isinstance(record, AclnnRecord):
            self._launch(record)
        elif isinstance(record, OpPluginCall):
            self.by["op_plugin"][record.name] += 1
            self.numbers["truncated"] += record.truncated is not None
        elif isinstance(record, FallbackWarning):
            self.by["fallbacks"][record.operator] += 1
        elif isinstance(record, QueueRecord):
            self._queue(record)

    def _launch(self, record: AclnnRecord) -> None:
        self.by["launches"][record.name] += 1
        self.numbers["truncated"] += record.truncated is not None
        if record.arguments is None:
            return
        self.by["signatures"][signature(record)] += 1
        if record.name in _MOVES:
            read, written = (
                _dtype(record.arguments, names) for names in _MOVES[record.name]
            )
            if read and written and read != written:
                self.by["casts"][f"{read} -> {written}"] += 1
            else:
                self.by["copies"]["device"] += 1

    def _queue(self, record: QueueRecord) -> None:
        task = record.task
        if (
            record.action is QueueAction.WRITE
            and task is not None
            and task.kind is TaskKind.COPY
            and task.copy is not None
        ):
            kind = _COPY_KINDS.get(task.copy[2], f"kind {task.copy[2]}")
            self.by["copies"][kind] += 1
            self.by["copied_bytes"][kind] += task.copy[0]


def summarize(records: Iterable[LogRecord]) -> LogSummary:
    """Count what the records tell, in one pass and in constant memory."""
    counts = _Counts()

    def noted() -> Iterable[LogRecord]:
        for record in records:
            counts.note(record)
            yield record

    for wait, lasted in queue_waits(noted()):
        counts.by["waits"][wait.value] += 1
        counts.by["waited_us"][wait.value] += lasted
    counted: dict[str, Any] = {
        name: counts.by.get(name, counts.numbers[name]) for name in _FIELDS
    }
    return LogSummary(**counted)


def signature(record: AclnnRecord) -> str:
    """A launch and its tensors: ``"aclnnMm(f32[4, 8], f32[8, 2])"``."""
    specs = []
    for each in record.arguments or ():
        if isinstance(each.value, TensorSpec):
            specs.append(str(each.value))
        elif each.kind == "TensorList" and isinstance(each.value, tuple):
            more = ", ..." if each.partial else ""
            specs.append(f"[{', '.join(map(str, each.value))}{more}]")
    return f"{record.name}({', '.join(specs)})"


def _dtype(arguments: tuple[LoggedArgument, ...], names: tuple[str, ...]) -> str | None:
    for each in arguments:
        if each.name in names and isinstance(each.value, TensorSpec):
            return each.value.dtype
    return None
