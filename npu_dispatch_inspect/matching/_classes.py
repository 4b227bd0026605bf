# SPDX-License-Identifier: BSD-3-Clause
"""Calls sorted into kinds: those of one kind fit the same patterns.

A trace has a hundred thousand calls of some fifty operators, so a pattern's name
is compared with each operator once. Only conditions are looked at call by call.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from npu_dispatch_inspect._call_patterns import CallPattern, overload_of, tensors_of

__all__ = ["Classes"]


class Classes:
    """Numbers the kinds of calls as they appear."""

    def __init__(self, patterns: Iterable[CallPattern]) -> None:
        self._named: dict[str, list[CallPattern]] = {}
        self._others: list[CallPattern] = []
        for each in dict.fromkeys(patterns):
            if each.glob or each.regex is not None:
                self._others.append(each)
            else:
                self._named.setdefault(each.name, []).append(each)
        self._numbers: dict[tuple[CallPattern, ...], int] = {}
        self._names: dict[tuple[str, str], tuple[int, tuple[CallPattern, ...]]] = {}
        self._known: dict[tuple[object, ...], int] = {}
        self._plain: dict[tuple[str, str], tuple[CallPattern, ...]] = {}

    @property
    def patterns(self) -> list[tuple[CallPattern, ...]]:
        """For each kind, by its number, the patterns that its calls fit."""
        return list(self._numbers)

    def of(self, calls: Sequence[Any]) -> list[int]:
        """The kind of each call."""
        names = self._names
        kinds = []
        for call in calls:
            key = (call.name, overload_of(call))
            found = names.get(key)
            if found is None:
                found = names[key] = self._by_name(key)
            number, asking = found
            kinds.append(self._asked(call, key, asking) if asking else number)
        return kinds

    def _by_name(self, key: tuple[str, str]) -> tuple[int, tuple[CallPattern, ...]]:
        candidates = (*self._named.get(key[0], ()), *self._others)
        fitting = [each for each in candidates if each.matches_name(*key)]
        self._plain[key] = tuple(each for each in fitting if not each.constrained)
        asking = tuple(each for each in fitting if each.constrained)
        return (self._number(self._plain[key]), asking)

    def _asked(
        self, call: Any, key: tuple[str, str], asking: tuple[CallPattern, ...]
    ) -> int:
        if any(each.where is not None for each in asking):
            return self._decide(call, key, asking)
        seen = (
            key,
            getattr(call, "phase", None),
            getattr(call, "module", None),
            getattr(call, "regions", None),
            tuple((each.dtype, each.device, each.shape) for each in tensors_of(call)),
        )
        number = self._known.get(seen)
        if number is None:
            number = self._known[seen] = self._decide(call, key, asking)
        return number

    def _decide(
        self, call: Any, key: tuple[str, str], asking: tuple[CallPattern, ...]
    ) -> int:
        met = tuple(each for each in asking if each.meets(call))
        return self._number((*self._plain[key], *met))

    def _number(self, fitting: tuple[CallPattern, ...]) -> int:
        return self._numbers.setdefault(fitting, len(self._numbers))
