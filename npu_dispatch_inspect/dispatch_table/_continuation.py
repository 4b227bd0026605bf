# SPDX-License-Identifier: BSD-3-Clause
"""What composites call, found by running them on tensors without values.

A mode that sits below autograd sees every call that a composite makes. It does
not run the call at once: it walks the call's way first, and where the way ends
in another composite it takes that one apart under itself. So each level is
seen, although composites do not reach a mode in an ordinary run.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from attrs import evolve
from torch.utils._python_dispatch import TorchDispatchMode

from npu_dispatch_inspect._torch_private import dispatcher, keysets
from npu_dispatch_inspect.dispatch_table._specs import arguments
from npu_dispatch_inspect.dispatch_table.path import (
    Context,
    Walk,
    Walker,
    below_autograd,
)
from npu_dispatch_inspect.records.paths import PathStep, PredictedCall, StepAction

__all__ = ["GOES_ON", "Followed", "follow", "predicted"]

_MAX_DEPTH = 32
"""Deeper nesting is a composite that calls itself; nothing in torch goes past 8."""
_INVISIBLE = frozenset({"prim::device"})
"""Asked of fake tensors only: real ones answer without a call."""
GOES_ON = frozenset(
    {StepAction.DECOMPOSES, StepAction.CALLS_OTHERS, StepAction.CALLS_AGAIN}
)
"""Ends of a way whose inside can be followed."""
_READS_VALUES = "the kernel computes on its own after the calls that are shown"
_CHOOSES = {
    "aten::_convolution": (
        "which convolution runs depends on what tensors without values do not have"
    )
}
"""Kernels for all backends that choose by more than fake tensors can tell."""
_NOTHING = object()


class Followed:
    """What came out of following a function: calls, and why it stopped."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self.calls: list[PredictedCall] = []
        self.unknown: str | None = None


def follow(run: Callable[[], Any], context: Context, walker: Walker) -> Followed:
    """Run a function on fake tensors and follow every operator it calls.

    Args:
        run: Calls operators on fake tensors; the fake mode is on around it.
        context: What the thread adds to and takes from every call.
        walker: Reads the tables.
    """
    followed = Followed()
    mode = _Follower(context, walker, followed.calls)
    try:
        with keysets.thread_with_keys(*_sees_all(context)), mode:
            run()
    except Exception as error:  # noqa: BLE001 - whatever it is, it is the answer
        followed.unknown = _one_line(error)
    return followed


class _Follower(TorchDispatchMode):
    """Collects the calls of one level, and makes another for the level below."""

    supports_higher_order_operators = True

    def __init__(
        self,
        context: Context,
        walker: Walker,
        found: list[PredictedCall],
        depth: int = 0,
    ) -> None:
        super().__init__()
        self._context = context
        self._walker = walker
        self._found = found
        self._depth = depth

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        """Leave compiled functions of the program compiled."""
        return True

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        if not hasattr(func, "_schema"):
            self._found.append(_higher_order(func))
            return func(*args, **kwargs)
        if func.name() in _INVISIBLE:
            return func(*args, **kwargs)
        walk = self._walker.walk(func, args, kwargs, self._context)
        call = predicted(func, args, kwargs, walk)
        place = len(self._found)
        self._found.append(call)  # also where what follows raises
        inside = _inside(func, walk)
        if inside is None:
            return _with_grad(func, args, func(*args, **kwargs))
        inner: list[PredictedCall] = []
        unknown = None
        notes = call.notes
        result = _NOTHING
        if self._depth < _MAX_DEPTH:
            level = _Follower(walk.inside, self._walker, inner, self._depth + 1)
            try:
                with keysets.thread_with_keys(*self._keys_inside(walk)), level:
                    result = inside(_as_tensors(func, args), kwargs)
            except Exception as error:  # noqa: BLE001 - it is the answer
                if keysets.reads_values(error):
                    notes += (_READS_VALUES,)
                else:
                    unknown = _one_line(error)
        else:
            unknown = f"more than {_MAX_DEPTH} levels deep"
        self._found[place] = evolve(
            call, calls=tuple(inner), unknown=unknown, notes=notes
        )
        if result is _NOTHING:
            result = func(*args, **kwargs)
        return _with_grad(func, args, result)

    def _keys_inside(self, walk: Walk) -> tuple[keysets.Keys, keysets.Keys]:
        if walk.steps[-1].action is StepAction.CALLS_AGAIN:
            # The kernel of autocast itself is to run, and no other level above.
            context = self._context
            return context.included, context.excluded | below_autograd()
        return _sees_all(walk.inside)


