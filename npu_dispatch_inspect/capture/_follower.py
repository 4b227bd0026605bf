# SPDX-License-Identifier: BSD-3-Clause
"""A process that passes on, as it comes, what an inspected program writes.

While a capture is on, standard error is a file. Without this process the program's
own lines would come at the end of the capture, and where the program is killed, they
would not come at all.

It is nobody's child, so that a program that waits for its children does not meet it,
in a session of its own, so that a signal to the program's group does not end it, and
it ends with the last process that can still write to the stream: usually the program.
"""

from __future__ import annotations

import contextlib
import fcntl
import mmap
import os
import select
import signal
import socket
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from npu_dispatch_inspect.capture._passing_on import PassingOn, out_of_the_way

__all__ = ["Follower", "current", "following"]

PAUSE: Final = 0.05
"""Seconds between two looks at the stream."""
_MESSAGE: Final = 64
_PLACE: Final = struct.Struct("=q")

current: list[Follower] = []
"""The follower of this process, if there is one."""


@contextlib.contextmanager
def following() -> Iterator[None]:
    """Have a follower for what is captured inside the block."""
    follower = Follower.start()
    if follower is None:
        yield
        return
    current.append(follower)
    try:
        yield
    finally:
        current.remove(follower)
        follower.close()


class Follower:
    """The program's end of the connection."""

    def __init__(self, connection: socket.socket, place: mmap.mmap) -> None:
        # Where the program's own descriptors do not come: one that closes all it does
        # not know may get the same number again.
        self._connection = socket.socket(fileno=out_of_the_way(connection.detach()))
        self._place = place
        self._process = os.getpid()
        self._busy = False

    @classmethod
    def start(cls) -> Follower | None:
        """Start the process; None where the system does not let us.

        To be called while there are no other threads: it forks.
        """
        if os.getpid() == 1 or not Path("/proc/self/fd").is_dir():
            # The first process of a container is the parent of all orphans.
            return None
        try:
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        except OSError:
            return None
        place = mmap.mmap(-1, _PLACE.size)
        program = os.getpid()
        try:
            child = os.fork()
        except OSError:
            ours.close()
            theirs.close()
            return None
        if child == 0:
            try:
                if os.fork() == 0:
                    _serve(theirs, place, program)
            finally:
                os._exit(0)
        theirs.close()
        os.waitpid(child, 0)
        return cls(ours, place)

    def follow(self, file: int, target: int) -> bool:
        """Pass on what comes in a file from its beginning; False where it cannot.

        Args:
            file: the captured stream.
            target: where the program's bytes go.
        """
        if self._busy or os.getpid() != self._process:
            return False
        self._place[:] = _PLACE.pack(0)
        try:
            self._send(b"follow", [file, target])
        except OSError:
            return False
        self._busy = True
        return True

    def hold(self, start: int) -> None:
        """Wait at a place: what follows is to be passed on whole, or not."""
        self._tell(f"hold {start}")

    def release(self, start: int, end: int) -> None:
        """Pass on whole what lies between the places, and go on."""
        self._tell(f"release {start} {end}")

    def stop(self) -> int:
        """Have all passed on that can be, and know how far that is."""
        self._busy = False
        self._tell("stop")
        # It answers when it is done, or has ended: the place is known in any case.
        with contextlib.suppress(OSError):
            self._connection.recv(_MESSAGE)
        place: int = _PLACE.unpack(self._place[:])[0]
        return place

    def go_on(self, file: int, target: int, place: int) -> bool:
        """Pass on what other processes still write, from a place on, to their end."""
        if os.getpid() != self._process:
            return False
        try:
            self._send(f"go_on {place}".encode(), [file, target])
        except OSError:
            return False
        return True

    def close(self) -> None:
        """Let it end."""
        with contextlib.suppress(OSError):
            self._connection.close()

    def _tell(self, message: str) -> None:
        if os.getpid() == self._process:
            with contextlib.suppress(OSError):
                self._send(message.encode())

    def _send(self, message: bytes, files: Sequence[int] = ()) -> None:
        # No signal where it has ended: a program may have made SIGPIPE deadly again.
        socket.send_fds(self._connection, [message], files, socket.MSG_NOSIGNAL)


def _serve(connection: socket.socket, place: mmap.mmap, program: int) -> None:
    """Follow until the program has ended."""
    os.setsid()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, signal.SIG_IGN)
    _let_go_of_files(connection.fileno())
    serving = _Serving(connection, place, program)
    while serving.step():
        pass
    # The connection ends with the program's memory: it may have become another
    # program, or left some behind, which still write to the stream.
    while serving.somebody_writes():
        serving.look()
        select.select([], [], [], PAUSE)
    serving.finish()


