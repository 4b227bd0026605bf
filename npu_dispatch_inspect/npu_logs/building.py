# SPDX-License-Identifier: BSD-3-Clause
"""The parts that the grammar found become one record."""

from __future__ import annotations

import collections
import re
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from attrs import evolve

from npu_dispatch_inspect.npu_logs.grammar import PLOG_LINE, TORCH_LINE
from npu_dispatch_inspect.npu_logs.messages import MessageParser, warning
from npu_dispatch_inspect.npu_logs.prefixes import (
    bracket_origin,
    glog_origin,
    plog_origin,
    torch_origin,
)
from npu_dispatch_inspect.npu_logs.sources import decoded
from npu_dispatch_inspect.npu_logs.values import ArgumentParser
from npu_dispatch_inspect.records.logs import (
    AclnnRecord,
    AsyncErrorRecord,
    DetailRecord,
    LogOrigin,
    LogStyle,
    OpPluginCall,
)

if TYPE_CHECKING:
    from npu_dispatch_inspect.records.logs import LoggedArgument, LogRecord

__all__ = ["Head", "RecordBuilder"]

Head: TypeAlias = dict[str, Any]
"""Field names and values that every `LogRecord` has."""

CACHE_SIZE: Final = 20_000

PRECEDING: Final = 16
"""Launches that an error record names."""

_COMMAND_TAIL = re.compile(
    r"(?: stream_id=(-?\d+), aic_num=(-?\d+) aiv_num=(-?\d+))?"
    r"(?: with)?(?: task_queue = (\d+))?:?"
)
_LOGGERS_BY_WORD: Final = {
    "enQueue": "torch_npu.dispatch.time",
    "get": "torch_npu.env",
}
_TELLING: Final = ("enQueue duration", "get env ")
_NO_ARGUMENTS: Final = "EXEC_GET_MAX_WORKSPACE_CMD"
"""The one command that prints none."""


