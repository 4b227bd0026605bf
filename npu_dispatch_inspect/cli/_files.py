# SPDX-License-Identifier: BSD-3-Clause
"""Files that commands read: saved ones and logs, from disk or standard input."""

from __future__ import annotations

import contextlib
import gzip
import os
import shutil
import sys
import tempfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from npu_dispatch_inspect.errors import RecordError, UsageError

if TYPE_CHECKING:
    from npu_dispatch_inspect.traces.tables import DispatchTable

__all__ = ["STDIN", "on_disk", "read_file", "read_table"]

STDIN = "-"
_GZIP = b"\x1f\x8b"
_PEEK = 1 << 12


def read_file(path: str, *, partial: bool = False) -> Any:
    """What a file holds: a trace, a report, a table, graphs, or the lines of a log.

    Args:
        path: the file; ``-`` is standard input.
        partial: of a trace that was cut off, take what is there.

    Raises:
        RecordError: it cannot be read, or is none of these.
    """
    with on_disk(path) as (file, name):
        if _begins_as_json(file):
            from npu_dispatch_inspect.serialization import load

            try:
                return load(file, partial=partial)
            except RecordError as error:
                told = str(error).replace(file, name)
                told = told.replace("load(path, partial=True)", "show --partial")
                raise RecordError(told) from error
        return _read_logs(file, name)


def read_table(path: str) -> DispatchTable:
    """The dispatch table that a file holds.

    Raises:
        RecordError: it cannot be read.
        UsageError: it holds something else.
    """
    from npu_dispatch_inspect.traces.tables import DispatchTable

    found = read_file(path)
    if not isinstance(found, DispatchTable):
        msg = f"{path} holds no dispatch table: it is {type(found).__name__}."
        raise UsageError(msg)
    return found


@contextlib.contextmanager
def on_disk(path: str) -> Iterator[tuple[str, str]]:
    """A file to read, and what to call it; standard input is copied to one.

    Raises:
        UsageError: nothing comes on standard input because it is a terminal.
    """
    if path != STDIN:
        yield path, path
        return
    if sys.stdin is None or sys.stdin.isatty():
        msg = "'-' reads standard input, and that is the terminal: pipe a file into it."
        raise UsageError(msg)
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "stdin"
        with copy.open("wb") as file:
            shutil.copyfileobj(sys.stdin.buffer, file)
        # Readers of tables go by the name.
        with copy.open("rb") as file:
            packed = file.read(len(_GZIP)) == _GZIP
        named = copy.rename(copy.with_suffix(".json.gz" if packed else ".json"))
        yield str(named), "standard input"


def _begins_as_json(path: str) -> bool:
    try:
        with Path(path).open("rb") as raw:
            head = raw.read(_PEEK)
            if head.startswith(_GZIP):
                raw.seek(0)
                with contextlib.suppress(EOFError, gzip.BadGzipFile, zlib.error):
                    head = gzip.GzipFile(fileobj=raw).read(_PEEK)
    except OSError as error:
        msg = f"{path} cannot be read: {os.strerror(error.errno or 0).lower()}."
        raise RecordError(msg) from None
    return head.lstrip().startswith(b"{")


def _read_logs(path: str, name: str) -> Any:
    from npu_dispatch_inspect.npu_logs import read_logs

    trace = read_logs(path)
    if all(record.foreign for record in trace.records):
        msg = (
            f"{name} is neither a file of this library nor a log: no line of it is "
            "torch_npu's."
        )
        raise RecordError(msg)
    return trace
