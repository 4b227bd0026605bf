# SPDX-License-Identifier: BSD-3-Clause
"""Why these tensors go where they go."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from attrs import evolve

from npu_dispatch_inspect._torch_private import keysets
from npu_dispatch_inspect.dispatch_table._composites import inside_key, opaque_reason
from npu_dispatch_inspect.dispatch_table._continuation import follow, predicted
from npu_dispatch_inspect.dispatch_table._fakes import FakeWorld
from npu_dispatch_inspect.dispatch_table._module_paths import ModulePaths
from npu_dispatch_inspect.dispatch_table._overloads import resolve_overload
from npu_dispatch_inspect.dispatch_table.backend import backend_choices
from npu_dispatch_inspect.dispatch_table.dtypes import probe_dtypes
from npu_dispatch_inspect.dispatch_table.path import Context, Walker, here
from npu_dispatch_inspect.dispatch_table.reader import read_dispatch_table
from npu_dispatch_inspect.errors import UsageError
from npu_dispatch_inspect.records.paths import (
    Explanation,
    PredictedCall,
    StepAction,
)
from npu_dispatch_inspect.traces._operator_names import spelled

__all__ = ["calls_operator", "explain"]


def explain(
    target: object, *args: Any, dtypes: bool = False, **kwargs: Any
) -> Explanation:
    """Predict the way of a call through the dispatcher, and say why.

    Nothing runs on a device and no value is read: composites are followed on
    tensors that have everything but values. Autocast, no_grad and inference_mode
    around the call are those around `explain`; modes (`TorchDispatchMode`,
    `FakeTensorMode`, a tracer) are put aside.

    Args:
        target: An operator, by name or as a `torch.ops` object, or any function
            or module that calls operators.
        *args: What it would be called with.
        dtypes: Also try which dtypes an operator supports; see `probe_dtypes`.
        **kwargs: What it would be called with.

    Returns:
        The calls with their keys, step by step; what the backend chooses; and where
        the prediction had to end, why.

    Raises:
        UnknownNameError: there is no such operator.
        UsageError: the arguments fit none of its overloads.

    Example:
        >>> import torch
        >>> from npu_dispatch_inspect import explain
        >>> x, w = torch.ones(2, 3), torch.ones(3, 4)
        >>> explained = explain("aten::matmul", x, w)
        >>> explained.names
        ('aten::matmul', 'aten::mm')
        >>> explained.calls[0].last.action.value, explained.complete
        ('decomposes', True)
    """
    calls: tuple[PredictedCall, ...]
    if _is_operator(target):
        op = resolve_overload(target, args, kwargs)
        with keysets.quiet_block():
            call = _explain_operator(op, args, kwargs, here())
        calls, unknown = (call,), None
    else:
        if dtypes:
            message = (
                "dtypes=True tries one operator: give its name, "
                "for instance explain('aten::addmm', ..., dtypes=True)."
            )
            raise UsageError(message)
        if not callable(target):
            message = (
                f"explain() takes an operator or a function, "
                f"not {type(target).__name__}."
            )
            raise UsageError(message)
        with keysets.quiet_block():
            calls, unknown = _explain_function(target, args, kwargs, here())
    return Explanation(
        calls=calls,
        backend=backend_choices(calls),
        dtypes=probe_dtypes(target, *args, **kwargs) if dtypes else None,
        unknown=unknown,
    )


def calls_operator(target: object, operator: object, *args: Any, **kwargs: Any) -> bool:
    """Tell whether a call would reach an operator, at any level.

    Args:
        target: As for `explain`.
        operator: Name (``"npu::npu_linear"``) or `torch.ops` object; without an
            overload any of them counts.
        *args: What the target would be called with.
        **kwargs: What the target would be called with.

    Returns:
        True where the call, or one inside it, is the operator.

    Raises:
        UsageError: the answer would be False, but a composite could not be
            followed to its end, so nobody knows.

    Example:
        >>> import torch
        >>> from npu_dispatch_inspect import calls_operator
        >>> x, w = torch.ones(2, 3), torch.ones(4, 3)
        >>> calls_operator(torch.nn.functional.linear, "aten::mm", x, w)
        True
    """
    wanted = read_dispatch_table(operator).names
    explanation = explain(target, *args, **kwargs)
    if not set(wanted).isdisjoint(explanation.names):
        return True
    if not explanation.complete:
        reason = explanation.unknown or next(
            f"{call.qualified_name}: {call.unknown}"
            for call in explanation.walk()
            if call.unknown
        )
        message = (
            f"Whether {spelled(operator)} is called is not known, because a part "
            f"could not be followed ({reason}): trace a real call instead."
        )
        raise UsageError(message)
    return False


def _is_operator(target: object) -> bool:
    return isinstance(target, str) or type(target).__module__ == "torch._ops"


def _explain_operator(
    op: Any, args: tuple[Any, ...], kwargs: dict[str, Any], context: Context
) -> PredictedCall:
    walker = Walker()
    walk = walker.walk(op, args, kwargs, context)
    call = predicted(op, args, kwargs, walk)
    if walk.steps[-1].action is StepAction.OPAQUE:
        return evolve(call, unknown=opaque_reason(walk.steps[-1].key))
    again = walk.steps[-1].action is StepAction.CALLS_AGAIN
    if not again and inside_key(op, walk) is None:
        return call
    with FakeWorld() as world:
        try:
            given = world.copies((args, kwargs))
        except Exception as error:  # noqa: BLE001 - some tensors have no fake form
            why = f"the tensors cannot be copied without values: {error}"
            return evolve(call, unknown=why)
        followed = follow(lambda: op(*given[0], **given[1]), context, walker, world)
    inside = followed.calls[0] if followed.calls else None
    if inside is None or inside.qualified_name != call.qualified_name:
        return evolve(call, unknown=followed.unknown or "it called nothing")
    return evolve(call, calls=inside.calls, unknown=inside.unknown, notes=inside.notes)


def _explain_function(
    target: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    context: Context,
) -> tuple[tuple[PredictedCall, ...], str | None]:
    with FakeWorld() as world:
        try:
            given = world.copies((args, kwargs))
        except Exception as error:  # noqa: BLE001 - some tensors have no fake form
            return (), f"the tensors cannot be copied without values: {error}"
        run = target
        if isinstance(target, torch.nn.Module):
            # Buffers are written to (batch norm counts); the copies take it.
            state = dict(target.named_parameters()) | dict(target.named_buffers())
            run = functools.partial(_call_module, target, world.copies(state))
        with ModulePaths(target) as paths:
            followed = follow(
                lambda: run(*given[0], **given[1]),
                context,
                Walker(),
                world,
                paths=paths,
            )
    return tuple(followed.calls), followed.unknown


def _call_module(module: torch.nn.Module, state: Any, *args: Any, **kwargs: Any) -> Any:
    return torch.func.functional_call(module, state, args, kwargs)
