# SPDX-License-Identifier: BSD-3-Clause
"""Engine "dispatch_mode": a private TorchDispatchMode that feeds a recorder."""

from __future__ import annotations

import threading
from types import MethodType
from typing import Any

from npu_dispatch_inspect._torch_private import modes
from npu_dispatch_inspect.capture._recorder import Recorder, Token
from npu_dispatch_inspect.capture._scopes import (
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


class DispatchModeEngine:
    """Switches the mode on and off for one thread; see `Recorder` for the rows."""

    name = "dispatch_mode"
    below_autograd = True
    nesting = False
    read_keys = None

    def __init__(self, recorder: Recorder) -> None:
        self._mode = _TracerMode()
        self._mode.__torch_dispatch__ = MethodType(_dispatcher(recorder), self._mode)

    def start(self) -> None:
        """Push the mode on this thread's stack."""
        modes.push_mode(self._mode)

    def stop(self) -> None:
        """Take the mode off this thread's stack, wherever it stands."""
        modes.pop_mode(self._mode)


def _dispatcher(recorder: Recorder) -> Any:
    begin, end, fail = recorder.begin, recorder.end, recorder.fail
    get_ident, plain_operator = threading.get_ident, modes.operator_class
    entered, left = modes.RECORD_FUNCTION_ENTER, modes.RECORD_FUNCTION_EXIT
    reentered: dict[int, Any] = {}

    def dispatch(
        mode: Any, op: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        if types and reentered and reentered.get(get_ident()) is op:
            # The second visit of one call: let the subclass handle it, with the
            # mode on, so that what it does inside is recorded as well.
            del reentered[get_ident()]
            return NotImplemented
        token = begin(op, args, kwargs)
        try:
            if types or type(op) is not plain_operator:
                result = nested(mode, token, op, types, args, kwargs or {})
            elif kwargs:
                result = op(*args, **kwargs)
            else:
                result = op(*args)
        except BaseException as error:
            fail(token, error)
            raise
        if op is entered:
            enter_record_function(args[0])
        elif op is left:
            leave_record_function()
        if end is not None:
            end(token, result)
        return result

    def nested(
        mode: Any, token: Token | None, op: Any, types: Any, args: Any, kwargs: Any
    ) -> Any:
        """Run a call whose inside is worth seeing, with the mode on."""
        if types and modes.opens_subclass(types):
            run = op
            reentered[get_ident()] = op
        else:
            run = modes.eager_kernel(op)
            if run is None:
                return op(*args, **kwargs)
        outer = recorder.enter(token)
        try:
            with mode:
                return run(*args, **kwargs)
        finally:
            reentered.pop(get_ident(), None)
            recorder.leave(outer)

    modes.hide_from_dynamo(dispatch, nested, Recorder.enter, Recorder.leave)
    return dispatch
