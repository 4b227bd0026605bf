# SPDX-License-Identifier: BSD-3-Clause
"""Whole sources at once, as traces."""

from __future__ import annotations

from npu_dispatch_inspect.npu_logs.parser import LogParser
from npu_dispatch_inspect.npu_logs.sources import LogSource, open_chunks
from npu_dispatch_inspect.traces.logs import LogTrace

__all__ = ["read_logs"]


def read_logs(
    source: LogSource, *, arguments: bool = True, progress: bool | None = None
) -> LogTrace:
    """Read log text into a trace.

    All records are kept in memory; `parse_logs` gives them one by one.

    Args:
        source: a path (also ``.gz``), a file descriptor, bytes, an open file, or
            an iterable of lines.
        arguments: parse the argument lines.
        progress: show how far a file is read; None shows it for long files on a
            terminal where rich is installed.

    Returns:
        All lines as records, with launches, tasks and errors.

    Raises:
        RecordError: the file cannot be opened.

    Example:
        >>> from npu_dispatch_inspect import read_logs
        >>> log = read_logs("tests/data/logs/v2.1.0-encoder_train.log")
        >>> log.counts()["aclnnMm"], log.complete
        (12, True)
    """
    parser = LogParser(arguments=arguments)
    records = []
    with open_chunks(source, progress=progress) as chunks:
        for chunk in chunks:
            records += parser.feed(chunk)
        records += parser.close()
    problem = chunks.problem
    return LogTrace(
        records=records,
        incomplete=(f"{problem[0].upper()}{problem[1:]}.",) if problem else (),
    )
