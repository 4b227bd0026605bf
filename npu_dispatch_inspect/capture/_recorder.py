# SPDX-License-Identifier: BSD-3-Clause
"""The list of raw rows that one tracer fills, whichever engine feeds it.

A call becomes one tuple. `begin` makes its first half before the call runs (an
in-place call changes its inputs), `end` or `fail` completes and keeps it. Rows
stand in the order in which calls ended; their first field is the order in which
they began.
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

__all__ = ["Recorder", "Row"]

Row = tuple[Any, ...]
"""(index, op, args, kwargs, scope, sequence number, site, node, parent, depth, start
ns, key set, outputs, duration ns, exception). ``args`` and ``outputs`` are raw rows
of `_describe`; ``node`` is (name, sequence number) of the autograd node in backward."""


class Recorder:
    """Raw rows, and the functions that make them.

    Args:
        detail: ``"full"`` or ``"names"`` (operator, phase and module only).
        max_ops: stop recording after so many calls.
        drain: given all rows whenever enough have gathered; they are then
            forgotten here, so memory stays constant.
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
        self.started_ns = perf_counter_ns()
        self.paused = 0
        self.truncated = False
        self.thread = threading.get_ident()
        self.first_node = modes.sequence_number()
        self._drain = drain
        self._limit = sys.maxsize if max_ops is None else max_ops
        self._batch = sys.maxsize if drain is None else 1024
        self.begin, self.end, self.fail = self._make(full=detail == "full")

    def flush(self) -> None:
        """Hand what has gathered to ``drain``."""
        if self._drain is not None and self.rows:
            rows, self.rows[:] = list(self.rows), []
            self._drain(rows)

    def _make(self, *, full: bool) -> tuple[Any, Any, Any]:
        # Closures: a local or a cell is read several times faster than an
        # attribute, and these run for every operator of the user's program.
        rows, limit, batch = self.rows, self._limit, self._batch
        number = count()
        walk = frame_walker(self.sites)
        describe = describer()
        describe_value, describe_values = describe.value, describe.values
        graph_task, autograd_node = modes.current_graph_task, modes.current_autograd_node
        sequence_number, grad_enabled = modes.sequence_number, torch.is_grad_enabled
        get_ident, get_frame, clock = threading.get_ident, sys._getframe, perf_counter_ns
        scope_of = current_scopes.get
        tops: dict[int, Scope] = {}
        stacks: dict[int, list[Row]] = {}
        plain_tensor = torch.Tensor

        def begin(op: Any, args: Any, kwargs: Any, keyset: Any = None) -> Row | None:
            if self.paused:
                return None
            index = next(number)
            if index >= limit:
                self.truncated = True
                return None
            thread = get_ident()
            scope = scope_of(thread)
            if scope is None:
                scope = tops.get(thread)
                if scope is None:
                    scope = tops[thread] = Scope(thread)
            if graph_task() != -1:
                node = autograd_node()
                if node is not None:
                    node = (node.name(), node._sequence_nr())
                else:
                    node = ("", -1)
                beyond = True
            else:
                node = None
                # Only where an optimizer's step can be: outside modules, grad off.
                beyond = scope.path is None and not grad_enabled()
            stack = stacks.get(thread)
            if stack is None:
                stack = stacks[thread] = []
            row = (
                index,
                op,
                describe_values(args) if full else None,
                {name: describe_value(kwargs[name]) for name in kwargs}
                if full and kwargs
                else None,
                scope,
                sequence_number(),
                walk(get_frame(1).f_back, beyond),
                node,
                stack[-1][0] if stack else -1,
                len(stack),
                clock(),
                keyset,
            )
            stack.append(row)
            return row

        def leave(row: Row) -> None:
            stack = stacks[row[4].thread]
            # Whatever began inside and never ended is over as well.
            while stack and stack.pop() is not row:
                pass

        def end(row: Row | None, result: Any) -> None:
            if row is None:
                return
            finished = clock()
            if not full:
                outputs = None
            elif type(result) is plain_tensor:
                outputs = describe.tensor(result)
            else:
                outputs = describe_value(result)
            rows.append((*row, outputs, finished - row[10], None))
            leave(row)
            if len(rows) >= batch:
                self.flush()

        def fail(row: Row | None, error: BaseException) -> None:
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
            rows.append((*row, None, clock() - row[10], (name, message)))
            leave(row)

        modes.hide_from_dynamo(begin, leave, end, fail, Recorder.flush)
        return begin, end, fail
