# SPDX-License-Identifier: BSD-3-Clause
"""Python numbers back into the tensors that an operator was called with.

``x + 1.5`` calls ``aten::add.Tensor`` with a 0-dim tensor flagged "wrapped
number". A Python kernel is given the number instead, and the operator refuses a
number where its schema says Tensor. Any other tensor of that value would not do:
the flag decides type promotion, and Python cannot set it. So the tensors are
noted while they are turned into numbers, and put back before the call goes on.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

import torch

from npu_dispatch_inspect._torch_private.redispatch import argument_kinds
from npu_dispatch_inspect._torch_private.tensor_class import take_number

__all__ = ["NUMBERS", "restorer"]

NUMBERS = frozenset(
    (int, float, bool, complex, torch.SymInt, torch.SymFloat, torch.SymBool)
)

Restore = Callable[
    [tuple[Any, ...], dict[str, Any], "deque[torch.Tensor]"],
    "tuple[tuple[Any, ...], dict[str, Any]]",
]


def restorer(op: Any) -> Restore:
    """Make the function that puts the tensors back into one operator's arguments.

    It is given positional and keyword arguments and the notes, returns the
    arguments with tensors, and empties the notes. The last notes belong to these
    arguments, in their order; earlier ones were left by other Python kernels.
    """
    positions, named = [], []
    for position, (name, keyword, kind) in enumerate(argument_kinds(op)):
        if "Tensor" in kind:
            if keyword:
                named.append(name)
            else:
                positions.append(position)
    # From the last to the first, as notes are taken off from the end.
    places = tuple(reversed(positions))
    names = frozenset(named)
    numbers, take = NUMBERS, take_number

    def restore(
        args: tuple[Any, ...], kwargs: dict[str, Any], notes: deque[torch.Tensor]
    ) -> tuple[Any, dict[str, Any]]:
        sent: Any = args
        if names and kwargs:
            for name in reversed(kwargs):
                if name in names:
                    value = _restored(kwargs[name], notes)
                    if value is not kwargs[name]:
                        kwargs = {**kwargs, name: value}
        count = len(args)
        for place in places:
            if place < count:
                given = args[place]
                if type(given) in numbers:
                    value = take(given, notes)
                elif type(given) is list:
                    value = _restored(given, notes)
                else:
                    continue
                if sent is args:
                    sent = list(args)
                sent[place] = value
                if not notes:
                    return sent, kwargs
        notes.clear()
        return sent, kwargs

    return restore


def _restored(value: Any, notes: deque[torch.Tensor]) -> Any:
    if type(value) in NUMBERS:
        return take_number(value, notes)
    if type(value) is list:
        restored = [_restored(each, notes) for each in reversed(value)]
        restored.reverse()
        return restored
    return value
