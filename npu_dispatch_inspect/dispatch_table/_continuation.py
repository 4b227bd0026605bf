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

from npu_dispatch_inspect._torch_private import dispatcher, keysets, modes
from npu_dispatch_inspect.dispatch_table._composites import (
    CALLS_NOTHING,
    GENERATED,
    GOES_ON,
    MISLEADING,
    inside_key,
    is_python_factory,
    opaque_reason,
    real_call,
)
from npu_dispatch_inspect.dispatch_table._fakes import (
    FakeWorld,
    all_fake,
    as_tensors,
)
from npu_dispatch_inspect.dispatch_table._module_paths import ModulePaths
from npu_dispatch_inspect.dispatch_table._specs import arguments
from npu_dispatch_inspect.dispatch_table.path import (
    Context,
    Walk,
    Walker,
    below_autograd,
)
from npu_dispatch_inspect.records.paths import PredictedCall, StepAction

__all__ = ["Followed", "follow", "predicted"]

_MAX_DEPTH = 32
"""Deeper nesting is a composite that calls itself; nothing in torch goes past 8."""
_INVISIBLE = frozenset({"prim::device"})
"""Asked of fake tensors only: real ones answer without a call."""
_COMPUTES = "the kernel computes on its own after the calls that are shown"
_ABOVE_PYTHON = ("Conjugate", "Negative", "ZeroTensor")
_NOTHING = object()


