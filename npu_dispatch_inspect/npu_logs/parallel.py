# SPDX-License-Identifier: BSD-3-Clause
"""Large files in several processes.

Records cost as much to hand from one process to another as to parse, so what
the processes give back is what a function made of the records of their part.
"""

from __future__ import annotations

import functools
import itertools
import multiprocessing
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import BinaryIO, Final, TypeVar

from npu_dispatch_inspect.errors import RecordError, UsageError
from npu_dispatch_inspect.npu_logs.grammar import HEAD
from npu_dispatch_inspect.npu_logs.parser import LogParser, parse_logs
from npu_dispatch_inspect.npu_logs.sources import CHUNK_SIZE
from npu_dispatch_inspect.records.logs import LogRecord
from npu_dispatch_inspect.traces.log_summary import LogSummary, summarize

__all__ = ["map_logs", "summarize_logs"]

T = TypeVar("T")

WINDOW: Final = 1 << 20
"""Bytes in which the beginning of a record is looked for."""


def map_logs(
    path: str | os.PathLike[str],
    function: Callable[[Iterator[LogRecord]], T],
    *,
    workers: int = 1,
) -> list[T]:
    """Give the records of each part of a file to a function, in processes.

    The file is cut where a record begins. Every part counts its records from
    0, and an error record knows the launches of its own part only.

    Args:
        path: the file; a compressed one cannot be cut and is one part.
        function: called once for each part with an iterator of its records; for
            more than one worker it must be a function of a module, and what it
            returns must be picklable.
        workers: how many parts and processes; 1 works in this process.

    Returns:
        What the function returned for each part, in the order of the file.

    Raises:
        RecordError: the file cannot be read.
        UsageError: `workers` is less than 1.

    Example:
        >>> from npu_dispatch_inspect import map_logs
        >>> def count(records):
        ...     return sum(hasattr(each, "command") for each in records)
        >>> map_logs("tests/data/logs/v2.13.0-linear.log", count)
        [5]
    """
    if workers < 1:
        msg = f"workers must be 1 or more, not {workers}."
        raise UsageError(msg)
    name = os.fspath(path)
    parts = _parts(name, workers) if workers > 1 else []
    if len(parts) < 2:  # noqa: PLR2004 - one part needs no process
        return [function(parse_logs(name))]
    work = functools.partial(_work, name, function)
    # A fresh interpreter: torch's threads do not survive a fork.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(len(parts), mp_context=context) as pool:
        return list(pool.map(work, *zip(*parts, strict=True)))


def summarize_logs(path: str | os.PathLike[str], *, workers: int = 1) -> LogSummary:
    """Count what a file of any size tells.

    Args:
        path: the file, also a compressed one.
        workers: processes to share the work.

    Returns:
        Counts of launches, calls, copies and waits; bytes and microseconds where the
        lines tell them.

    Raises:
        RecordError: the file cannot be read.

    Example:
        >>> from npu_dispatch_inspect import summarize_logs
        >>> summary = summarize_logs("tests/data/logs/v2.13.0-encoder_train.log")
        >>> summary.launches["aclnnMm"], summary.waits["idle wait"]
        (12, 105)
    """
    return sum(map_logs(path, summarize, workers=workers), LogSummary())


def _work(
    path: str, function: Callable[[Iterator[LogRecord]], T], begin: int, end: int
) -> T:
    return function(_records(path, begin, end))


def _records(path: str, begin: int, end: int) -> Iterator[LogRecord]:
    parser = LogParser(offset=begin)
    with Path(path).open("rb") as stream:
        stream.seek(begin)
        while begin < end:
            chunk = stream.read(min(CHUNK_SIZE, end - begin))
            if not chunk:
                break
            begin += len(chunk)
            yield from parser.feed(chunk)
    yield from parser.close()


def _parts(path: str, count: int) -> list[tuple[int, int]]:
    try:
        with Path(path).open("rb") as stream:
            if stream.read(2) == b"\x1f\x8b":
                return []
            size = os.fstat(stream.fileno()).st_size
            cuts = [_cut(stream, size * each // count) for each in range(1, count)]
    except OSError as error:
        msg = f"Cannot read the log file {path!r}: {str(error.strerror).lower()}."
        raise RecordError(msg) from None
    places = sorted({0, size, *(cut for cut in cuts if cut is not None)})
    return list(itertools.pairwise(places))


def _cut(stream: BinaryIO, place: int) -> int | None:
    """The first beginning of a record at a line start after a place."""
    stream.seek(place)
    window = stream.read(WINDOW).decode("latin-1")
    line = window.find("\n") + 1
    while line:
        if HEAD.match(window, line):
            return place + line
        line = window.find("\n", line) + 1
    return None
