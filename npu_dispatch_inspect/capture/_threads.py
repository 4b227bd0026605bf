# SPDX-License-Identifier: BSD-3-Clause
"""Threads that are started inside a traced block, and processes that fork there.

While a tracer is active, `threading.Thread.start` is a function of ours: it gives
the new thread an engine of its own, or counts it, so that the trace can say what
it has not seen. Threads that are not Python's (autograd's pools) do not pass here.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable
from typing import Any, Protocol

from npu_dispatch_inspect.capture._scopes import new_thread, thread_ended

__all__ = ["Follower", "follow", "leave"]


class _Engine(Protocol):
    def start(self) -> None: ...
    def stop(self) -> Any: ...


class Follower:
    """What one traced block wants of the threads started inside it.

    Args:
        make_engine: makes the engine of a new thread; None only counts threads.
        note: takes a sentence for the trace.
        in_child: called in a process that was forked inside the block.
        new_thread: called on each new thread that gets an engine.
    """

    def __init__(
        self,
        *,
        make_engine: Callable[[], _Engine] | None,
        note: Callable[[str], None],
        in_child: Callable[[], None],
        new_thread: Callable[[], None],
    ) -> None:
        self._new_thread = new_thread
        self._make_engine = make_engine
        self._note = note
        self._in_child = in_child
        self._starters = {threading.get_ident()}
        self._started = 0
        self._running = 0
        self._closed = False

    def sees(self, thread: int) -> bool:
        """True where what a thread starts belongs to the block."""
        return thread in self._starters

    def engine(self) -> _Engine | None:
        """The engine of one more thread; None where it is only counted."""
        self._started += 1
        return None if self._make_engine is None else self._make_engine()

    def begun(self) -> bool:
        """A thread of this block begins to run; False after the block has ended."""
        if self._closed:
            return False
        self._new_thread()
        self._starters.add(threading.get_ident())
        self._running += 1
        return True

    def ended(self) -> None:
        """A thread of this block has run."""
        self._starters.discard(threading.get_ident())
        self._running -= 1

    def close(self) -> None:
        """The block ends: say what was not seen."""
        self._closed = True
        if self._make_engine is None and self._started:
            self._note(
                f"{_threads(self._started)} started inside the block; the calls made "
                'there are not in this trace (threads="all" records them).'
            )
        elif self._running:
            self._note(
                f"{_threads(self._running)} still running when the block ended; "
                "later calls made there are not in this trace."
            )

    def forked(self, *, child: bool) -> None:
        """The process has forked inside the block."""
        if child:
            self._closed = True
            self._in_child()
            self._note("Recording ended where this process was forked.")
        else:
            self._note(
                "The process was forked inside the block; the calls of the child are "
                "not in this trace."
            )


def _threads(count: int) -> str:
    return "1 thread was" if count == 1 else f"{count} threads were"


_followers: tuple[Follower, ...] = ()
_lock = threading.Lock()
_plain_start = threading.Thread.start


def follow(follower: Follower) -> None:
    """Begin to follow; see `leave`."""
    global _followers, _plain_start  # noqa: PLW0603 - one patch for the process
    with _lock:
        if not _followers:
            _plain_start = threading.Thread.start
            threading.Thread.start = _start  # type: ignore[method-assign]
        _followers = (*_followers, follower)


def leave(follower: Follower) -> None:
    """End `follow`; the last one puts the library's own `start` back."""
    global _followers  # noqa: PLW0603 - as above
    with _lock:
        _followers = tuple(each for each in _followers if each is not follower)
        if not _followers and threading.Thread.start is _start:
            threading.Thread.start = _plain_start  # type: ignore[method-assign]
    follower.close()


def _start(self: threading.Thread) -> None:
    here = threading.get_ident()
    engines = []
    for each in _followers:
        if each.sees(here):
            engine = each.engine()
            if engine is not None:
                engines.append((each, engine))
    if not engines:
        _plain_start(self)
        return
    before = vars(self).get("_bootstrap")
    # On the instance, for this one start. Not its `run`: an exception of the program's
    # is caught and shown below `_bootstrap`, so that our frames are not in it.
    thread, bootstrap = weakref.ref(self), self._bootstrap  # type: ignore[attr-defined]

    def traced() -> None:
        _restore(thread(), before)
        _run(bootstrap, engines)

    self._bootstrap = traced  # type: ignore[attr-defined]
    try:
        _plain_start(self)
    except BaseException:
        _restore(self, before)
        raise


def _restore(thread: threading.Thread | None, before: Any) -> None:
    if thread is None:
        return
    if before is None:
        vars(thread).pop("_bootstrap", None)
    else:
        thread._bootstrap = before  # type: ignore[attr-defined]


def _run(run: Callable[[], None], engines: list[tuple[Follower, _Engine]]) -> None:
    active = []
    new_thread()
    try:
        for follower, engine in engines:
            if follower.begun():
                active.append((follower, engine))
                engine.start()
        run()
    finally:
        for follower, engine in reversed(active):
            engine.stop()
            follower.ended()
        thread_ended()


def _after_fork(*, child: bool) -> None:
    for each in _followers:
        each.forked(child=child)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        after_in_parent=lambda: _after_fork(child=False),
        after_in_child=lambda: _after_fork(child=True),
    )
