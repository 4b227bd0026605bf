# SPDX-License-Identifier: BSD-3-Clause
"""The raw rows that one tracer fills, whichever engine feeds it.

A call becomes one row. `begin` makes and keeps it before the call runs (an
in-place call changes its inputs, and a call that never returns is there too);
`end` or `fail` fill in what came of it: see `_hot_path`. Everything else is done
when somebody looks, in `_build`.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from itertools import count
from operator import itemgetter
from time import perf_counter_ns

from npu_dispatch_inspect._torch_private import modes
from npu_dispatch_inspect.capture._frames import Sites
from npu_dispatch_inspect.capture._hot_path import full, names
from npu_dispatch_inspect.capture._rows import (
    DEPTH,
    FIXED,
    INDEX,
    Row,
    ThreadRows,
    Threads,
    Token,
    message_of,
    split,
)
from npu_dispatch_inspect.capture._scopes import top_scope
from npu_dispatch_inspect.capture._streams import CallSpan

__all__ = ["Recorder"]

ROOM = 1024 * FIXED
"""A thread's rows are handed on when they have so many fields."""
MAX_FAULTS = 100


class Recorder:
    """Raw rows, and the functions that make them.

    Args:
        detail: ``"full"`` or ``"names"`` (operator, phase and module only).
        nesting: a call that begins before another has ended is inside it.
            Without it, `enter` and `leave` say where a call's inside is seen.
        max_ops: stop recording after so many calls.
        drain: given a thread's rows whenever enough of them have gathered, and
            the rows that wait on other threads, to look at only. When it returns
            the first are forgotten here, so memory stays constant.
    """

    def __init__(
        self,
        *,
        detail: str = "full",
        nesting: bool = False,
        max_ops: int | None = None,
        drain: Callable[[list[Row], list[Row]], None] | None = None,
    ) -> None:
        self.sites = Sites()
        self.started_ns = perf_counter_ns()
        self.thread = top_scope(threading.get_ident()).thread
        self.first_node = modes.sequence_number()
        self.paused = 0
        self.closed = False
        """The block has ended: calls of threads that go on are not recorded."""
        self.truncated = False
        self.faults: list[str] = []
        """Calls that could not be described, a sentence each."""
        self.threads = Threads()
        self._ended = count(1)
        self._drain = drain
        self.forget: Callable[[], None] = lambda: None
        """Lets go of the program's tensors, once the block has ended."""
        self.limit = sys.maxsize if max_ops is None else max_ops
        self.room = sys.maxsize if drain is None else ROOM
        make = full if detail == "full" else names
        self.begin, self.end, self.fail = make(self, nesting=nesting)

    def close(self) -> None:
        """Record nothing from here on, on any thread."""
        if not self.closed:
            self.closed = True
            self.paused += 1

    def new_thread(self) -> None:
        """Keep this thread's rows apart from those of one with the same identity."""
        ended = self.threads.pop(threading.get_ident(), None)
        if ended is not None:
            # No thread has such an identity.
            self.threads[-next(self._ended)] = ended

    def rows(self) -> list[Row]:
        """The rows that are here, in the order in which the calls began."""
        return self._rows_but(None)

    def call_spans(self) -> list[CallSpan] | None:
        """Where in a captured log each call began and ended; see `_streams`.

        None where ends were not noted: a tracer of names only that began before
        any capture.
        """
        if self.end is None:
            return None
        spans = []
        for thread, state in list(self.threads.items()):
            begun: dict[int, int] = {}
            for index, place in list(state.places):
                if place is None:
                    continue
                if index >= 0:
                    begun[index] = place
                elif ~index in begun:
                    spans.append(CallSpan(begun.pop(~index), place, ~index, thread))
            spans += [CallSpan(begun[each], None, each, thread) for each in begun]
        return spans

    def _rows_but(self, left_out: ThreadRows | None) -> list[Row]:
        found: list[Row] = []
        for state in list(self.threads.values()):
            if state is not left_out:
                # A copy: the thread may be adding rows.
                found.extend(split(list(state.flat)))
        found.sort(key=itemgetter(INDEX))
        return found

    def flush(self) -> None:
        """Hand everything that is left to ``drain``."""
        if self._drain is not None:
            self._drain(self.rows(), [])
            for state in list(self.threads.values()):
                state.flat.clear()

    def enter(self, token: Token | None) -> tuple[ThreadRows, int, int] | None:
        """Say that calls from here on are made inside a call; see `leave`."""
        if token is None:
            return None
        state, at = token
        outer = (state, state.parent, state.depth)
        state.parent, state.depth = state.flat[at], state.flat[at + DEPTH] + 1
        return outer

    def leave(self, outer: tuple[ThreadRows, int, int] | None) -> None:
        """End what `enter` began, with what it returned."""
        if outer is not None:
            state, parent, depth = outer
            state.parent, state.depth = parent, depth

    def fault(self, what: str, error: BaseException) -> None:
        """Note what could not be recorded: the program goes on."""
        kind = type(error).__qualname__
        note = f"{what}: {kind}: {message_of(error)}"
        if note not in self.faults and len(self.faults) < MAX_FAULTS:
            self.faults.append(note)

    def spill(self, state: ThreadRows) -> None:
        """Hand a thread's rows on; none of its calls is running."""
        assert self._drain is not None
        try:
            self._drain(split(state.flat), self._rows_but(state))
        except Exception as error:  # noqa: BLE001 - a full disk, say: the program goes on
            self.fault("Recording ended early, as records could not be written", error)
            self.close()
        state.flat.clear()
