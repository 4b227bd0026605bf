# SPDX-License-Identifier: BSD-3-Clause
"""Which overload a call is for, and whether the arguments fit it."""

from __future__ import annotations

from typing import Any

import torch

from npu_dispatch_inspect._torch_private import keysets, redispatch
from npu_dispatch_inspect.dispatch_table.reader import read_dispatch_table
from npu_dispatch_inspect.errors import UsageError
from npu_dispatch_inspect.records.registrations import OperatorKind, OverloadGroup

__all__ = ["resolve_overload"]

_WHY_NOT = {
    OperatorKind.DANGLING: "it has kernels but no schema",
    OperatorKind.HIGHER_ORDER: "it is a higher-order operator, dispatched in Python",
    OperatorKind.JIT_ONLY: "only TorchScript knows it",
}


def resolve_overload(
    target: object, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """The overload that a call with these arguments is for, as torch chooses it.

    Raises:
        UnknownNameError: there is no such operator.
        UsageError: the arguments do not fit, or the operator cannot be called.
    """
    found = read_dispatch_table(target)[target]
    entries = found.entries if isinstance(found, OverloadGroup) else (found,)
    usable = [each for each in entries if each.kind is OperatorKind.DISPATCHER]
    if not usable:
        message = (
            f"{entries[0].qualified_name} cannot be explained, because "
            f"{_WHY_NOT[entries[0].kind]}: its table entry is all there is to see."
        )
        raise UsageError(message)
    if isinstance(found, OverloadGroup):
        try:
            overload = keysets.matching_overload(found.name, args, kwargs)
        except RuntimeError as error:
            raise _does_not_fit(found.name, _first_line(error)) from None
        name = f"{found.name}.{overload}" if overload else found.name
        name = name.removesuffix(".default")
    else:
        name = found.qualified_name
    op = redispatch.find_overload(name)
    if op is None:
        message = f"{name} cannot be explained: only TorchScript has this overload."
        raise UsageError(message)
    problem = _problem(op, args, kwargs)
    if problem:
        raise _does_not_fit(name, problem)
    return op


def _problem(op: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str | None:
    """What is wrong with the arguments, None where nothing is to be seen."""
    schema = op._schema.arguments
    positional = [each for each in schema if not each.kwarg_only]
    if len(args) > len(positional):
        return f"it takes {len(positional)} positional arguments, not {len(args)}"
    given = {each.name: value for each, value in zip(positional, args, strict=False)}
    for name, value in kwargs.items():
        if name not in {each.name for each in schema}:
            return f"it has no argument {name!r}"
        if name in given:
            return f"{name!r} is given twice"
        given[name] = value
    for each in schema:
        if each.name not in given:
            if not each.has_default_value():
                return f"the argument {each.name!r} is missing"
        elif str(each.type) == "Tensor" and not isinstance(
            given[each.name], torch.Tensor | bool | int | float | complex
        ):
            kind = type(given[each.name]).__name__
            return f"{each.name!r} must be a tensor, not {kind}"
    return None


def _does_not_fit(name: str, problem: str) -> UsageError:
    return UsageError(f"{name} cannot be called like this: {problem}.")


def _first_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    # The first line only announces the reasons.
    return (lines[1] if len(lines) > 1 else lines[0]).rstrip(".")
