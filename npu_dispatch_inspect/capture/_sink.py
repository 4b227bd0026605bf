# SPDX-License-Identifier: BSD-3-Clause
"""Records that go to a file while the program runs, so that memory stays small."""

from __future__ import annotations

import os
import threading
from pathlib import Path

from npu_dispatch_inspect.capture._build import Builder
from npu_dispatch_inspect.capture._rows import Row
from npu_dispatch_inspect.errors import RecordError, UsageError
from npu_dispatch_inspect.records import Environment, OpRecord
from npu_dispatch_inspect.serialization import load
from npu_dispatch_inspect.serialization.op_trace import (
    OpTraceEnd,
    OpTraceHead,
    end_line,
    head_line,
    record_line,
)

__all__ = ["Sink"]


class Sink:
    """The file of one traced block.

    Args:
        path: the file; it is replaced where it exists.
        engine: of the header, as the label and the environment.
        label: as above.
        environment: as above.

    Raises:
        UsageError: the file cannot be opened.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        engine: str,
        label: str | None,
        environment: Environment,
    ) -> None:
        self.path = Path(path).absolute()
        head = OpTraceHead(
            environment=environment, engine=engine, label=label, in_order=False
        )
        try:
            # Unbuffered: a process forked meanwhile has nothing left to write.
            self._file = self.path.open("wb", buffering=0)
            self._write(head_line(head))
        except OSError as error:
            msg = f"sink cannot be written to {path}: {error.strerror}."
            raise UsageError(msg) from error
        self._builder: Builder | None = None
        self._lock = threading.RLock()
        self._count = 0
        self._as_left: tuple[int, int] | None = None

    def builds_with(self, builder: Builder) -> None:
        """Set what turns rows into records."""
        self._builder = builder

    def drain(self, rows: list[Row], ahead: list[Row]) -> None:
        """Write the records of a thread's rows; see `Recorder`."""
        assert self._builder is not None
        with self._lock:
            records = self._builder.records(rows, ahead)
            self._write("".join(map(record_line, records)))
            self._count += len(records)

    def records(self, waiting: list[Row]) -> list[OpRecord]:
        """What has been written, and what has not been yet."""
        assert self._builder is not None
        with self._lock:
            if self._as_left not in (None, self._stamp()):
                msg = f"{self.path} has changed since this trace was written there."
                raise RecordError(msg)
            written = load(self.path, partial=True).records
            records = [*written, *self._builder.records(waiting)]
        return sorted(records, key=lambda record: record.index)

    def end(
        self, *, environment: Environment, truncated: bool, notes: tuple[str, ...]
    ) -> None:
        """Write the last line and close the file."""
        end = OpTraceEnd(environment=environment, truncated=truncated, notes=notes)
        line = end_line(self._count, end)
        try:
            self._write(line)
        finally:
            self._file.close()
            self._as_left = self._stamp()

    def abandon(self) -> None:
        """Close the file without a last line: it is another process's."""
        self._file.close()

    def _stamp(self) -> tuple[int, int]:
        try:
            found = self.path.stat()
        except OSError:
            return -1, -1
        return found.st_size, found.st_mtime_ns

    def _write(self, text: str) -> None:
        data = memoryview(text.encode("ascii"))
        while data:
            data = data[self._file.write(data) :]