class _Serving:
    """The follower's own state."""

    def __init__(
        self, connection: socket.socket, place: mmap.mmap, program: int
    ) -> None:
        self._connection = connection
        self._place = place
        self._program = program
        self._stream: PassingOn | None = None
        self._left: list[PassingOn] = []
        """Streams that the program has done with and others have not."""
        self._held: list[int] = []
        """Where stretches begin of which the end is not known."""

    def step(self) -> bool:
        """Look at the stream and take one message; False when none will come."""
        pause = PAUSE if self._stream is not None or self._left else None
        ready, _, _ = select.select([self._connection], [], [], pause)
        # Before the messages: they tell what to do with what is there by now.
        size = self._size()
        while ready:
            try:
                message, files, _, _ = socket.recv_fds(self._connection, _MESSAGE, 2)
            except OSError:
                return False
            if not message:
                return False
            self._take(message.decode().split(), files)
            ready, _, _ = select.select([self._connection], [], [], 0)
        self.look(size)
        return True

    def look(self, size: int | None = None) -> None:
        """Pass on what is there, up to a size of the stream and to what is held."""
        for left in list(self._left):
            done = not self._written_to(left)
            left.pass_on(last=done, open_lines=True)
            if done:
                self._left.remove(left)
                _close(left)
        stream = self._stream
        if stream is None:
            return
        limit = min([self._size() if size is None else size, *self._held])
        if limit > stream.passed:
            stream.pass_on(last=False, limit=limit, open_lines=True)
            self._note()

    def somebody_writes(self) -> bool:
        """Whether a process is left that can."""
        streams = self._left if self._stream is None else [*self._left, self._stream]
        return any(self._written_to(each) for each in streams)

    def _written_to(self, stream: PassingOn) -> bool:
        """Whether a process has the stream open: it shares the lock of its opener."""
        try:
            fcntl.flock(stream.file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        except OSError:  # a file system without locks
            return _runs(self._program)
        fcntl.flock(stream.file, fcntl.LOCK_UN)
        return False

    def finish(self) -> None:
        """Pass on all that is left; what was held is passed on whole."""
        self.look()
        stream = self._stream
        if stream is not None:
            stream.kept += [(start, 1 << 62) for start in self._held]
            stream.pass_on(last=True)
            self._note()

    def _take(self, words: list[str], files: list[int]) -> None:
        if words[0] == "follow":
            self._stream = PassingOn(_opened_anew(files[0]), files[1])
            self._held = []
            return
        if words[0] == "go_on":
            left = PassingOn(_opened_anew(files[0]), files[1])
            left.passed = int(words[1])
            self._left.append(left)
            return
        stream = self._stream
        if stream is None:
            return
        if words[0] == "hold":
            self._held.append(int(words[1]))
        elif words[0] == "release":
            start, end = int(words[1]), int(words[2])
            if start in self._held:
                self._held.remove(start)
            stream.kept.append((start, end))
        elif words[0] == "stop":
            self.look()
            self._stream = None
            _close(stream)
            with contextlib.suppress(OSError):
                self._connection.send(b"done")

    def _note(self) -> None:
        assert self._stream is not None
        self._place[:] = _PLACE.pack(self._stream.passed)

    def _size(self) -> int:
        return 0 if self._stream is None else os.fstat(self._stream.file).st_size


def _opened_anew(file: int) -> int:
    """The same file without a share in its lock; the descriptor is used up."""
    try:
        own = os.open(f"/proc/self/fd/{file}", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return file
    os.close(file)
    return own


def _close(stream: PassingOn) -> None:
    for each in (stream.file, stream.target):
        if each is not None:
            os.close(each)


def _let_go_of_files(kept: int) -> None:
    """Close what was inherited: whoever reads a pipe of ours waits for its end."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(nowhere, standard)
    for name in os.listdir("/proc/self/fd"):
        number = int(name)
        if number > 2 and number != kept:  # noqa: PLR2004 - the standard ones
            with contextlib.suppress(OSError):
                os.close(number)


def _runs(process: int) -> bool:
    """Whether a process is there and has not ended."""
    try:
        state = Path(f"/proc/{process}/stat").read_bytes().rpartition(b") ")[2][:1]
    except OSError:
        return False
    return state not in (b"Z", b"X")
