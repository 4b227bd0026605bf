# SPDX-License-Identifier: BSD-3-Clause
"""The raw rows that one tracer fills, whichever engine feeds it.

A call becomes one row. `begin` makes and keeps it before the call runs (an
in-place call changes its inputs, and a call that never returns is there too);
`end` or `fail` fill in what came of it. Everything else is done when somebody
looks, in `_build`.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from itertools import count
from operator import itemgetter
from time import perf_counter_ns
from typing import Any

import torch

from npu_dispatch_inspect._torch_private import modes
from npu_dispatch_inspect.capture._describe import Opaque, describer
from npu_dispatch_inspect.capture._frames import USER, Sites
from npu_dispatch_inspect.capture._rows import (
    DEPTH,
    FIXED,
    INDEX,
    Row,
    ThreadRows,
    Threads,
    Token,
    fail,
    message_of,
    split,
)
from npu_dispatch_inspect.capture._scopes import (
    current_scopes,
    open_modules,
    top_scope,
)
from npu_dispatch_inspect.capture._streams import CallSpan, active, position

__all__ = ["Recorder"]

ROOM = 1024 * FIXED
"""A thread's rows are handed on when they have so many fields."""
MAX_FAULTS = 100
UNKNOWN = Opaque("unknown", "?")
"""Stands for results that could not be described."""


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
        self._threads = Threads()
        self._drain = drain
        self._limit = sys.maxsize if max_ops is None else max_ops
        self._room = sys.maxsize if drain is None else ROOM
        make = self._full if detail == "full" else self._names
        self.begin, self.end, self.fail = make(nesting)

    def close(self) -> None:
        """Record nothing from here on, on any thread."""
        if not self.closed:
            self.closed = True
            self.paused += 1

    def new_thread(self) -> None:
        """Keep this thread's rows apart from those of one with the same identity."""
        ended = self._threads.pop(threading.get_ident(), None)
        if ended is not None:
            self._threads[-len(self._threads) - 1] = ended

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
        for thread, state in list(self._threads.items()):
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
        for state in list(self._threads.values()):
            if state is not left_out:
                # A copy: the thread may be adding rows.
                found.extend(split(list(state.flat)))
        found.sort(key=itemgetter(INDEX))
        return found

    def flush(self) -> None:
        """Hand everything that is left to ``drain``."""
        if self._drain is not None:
            self._drain(self.rows(), [])
            for state in list(self._threads.values()):
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

    def _spill(self, state: ThreadRows) -> None:
        """Hand a thread's rows on; none of its calls is running."""
        assert self._drain is not None
        try:
            self._drain(split(state.flat), self._rows_but(state))
        except Exception as error:  # noqa: BLE001 - a full disk, say: the program goes on
            self.fault("Recording ended early, as records could not be written", error)
            self.close()
        state.flat.clear()

    # The functions below run for every operator of the user's program. They are
    # closures because a cell is read several times faster than an attribute, and
    # they are written out, not shared, because a call costs as much as the rest.

    def _full(self, nesting: bool) -> tuple[Any, Any, Any]:  # noqa: FBT001
        threads, limit, room, spill = (
            self._threads,
            self._limit,
            self._room,
            self._spill,
        )
        number, scope_of = count(), current_scopes.get
        walk, walk_backward = self.sites.walk, self.sites.walk_backward
        describe = describer()
        add_values, describe_value = describe.values, describe.value
        describe_result, plain_tensor = describe.result, torch.Tensor
        graph_task, autograd_node = (
            modes.current_graph_task,
            modes.current_autograd_node,
        )
        sequence_number, function_modes = modes.sequence_number, modes.function_modes
        get_ident, get_frame, clock = (
            threading.get_ident,
            sys._getframe,
            perf_counter_ns,
        )
        intern = sys.intern

        def begin(op: Any, args: Any, kwargs: Any, keyset: Any = None) -> Token | None:
            if self.paused:
                return None
            index = next(number)
            if index >= limit:
                self.truncated = True
                return None
            thread = get_ident()
            state = threads[thread]
            depth = state.depth
            here = get_frame(1)
            caller = here.f_back
            if nesting and depth and caller and caller.f_code is here.f_code:
                # Called by the kernel of the call it is inside of, with no Python
                # in between: it belongs where that one belongs.
                outer = state.opened[depth - 1]
                _, _, scope, _, _, _, node, node_number, site = state.flat[
                    outer : outer + 9
                ]
            else:
                scope = scope_of(thread) or state.top
                task = graph_task()
                if task == -1:
                    node = node_number = None
                    site = walk(caller, open_modules.get(thread))
                else:
                    running = autograd_node()
                    node, node_number = (
                        ("", -1)
                        if running is None
                        else (intern(running.name()), running._sequence_nr())
                    )
                    if node_number == state.node:
                        node_number = state.node
                    else:
                        state.node = node_number
                    site = walk_backward(caller, task)
            sequence = sequence_number()
            if sequence == state.sequence:
                # One number for all calls of a backward pass: 28 bytes a call.
                sequence = state.sequence
            else:
                state.sequence = sequence
            row = [
                index,
                op,
                scope,
                state.parent,
                depth,
                sequence,
                node,
                node_number,
                site,
                keyset,
                0,
                None,
                0,
                None,
                None,
                len(args),
            ]
            try:
                state.quiet = function_modes()
                if state.quiet:
                    with modes.quiet_reads():
                        add_values(row, args)
                        if kwargs:
                            row[14] = {
                                name: describe_value(kwargs[name]) for name in kwargs
                            }
                else:
                    add_values(row, args)
                    if kwargs:
                        row[14] = {
                            name: describe_value(kwargs[name]) for name in kwargs
                        }
            except Exception as error:  # noqa: BLE001 - whatever the user's objects do
                self.fault(f"The arguments of {op} are not known", error)
                del row[FIXED:]
                row[14:] = None, -1
            flat = state.flat
            if len(flat) >= room and not depth:
                spill(state)
            row[10] = clock()
            at = len(flat)
            # In one go: an interrupt may come after any call.
            flat.extend(row)
            if nesting:
                state.opened[depth:] = (at,)
                state.parent = index
                state.depth = depth + 1
            if active:
                state.places.append((index, position()))
            return state, at

        def end(token: Token | None, result: Any) -> None:
            if token is None:
                return
            state, at = token
            flat = state.flat
            if active:
                state.places.append((~flat[at], position()))
            flat[at + 12] = clock()
            if nesting:
                state.parent, state.depth = flat[at + 3], flat[at + 4]
            try:
                if state.quiet:
                    with modes.quiet_reads():
                        flat[at + 11] = describe_value(result)
                elif type(result) is plain_tensor:
                    first = flat[at + 16] if flat[at + 15] > 0 else None
                    flat[at + 11] = describe_result(result, flat[at + 1], first)
                else:
                    flat[at + 11] = describe_value(result)
            except Exception as error:  # noqa: BLE001 - as above
                self.fault(f"The results of {flat[at + 1]} are not known", error)
                flat[at + 11] = UNKNOWN

        return begin, end, fail

    def _names(self, nesting: bool) -> tuple[Any, Any, Any]:  # noqa: FBT001
        threads, limit, room, spill = (
            self._threads,
            self._limit,
            self._room,
            self._spill,
        )
        number, scope_of = count(), current_scopes.get
        walk, walk_backward = self.sites.walk, self.sites.walk_backward
        engine, kinds = self.sites.engine, self.sites.kinds
        graph_task, autograd_node = (
            modes.current_graph_task,
            modes.current_autograd_node,
        )
        sequence_number = modes.sequence_number
        get_ident, get_frame, intern = threading.get_ident, sys._getframe, sys.intern

        def begin(op: Any, _: Any, __: Any, keyset: Any = None) -> Token | None:
            if self.paused:
                return None
            index = next(number)
            if index >= limit:
                self.truncated = True
                return None
            thread = get_ident()
            state = threads[thread]
            depth = state.depth
            caller = None
            if nesting and depth:
                here = get_frame(1)
                caller = here.f_back
            if caller and caller.f_code is here.f_code:
                # As in _full.
                outer = state.opened[depth - 1]
                _, _, scope, _, _, _, node, node_number, site = state.flat[
                    outer : outer + 9
                ]
            else:
                scope = scope_of(thread) or state.top
                site = -1
                node = node_number = None
                task = graph_task()
                # The frames are asked only where the phase hangs on them.
                if task == -1:
                    if scope.path is None:
                        caller = get_frame(1).f_back
                        if caller is None or kinds.get(id(caller.f_code)) != USER:
                            site = walk(caller, None)
                else:
                    running = autograd_node()
                    node, node_number = (
                        ("", -1)
                        if running is None
                        else (intern(running.name()), running._sequence_nr())
                    )
                    caller = get_frame(1).f_back
                    if caller is not None and caller.f_code is not engine:
                        site = walk_backward(caller, task)
            flat = state.flat
            if len(flat) >= room and not depth:
                spill(state)
            at = len(flat)
            flat.extend(
                (
                    index,
                    op,
                    scope,
                    state.parent,
                    depth,
                    sequence_number(),
                    node,
                    node_number,
                    site,
                    keyset,
                    0,
                    None,
                    1,
                    None,
                    None,
                    -1,
                )
            )
            if nesting:
                state.opened[depth:] = (at,)
                state.parent = index
                state.depth = depth + 1
            if active:
                state.places.append((index, position()))
            return state, at

        def end(token: Token | None, _: Any) -> None:
            if token is not None:
                state, at = token
                if active:
                    state.places.append((~state.flat[at], position()))
                state.parent, state.depth = state.flat[at + 3], state.flat[at + 4]

        return begin, (end if nesting or active else None), fail
