# SPDX-License-Identifier: BSD-3-Clause
"""Where the records of a large file are, without making them."""

from __future__ import annotations

import fnmatch
import os
import re
from array import array
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from npu_dispatch_inspect.npu_logs.grammar import INDEX_ENTRY
from npu_dispatch_inspect.npu_logs.parser import LogParser
from npu_dispatch_inspect.npu_logs.sources import open_chunks
from npu_dispatch_inspect.records.logs import LogRecord

__all__ = ["LogIndex", "index_logs"]

CHUNK_SIZE: Final = 1 << 20
Key = tuple[str | None, str | None, str | None]


class LogIndex:
    """The names of a file's records and the places where they begin.

    It takes twelve bytes for each record, and gives single records out of files
    that are too large to be read as a whole. Lines behind a launcher's mark
    (``[rank0]:``) count as one record each.

    Args:
        path: the file, not compressed.
        keys: what each kind of record is called.
        offsets: where each record begins.
        numbers: for each record the position of its kind in `keys`.
        foreign: bytes that belong to no record of torch_npu.

    Example:
        >>> from npu_dispatch_inspect import index_logs
        >>> index = index_logs("tests/data/logs/v2.13.0-linear.log")
        >>> index.counts()["aclnnMm EXEC_NPU_CMD"]
        1
        >>> [record.name for record in index.records("aclnnMm *")]
        ['aclnnMm']
    """

    def __init__(
        self,
        path: str,
        keys: list[Key],
        offsets: array[int],
        numbers: array[int],
        foreign: int,
    ) -> None:
        self.path = path
        self.foreign = foreign
        self._keys = keys
        self._offsets = offsets
        self._numbers = numbers

    def __len__(self) -> int:
        """How many records."""
        return len(self._offsets)

    def counts(self) -> dict[str, int]:
        """Records by name, the most frequent first.

        Launches are called ``"aclnnAddmm EXEC_NPU_CMD"``, entries of op-plugin
        ``"addmm exec aten"``, and others by their first word: ``"WriteQueue"``.
        """
        counted = Counter(self._numbers)
        named = {_name(self._keys[key]): count for key, count in counted.items()}
        return dict(sorted(named.items(), key=lambda item: (-item[1], item[0])))

    def records(self, name: str = "*") -> Iterator[LogRecord]:
        """Make the records whose name matches a glob: ``"aclnnMm *"``.

        Their `index` is their place in this index.
        """
        wanted = {
            number
            for number, key in enumerate(self._keys)
            if fnmatch.fnmatchcase(_name(key), name)
        }
        with Path(self.path).open("rb") as stream:
            for place, number in enumerate(self._numbers):
                if number not in wanted:
                    continue
                begin = self._offsets[place]
                last = place + 1 == len(self._offsets)
                size = -1 if last else self._offsets[place + 1] - begin
                stream.seek(begin)
                parser = LogParser(offset=begin, index=place)
                yield parser.feed_all(stream.read(size))[0]


def index_logs(
    path: str | os.PathLike[str], *, progress: bool | None = None
) -> LogIndex:
    """Find where the records of a file begin and what they are called.

    Args:
        path: the file, not compressed.
        progress: show how far it is read; None shows it for long files on a
            terminal where rich is installed.

    Returns:
        Twelve bytes for each record: what it is called and where it begins.

    Raises:
        RecordError: the file cannot be read.

    Example:
        >>> from npu_dispatch_inspect import index_logs
        >>> index = index_logs("tests/data/logs/v2.13.0-linear.log")
        >>> [record.stream for record in index.records("aclnnReduceSum *")]
        [0, 0]
    """
    numbers_of: dict[Key, int] = {}
    offsets = array("Q")
    numbers = array("I")
    add_offset, add_number = offsets.append, numbers.append
    foreign = 0
    base = 0
    rest = ""
    with open_chunks(path, progress=progress) as chunks:
        for chunk in chunks:
            data = rest + chunk.decode("latin-1")
            # A record is not done before the next one begins.
            limit = data.rfind("\n") + 1
            position = 0
            last = -1
            for found in INDEX_ENTRY.finditer(data, 0, limit):
                start, end = found.span()
                foreign += start - position
                last, position = start, end
                number = numbers_of.get(found.groups())  # type: ignore[arg-type]
                if number is None:
                    number = len(numbers_of)
                    numbers_of[_key(found)] = number
                add_offset(base + start)
                add_number(number)
            if last >= 0 and position == limit:
                offsets.pop()
                numbers.pop()
                position = last
            else:
                foreign += limit - position
                position = limit
            rest = data[position:]
            base += position
        for found in INDEX_ENTRY.finditer(rest + "\n"):
            add_offset(base + found.start())
            add_number(numbers_of.setdefault(_key(found), len(numbers_of)))
    return LogIndex(os.fspath(path), list(numbers_of), offsets, numbers, foreign)


def _key(found: re.Match[str]) -> Key:
    return found[1], found[2], found[3]


def _name(key: Key) -> str:
    operator, command, word = key
    if operator is not None:
        return f"{operator} {command}"
    return word or ""
