# SPDX-License-Identifier: BSD-3-Clause
"""Engine "dispatch_mode": a private TorchDispatchMode that feeds a recorder."""

from __future__ import annotations

import threading
from types import FunctionType, MethodType
from typing import Any

import torch

from npu_dispatch_inspect._torch_private import modes, redispatch
from npu_dispatch_inspect.capture._odd_values import Stand
from npu_dispatch_inspect.capture._recorder import Recorder
from npu_dispatch_inspect.capture._scopes import (
    branches,
    enter_record_function,
    leave_record_function,
)

__all__ = ["DispatchModeEngine"]


class _TracerMode(modes.mode_class):
    """The mode itself. What it does per call is set on the instance.

    An instance attribute replaces the method that torch wraps for Dynamo; the
    function is hidden from Dynamo by its code object instead, which costs
    nothing per call.
    """

    # Without these two, higher-order operators raise in the user's program, and
    # a compiled function called inside the block never runs compiled again.
    supports_higher_order_operators = True

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        return True

    def __init__(self, recorder: Recorder) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.recorder = recorder
        self.__torch_dispatch__ = MethodType(_dispatcher(recorder), self)  # type: ignore[method-assign]


class DispatchModeEngine:
    """Switches the mode on and off for one thread; see `Recorder` for the rows."""

    name = "dispatch_mode"
    below_autograd = True
    nesting = False
    read_keys = None

    def __init__(self, recorder: Recorder) -> None:
        self._mode = _TracerMode(recorder)

    def start(self) -> None:
        """Push the mode on this thread's stack."""
        _drop_ended()
        redispatch.hand_higher_order_to(_TracerMode)
        modes.push_mode(self._mode)

    def stop(self) -> bool:
        """Take the mode off this thread's stack, wherever it stands.

        False on a thread whose stack it is not on: that of the thread which
        entered it keeps the mode, which records nothing any more.
        """
        found = modes.pop_mode(self._mode)
        _drop_ended()
        return found


def _drop_ended() -> None:
    """Take off modes whose block was left on another thread, or before a fork."""
    for mode in modes.dispatch_mode_stack():
        if type(mode) is _TracerMode and mode.recorder.closed:
            modes.pop_mode(mode)


_waiting: dict[int, list[tuple[_TracerMode, Any]]] = {}
"""Per thread, the tracers that have seen the call being made and have sent it on
to the tracer below, together with what tells them that they are inside of it."""

_reentered: dict[int, Any] = {}
"""Per thread, the operator that comes back to a tracer before it goes to the
subclass it is for."""


def _dispatcher(recorder: Recorder) -> Any:
    begin, end, fail = recorder.begin, recorder.end, recorder.fail
    plain_operator = modes.operator_class
    entered, left = modes.RECORD_FUNCTION_ENTER, modes.RECORD_FUNCTION_EXIT
    loses_result = redispatch.LOSES_RESULT

    def dispatch(
        mode: _TracerMode, op: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        if op is entered or op is left:
            return label(op, args)
        if types and _reentered and _comes_back(op):
            # Let the subclass handle it, with the tracers on, so that what it
            # does inside is recorded as well.
            return NotImplemented
        token = begin(op, args, kwargs)
        try:
            if types or type(op) is not plain_operator:
                result = opened(mode, token, op, types, args, kwargs or {})
            elif op is loses_result:
                with redispatch.keeping_result():
                    result = op(*args, **(kwargs or {}))
            elif kwargs:
                result = op(*args, **kwargs)
            else:
                result = op(*args)
        except BaseException as error:
            fail(token, error)
            # The traceback keeps this frame; it must not keep tensors alive.
            args = kwargs = None
            raise
        if end is not None:
            end(token, result)
        return result

    def label(op: Any, args: Any) -> Any:
        """Follow torch's label around a block: it is no work, so no record."""
        result = op(*args)
        if not _is_traced_below():
            if op is entered:
                enter_record_function(args[0])
            else:
                leave_record_function()
        return result

    def opened(
        mode: _TracerMode, token: Any, op: Any, types: Any, args: Any, kwargs: Any
    ) -> Any:
        """Run a call whose inside is worth seeing."""
        if recorder.closed:
            return op(*args, **kwargs)
        if modes.has_branches(op):
            args = tuple(_Branch.of(each, mode, token) for each in args)
            return op(*args, **kwargs)
        # A mode of somebody else's has its own way with a subclass.
        if (
            not types
            or not modes.opens_subclass(types)
            or modes.other_modes(_TracerMode)
        ):
            return op(*args, **kwargs)
        thread = threading.get_ident()
        waiting = _waiting.setdefault(thread, [])
        waiting.append((mode, token))
        try:
            if _is_traced_below():
                return op(*args, **kwargs)
            del _waiting[thread]
            return _inside(waiting, thread, op, args, kwargs)
        finally:
            _waiting.pop(thread, None)

    return dispatch


def _comes_back(op: Any) -> bool:
    """True where the call is one that a tracer has sent back to the subclass."""
    thread = threading.get_ident()
    if _reentered.get(thread) is not op:
        return False
    del _reentered[thread]
    return True


def _is_traced_below() -> bool:
    """True where another tracer is asked after the one that is running."""
    return bool(modes.dispatch_mode_stack())


def _inside(
    waiting: list[tuple[_TracerMode, Any]], thread: int, op: Any, args: Any, kwargs: Any
) -> Any:
    """Call ``op`` again with all tracers on; the innermost sends it to the subclass."""
    outer = []
    pushed: list[_TracerMode] = []
    try:
        for mode, token in reversed(waiting):
            outer.append((mode, mode.recorder.enter(token)))
            modes.push_mode(mode)
            pushed.append(mode)
        _reentered[thread] = op
        return op(*args, **kwargs)
    finally:
        _reentered.pop(thread, None)
        for mode in reversed(pushed):
            modes.pop_mode(mode)
        for mode, before in reversed(outer):
            mode.recorder.leave(before)


class _Branch(Stand):
    """A function given to a higher-order operator; it runs with the tracer on."""

    def __init__(self, function: Any, mode: _TracerMode, token: Any) -> None:
        self.function = function
        self._mode = mode
        self._token = token

    @classmethod
    def of(cls, value: Any, mode: _TracerMode, token: Any) -> Any:
        """The value itself where it is no function of the program's."""
        kinds = (FunctionType, MethodType, torch.nn.Module, cls)
        return cls(value, mode, token) if isinstance(value, kinds) else value

    def __getattr__(self, name: str) -> Any:
        return getattr(self.function, name)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        mode = self._mode
        recorder = mode.recorder
        outer = recorder.enter(self._token)
        identity = id(self.function)
        known = identity in branches
        branches.add(identity)
        modes.push_mode(mode)
        try:
            return self.function(*args, **kwargs)
        finally:
            modes.pop_mode(mode)
            if not known:
                branches.discard(identity)
            recorder.leave(outer)
