# SPDX-License-Identifier: BSD-3-Clause
"""What runs for every operator of the user's program: a row is made, and finished.

The functions are closures because a cell is read several times faster than an
attribute, and they are written out, not shared, because a call costs as much as
the rest.
"""

from __future__ import annotations

import sys
import threading
from itertools import count
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

import torch

from npu_dispatch_inspect._torch_private import modes
from npu_dispatch_inspect.capture._describe import describer
from npu_dispatch_inspect.capture._frames import USER
from npu_dispatch_inspect.capture._odd_values import Opaque
from npu_dispatch_inspect.capture._rows import FIXED, Token, fail
from npu_dispatch_inspect.capture._scopes import current_scopes, open_modules
from npu_dispatch_inspect.capture._streams import active, position

if TYPE_CHECKING:
    from npu_dispatch_inspect.capture._recorder import Recorder

__all__ = ["full", "names"]

UNKNOWN = Opaque("unknown", "?")
"""Stands for results that could not be described."""


def full(recorder: Recorder, *, nesting: bool) -> tuple[Any, Any, Any]:
    """``begin``, ``end`` and ``fail`` that describe arguments and results."""
    threads, limit, room, spill = (
        recorder.threads,
        recorder.limit,
        recorder.room,
        recorder.spill,
    )
    number, scope_of = count(), current_scopes.get
    walk, walk_backward = recorder.sites.walk, recorder.sites.walk_backward
    describe = describer()
    recorder.forget = describe.end
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
    node_names, node_name = modes.node_names, modes.node_name

    def begin(op: Any, args: Any, kwargs: Any, keyset: Any = None) -> Token | None:
        if recorder.paused:
            return None
        index = next(number)
        if index >= limit:
            recorder.truncated = True
            return None
        thread = get_ident()
        state = threads[thread]
        depth = state.depth
        if nesting and depth:
            here = get_frame(1)
            caller = here.f_back
            inside = caller is not None and caller.f_code is here.f_code
        else:
            inside = False
            try:
                # Not by way of the frame between: that would have to be made.
                caller = get_frame(2)
            except ValueError:  # a thread of torch's own
                caller = None
        if inside:
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
                if running is None:
                    node, node_number = "", -1
                else:
                    node = node_names.get(type(running)) or node_name(running)
                    node_number = running._sequence_nr()
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
                    row[14] = {name: describe_value(kwargs[name]) for name in kwargs}
        except Exception as error:  # noqa: BLE001 - whatever the user's objects do
            recorder.fault(f"The arguments of {op} are not known", error)
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
                flat[at + 11] = describe_result(result, flat, at)
            else:
                flat[at + 11] = describe_value(result)
        except Exception as error:  # noqa: BLE001 - as above
            recorder.fault(f"The results of {flat[at + 1]} are not known", error)
            flat[at + 11] = UNKNOWN

    return begin, end, fail


def names(recorder: Recorder, *, nesting: bool) -> tuple[Any, Any, Any]:
    """The same for operator, phase and module only; ``end`` is None where nobody asks."""
    threads, limit, room, spill = (
        recorder.threads,
        recorder.limit,
        recorder.room,
        recorder.spill,
    )
    number, scope_of = count(), current_scopes.get
    walk, walk_backward = recorder.sites.walk, recorder.sites.walk_backward
    engine, files = recorder.sites.engine, recorder.sites.files
    graph_task, autograd_node = (
        modes.current_graph_task,
        modes.current_autograd_node,
    )
    sequence_number = modes.sequence_number
    node_names, node_name = modes.node_names, modes.node_name
    get_ident, get_frame = threading.get_ident, sys._getframe

    def begin(op: Any, _: Any, __: Any, keyset: Any = None) -> Token | None:
        if recorder.paused:
            return None
        index = next(number)
        if index >= limit:
            recorder.truncated = True
            return None
        thread = get_ident()
        state = threads[thread]
        depth = state.depth
        caller = None
        if nesting and depth:
            here = get_frame(1)
            caller = here.f_back
        if caller and caller.f_code is here.f_code:
            # As in full.
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
                    if caller is None or files[caller.f_code.co_filename] != USER:
                        site = walk(caller, None)
            else:
                running = autograd_node()
                if running is None:
                    node, node_number = "", -1
                else:
                    node = node_names.get(type(running)) or node_name(running)
                    node_number = running._sequence_nr()
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
