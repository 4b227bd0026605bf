# SPDX-License-Identifier: BSD-3-Clause
"""The contents of a file, one part after another, whatever shape it has.

A document is read piece by piece as well, so that a long trace is never in memory
as text, as dictionaries and as records at once.
"""

from __future__ import annotations

import gzip
import io
import json
import re
import zlib
from collections.abc import Generator, Iterator
from typing import IO, Any, BinaryIO

from npu_dispatch_inspect.serialization._kinds import Content

__all__ = ["Contents", "CutOffError", "NotTextError"]

_CHUNK = 1 << 16
_BLANKS = re.compile(r"[ \t\r\n]*")
_DECODER = json.JSONDecoder()


class CutOffError(Exception):
    """The file ends where more must follow."""


class NotTextError(Exception):
    """The bytes are no text: it is a file of something else."""


class Contents:
    """Head, records and end of a file.

    Iterating raises `CutOffError` where the file ends early, `NotTextError` for
    what is no text, and ValueError, with a reason, where it is damaged.

    Args:
        file: bytes, packed with gzip or not.
    """

    def __init__(self, file: BinaryIO) -> None:
        self.place = "line 1"
        """Where reading is, for messages."""
        # Any: what has `peek` is a reader of bytes, whatever its class.
        raw: Any = file
        self._wrapper = None if hasattr(raw, "peek") else io.BufferedReader(raw)
        reader = self._wrapper or raw
        if reader.peek(2)[:2] == b"\x1f\x8b":
            reader = gzip.GzipFile(fileobj=reader)
        self._text = io.TextIOWrapper(reader, encoding="utf-8")

    def __iter__(self) -> Generator[Content, None, None]:
        """The parts in order; the end is ``{"end": {...}}``."""
        try:
            yield from self._parts()
        except UnicodeDecodeError as error:
            raise NotTextError from error
        except EOFError as error:  # the packed bytes end early
            raise CutOffError from error
        except (gzip.BadGzipFile, zlib.error) as error:
            msg = f"it cannot be unpacked ({error})"
            raise ValueError(msg) from error
        finally:
            # The file is the caller's, and stays open.
            self._text.detach()
            if self._wrapper is not None:
                self._wrapper.detach()

    def _parts(self) -> Iterator[Content]:
        first = self._text.readline()
        try:
            head = json.loads(first)
        except ValueError:
            head = None
        if isinstance(head, dict) and "records" not in head:
            yield head
            yield from self._lines()
        elif first.lstrip().startswith("{") or not first.strip():
            yield from self._document(first)
        else:
            msg = "it is no JSON object"
            raise ValueError(msg)

    def _lines(self) -> Iterator[Content]:
        for number, text in enumerate(self._text, 2):
            self.place = f"line {number}"
            try:
                content = json.loads(text)
            except ValueError as error:
                # Only what was written last can end in the middle of a line.
                if not text.endswith("\n"):
                    raise CutOffError from error
                msg = "it is no JSON"
                raise ValueError(msg) from error
            yield _checked(content)

    def _document(self, first: str) -> Iterator[Content]:
        document = _Document(first, self._text)
        head: Content = {}
        end: Any = None
        late: list[Content] = []
        told = False
        for key in document:
            if key != "records":
                value = document.value()
                if key == "end":
                    end = value
                elif told:
                    msg = f"{key!r} comes after the records"
                    raise ValueError(msg)
                else:
                    head[key] = value
                continue
            if "schema" in head:
                told = True
                yield head
            for number, record in enumerate(document.items(), 1):
                self.place = f"record {number}"
                if told:
                    yield _checked(record)
                else:  # another program has sorted the keys
                    late.append(_checked(record))
        self.place = "its end"
        if not told:
            yield head
            yield from late
        if end is not None:
            yield {"end": end}


def _checked(content: Any) -> Content:
    if not isinstance(content, dict):
        msg = "it is no object"
        raise ValueError(msg)  # noqa: TRY004 - all damage is a ValueError
    return content


class _Document:
    """Takes one JSON object apart without reading all of it first."""

    def __init__(self, start: str, file: IO[str]) -> None:
        self._buffer = start
        self._at = 0
        self._file = file

    def __iter__(self) -> Iterator[str]:
        """The keys; after each of them its value is to be taken."""
        self._expect("{")
        if self._next() == "}":
            self._at += 1
        else:
            while True:
                key = self.value()
                self._expect(":")
                yield key
                if self._expect(",}") == "}":
                    break
        if self._next():
            msg = "something follows its end"
            raise ValueError(msg)

    def items(self) -> Iterator[Any]:
        """The items of a list that comes now."""
        self._expect("[")
        if self._next() == "]":
            self._at += 1
            return
        while True:
            yield self.value()
            if self._expect(",]") == "]":
                return

    def value(self) -> Any:
        """The value that comes now."""
        self._next()
        while True:
            try:
                value, end = _DECODER.raw_decode(self._buffer, self._at)
            except json.JSONDecodeError as error:
                if self._more():
                    continue
                rest = self._buffer[error.pos :]
                if error.msg.startswith("Unterminated") or not re.search(
                    r"[,:\]}\n]", rest
                ):
                    raise CutOffError from error
                msg = "it is no JSON"
                raise ValueError(msg) from error
            # A number that touches the end of what was read may go on.
            if end < len(self._buffer) or not self._more():
                self._at = end
                return value

    def _next(self) -> str:
        """The next character that is no blank; empty at the end of the file."""
        while True:
            found = _BLANKS.match(self._buffer, self._at)
            assert found is not None
            self._at = found.end()
            if self._at < len(self._buffer):
                return self._buffer[self._at]
            if not self._more():
                return ""

    def _expect(self, characters: str) -> str:
        found = self._next()
        if not found:
            raise CutOffError
        if found not in characters:
            msg = "it is no JSON"
            raise ValueError(msg)
        self._at += 1
        return found

    def _more(self) -> bool:
        # Twice as much each time, so that a long value is not tried too often.
        chunk = self._file.read(max(_CHUNK, len(self._buffer) - self._at))
        self._buffer = self._buffer[self._at :] + chunk
        self._at = 0
        return bool(chunk)
