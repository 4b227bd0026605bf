# SPDX-License-Identifier: BSD-3-Clause
"""What a traced program leaves behind: in its modules, and inside its results."""

from __future__ import annotations

import collections
import gc
import random
import sys
import types
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from npu_dispatch_inspect._torch_private import tracing

__all__ = ["hidden_tensors", "untouched"]

_CONTAINERS = (dict, collections.OrderedDict, list, set, collections.deque)
"""Classes whose content is put back, and none that is derived from them."""

MAX_INSIDE = 2000
"""So many objects of a result are looked at: a cache of many layers has some hundred."""


@contextmanager
def untouched(modules: Sequence[torch.nn.Module]) -> Iterator[list[str]]:
    """Undo what tracing does to modules' attributes and to Python's random numbers.

    Yields:
        A list that has in the end the numbers and other plain values that had changed,
        as in ``"steps of Counter"``.
    """
    every = {id(each): each for one in modules for each in one.modules()}.values()
    saved = [(each, dict(vars(each)), list(_contents(each))) for each in every]
    numbers = random.getstate()
    numpy = sys.modules.get("numpy")
    numpy_numbers = numpy.random.get_state() if numpy is not None else None
    changed: list[str] = []
    try:
        yield changed
    finally:
        random.setstate(numbers)
        if numpy is not None:
            numpy.random.set_state(numpy_numbers)
        for module, attributes, contents in saved:
            now = vars(module)
            changed += [
                f"{name} of {type(module).__name__}"
                for name, value in attributes.items()
                if isinstance(value, (int, float, str)) and now.get(name) != value
            ]
            if now.keys() != attributes.keys() or any(
                now[name] is not value for name, value in attributes.items()
            ):
                now.clear()
                now.update(attributes)
            for container, content in contents:
                _put_back(container, content)


def _contents(module: torch.nn.Module) -> Iterator[tuple[Any, Any]]:
    """The containers among the attributes, each with a copy of it."""
    for value in vars(module).values():
        # Those of a ScriptModule are views of what C++ holds.
        if type(value) in _CONTAINERS:
            yield value, value.copy()


def _put_back(container: Any, content: Any) -> None:
    if isinstance(container, dict):
        before, now = [*content.items()], [*container.items()]
        if len(now) == len(before) and all(
            a is c and b is d for (a, b), (c, d) in zip(now, before, strict=True)
        ):
            return
    elif not isinstance(container, set):
        if len(container) == len(content) and all(
            a is b for a, b in zip(container, content, strict=True)
        ):
            return
    elif container == content:
        return
    container.clear()
    fill: Callable[[Any], None] = getattr(container, "extend", None) or container.update
    fill(content)


def hidden_tensors(constants: Sequence[tuple[str, Any]]) -> str | None:
    """A result that keeps a traced tensor where nobody can take it out.

    It may be an attribute, an element of a set, or what a generator or a function that
    is returned will use when it is called.

    Args:
        constants: the parts of a result that are no tensors, by name.
    """
    for name, value in constants:
        pending, seen = collections.deque([value]), set[int]()
        while pending and len(seen) < MAX_INSIDE:
            each = pending.popleft()
            if id(each) in seen:
                continue
            seen.add(id(each))
            if isinstance(each, torch.Tensor):
                if tracing.is_fake_or_functional(each):
                    return f"{name or 'the result'} ({type(value).__name__})"
            elif isinstance(each, types.FunctionType):
                # Not its globals, which hold everything.
                pending += [*(each.__closure__ or ()), *(each.__defaults__ or ())]
            elif not isinstance(each, (type, types.ModuleType, types.CodeType, str)):
                pending += gc.get_referents(each)
    return None