class RecordBuilder:
    """Numbers the records and remembers what repeats in them."""

    def __init__(self, *, arguments: bool, index: int) -> None:
        """Start counting at an index."""
        self._index = index
        self._arguments = ArgumentParser() if arguments else None
        self._parse_message = MessageParser().parse
        self._tails: dict[str, Head] = {}
        self._names: dict[str, str] = {}
        self._origins: dict[str, LogOrigin] = {}
        self._operator_origins: dict[str, LogOrigin] = {}
        self._recent: dict[str | None, collections.deque[str]] = {}

    def build(
        self,
        found: re.Match[str],
        text: str,
        offset: int,
        truncated: str | None,
        lead: int = 0,
        source: str | None = None,
    ) -> LogRecord:
        """The record of a match of `grammar.RECORD`.

        Args:
            found: the match.
            text: the record as it is in the source.
            offset: position of its first byte.
            truncated: why the argument lines end early, where that is known.
            lead: length of what stands in front of the prefix.
            source: what stands there.
        """
        rest, before, after, name, command, tail, body, close, message = found.groups()
        origins = self._origins if name is None else self._operator_origins
        if rest is not None:
            key = text[lead] + rest
            origin = origins.get(key) or self._glog(key, name)
        else:
            key = before + after
            origin = origins.get(key) or self._bracket(before, after)
        if source:
            origin = evolve(origin, source=source)
        start = found.start(9 if name is None else 4) - found.start() + lead
        if not text.isascii():
            start = len(decoded(text[:start]))
            text = decoded(text)
        head: Head = {
            "index": self._index,
            "offset": offset,
            "text": text,
            "start": start,
            "origin": origin,
        }
        self._index += 1
        if name is None:
            if message[-1:] == "\r":
                message = message[:-1]
            # Most messages begin with a capital letter.
            if message[:1] in "eg" and message.startswith(_TELLING):
                head["origin"] = self._by_message(origin, message)
            record = self._parse_message(message, head)
            if type(record) is AsyncErrorRecord:
                return self._with_launches(record)
            return record
        known = self._names.get(name) or self._name(name)
        if truncated is None and close != "\n":
            truncated = _truncation(command, body, close)
        if command == "exec aten":
            return OpPluginCall(
                name=known,
                arguments=self._parse(body, close),
                truncated=truncated,
                **head,
            )
        if command == "Detail info":
            details = self._details(body, close)
            return DetailRecord(
                name=known, details=details, truncated=truncated, **head
            )
        values = self._tails.get(tail) or self._tail(tail)
        self._launched(origin.source, known)
        return AclnnRecord(
            name=known,
            command=command,
            arguments=self._parse(body, close),
            truncated=truncated,
            **values,
            **head,
        )

    def other(self, line: str, offset: int, lead: int, source: str | None) -> LogRecord:
        """The record of a line that does not begin as torch_npu's lines do."""
        origin = LogOrigin()
        if found := PLOG_LINE.match(line, lead):
            origin = plog_origin(found)
        elif found := TORCH_LINE.match(line, lead):
            origin = torch_origin(found)
        if source:
            origin = evolve(origin, source=source)
        if found:
            lead = found.end()
        head: Head = {
            "index": self._index,
            "offset": offset,
            "text": decoded(line),
            "start": len(decoded(line[:lead])),
            "origin": origin,
        }
        self._index += 1
        message = line[lead:].rstrip('"\r\n')
        if origin.style is LogStyle.PLOG:
            if found and found[8] and message.startswith("Op "):
                message = f"{found[8]}: {message}"
            return self._with_launches(self._parse_message(message, head))
        return self._with_launches(warning(message, head))

    def _glog(self, key: str, name: str | None) -> LogOrigin:
        if len(self._origins) >= CACHE_SIZE:
            self._origins.clear()
        origin = self._origins[key] = glog_origin(key[0], key[1:])
        if name is None:
            return origin
        if origin.logger is None:
            # Launches come without a file; only op-plugin's macros write the words.
            origin = evolve(origin, logger="torch_npu.op_plugin")
        if len(self._operator_origins) >= CACHE_SIZE:
            self._operator_origins.clear()
        self._operator_origins[key] = origin
        return origin

    def _bracket(self, before: str, after: str) -> LogOrigin:
        if len(self._origins) >= CACHE_SIZE:
            self._origins.clear()
        origin = self._origins[before + after] = bracket_origin(before, after)
        self._operator_origins[before + after] = origin
        return origin

    def _by_message(self, origin: LogOrigin, message: str) -> LogOrigin:
        """Some loggers share a file with others; then the words decide."""
        if origin.style is not LogStyle.GLOG or origin.logger is None:
            return origin
        words = message.partition(" ")[0]
        key = f"{words} {hash(origin)}"
        if key not in self._origins:
            logger = _LOGGERS_BY_WORD[words]
            self._origins[key] = evolve(origin, logger=logger)
        return self._origins[key]

    def _launched(self, source: str | None, name: str) -> None:
        recent = self._recent.get(source)
        if recent is None:
            recent = self._recent[source] = collections.deque(maxlen=PRECEDING)
        recent.append(name)

    def _with_launches(self, record: LogRecord) -> LogRecord:
        """An error record with the launches before it; other records as they are."""
        if type(record) is not AsyncErrorRecord:
            return record
        return evolve(
            record, preceding=tuple(self._recent.get(record.origin.source, ()))
        )

    def _parse(self, body: str, close: str | None) -> tuple[LoggedArgument, ...] | None:
        if self._arguments is None:
            return None
        return tuple(map(self._arguments.parse, _lines(body, close)))

    def _details(
        self, body: str, close: str | None
    ) -> tuple[tuple[str, str], ...] | None:
        if self._arguments is None:
            return None
        parted = (each.partition(": ") for each in _lines(body, close))
        return tuple((decoded(name), decoded(rest)) for name, _, rest in parted)

    def _name(self, raw: str) -> str:
        if len(self._names) >= CACHE_SIZE:
            self._names.clear()
        name = self._names[raw] = decoded(raw)
        return name

    def _tail(self, raw: str) -> Head:
        if len(self._tails) >= CACHE_SIZE:
            self._tails.clear()
        found = _COMMAND_TAIL.fullmatch(raw)
        numbers = found.groups() if found else (None,) * 4
        keys = ("stream", "aic_num", "aiv_num", "task_queue")
        fields: Head = {
            key: None if number is None else int(number)
            for key, number in zip(keys, numbers, strict=True)
        }
        self._tails[raw] = fields
        return fields


def _lines(body: str, close: str | None) -> list[str]:
    if close and len(close) > 2:  # noqa: PLR2004 - longer than a line end: an argument
        body += close
    if "\r" in body:
        body = body.replace("\r\n", "\n")
    lines = body.split("\n")
    lines.pop()
    return lines


def _truncation(command: str, body: str, close: str | None) -> str | None:
    if close is None:
        if not body and command == _NO_ARGUMENTS:
            return None
        return "no closing line"
    if len(close) > 2:  # noqa: PLR2004 - longer than a line end: an argument
        return "cut at a NUL byte"
    return None
