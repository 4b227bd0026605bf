# SPDX-License-Identifier: BSD-3-Clause
"""Which recorders see the calls of which thread.

A thread that enters a tracer has a `Seen` of its own. The threads on which
autograd runs its backward pass get the same object together with the rest of
torch's thread state, so their calls are recorded with those of the thread that
asked for the pass. A plain `threading.Thread` gets neither.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, Protocol

import torch

from npu_dispatch_inspect._torch_private import modes, redispatch

__all__ = [
    "CallRecorder",
    "Calls",
    "Seen",
    "calls_here",
    "hidden",
    "seen_here",
    "switch_on",
    "thread",
    "told",
]

_LEFT_AS = "npu_dispatch_inspect.dispatcher_hook"


class CallRecorder(Protocol):
    """What a hook tells about calls; the methods are fetched once per block.

    ``end`` may be given a token whose inner calls never ended (an interrupt can
    fall between any two instructions), and must not keep the result.
    """

    @property
    def begin(self) -> Callable[[Any, tuple[Any, ...], dict[str, Any], int], Any]:
        """``begin(op, args, kwargs, keyset) -> token``, before the call."""

    @property
    def end(self) -> Callable[[Any, Any], None]:
        """``end(token, result)``, after a call that returned."""

    @property
    def fail(self) -> Callable[[Any, BaseException], None]:
        """``fail(token, exception)``, after a call that raised."""


class Calls(NamedTuple):
    """What the kernels need of one recorder, or of several as if they were one."""

    begin: Callable[[Any, tuple[Any, ...], dict[str, Any], int], Any]
    end: Callable[[Any, Any], None]
    fail: Callable[[Any, BaseException], None]


class Seen:
    """The recorders that see one thread's calls."""

    __slots__ = ("_recorders", "calls", "hiding", "numbers")

    def __init__(self) -> None:
        """Begin with no recorder."""
        self._recorders: list[CallRecorder] = []
        self.calls: Calls | None = None
        """None where nobody looks."""
        self.hiding = 0
        """Above 0 in `hidden` blocks."""
        self.numbers: deque[torch.Tensor] = deque(maxlen=64)
        """Tensors that became Python numbers since the last call was looked at.
        Bounded, as a thread that nobody looks at never empties it."""

    def add(self, recorder: CallRecorder) -> None:
        """Show this thread's calls to one more recorder."""
        self._recorders.append(recorder)
        self._join()

    def remove(self, recorder: CallRecorder) -> None:
        """Show them to that one no longer."""
        self._recorders = [each for each in self._recorders if each is not recorder]
        self._join()

    def clear(self) -> None:
        """Show them to nobody."""
        self._recorders = []
        self._join()

    def _join(self) -> None:
        every = [Calls(each.begin, each.end, each.fail) for each in self._recorders]
        if len(every) > 1:
            self.calls = _as_one(every)
        else:
            self.calls = every[0] if every else None


class _Thread(threading.local):
    def __init__(self) -> None:
        self.seen = Seen()


thread = _Thread()
"""`thread.seen` is the calling thread's own `Seen`; empty on autograd's threads."""


def seen_here() -> Seen:
    """The recorders of the calling thread."""
    return thread.seen


def switch_on(seen: Seen, *, on: bool) -> None:
    """Let the calling thread's operators reach the kernels, or not."""
    redispatch.leave(_LEFT_AS, seen)
    redispatch.include_generic_key(on)


@contextmanager
def hidden() -> Iterator[None]:
    """A block of this thread whose calls reach no kernel, handlers included."""
    seen = thread.seen
    seen.hiding += 1
    try:
        with redispatch.exclude_generic_key():
            yield
    finally:
        seen.hiding -= 1


def calls_here() -> Calls | None:
    """What the next call of this thread is to be told to, None for nobody."""
    calls = thread.seen.calls
    if calls is None:
        left: Seen | None = redispatch.inherited(_LEFT_AS)
        if left is not None:
            calls = left.calls
    return calls


def told(run: Callable[[], Any], calls: Calls, *call: Any) -> Any:
    """Run something as one recorded call; the kernels have this written out.

    Args:
        run: does it.
        calls: whom to tell.
        *call: operator, positional arguments, keyword arguments, raw key set.
    """
    token = calls.begin(*call)
    try:
        result = run()
    except BaseException as error:
        calls.fail(token, error)
        raise
    calls.end(token, result)
    return result


def _as_one(every: list[Calls]) -> Calls:
    def begin(op: Any, args: tuple[Any, ...], kwargs: dict[str, Any], raw: int) -> Any:
        return [each.begin(op, args, kwargs, raw) for each in every]

    def end(tokens: Any, result: Any) -> None:
        for each, token in zip(every, tokens, strict=True):
            each.end(token, result)

    def fail(tokens: Any, error: BaseException) -> None:
        for each, token in zip(every, tokens, strict=True):
            each.fail(token, error)

    modes.hide_from_dynamo(begin, end, fail)
    return Calls(begin, end, fail)


def _forget_in_child() -> None:
    # A forked child has a copy of the rows that nobody will ever read, and may
    # have a copy of an open file. It runs on as if there were no tracer.
    seen = thread.seen
    if seen.calls is not None:
        seen.clear()
        redispatch.include_generic_key(False)  # noqa: FBT003 - a switch


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_in_child)
