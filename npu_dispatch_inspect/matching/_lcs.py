# SPDX-License-Identifier: BSD-3-Clause
"""Align single calls with single patterns: longest common subsequence, bit by bit.

Row ``i`` of the usual table of lengths grows by 0 or 1 from column to column, so
it is a whole number with one bit for each column, and a row is made from the one
before by an addition (Crochemore et al., 2001). It needs nothing of the items but
which call fits which, so patterns do as well as names.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

__all__ = ["Pair", "common"]

MAX_CELLS = 500_000_000
"""Up to so many pairs of call and pattern the answer is the best there is."""
WINDOW = 4_000
"""Beyond it, so many of each are aligned at a time."""


class Pair(NamedTuple):
    """A pattern and the call that fits it; one of the two where it has no other."""

    position: int | None
    item: int | None


def common(
    kinds: Sequence[int], masks: Sequence[int], items: int
) -> tuple[list[Pair], bool]:
    """Align calls with patterns, in order, with as many pairs as can be.

    Args:
        kinds: the kind of each call.
        masks: for each kind, a bit for every pattern that it fits.
        items: how many patterns there are.

    Returns:
        The pairs, and whether there can be no better ones.
    """
    count = len(kinds)
    head = 0
    while head < min(count, items) and masks[kinds[head]] >> head & 1:
        head += 1
    tail = 0
    while (
        tail < min(count, items) - head
        and masks[kinds[count - 1 - tail]] >> (items - 1 - tail) & 1
    ):
        tail += 1
    pairs = [Pair(each, each) for each in range(head)]
    stop, last = count - tail, items - tail
    exact = (stop - head) * (last - head) <= MAX_CELLS
    at, item = head, head
    while not exact and at < stop and item < last:
        part = _window(
            kinds[at : min(stop, at + WINDOW)], masks, item, min(last, item + WINDOW)
        )
        part = _first_half(part, stop - at, last - item)
        pairs += [_moved(each, at, item) for each in part]
        at += sum(each.position is not None for each in part)
        item += sum(each.item is not None for each in part)
    rest = (
        _window(kinds[at:stop], masks, item, last)
        if exact
        else _rest(stop - at, last - item)
    )
    pairs += [_moved(each, at, item) for each in rest]
    pairs += [Pair(stop + each, last + each) for each in range(tail)]
    return pairs, exact


def _window(
    kinds: Sequence[int], masks: Sequence[int], first: int, last: int
) -> list[Pair]:
    """The best alignment of some calls with the patterns from ``first`` to ``last``."""
    width = last - first
    every = (1 << width) - 1
    cut = {kind: (masks[kind] >> first) & every for kind in set(kinds)}
    row = every
    rows = [row]
    for kind in kinds:
        fitting = row & cut[kind]
        row = ((row + fitting) | (row - fitting)) & every
        rows.append(row)
    pairs: list[Pair] = []
    position, item = len(kinds), width
    while position and item:
        bit = item - 1
        if rows[position] >> bit & 1:
            item -= 1
            pairs.append(Pair(None, item))
            continue
        position -= 1
        if not rows[position] >> bit & 1:
            pairs.append(Pair(position, None))
        else:
            item -= 1
            pairs.append(Pair(position, item))
    pairs += [Pair(each, None) for each in reversed(range(position))]
    pairs += [Pair(None, each) for each in reversed(range(item))]
    pairs.reverse()
    return pairs


def _first_half(pairs: list[Pair], calls: int, items: int) -> list[Pair]:
    """As much of a window as later calls are unlikely to change."""
    if calls <= WINDOW and items <= WINDOW:
        return pairs
    last = max(
        (
            number
            for number, each in enumerate(pairs)
            if None not in each
            and max(each.position or 0, each.item or 0) < WINDOW // 2
        ),
        default=None,
    )
    return pairs if last is None else pairs[: last + 1]


def _rest(calls: int, items: int) -> list[Pair]:
    return [
        *(Pair(None, each) for each in range(items)),
        *(Pair(each, None) for each in range(calls)),
    ]


def _moved(pair: Pair, calls: int, items: int) -> Pair:
    return Pair(
        None if pair.position is None else pair.position + calls,
        None if pair.item is None else pair.item + items,
    )
