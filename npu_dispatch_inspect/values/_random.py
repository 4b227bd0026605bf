# SPDX-License-Identifier: BSD-3-Clause
"""Random numbers for the device, made by a generator of the CPU.

A device's generator is a seed and a count of what was drawn, which torch_npu's
kernels move on. Each operator draws from a CPU generator that is seeded with both.
So everything that sets, saves or restores the device's generator works as it does
on a device (a checkpointed block gets the same dropout twice), the program's own
CPU generator is not touched, and what is drawn first after a seed is what the CPU
draws first.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

__all__ = ["borrowed", "default_seeded", "draw_for", "generator_of", "mixed"]

_MASK = (1 << 64) - 1


class _Thread(threading.local):
    def __init__(self) -> None:
        self.generator = torch.Generator()


_thread = _Thread()


def generator_of(device: int) -> Any:
    """The default generator of an NPU."""
    return torch.npu.default_generators[device]  # type: ignore[attr-defined]


def draw_for(source: Any) -> int:
    """The seed for the next operator that draws from a device's generator."""
    seed, drawn = source.initial_seed(), source.get_offset()
    return mixed(seed, drawn)


def borrowed(seed: int) -> torch.Generator:
    """A CPU generator of this thread, newly seeded."""
    generator = _thread.generator
    generator.manual_seed(seed)
    return generator


@contextmanager
def default_seeded(seed: int) -> Iterator[None]:
    """A block in which the CPU's default generator begins with a seed, then goes on.

    For operators that take no generator.
    """
    generator = torch.default_generator
    state = generator.get_state()
    generator.manual_seed(seed)
    try:
        yield
    finally:
        generator.set_state(state)


def mixed(seed: int, drawn: int) -> int:
    """The seed of a CPU generator for a state of the device's."""
    if not drawn:
        return seed
    # The finaliser of splitmix64: neighbouring counts give unrelated seeds.
    value = (seed + drawn * 0x9E3779B97F4A7C15) & _MASK
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & _MASK
    return (value ^ (value >> 31)) >> 1
