# SPDX-License-Identifier: BSD-3-Clause
"""The list of raw rows that one tracer fills, whichever engine feeds it.

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
from time import perf_counter_ns
from typing import Any

import torch

from npu_dispatch_inspect._torch_private import modes
from npu_dispatch_inspect.capture._describe import describer
from npu_dispatch_inspect.capture._frames import Site, frame_walker
from npu_dispatch_inspect.capture._scopes import Scope, current_scopes

__all__ = ["FIELDS", "Recorder", "Row"]

Row = list[Any]

FIELDS = (
    "index",
    "op",
    "scope",
    "parent",  # index, -1 at the top
    "depth",
    "sequence",  # number of this thread's next autograd node
    "node",  # (name, sequence number) of the autograd node in backward
    "site",  # number of a `Site`, -1 where none was asked for
    "keyset",  # raw dispatch key set, None where the engine does not see it
    "args",  # raw rows of `_describe`; None where they were not asked for
    "kwargs",
    "start_ns",
    "outputs",
    "end_ns",  # 0 while the call runs
    "error",  # (type, message)
)
"""What stands where in a row."""

OUTPUTS, END, ERROR = (FIELDS.index(name) for name in ("outputs", "end_ns", "error"))
INDEX, SCOPE, PARENT, DEPTH = (
    FIELDS.index(name) for name in ("index", "scope", "parent", "depth")
)


class Recorder:
    """Raw rows, and the functions that make them.

    Args:
        detail: ``"full"`` or ``"names"`` (operator, phase and module only).
        max_ops: stop recording after so many calls.
        drain: given rows of finished calls whenever enough have gathered; they
            are then forgotten here, so memory stays constant.
    """

    def __init__(
        self,
        *,
        detail: str = "full",
        max_ops: int | None = None,
        drain: Callable[[list[Row]], None] | None = None,
    ) -> None:
        self.rows: list[Row] = []
        self.sites: dict[Site, int] = {}
        self.open_calls: dict[int, Row] = {}
        """The call each thread is inside of, kept by engines that see nesting."""
        self.started_ns = perf_counter_ns()
        self.thread = threading.get_ident()
        self.first_node = modes.sequence_number()
        self.paused = 0
        self.truncated = False
        self.faults: list[str] = []
        """Calls that could not be described, a sentence each."""
        self._drain = drain
        self._limit = sys.maxsize if max_ops is None else max_ops
        self._batch = sys.maxsize if drain is None else 1024
        self.begin, self.end, self.fail = (
            self._full() if detail == "full" else self._names()
        )

    def flush(self, *, everything: bool = False) -> None:
        """Hand finished rows to ``drain``, or all of them when the block is over."""
        if self._drain is None:
            return
        rows = list(self.rows)
        done = rows if everything else [row for row in rows if row[END]]
        self.rows[:] = [] if everything else [row for row in rows if not row[END]]
        self._drain(done)

    def fault(self, op: Any, error: Exception) -> None:
        """Note that a call could not be described: the program goes on."""
        self.faults.append(f"{op} could not be recorded: {error!r}.")

    # The functions below run for every operator of the user's program. They are
    # closures because a cell is read several times faster than an attribute, and
    # they are written out, not shared, because a call costs as much as the rest.

    def _full(self) -> tuple[Any, Any, Any]:
        rows, limit, batch = self.rows, self._limit, self._batch
        open_calls, scope_of, tops = self.open_calls, current_scopes.get, _Tops()
        number = count()
        walk = frame_walker(self.sites)
        describe = describer()
        describe_value, describe_values = describe.value, describe.values
        graph_task, autograd_node = modes.current_graph_task, modes.current_autograd_node
        sequence_number, grad_enabled = modes.sequence_number, torch.is_grad_enabled
        get_ident, get_frame, clock = threading.get_ident, sys._getframe, perf_counter_ns

        def begin(op: Any, args: Any, kwargs: Any, keyset: Any = None) -> Row | None:
            if self.paused:
                return None
            index = next(number)
            if index >= limit:
                self.truncated = True
                return None
            try:
                thread = get_ident()
                scope = scope_of(thread) or tops[thread]
                node = None
                if graph_task() != -1:
                    node = autograd_node()
                    node = ("", -1) if node is None else (node.name(), node._sequence_nr())
                    beyond = True
                else:
                    # Only where an optimizer's step can be: outside modules, grad off.
                    beyond = scope[2] is None and not grad_enabled()
                parent = open_calls.get(thread) if open_calls else None
                row = [
                    index,
                    op,
                    scope,
                    -1 if parent is None else parent[0],
                    0 if parent is None else parent[4] + 1,
                    sequence_number(),
                    node,
                    walk(get_frame(1).f_back, beyond),
                    keyset,
                    describe_values(args),
                    {name: describe_value(kwargs[name]) for name in kwargs}
                    if kwargs
                    else None,
                    clock(),
                    None,
                    0,
                    None,
                ]
            except Exception as error:  # noqa: BLE001 - whatever the user's objects do
                self.fault(op, error)
                return None
            rows.append(row)
            if index % batch == batch - 1:
                self.flush()
            return row

        def end(row: Row | None, result: Any) -> None:
            if row is not None:
                row[13] = clock()
                try:
                    row[12] = describe_value(result)
                except Exception as error:  # noqa: BLE001 - as above
                    self.fault(row[1], error)

        modes.hide_from_dynamo(begin, end, _fail, Recorder.flush, Recorder.fault)
        return begin, end, _fail

    def _names(self) -> tuple[Any, Any, Any]:
        rows, limit, batch = self.rows, self._limit, self._batch
        open_calls, scope_of, tops = self.open_calls, current_scopes.get, _Tops()
        number = count()
        walk = frame_walker(self.sites)
        graph_task, autograd_node = modes.current_graph_task, modes.current_autograd_node
        sequence_number, grad_enabled = modes.sequence_number, torch.is_grad_enabled
        get_ident, get_frame = threading.get_ident, sys._getframe
        seed = modes.SEED_OPERATOR

        def begin(op: Any, args: Any, kwargs: Any, keyset: Any = None) -> Row | None:
            if self.paused:
                return None
            index = next(number)
            if index >= limit:
                self.truncated = True
                return None
            thread = get_ident()
            scope = scope_of(thread) or tops[thread]
            node = None
            site = -1
            if graph_task() != -1:
                node = autograd_node()
                node = ("", -1) if node is None else (node.name(), node._sequence_nr())
            elif op is seed or (scope[2] is None and not grad_enabled()):
                site = walk(get_frame(1).f_back, True)  # noqa: FBT003 - hot
            parent = open_calls.get(thread) if open_calls else None
            row = [
                index,
                op,
                scope,
                -1 if parent is None else parent[0],
                0 if parent is None else parent[4] + 1,
                sequence_number(),
                node,
                site,
                keyset,
                None,
                None,
                0,
                None,
                0,
                None,
            ]
            rows.append(row)
            if index % batch == batch - 1:
                self.flush()
            return row

        def end(row: Row | None, _: Any) -> None:
            if row is not None:
                row[13] = 1

        modes.hide_from_dynamo(begin, end, _fail, Recorder.flush)
        return begin, end, _fail


class _Tops(dict[int, Scope]):
    """The scope of each thread outside any module and region."""

    def __missing__(self, thread: int) -> Scope:
        self[thread] = scope = Scope(thread)
        return scope


def _fail(row: Row | None, error: BaseException) -> None:
    if row is None:
        return
    kind = type(error)
    name = kind.__qualname__
    if kind.__module__ != "builtins":
        name = f"{kind.__module__}.{name}"
    try:
        message = str(error)
    except Exception:  # noqa: BLE001 - an exception's own __str__ may fail
        message = ""
    row[END] = perf_counter_ns()
    row[ERROR] = (name, message)
