# SPDX-License-Identifier: BSD-3-Clause
"""A trace of torch_npu's log lines: an immutable set of records with queries."""

from __future__ import annotations

import fnmatch
import importlib
import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar, overload

from npu_dispatch_inspect.records import (
    AclnnRecord,
    AsyncErrorRecord,
    DroppedRecord,
    Environment,
    FallbackWarning,
    LogRecord,
    LogStyle,
    MissingReason,
    OpPluginCall,
    TaskRecord,
)
from npu_dispatch_inspect.records.printed import Printed
from npu_dispatch_inspect.traces._deferred import Deferred
from npu_dispatch_inspect.traces._queue import pair_tasks
from npu_dispatch_inspect.traces.log_summary import LogSummary, summarize

__all__ = ["LogTrace"]

R = TypeVar("R", bound=LogRecord)


class LogTrace(Printed, Deferred, Sequence[LogRecord]):
    """Log records in the order in which they were written.

    A slice or a query gives a smaller trace whose records keep the index they
    had. Inside the captured block a trace shows what has come so far; once the
    block has ended it is an immutable value. Records are built when they are
    first looked at.

    Args:
        records: the lines.
        environment: where they were captured; None for a file, which does not
            tell.
        label: a name for people.
        incomplete: why lines may be missing, a sentence each.
        missing: why lines that one might expect were not printed.

    Example:
        >>> from npu_dispatch_inspect import LogTrace
        >>> log = LogTrace.from_file("tests/data/logs/v2.13.0-linear.log")
        >>> log.names[0], len(log.tasks), log.complete
        ('aclnnAddmm', 5, True)
        >>> log.find("aclnnReduceSum").names
        ('aclnnReduceSum', 'aclnnReduceSum')
    """

    _fields = ("_records", "_environment", "_label", "_incomplete", "_missing")
    __slots__ = (*_fields, "_tasks")
    _tasks: tuple[TaskRecord, ...]
    """Made of the records when somebody asks."""

    def __init__(
        self,
        *,
        records: Iterable[LogRecord] = (),
        environment: Environment | None = None,
        label: str | None = None,
        incomplete: tuple[str, ...] = (),
        missing: tuple[MissingReason, ...] = (),
    ) -> None:
        self._records = tuple(records)
        self._environment = environment
        self._label = label
        self._incomplete = incomplete
        self._missing = missing
        self._source = None

    @classmethod
    def from_file(
        cls, path: str | os.PathLike[str], *, progress: bool | None = None
    ) -> LogTrace:
        """Read a file of log lines, also a compressed one (``.gz``).

        The whole file becomes records in memory; `parse_logs` streams.

        Args:
            path: the file.
            progress: show how far the reading is; None shows it for long files
                on a terminal.

        Raises:
            RecordError: the file cannot be read.
        """
        # The layers go one way, from the parser to the traces it makes, so it is
        # looked up by its public name.
        package: Any = importlib.import_module(__name__.partition(".")[0])
        trace: LogTrace = package.read_logs(path, progress=progress)
        return trace

    def _with(self, records: Iterable[LogRecord]) -> LogTrace:
        now = self._now()
        return LogTrace(
            records=records,
            environment=now._environment,
            label=now._label,
            incomplete=now._incomplete,
            missing=now._missing,
        )

    @property
    def records(self) -> tuple[LogRecord, ...]:
        """All lines, also those that torch_npu did not write."""
        return self._now()._records

    @property
    def environment(self) -> Environment | None:
        """Where the lines were captured; None for a file."""
        return self._now()._environment

    @property
    def label(self) -> str | None:
        """The name given to the block."""
        return self._now()._label

    @property
    def incomplete(self) -> tuple[str, ...]:
        """Why lines or arguments may be missing, a sentence each."""
        now = self._now()
        told = list(now._incomplete)
        if any(isinstance(each, DroppedRecord) for each in now._records):
            told.append(
                "torch_npu dropped at least one record that was too long to print."
            )
        cut = sum(
            getattr(each, "truncated", None) not in (None, "cut at a NUL byte")
            for each in now._records
        )
        if cut:
            told.append(f"{cut} records end before their last argument.")
        return tuple(told)

    @property
    def complete(self) -> bool:
        """False where something is known to be missing.

        A record that ends at an ``int8_t`` argument of value zero does not
        count: torch_npu prints every such record that way.
        """
        return not self.incomplete

    @property
    def missing(self) -> tuple[MissingReason, ...]:
        """Why lines that one might expect were not printed."""
        return self._now()._missing

    @overload
    def __getitem__(self, key: int) -> LogRecord: ...

    @overload
    def __getitem__(self, key: slice) -> LogTrace: ...

    def __getitem__(self, key: int | slice) -> LogRecord | LogTrace:
        """The record at a position of this trace, or a part of it."""
        if isinstance(key, slice):
            return self._with(self.records[key])
        return self.records[key]

    def __len__(self) -> int:
        """How many lines."""
        return len(self.records)

    def __repr__(self) -> str:
        """Short and code-like."""
        now = self._now()
        label = f"{now._label!r}, " if now._label else ""
        return f"LogTrace({label}{len(now._records)} records, {len(self.launches)} launches)"

    def _of(self, kind: type[R]) -> tuple[R, ...]:
        return tuple(each for each in self.records if isinstance(each, kind))

    @property
    def launches(self) -> tuple[AclnnRecord, ...]:
        """The aclnn launches."""
        return self._of(AclnnRecord)

    @property
    def names(self) -> tuple[str, ...]:
        """``("aclnnAddmm", "aclnnGelu")``: the launches by name, in order."""
        return tuple(each.name for each in self.launches)

    @property
    def op_plugin_calls(self) -> tuple[OpPluginCall, ...]:
        """The op-plugin functions that were entered (``exec aten``)."""
        return self._of(OpPluginCall)

    @property
    def fallbacks(self) -> tuple[FallbackWarning, ...]:
        """Warnings that an operator runs on the CPU, one per operator and process."""
        return self._of(FallbackWarning)

    @property
    def errors(self) -> tuple[AsyncErrorRecord, ...]:
        """Errors that surfaced, each with the launches before it."""
        return self._of(AsyncErrorRecord)

    @property
    def tasks(self) -> tuple[TaskRecord, ...]:
        """The tasks of the queue, from the lines of both threads."""
        now = self._now()
        found = getattr(now, "_tasks", None)
        if found is None:
            found = now._tasks = pair_tasks(now._records)
        return found

    @property
    def unknown(self) -> tuple[LogRecord, ...]:
        """Lines whose shape is none that is known: the program's own output."""
        return tuple(
            each for each in self.records if each.origin.style is LogStyle.BARE
        )

    @property
    def unattributed(self) -> tuple[AclnnRecord, ...]:
        """Launches without a traced operator call around them."""
        return tuple(each for each in self.launches if each.op is None)

    def launches_of(self, op: int) -> tuple[AclnnRecord, ...]:
        """The launches that one traced call made, by the index of the call."""
        return tuple(each for each in self.launches if each.op == op)

    def launches_before(self, record: LogRecord, count: int = 16) -> LogTrace:
        """The last launches of the same source before a record, latest last."""
        source = record.origin.source
        before = [
            each
            for each in self.launches
            if each.index < record.index and each.origin.source == source
        ]
        return self._with(before[-count:] if count > 0 else ())

    def filter(
        self,
        predicate: Callable[[LogRecord], bool] | None = None,
        *,
        name: str | None = None,
        logger: str | None = None,
        rank: int | None = None,
        pid: int | None = None,
        source: str | None = None,
    ) -> LogTrace:
        """The lines for which every given condition holds.

        Args:
            predicate: a function of the record.
            name: a glob over the operator's name; lines without one are left out.
            logger: a glob over the logger: ``"torch_npu.dispatch*"``.
            rank: the rank that torch_npu printed.
            pid: the process.
            source: what a launcher put in front: ``"rank0"``.
        """

        def keep(record: LogRecord) -> bool:
            origin = record.origin
            return (
                (predicate is None or predicate(record))
                and (name is None or _matches(getattr(record, "name", None), name))
                and (logger is None or _matches(origin.logger, logger))
                and (rank is None or origin.rank == rank)
                and (pid is None or origin.pid == pid)
                and (source is None or origin.source == source)
            )

        return self._with(filter(keep, self.records))

    def find(self, name: str) -> LogTrace:
        """The lines that name an operator: a glob, ``"aclnn*Copy"``."""
        return self.filter(name=name)

    def counts(self) -> dict[str, int]:
        """Launches per aclnn operator, the most frequent first, then by name."""
        counted = self.summary().launches
        return dict(sorted(counted.items(), key=lambda item: (-item[1], item[0])))

    def summary(self) -> LogSummary:
        """What the records say in numbers."""
        return summarize(self.records)


def _matches(text: str | None, pattern: str) -> bool:
    return text is not None and fnmatch.fnmatchcase(text, pattern)
