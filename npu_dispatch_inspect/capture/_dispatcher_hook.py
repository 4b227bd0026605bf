# SPDX-License-Identifier: BSD-3-Clause
"""Engine "dispatcher": sees every call the dispatcher makes, composites included.

While a hook is on, each operator has one more kernel, on a dispatch key that
outranks the others. The kernel tells the recorder, then sends the call on to
where it was going. Calls made inside go through the same kernel one level
deeper; that is the tree. No mode is pushed and no result is kept, so the
program's operators are the ones it has without a tracer.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterator
from typing import Any

from npu_dispatch_inspect._torch_private import (
    dispatcher,
    modes,
    redispatch,
    tensor_class,
)
from npu_dispatch_inspect._torch_private.tensor_class import take_number
from npu_dispatch_inspect.capture import (
    _hook_dynamo,
    _hook_handlers,
    _hook_subclasses,
)
from npu_dispatch_inspect.capture._hook_numbers import NUMBERS, restorer
from npu_dispatch_inspect.capture._hook_threads import (
    CallRecorder,
    Seen,
    calls_here,
    seen_here,
    switch_on,
    thread,
    told,
)
from npu_dispatch_inspect.capture._scopes import (
    enter_record_function,
    leave_record_function,
)
from npu_dispatch_inspect.errors import UsageError

__all__ = ["DispatcherHook"]


class DispatcherHook:
    """Tells a recorder about every dispatcher call of the thread that starts it.

    Args:
        recorder: has ``begin``, ``end`` and ``fail``; see `CallRecorder`.
    """

    def __init__(self, recorder: CallRecorder) -> None:
        """Keep the recorder; nothing is hooked yet."""
        self._recorder = recorder
        self._seen: Seen | None = None

    def start(self) -> None:
        """Begin to see this thread's calls.

        Raises:
            UsageError: this build of torch lacks what the engine rests on.
        """
        require_support()
        _kernels.acquire()
        try:
            seen = seen_here()
            seen.add(self._recorder)
            switch_on(seen, on=True)
        except BaseException:
            _kernels.release()
            raise
        self._seen = seen

    def stop(self) -> None:
        """Stop seeing them; may be called in any order, from any thread, twice."""
        seen, self._seen = self._seen, None
        if seen is None:
            return
        seen.remove(self._recorder)
        if seen.calls is None and seen is seen_here():
            switch_on(seen, on=False)
        _kernels.release()


def require_support() -> None:
    """Refuse a torch that cannot do it.

    Raises:
        UsageError: says what is missing and which engine works.
    """
    missing = redispatch.missing_features()
    if missing:
        msg = (
            'engine="dispatcher" needs torch 2.6 or later, this one lacks '
            f'{", ".join(missing)}; use engine="dispatch_mode".'
        )
        raise UsageError(msg)


class _Kernels:
    """The kernels on all operators, there while at least one hook is on."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._users = 0
        self._known: dict[str, tuple[Any, Callable[..., Any]]] = {}
        self._installed: dict[str, Any] = {}
        self._undo: list[Callable[[], None]] = []

    def acquire(self) -> None:
        with self._lock:
            try:
                if not self._users:
                    self._undo.append(redispatch.register_higher_order(_higher_order))
                    self._undo.append(tensor_class.note_wrapped_numbers(thread))
                    self._undo.append(_hook_subclasses.install())
                    self._undo.append(_hook_handlers.install())
                    self._undo.append(_hook_dynamo.install())
                # Libraries may have brought operators since the last entry.
                self._undo.append(redispatch.register_kernels(list(self._new())))
                self._users += 1
            except BaseException:
                if not self._users:
                    self._remove()
                raise

    def release(self) -> None:
        with self._lock:
            self._users -= 1
            if not self._users:
                self._remove()

    def _new(self) -> Iterator[tuple[str, Callable[..., Any]]]:
        for name in dispatcher.operator_names():
            op = redispatch.find_overload(name)
            if op is None or self._installed.get(name) is op:
                continue
            known = self._known.get(name)
            if known is None or known[0] is not op:
                known = self._known[name] = (op, _mark(op) or _kernel(op))
            self._installed[name] = op
            yield name, known[1]

    def _remove(self) -> None:
        self._installed.clear()
        while self._undo:
            self._undo.pop()()


_kernels = _Kernels()


def _kernel(op: Any) -> Callable[..., Any]:
    """The kernel for one operator; everything it needs per call is bound here."""
    run = redispatch.redispatcher(op)
    restore = restorer(op)
    below, raw_keys = redispatch.below.get, redispatch.raw_keys
    here = thread
    # An operator that hands a number's tensor back (`to` with nothing to do) must
    # return it as the tensor that it is.
    numbers = NUMBERS if redispatch.returns_tensor(op) else frozenset()

    def kernel(keyset: Any, *args: Any, **kwargs: Any) -> Any:
        raw = keyset.raw_repr()
        keys = below(raw)
        if keys is None:
            keys = below(raw_keys(keyset))
        seen = here.seen
        calls = seen.calls or calls_here()
        if seen.numbers:
            sent, named = restore(args, kwargs, seen.numbers)
        else:
            sent, named = args, kwargs
        if calls is None:
            result = run(keys, *sent, **named)
            if type(result) in numbers:
                result = take_number(result, seen.numbers)
            return result
        begin, end, fail = calls
        token = begin(op, args, kwargs, raw)
        try:
            result = run(keys, *sent, **named) if named else run(keys, *sent)
        except BaseException as error:
            fail(token, error)
            # The traceback keeps this frame; it must not keep tensors alive.
            args = sent = ()
            kwargs = named = {}
            raise
        if type(result) in numbers:
            result = take_number(result, seen.numbers)
        end(token, result)
        return result

    modes.hide_from_dynamo(kernel)
    return kernel


def _mark(op: Any) -> Callable[..., Any] | None:
    """The kernel for the operators around a `record_function` block.

    They are labels, not work: torch.profiler shows none of its own operators. The
    label of an optimizer's step tells the phase of what is inside.
    """
    follow: Callable[[object], None]
    if op is modes.RECORD_FUNCTION_ENTER:
        follow = enter_record_function
    elif op is modes.RECORD_FUNCTION_EXIT:
        follow = _leave_record_function
    elif op.namespace == "profiler":
        follow = _ignore
    else:
        return None
    run = redispatch.redispatcher(op)

    def kernel(keyset: Any, *args: Any, **kwargs: Any) -> Any:
        keys = redispatch.below[redispatch.raw_keys(keyset)]
        result = run(keys, *args, **kwargs)
        if calls_here() is not None:
            follow(args[0])
        return result

    modes.hide_from_dynamo(kernel)
    return kernel


def _leave_record_function(_: object) -> None:
    leave_record_function()


def _ignore(_: object) -> None: ...


def _higher_order(op: Any) -> Callable[..., Any]:
    """The same for a higher-order operator, which is dispatched in Python."""

    def kernel(*args: Any, **kwargs: Any) -> Any:
        raw, key = redispatch.higher_order_keys(op, args, kwargs)
        calls = calls_here()
        if calls is None:
            return op.dispatch(key, *args, **kwargs)
        run = functools.partial(op.dispatch, key, *args, **kwargs)
        return told(run, calls, op, args, kwargs, raw)

    modes.hide_from_dynamo(kernel)
    return kernel
