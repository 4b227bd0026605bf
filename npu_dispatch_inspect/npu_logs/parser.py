# SPDX-License-Identifier: BSD-3-Clause
"""Log text becomes records, one after the other, in constant memory."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, TypeVar

from attrs import evolve

from npu_dispatch_inspect.npu_logs.building import RecordBuilder
from npu_dispatch_inspect.npu_logs.grammar import MESSAGE_LIMITS, RECORD, WRAPPER
from npu_dispatch_inspect.npu_logs.prefixes import source_of
from npu_dispatch_inspect.npu_logs.sources import LogSource, open_chunks
from npu_dispatch_inspect.npu_logs.wrapped import WrappedLines
from npu_dispatch_inspect.records.logs import (
    AclnnRecord,
    LogRecord,
    OpPluginCall,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = ["LogParser", "join_records", "parse_arguments", "parse_logs"]

LONGEST_REST: Final = 4 << 20
"""Bytes without the end of a record that are still waited for."""

_OPEN: Final = 7
"""Last group of a record with argument lines and without the line that closes it."""

_LINE = re.compile(r"[^\n]*\n|[^\n]+")
_WithArguments = TypeVar("_WithArguments", AclnnRecord, OpPluginCall)


def parse_logs(
    source: LogSource, *, arguments: bool = True, progress: bool | None = None
) -> Iterator[LogRecord]:
    """Read log text as a stream of records.

    Nothing in the text raises, and nothing of it is lost: what is not
    understood comes as a plain `LogRecord`, and `join_records` gives back the
    source. The memory needed does not grow with the source.

    Args:
        source: a path (also ``.gz``), a file descriptor, bytes, an open file, or
            an iterable of lines.
        arguments: parse the argument lines; without, `arguments` is None in
            every record and can be had later from `parse_arguments`.
        progress: show how far a file is read; None shows it for long files on a
            terminal where rich is installed.

    Returns:
        Records in the order of the source, each with its text and offset in bytes.

    Raises:
        RecordError: the file cannot be opened.

    Example:
        >>> from npu_dispatch_inspect import parse_logs
        >>> records = parse_logs("tests/data/logs/v2.13.0-rank1-linear.log")
        >>> launch = next(each for each in records if hasattr(each, "command"))
        >>> launch.name, launch.origin.rank
        ('aclnnAddmm', 1)
    """
    parser = LogParser(arguments=arguments)
    with open_chunks(source, progress=progress) as chunks:
        for chunk in chunks:
            yield from parser.feed(chunk)
        yield from parser.close()


def join_records(records: Iterable[LogRecord]) -> bytes:
    """The bytes that a source's records were read from, all of them in order.

    Args:
        records: every record of one source, in order.

    Returns:
        The source, byte for byte.

    Example:
        >>> from pathlib import Path
        >>> from npu_dispatch_inspect import join_records, read_logs
        >>> path = Path("tests/data/logs/v2.13.0-linear.log")
        >>> join_records(read_logs(path)) == path.read_bytes()
        True
    """
    stretches: list[tuple[int, bytes]] = []
    for record in records:
        raw = record.text.encode("utf-8", "surrogateescape")
        done = 0
        for offset, length in record.runs or ((record.offset, len(raw)),):
            stretches.append((offset, raw[done : done + length]))
            done += length
    return b"".join(raw for _, raw in sorted(stretches, key=lambda each: each[0]))


def parse_arguments(record: _WithArguments) -> _WithArguments:
    """The same record with its argument lines parsed.

    Args:
        record: what `parse_logs` gave with ``arguments=False``; others come back as they are.

    Returns:
        The record with `arguments`; shapes are in elements, as torch_npu prints them.

    Example:
        >>> from npu_dispatch_inspect import parse_arguments, parse_logs
        >>> records = parse_logs("tests/data/logs/v2.13.0-linear.log", arguments=False)
        >>> launch = next(each for each in records if hasattr(each, "command"))
        >>> launch.name, launch.arguments
        ('aclnnAddmm', None)
        >>> [each.name for each in parse_arguments(launch).arguments[:3]]
        ['self', 'mat1', 'mat2']
    """
    for again in LogParser().feed_all(record.text.encode("utf-8", "surrogateescape")):
        if isinstance(again, type(record)):
            return evolve(record, arguments=again.arguments)
    return record


class LogParser:
    """Takes pieces of log text and gives the records that are complete."""

    def __init__(
        self, *, arguments: bool = True, offset: int = 0, index: int = 0
    ) -> None:
        """Start at a place in a source.

        Args:
            arguments: parse the argument lines.
            offset: position of the first byte that will be fed.
            index: number of the first record.
        """
        self._builder = RecordBuilder(arguments=arguments, index=index)
        self._wrapped = WrappedLines()
        self._rest = ""
        self._offset = offset
        self._records: list[LogRecord] = []

    def feed(self, chunk: bytes) -> list[LogRecord]:
        """The records that are complete with one more piece of text."""
        waited = len(self._rest)
        data = self._rest + chunk.decode("latin-1")
        limit = data.rfind("\n") + 1
        if not limit and len(data) > LONGEST_REST:
            limit = len(data)
        done = self._scan(data, limit, last=waited > LONGEST_REST)
        self._rest = data[done:]
        self._offset += done
        return self._take()

    def close(self) -> list[LogRecord]:
        """The records of what is left; the last line may have no line end."""
        data = self._rest
        self._rest = ""
        padded = bool(data) and not data.endswith("\n")
        if padded:
            data += "\n"
        self._scan(data, len(data), last=True)
        self._offset += len(data)
        for source in self._wrapped.sources():
            self._flush(source)
        if padded:
            self._remove_padding()
        return self._take()

    def feed_all(self, data: bytes) -> list[LogRecord]:
        """All records of one whole text."""
        return [*self.feed(data), *self.close()]

    def _take(self) -> list[LogRecord]:
        records, self._records = self._records, []
        return records

    def _remove_padding(self) -> None:
        """Take back the line end that `close` put behind the last line."""
        for place, record in enumerate(self._records):
            runs = record.runs or ((record.offset, len(record.text.encode(*_CODEC))),)
            if sum(runs[-1]) == self._offset:
                shorter = (*runs[:-1], (runs[-1][0], runs[-1][1] - 1))
                self._records[place] = evolve(
                    record,
                    text=record.text[:-1],
                    runs=shorter if record.runs else (),
                )
        self._offset -= 1

    def _scan(self, data: str, limit: int, *, last: bool) -> int:
        """Make the records of complete lines; how many bytes are done with."""
        position = 0
        base = self._offset
        build = self._builder.build
        for found in RECORD.finditer(data, 0, limit):
            start, end = found.span()
            truncated: str | None = None
            if found.lastindex == _OPEN:
                if end == limit and not last:
                    # More of its lines may come, and what stands in front of it
                    # may belong to it.
                    limit = max(data.rfind("\n", position, start) + 1, position)
                    break
                end, truncated = _cut_end(data, found, end, limit)
            if start != position:
                wrapper = self._others(data, position, start)
                if wrapper:
                    self._wrapped_head(found, data[start:end], wrapper)
                    position = end
                    continue
            position = end
            self._records.append(build(found, data[start:end], base + start, truncated))
        if position < limit:
            wrapper = self._others(data, position, limit)
            self._line(wrapper, base + limit - len(wrapper))
        return max(position, limit)

    def _others(self, data: str, start: int, end: int) -> str:
        """Make records of the lines between two of torch_npu's.

        Returns:
            The wrapper at the end that belongs to what follows: it is no record.
        """
        for found in _LINE.finditer(data, start, end):
            line = found[0]
            if not line.endswith("\n") and WRAPPER.fullmatch(line):
                return line
            self._line(line, self._offset + start)
            start += len(line)
        return ""

    def _line(self, line: str, offset: int) -> None:
        """Make a record of a line that does not begin as torch_npu's lines do."""
        if not line:
            return
        wrapper = WRAPPER.match(line)
        lead = wrapper.end() if wrapper else 0
        source = source_of(wrapper[0]) if wrapper else None
        if source is not None:
            taken, ended = self._wrapped.add(source, line, line[lead:], offset)
            if ended:
                self._flush(source)
            if taken:
                return
            if source not in self._wrapped.known:
                source = None
        self._records.append(self._builder.other(line, offset, lead, source))

    def _wrapped_head(self, found: re.Match[str], raw: str, wrapper: str) -> None:
        """A record behind a wrapper: its other lines are still to come."""
        source = source_of(wrapper)
        self._flush(source)
        offset = self._offset + found.start() - len(wrapper)
        self._wrapped.begin(source, wrapper + raw, len(wrapper), offset)
        if found.lastindex != _OPEN or found[7]:
            self._flush(source)

    def _flush(self, source: str) -> None:
        """Make the record of a source whose last line has come."""
        lines = self._wrapped.take(source)
        if lines is None:
            return
        offset = lines.runs[0][0]
        found = RECORD.fullmatch(lines.inner)
        if found is None:
            self._records.append(
                self._builder.other(lines.raw, offset, lines.lead, source)
            )
            return
        record = self._builder.build(found, lines.raw, offset, None, lines.lead, source)
        if len(lines.runs) > 1:
            record = evolve(record, runs=tuple(lines.runs))
        self._records.append(record)


_CODEC: Final = ("utf-8", "surrogateescape")


def _cut_end(
    data: str, found: re.Match[str], end: int, limit: int
) -> tuple[int, str | None]:
    """Where a record without closing line ends, and why it has none.

    Some versions cut a message at a fixed length, most often in the middle of an
    argument: the rest of that line then still belongs to the record.
    """
    begin = found.start(4)
    for length in MESSAGE_LIMITS:
        cut = begin + length
        in_reach = end - 1 <= cut < limit and data[cut] == "\n"
        if in_reach and (cut == end - 1 or data.find("\n", end, cut) < 0):
            return cut + 1, f"cut after {length} bytes"
    return end, None
