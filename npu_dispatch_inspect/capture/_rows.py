# SPDX-License-Identifier: BSD-3-Clause
"""How the raw row of a call is laid out, and where the rows of a thread are kept.

The rows of a thread stand one after the other in one flat list. A container per
row would cost as much again: Python's garbage collector visits every container.
"""

from __future__ import annotations

from time import perf_counter_ns
from typing import Any

from npu_dispatch_inspect.capture._scopes import top_scope
from npu_dispatch_inspect.capture._streams import active, position

__all__ = [
    "DEPTH",
    "FIXED",
    "INDEX",
    "OP",
    "Row",
    "ThreadRows",
    "Threads",
    "Token",
    "fail",
    "message_of",
    "split",
]

Row = tuple[Any, ...]
"""(index, op, scope, parent, depth, sequence, node, node number, site, key set,
start, outputs, end, error, kwargs, count, arguments ...).

``parent`` is an index, -1 at the top. ``sequence`` is the number of the thread's
next autograd node; ``node`` and its number are those of the node being run in
backward, None elsewhere. ``site`` numbers a `Site`, -1 where none was asked for.
Times are in nanoseconds; ``end`` is 0 while the call runs. ``error`` is (type,
message). ``count`` arguments follow; -1 where they were not asked for. Arguments,
``kwargs`` and ``outputs`` are raw rows of `_describe`.
"""

INDEX, OP, PARENT, DEPTH, END, ERROR, COUNT = 0, 1, 3, 4, 12, 13, 15
FIXED = 16
"""So many fields come before a row's arguments."""


def split(flat: list[Any]) -> list[Row]:
    """One tuple per row of a thread's flat list."""
    rows = []
    at = 0
    while at < len(flat):
        after = at + FIXED + max(flat[at + COUNT], 0)
        rows.append(tuple(flat[at:after]))
        at = after
    return rows


Token = tuple["ThreadRows", int]
"""Where a row stands: given by `begin`, asked back by `end` and `fail`."""


class ThreadRows:
    """One thread's rows and the call it is inside of."""

    __slots__ = (
        "depth",
        "flat",
        "node",
        "opened",
        "parent",
        "places",
        "quiet",
        "sequence",
        "top",
    )

    def __init__(self, thread: int) -> None:
        self.flat: list[Any] = []
        self.parent = -1
        self.depth = 0
        self.quiet = 0
        """Torch function modes that the last call was made under: reading a tensor
        would call them."""
        self.sequence = self.node = -1
        """The numbers that came up last: calls with the same ones share the objects."""
        self.opened: list[int] = []
        """Where the rows of the calls that it is inside of stand; the first `depth`."""
        self.top = top_scope(thread)
        """The scope outside any module and region."""
        self.places: list[tuple[int, int | None]] = []
        """Positions of a captured log: (index, where) at begin, (~index, where) at end."""


class Threads(dict[int, ThreadRows]):
    """The rows of each thread by its identity."""

    def __missing__(self, thread: int) -> ThreadRows:
        self[thread] = made = ThreadRows(thread)
        return made


def message_of(error: BaseException) -> str:
    """The text of an exception, empty where it would not tell."""
    try:
        return str(error)
    except Exception:  # noqa: BLE001 - an exception's own __str__ may fail
        return ""


def fail(token: Token | None, error: BaseException) -> None:
    """Note the exception with which a call ended."""
    if token is None:
        return
    kind = type(error)
    name = kind.__qualname__
    if kind.__module__ != "builtins":
        name = f"{kind.__module__}.{name}"
    state, at = token
    flat = state.flat
    if active:
        state.places.append((~flat[at], position()))
    flat[at + END] = perf_counter_ns()
    flat[at + ERROR] = (name, message_of(error))
    state.parent, state.depth = flat[at + PARENT], flat[at + DEPTH]
