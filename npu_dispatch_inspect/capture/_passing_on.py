# SPDX-License-Identifier: BSD-3-Clause
"""Brings what a program wrote from the captured stream to where it was meant to go."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import select
from typing import Final

from npu_dispatch_inspect.npu_logs.passing import split_foreign

__all__ = ["CHUNK", "PassingOn", "out_of_the_way"]

CHUNK: Final = 1 << 20
_FIRST: Final = 700
"""Our descriptors' first number: far from the program's, and `select` takes it."""
_MAY_BEGIN = re.compile(rb"[VIWEF](?:\d|\Z)|\[(?:\Z|r|\d*(?:[\]-]|\Z))")
"""Where in a line without an end a record of torch_npu may have begun."""


def out_of_the_way(descriptor: int) -> int:
    """The same with a number that the program's own do not reach.

    A program finds its descriptors as without us, and one that closes all that it does
    not know is not given ours again as one of its own.

    Args:
        descriptor: is used up.
    """
    with contextlib.suppress(OSError):  # the limit may be lower
        moved = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, _FIRST)
        os.close(descriptor)
        return moved
    return descriptor


class PassingOn:
    """Passes the program's own bytes on, in order, each once.

    Args:
        file: the captured stream, read by position.
        target: where the bytes go; None for nowhere.
    """

    def __init__(self, file: int, target: int | None) -> None:
        self.file = file
        self.target = target
        self.passed = 0
        """How many bytes of the stream are done with."""
        self.kept: list[tuple[int, int]] = []
        """Stretches that are passed on whole, torch_npu's lines as well."""
        self.problems: list[str] = []

    def pass_on(
        self, *, last: bool, limit: int | None = None, open_lines: bool = False
    ) -> None:
        """Write what came since the last time.

        Args:
            last: nothing follows.
            limit: go so far at most; None for all that is there.
            open_lines: also what is there of a line without an end, where no record
                of torch_npu can have begun in it.
        """
        rest = b""
        while True:
            place = self.passed + len(rest)
            room = CHUNK if limit is None else min(CHUNK, limit - place)
            try:
                chunk = os.pread(self.file, room, place) if room > 0 else b""
            except OSError as error:
                self.problems.append(
                    f"What was captured could not be read: {error.strerror}."
                )
                return
            data = rest + chunk
            ended = not chunk
            if ended and not (last and data):
                break
            foreign, done = self._foreign(data, last=ended)
            for part in foreign:
                self._write(part)
            self.passed += done
            rest = data[done:]
            if ended:
                break
        if open_lines and rest and b"\n" not in rest:
            begun = _MAY_BEGIN.search(rest)
            ready = rest if begun is None else rest[: begun.start()]
            self._write(ready)
            self.passed += len(ready)

    def _foreign(self, data: bytes, *, last: bool) -> tuple[list[bytes], int]:
        """As `split_foreign`, with the stretches that are passed on whole."""
        begin = self.passed
        for start, end in self.kept:
            if start <= begin < end:
                whole = data[: end - begin]
                return [whole], len(whole)
            if begin < start < begin + len(data):
                foreign, _ = split_foreign(data[: start - begin], last=True)
                return foreign, start - begin
        return split_foreign(data, last=last)

    def _write(self, data: bytes) -> None:
        if self.target is None:
            return
        view = memoryview(data)
        while view:
            try:
                view = view[os.write(self.target, view) :]
            except BlockingIOError:
                select.select([], [self.target], [])
            except OSError as error:
                self.problems.append(
                    f"Standard error did not take what was written: {error.strerror}."
                )
                return
