# SPDX-License-Identifier: BSD-3-Clause
"""Records whose every line a launcher put something in front of.

Launchers mix the output of several processes line by line, so the lines of one
record may lie far apart; they are collected per source until the record ends.
"""

from __future__ import annotations

from attrs import Factory, define

from npu_dispatch_inspect.npu_logs.grammar import ARGUMENT_LINE, CLOSING_LINE

__all__ = ["OpenRecord", "WrappedLines"]


@define
class OpenRecord:
    """The lines of a record that has not ended yet."""

    lead: int
    """Length of what stands in front of the head line."""
    raw: str = ""
    """The lines as they are in the source."""
    inner: str = ""
    """The lines as torch_npu wrote them."""
    runs: list[tuple[int, int]] = Factory(list)

    def add(self, raw: str, inner: str, offset: int) -> None:
        """Take one more line."""
        self.raw += raw
        self.inner += inner
        if self.runs and sum(self.runs[-1]) == offset:
            self.runs[-1] = (self.runs[-1][0], self.runs[-1][1] + len(raw))
        else:
            self.runs.append((offset, len(raw)))


class WrappedLines:
    """The open record of each source."""

    def __init__(self) -> None:
        """Start with none."""
        self._open: dict[str, OpenRecord] = {}
        self.known: set[str] = set()
        """Sources that torch_npu wrote to."""

    def begin(self, source: str, raw: str, lead: int, offset: int) -> None:
        """The head line of a record that argument lines may follow."""
        self.known.add(source)
        record = self._open[source] = OpenRecord(lead=lead)
        record.add(raw, raw[lead:], offset)

    def add(self, source: str, raw: str, inner: str, offset: int) -> tuple[bool, bool]:
        """Give a line to the source's open record, if it has one.

        Returns:
            Whether the record took it, and whether the record has ended.
        """
        record = self._open.get(source)
        if record is None:
            return False, False
        closing = CLOSING_LINE.fullmatch(inner) is not None
        if not closing and not ARGUMENT_LINE.fullmatch(inner):
            return False, True
        record.add(raw, inner, offset)
        return True, closing

    def take(self, source: str) -> OpenRecord | None:
        """The source's record, which has ended."""
        return self._open.pop(source, None)

    def sources(self) -> list[str]:
        """Sources with an open record."""
        return list(self._open)
