# SPDX-License-Identifier: BSD-3-Clause
"""Standard error as a file, for as long as somebody wants to read it.

torch_npu writes to file descriptor 2 from several threads. While a capture is
on, descriptor 2 is a temporary file; a pipe would block the program as soon as
nobody empties it. All captures of a process share one file and remember where
in it their block began and ended, so they nest in any order.

`position` is for tracers: where the stream is before and after a call tells
which of its lines the call wrote.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import errno
import fcntl
import os
import resource
import sys
import tempfile
import threading
from collections.abc import Callable
from typing import Final, NamedTuple, Protocol

from npu_dispatch_inspect.capture._cerr import revive
from npu_dispatch_inspect.capture._children import children
from npu_dispatch_inspect.capture._follower import Follower, current
from npu_dispatch_inspect.capture._passing_on import (
    CHUNK,
    PassingOn,
    out_of_the_way,
)

__all__ = [
    "STREAM_BITS",
    "CallSpan",
    "Reading",
    "Stream",
    "Tracer",
    "active",
    "follow_calls",
    "position",
    "unfollow_calls",
]

STDERR: Final = 2
STREAM_BITS: Final = 48
"""A position is the number of a stream and, in so many bits, a place in it."""
ROOM: Final = 1 << 16
"""Bytes that the file must take, else it counts as full."""


class CallSpan(NamedTuple):
    """Where in the captured stream one call's lines are."""

    start: int
    end: int | None
    """None while the call runs, and where it never returned."""
    op: int
    """Index of the call in its trace."""
    thread: int


class Tracer(Protocol):
    """Something that notes positions while the stream is captured."""

    def call_spans(self) -> list[CallSpan] | None:
        """The calls so far; None where it did not note where they end."""


active: list[Stream] = []
"""The stream that is on, if there is one; a list so that tracers can test it fast."""

_lock = threading.RLock()
_late: list[Stream] = []
"""Streams that another process may still write to."""
_tracers: list[Tracer] = []
_generation = 0


def position() -> int | None:
    """Where the captured stream is now, None where nothing is captured.

    Positions of different streams never meet, so that two of them are only
    equal where nothing was written in between.
    """
    try:
        stream = active[0]
        return stream.base + os.lseek(stream.end_of_file, 0, os.SEEK_END)
    except (IndexError, OSError):
        # Another thread may end the capture at any moment.
        return None


def follow_calls(tracer: Tracer) -> None:
    """A tracer begins to note positions: captures will ask it for its calls."""
    with _lock:
        _tracers.append(tracer)
        for stream in active:
            stream.note_tracer(tracer)


def unfollow_calls(tracer: Tracer) -> None:
    """A tracer has ended; captures that met it keep it."""
    with _lock, contextlib.suppress(ValueError):
        _tracers.remove(tracer)


class Stream:
    """One redirection of standard error, shared by the captures that are on."""

    def __init__(self) -> None:
        """Point descriptor 2 to a new file.

        Raises:
            OSError: there is no room for it.
        """
        global _generation  # noqa: PLW0603 - one count for the process
        _generation += 1
        self.base = _generation << STREAM_BITS
        self.process = os.getpid()
        self.readings: list[Reading] = []
        self.full = False
        self.children_before = children() - {0}
        self.waiting: frozenset[int] = frozenset()
        """Children from inside the blocks, which may still write to the file."""
        _flush()
        with tempfile.TemporaryFile(buffering=0) as file:
            # Above the three standard ones, also where those are closed.
            number = fcntl.fcntl(file.fileno(), fcntl.F_DUPFD_CLOEXEC, STDERR + 1)
        self.file = out_of_the_way(number)
        # Whoever inherits the stream has a share in this lock: the follower sees by it
        # that somebody may still write.
        with contextlib.suppress(OSError):
            fcntl.flock(self.file, fcntl.LOCK_SH)
        # Every writer appends, also one that opens the file by another way.
        flags = fcntl.fcntl(self.file, fcntl.F_GETFL)
        fcntl.fcntl(self.file, fcntl.F_SETFL, flags | os.O_APPEND)
        if self.room() < ROOM:
            os.close(self.file)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        # Opened anew: writers hold a lock on the position of what they share.
        try:
            number = os.open(f"/proc/self/fd/{self.file}", os.O_RDONLY)
        except OSError:
            number = os.dup(self.file)
        self.end_of_file = out_of_the_way(number)
        try:
            self.original: int | None = out_of_the_way(os.dup(STDERR))
        except OSError:
            self.original = None
        self.passing = PassingOn(self.file, self.original)
        self.problems = self.passing.problems
        self.follower = self._followed_by()
        os.dup2(self.file, STDERR)

    def _followed_by(self) -> Follower | None:
        """The process that passes on as it comes, where there is one."""
        for each in current:
            if self.original is not None and each.follow(self.file, self.original):
                return each
        return None

    def hold(self, start: int) -> None:
        """From here on it is not known yet what is passed on."""
        if self.follower is not None:
            self.follower.hold(start)

    def keep(self, start: int, end: int) -> None:
        """Pass this stretch on whole."""
        self.passing.kept.append((start, end))
        if self.follower is not None:
            self.follower.release(start, end)

    def room(self) -> int:
        """How many bytes the file still takes."""
        found = os.fstatvfs(self.file)
        limit, _ = resource.getrlimit(resource.RLIMIT_FSIZE)
        room = found.f_bavail * found.f_frsize
        if limit != resource.RLIM_INFINITY:
            room = min(room, limit - os.fstat(self.file).st_size)
        return room

    def note_tracer(self, tracer: Tracer) -> None:
        """Every capture that is on will ask this tracer for its calls."""
        for reading in self.readings:
            if tracer not in reading.tracers:
                reading.tracers.append(tracer)

    def end(self) -> None:
        """Give descriptor 2 back and pass on what the program wrote."""
        if os.getpid() != self.process:
            # A forked child: its parent passes on what is in the file.
            self._restore()
            return
        if self.follower is not None:
            self.passing.passed = self.follower.stop()
        self.passing.pass_on(last=False)
        self._restore()
        self.passing.pass_on(last=True)
        if self.full:
            revive()
        # A child that was there before has another file as its standard error.
        self.waiting = children() - self.children_before
        if self._followed_further():
            self.close()
        elif self.waiting:
            _late.append(self)
        else:
            self.close()

    def _followed_further(self) -> bool:
        """Whether the follower passes on what others still write."""
        if self.follower is None or self.original is None:
            return False
        return self.follower.go_on(self.file, self.original, self.passing.passed)

    def _restore(self) -> None:
        if not _same_file(STDERR, self.file):
            # Somebody has redirected it meanwhile and will put our file back.
            self.problems.append(
                "Standard error was redirected inside the block and not put back."
            )
            return
        if self.original is None:
            os.close(STDERR)
        else:
            os.dup2(self.original, STDERR)

    def drain(self) -> None:
        """Pass on what other processes wrote after the end."""
        if os.getpid() == self.process:
            self.passing.pass_on(last=True)

    def close(self) -> None:
        """Let go of the file, for captures have read their part."""
        for each in (self.original, self.end_of_file, self.file):
            # A program that closes all it does not know has closed them as well.
            if each is not None:
                with contextlib.suppress(OSError):
                    os.close(each)
        self.original = self.passing.target = None


