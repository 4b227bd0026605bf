# SPDX-License-Identifier: BSD-3-Clause
"""Python numbers back into the tensors that an operator was called with.

``x + 1.5`` calls ``aten::add.Tensor`` with a 0-dim tensor flagged "wrapped
number". A Python kernel is given the number instead, and the operator refuses a
number where its schema says Tensor. `as_tensors` restores the flagged tensor, so
that type promotion is that of the number.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from npu_dispatch_inspect._torch_private import redispatch

__all__ = ["NUMBERS", "NumberPlaces"]

NUMBERS = frozenset(
    (int, float, bool, complex, torch.SymInt, torch.SymFloat, torch.SymBool)
)
"""Types that may arrive in the place of a tensor."""

_KEPT_AT_MOST = 4096

_tensors: dict[tuple[type, Any], torch.Tensor] = {}


class NumberPlaces:
    """Where the schema of one operator takes tensors.

    Attributes:
        single: positions of Tensor and optional Tensor arguments.
        lists: positions of lists of them.
        named: names of keyword-only arguments of either kind.
    """

    __slots__ = ("lists", "named", "single")

    def __init__(self, op: Any) -> None:
        """Look at the schema of ``op``."""
        single, lists, named = [], [], set()
        for position, (name, keyword, kind) in enumerate(redispatch.argument_kinds(op)):
            if "Tensor" not in kind:
                continue
            if keyword:
                named.add(name)
            elif "List" in kind:
                lists.append(position)
            else:
                single.append(position)
        self.single = tuple(single)
        self.lists = tuple(lists)
        self.named = frozenset(named)

    def positional(self, args: tuple[Any, ...]) -> list[Any]:
        """``args`` with tensors for the numbers in tensor places."""
        mended = list(args)
        for position in (*self.single, *self.lists):
            if position < len(mended):
                mended[position] = _mended(mended[position])
        return mended

    def keywords(self, kwargs: dict[str, Any]) -> dict[str, Any]:
        """``kwargs`` with tensors for the numbers in tensor places."""
        return {
            name: _mended(value) if name in self.named else value
            for name, value in kwargs.items()
        }


def _mended(value: Any) -> Any:
    if type(value) in NUMBERS:
        return _tensor(value)
    if isinstance(value, (list, tuple)):
        return [_mended(each) for each in value]
    return value


def _tensor(number: Any) -> torch.Tensor:
    kind = type(number)
    # 0.0 and -0.0 are equal, nan is not even equal to itself, and a complex
    # number holds two such parts; a symbol is not a value at all.
    if kind is int or kind is bool or (kind is float and number and number == number):  # noqa: PLR0124
        found = _tensors.get((kind, number))
        if found is None:
            if len(_tensors) >= _KEPT_AT_MOST:
                _tensors.clear()
            found = _tensors[kind, number] = redispatch.wrapped_number(number)
        return found
    if kind is float and number == 0.0:
        return _ZEROS[math.copysign(1.0, number)]()
    return redispatch.wrapped_number(number)


def _once(number: float) -> Callable[[], torch.Tensor]:
    kept: list[torch.Tensor] = []

    def get() -> torch.Tensor:
        if not kept:
            kept.append(redispatch.wrapped_number(number))
        return kept[0]

    return get


_ZEROS = {1.0: _once(0.0), -1.0: _once(-0.0)}