def predicted(
    op: Any, args: tuple[Any, ...], kwargs: dict[str, Any], walk: Walk
) -> PredictedCall:
    """The record of one call, its inside not looked at."""
    name, _, overload = op.name().partition(".")
    return PredictedCall(
        name=name,
        overload=overload or "default",
        inputs=arguments(op, args, kwargs),
        keys=walk.keys,
        steps=walk.steps,
        notes=_notes(op, args, walk),
    )


def _sees_all(context: Context) -> tuple[keysets.Keys, keysets.Keys]:
    """The keys under which a call reaches a mode before autograd or autocast."""
    autocast = keysets.named_keys(
        name for name in dispatcher.dispatch_key_names() if name.startswith("Autocast")
    )
    return context.included, context.excluded | below_autograd() | autocast


def _inside(op: Any, walk: Walk) -> Callable[[Any, Any], Any] | None:
    """What to run to see the calls that the last kernel of a way makes."""
    last = walk.steps[-1]
    if op.name() in _CHOOSES:
        return None
    if last.action is StepAction.CALLS_OTHERS and not _of_torch(last):
        return None
    if last.action is StepAction.CALLS_AGAIN:
        return lambda args, kwargs: op(*args, **kwargs)
    candidates = {
        StepAction.DECOMPOSES: (
            "CompositeImplicitAutogradNestedTensor"
            if last.kernel is not None and last.kernel.kind == "nested kernel"
            else "CompositeImplicitAutograd",
        ),
        StepAction.CALLS_OTHERS: (
            "CompositeExplicitAutogradNonFunctional",
            "CompositeExplicitAutograd",
        ),
    }.get(last.action, ())
    for key in candidates:
        if keysets.has_kernel(op.name(), key):
            return lambda args, kwargs: keysets.call_at_key(op, key, args, kwargs)
    return None


def _of_torch(step: PathStep) -> bool:
    """Whether a kernel for all backends is one of torch's, which are composed.

    Those of other libraries compute as they please, and with null pointers.
    """
    file = step.kernel.file if step.kernel is not None else None
    return "/RegisterCompositeExplicitAutograd" in (file or "")


def _higher_order(op: Any) -> PredictedCall:
    return PredictedCall(
        name=f"{getattr(op, 'namespace', 'higher_order')}::{op}",
        unknown="a higher-order operator is dispatched in Python",
    )


def _as_tensors(op: Any, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Python numbers for tensors, back to the tensors that torch makes of them."""
    kinds = [str(each.type) for each in op._schema.arguments]
    return tuple(
        torch.tensor(value)
        if isinstance(value, bool | int | float | complex)
        and kind in ("Tensor", "Optional[Tensor]")
        else value
        for kind, value in zip(kinds, args, strict=False)
    )


def _with_grad(op: Any, args: tuple[Any, ...], result: Any) -> Any:
    """Let results require grad where autograd, which is off here, would."""
    if not torch.is_grad_enabled() or op.name() in ("aten::detach", "aten::detach_"):
        return result
    if any(isinstance(each, torch.Tensor) and each.requires_grad for each in args):
        for each in result if isinstance(result, list | tuple) else (result,):
            if (
                isinstance(each, torch.Tensor)
                and (each.is_floating_point() or each.is_complex())
                and not each.is_inference()
            ):
                each.requires_grad = True
    return result


def _notes(op: Any, args: tuple[Any, ...], walk: Walk) -> tuple[str, ...]:
    notes = []
    devices = {
        str(each.device)
        for each in args
        if isinstance(each, torch.Tensor) and (each.dim() > 0 or each.device.type != "cpu")
    }
    if len(devices) > 1:
        notes.append(
            f"the tensors are on {' and '.join(sorted(devices))}: the kernel is "
            f"likely to refuse them"
        )
    last = walk.steps[-1]
    if last.action is StepAction.CALLS_OTHERS and op.name() in _CHOOSES:
        notes.append(_CHOOSES[op.name()])
    if last.action is StepAction.RAISES:
        notes.append(f"{op.name()} has no kernel for {last.key}: the call raises")
    return tuple(notes)


def _one_line(error: Exception) -> str:
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text[:200]}" if text else type(error).__name__