class Reading:
    """The part of the stream that belongs to one capture.

    Args:
        keep: pass torch_npu's lines on as well.
    """

    def __init__(self, *, keep: bool = False) -> None:
        self.tracers: list[Tracer] = []
        self.problems: list[str] = []
        self.start = self.stop = 0
        self.base = 0
        """What to add to an offset in this part to have a `position`."""
        self._keep = keep
        self._stream: Stream | None = None
        self._data: bytes | None = None

    def begin(self) -> None:
        """Redirect standard error, or join the redirection that is on."""
        with _lock:
            _drain_late()
            if active and not _same_file(STDERR, active[0].file):
                self.problems.append(
                    "Standard error was redirected inside an outer capture: "
                    "that capture does not see the lines of this one."
                )
                active.clear()
            if not active:
                try:
                    active.append(Stream())
                except OSError as error:
                    self.problems.append(
                        f"Nothing was captured, there is no temporary file: {error.strerror}."
                    )
                    self._data = b""
                    return
            else:
                _flush()
            stream = self._stream = active[0]
            self.start = self._size()
            if self._keep:
                stream.hold(self.start)
            self.base = stream.base + self.start
            stream.readings.append(self)
            self.tracers = list(_tracers)

    def end(self) -> None:
        """Take what was written; the last reader gives standard error back."""
        with _lock:
            stream = self._stream
            if stream is None:
                return
            _flush()
            try:
                self._take(stream)
            except OSError as error:
                self._data = b""
                self.problems.append(
                    "The program closed the captured stream, its lines are lost: "
                    f"{error.strerror}."
                )
            if self._keep:
                stream.keep(self.start, self.stop)
            stream.readings.remove(self)
            if not stream.readings:
                if stream in active:
                    active.remove(stream)
                stream.end()
            self.problems += stream.problems
            self._stream = None

    def _take(self, stream: Stream) -> None:
        """Keep what was written in the block."""
        self.stop = self._size()
        if stream.room() < ROOM:
            stream.full = True
            self.problems.append("The temporary file is full: later lines are lost.")
        self._data = self.read()

    def read(self) -> bytes:
        """What was written so far."""
        if self._data is not None:
            return self._data
        stream = self._stream
        assert stream is not None
        pieces = []
        place, stop = self.start, self.stop or self._size()
        while place < stop:
            piece = os.pread(stream.file, min(CHUNK, stop - place), place)
            if not piece:
                break
            pieces.append(piece)
            place += len(piece)
        return b"".join(pieces)

    def _size(self) -> int:
        assert self._stream is not None
        return os.lseek(self._stream.end_of_file, 0, os.SEEK_END)


def _flush() -> None:
    """Bring to the descriptor what Python and C have not written yet."""
    with contextlib.suppress(Exception):
        sys.stderr.flush()
    with contextlib.suppress(Exception):
        _c_flush()(None)


def _c_flush() -> Callable[[None], int]:
    flush: Callable[[None], int] = ctypes.CDLL(None).fflush
    return flush


def _same_file(first: int, second: int) -> bool:
    try:
        return os.path.sameopenfile(first, second)
    except OSError:
        return False


def _drain_late() -> None:
    alive = children() if _late else frozenset()
    for stream in list(_late):
        stream.drain()
        if not stream.waiting & alive:
            stream.close()
            _late.remove(stream)


@atexit.register
def _drain_at_exit() -> None:
    with _lock:
        _drain_late()


def _after_fork() -> None:
    global _lock  # noqa: PLW0603 - whoever held it is not in the child
    _lock = threading.RLock()
    _late.clear()


os.register_at_fork(after_in_child=_after_fork)
