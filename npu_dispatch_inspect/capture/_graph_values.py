# SPDX-License-Identifier: BSD-3-Clause
"""Arguments and results taken apart into tensors, each with a name, and put together.

What is opened: lists, tuples, dictionaries, named tuples, dataclasses, and whatever
is registered with torch's pytree (the outputs of Hugging Face models are).
"""

from __future__ import annotations

import copy
import dataclasses
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from attrs import define, field

from npu_dispatch_inspect._torch_private import tracing

__all__ = ["Leaves", "argument_names", "open_value"]

MAX_DEPTH = 64
"""A value that is nested more deeply than this is taken as a leaf."""


@define
class Leaves:
    """The tensors of a value, and what is left of it without them."""

    tensors: list[torch.Tensor] = field(factory=list)
    names: list[str] = field(factory=list)
    constants: list[tuple[str, Any]] = field(factory=list)
    """(name, value) of the leaves that are no tensors."""


def open_value(value: Any, name: str, leaves: Leaves) -> Callable[[Sequence[Any]], Any]:
    """Take a value apart.

    Args:
        value: anything.
        name: what it is called; parts get ``name['key'][0].field``.
        leaves: gets what is found.

    Returns:
        A function that makes the value again of all tensors in ``leaves``.
    """
    return _open(value, name, leaves, 0)


def _open(
    value: Any, name: str, leaves: Leaves, depth: int
) -> Callable[[Sequence[Any]], Any]:
    if isinstance(value, torch.Tensor):
        position = len(leaves.tensors)
        leaves.tensors.append(value)
        leaves.names.append(name)
        return lambda tensors: tensors[position]
    parts = None if depth > MAX_DEPTH else _parts(value)
    if parts is None:
        leaves.constants.append((name, value))
        return lambda _: value
    places, build = parts
    made = [_open(each, f"{name}{place}", leaves, depth + 1) for place, each in places]
    return lambda tensors: build([each(tensors) for each in made])


def _parts(
    value: Any,
) -> tuple[list[tuple[str, Any]], Callable[[list[Any]], Any]] | None:
    known = tracing.children(value)
    if known is not None:
        return known
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = [
            each.name for each in dataclasses.fields(value) if hasattr(value, each.name)
        ]

        def build(new: list[Any]) -> Any:
            # Without __init__, which may compute; a frozen class lets nobody assign.
            made = copy.copy(value)
            for name, each in zip(names, new, strict=True):
                object.__setattr__(made, name, each)
            return made

        return [(f".{name}", getattr(value, name)) for name in names], build
    return None


def argument_names(
    function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> tuple[list[str], list[str]]:
    """What the function calls its arguments: ``x``, ``args[0]``, ``mask``.

    Returns:
        One name per positional and one per keyword argument.
    """
    positional = [f"args[{number}]" for number in range(len(args))]
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        parameters = []
    for number in range(len(args)):
        if number >= len(parameters):
            break
        parameter = parameters[number]
        if parameter.kind is parameter.VAR_POSITIONAL:
            positional[number:] = [
                f"{parameter.name}[{each}]" for each in range(len(args) - number)
            ]
            break
        positional[number] = parameter.name
    return positional, list(kwargs)