class Followed:
    """What came out of following a function: calls, and why it stopped."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self.calls: list[PredictedCall] = []
        self.unknown: str | None = None


def follow(
    run: Callable[[], Any],
    context: Context,
    walker: Walker,
    world: FakeWorld,
    *,
    paths: ModulePaths | None = None,
) -> Followed:
    """Run a function on fake tensors and follow every operator it calls.

    Args:
        run: Calls operators on fake tensors.
        context: What the thread adds to and takes from every call.
        walker: Reads the tables.
        world: Where the fake tensors come from; it is on.
        paths: Knows the module that runs; None where an operator is followed.
    """
    followed = Followed()
    mode = _Follower(context, walker, world, followed.calls, paths=paths)
    world.forbid_backward()
    try:
        with keysets.thread_with_keys(*_sees_all(context)), mode:
            run()
    except Exception as error:  # noqa: BLE001 - whatever it is, it is the answer
        followed.unknown = _one_line(error)
    return followed


class _Follower(modes.mode_class):
    """Collects the calls of one level, and makes another for the level below."""

    supports_higher_order_operators = True

    def __init__(
        self,
        context: Context,
        walker: Walker,
        world: FakeWorld,
        found: list[PredictedCall],
        *,
        above: tuple[str, ...] = (),
        paths: ModulePaths | None = None,
        null_pointers: bool = False,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._context = context
        self._walker = walker
        self._world = world
        self._found = found
        self._above = above
        self._paths = paths
        self._null_pointers = null_pointers

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        """Leave compiled functions of the program compiled."""
        return True

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Not be wrapped by Dynamo: its wrappers are where a tracer comes in."""
        return False

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        with keysets.untraced():
            return self._followed(func, args, kwargs or {})

    def _followed(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        if not hasattr(func, "_schema"):
            self._found.append(_higher_order(func))
            return func(*args, **kwargs)
        if func.name() in _INVISIBLE:
            return func(*args, **kwargs)
        context = self._context
        if self._paths is not None and not self._above and is_python_factory(func):
            context = context.without(below_autograd())
        walk = self._walker.walk(func, args, kwargs, context)
        place = len(self._found)
        module = self._paths.current if self._paths is not None else None
        call = predicted(func, args, kwargs, walk, module)
        self._found.append(call)  # also where what follows raises
        args = as_tensors(func, args)
        self._found[place], result = self._look_inside(call, func, args, kwargs, walk)
        if result is _NOTHING:
            result = func(*args, **kwargs)
        substitute = real_call(self._above, func, args, result)
        if substitute is not None:
            op, given = substitute
            walk = self._walker.walk(op, given, {}, context)
            self._found[place] = predicted(op, given, {}, walk, module)
        return self._world.with_grad(func, args, result)

    def _look_inside(
        self,
        call: PredictedCall,
        func: Any,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        walk: Walk,
    ) -> tuple[PredictedCall, Any]:
        """The call with what it calls, and its result where that can be used."""
        last = walk.steps[-1]
        name = call.qualified_name
        if last.action is StepAction.OPAQUE:
            return evolve(call, unknown=opaque_reason(last.key)), _NOTHING
        if last.action not in GOES_ON:
            return call, _NOTHING
        if name in CALLS_NOTHING:
            return evolve(call, calls=()), _NOTHING
        if name in MISLEADING:
            return evolve(call, unknown=MISLEADING[name]), _NOTHING
        key = inside_key(func, walk)
        generated = key == GENERATED
        if last.action is not StepAction.CALLS_AGAIN and (
            key is None or (self._null_pointers and not generated)
        ):
            return call, _NOTHING
        if len(self._above) >= _MAX_DEPTH:
            return evolve(call, unknown=f"{_MAX_DEPTH} levels deep"), _NOTHING
        inner: list[PredictedCall] = []
        level = _Follower(
            walk.inside,
            self._walker,
            self._world,
            inner,
            above=(*self._above, name),
            paths=self._paths,
            null_pointers=self._null_pointers or generated,
        )
        result = _NOTHING
        unknown, notes = None, call.notes
        try:
            if generated:
                with (
                    self._world.null_pointers((args, kwargs)) as given,
                    keysets.thread_with_keys(*_sees_all(walk.inside)),
                    level,
                ):
                    keysets.call_at_key(func, GENERATED, *given)
            elif key is None:
                # The kernel of autocast itself is to run: only it knows its casts.
                above = self._context.included, self._context.excluded
                with (
                    keysets.thread_with_keys(above[0], above[1] | below_autograd()),
                    level,
                ):
                    result = func(*args, **kwargs)
            else:
                with keysets.thread_with_keys(*_sees_all(walk.inside)), level:
                    result = keysets.call_at_key(func, key, args, kwargs)
        except Exception as error:  # noqa: BLE001 - it is the answer
            if keysets.reads_values(error):
                notes += (_COMPUTES,)
            else:
                unknown = _one_line(error)
        if not (func._schema.is_mutable or _usable(last.action, result)):
            result = _NOTHING
        call = evolve(call, calls=tuple(inner), unknown=unknown, notes=notes)
        return call, result


def predicted(
    op: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    walk: Walk,
    module: str | None = None,
) -> PredictedCall:
    """The record of one call, its inside not looked at."""
    name, _, overload = op.name().partition(".")
    return PredictedCall(
        name=name,
        overload=overload or "default",
        module=module,
        inputs=arguments(op, args, kwargs),
        keys=walk.keys,
        steps=walk.steps,
        notes=_notes(op, args, walk),
    )


def _usable(action: StepAction, result: Any) -> bool:
    # A kernel for all backends may make its result past the dispatcher.
    return action is not StepAction.CALLS_OTHERS and all_fake(result)


def _sees_all(context: Context) -> tuple[keysets.Keys, keysets.Keys]:
    """The keys under which a call reaches a mode before any other kernel."""
    above = keysets.named_keys(
        name
        for name in dispatcher.dispatch_key_names()
        if name.startswith("Autocast") or name in _ABOVE_PYTHON
    )
    return context.included, context.excluded | below_autograd() | above


def _higher_order(op: Any) -> PredictedCall:
    return PredictedCall(
        name=f"{getattr(op, 'namespace', 'higher_order')}::{op}",
        unknown="a higher-order operator is dispatched in Python",
    )


def _notes(op: Any, args: tuple[Any, ...], walk: Walk) -> tuple[str, ...]:
    notes = []
    devices = {
        str(each.device)
        for each in args
        if isinstance(each, torch.Tensor)
        and (each.dim() > 0 or each.device.type != "cpu")
    }
    if len(devices) > 1:
        notes.append(
            f"the tensors are on {' and '.join(sorted(devices))}: the kernel is "
            f"likely to refuse them"
        )
    last = walk.steps[-1]
    if last.action is StepAction.RAISES:
        notes.append(f"{op.name()} has no kernel for {last.key}: the call raises")
    return tuple(notes)


def _one_line(error: Exception) -> str:
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text[:200]}" if text else type(error).__name__
