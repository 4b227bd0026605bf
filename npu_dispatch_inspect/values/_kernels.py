# SPDX-License-Identifier: BSD-3-Clause
"""The kernel in front of each of torch_npu's, which adds the values."""

from __future__ import annotations

import atexit
import functools
import math
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

from npu_dispatch_inspect._torch_private import (
    backend_kernels,
    modes,
    redispatch,
    tensor_class,
)
from npu_dispatch_inspect.capture._hook_numbers import restorer
from npu_dispatch_inspect.capture._hook_threads import thread
from npu_dispatch_inspect.standin import loader
from npu_dispatch_inspect.values._arguments import tensors_in
from npu_dispatch_inspect.values._collectives import Collectives
from npu_dispatch_inspect.values._memory import (
    alias,
    copy_into,
    elements_of,
    on_device,
    room_of,
)
from npu_dispatch_inspect.values._plan import Computed, OtherFormError, Plan
from npu_dispatch_inspect.values._unknown import Unknown
from npu_dispatch_inspect.values.formulas import find_formula

__all__ = ["install"]

_COLLECTIVE = "c10d"
_NAMESPACES = ("aten", "npu", _COLLECTIVE)

_NO_VALUES = frozenset(
    (
        "aten::_fused_sdp_choice",
        "aten::_pin_memory",
        "aten::empty.memory_format",
        "aten::empty_like",
        "aten::empty_strided",
        "aten::is_pinned",
        "aten::is_set_to",
        "aten::new_empty_strided",
        "aten::record_stream",
        "aten::set_",
        "aten::set_.source_Storage",
        "aten::set_.source_Storage_storage_offset",
        "aten::set_.source_Tensor",
        "npu::empty_with_format",
        "npu::empty_with_swapped_memory",
        "npu::get_npu_format",
        "npu::get_storage_size",
        "npu::npu_change_data_ptr",
        "npu::set_op_timeout_ms",
        "npu::unsafe_empty_with_format",
    )
)
"""Operators that make or describe tensors, and compute nothing."""

_quiet = backend_kernels.quiet


_OURS = os.path.join(str(Path(__file__).parent.parent), "")
_elementwise_codes: set[int] = set()
"""Identities of the code that runs torch_npu's kernel of an elementwise operator."""


def _is_replaced(caller: FrameType | None) -> bool:
    """Whether a call comes out of the kernel of an elementwise operator.

    What it would write is of no use: see `Plan`. A frame of somebody else in between
    is a signal handler's or a finaliser's, whose calls are their own.
    """
    while caller is not None and caller.f_code.co_filename.startswith(_OURS):
        if id(caller.f_code) in _elementwise_codes:
            return True
        caller = caller.f_back
    return False


def install(unknown: Unknown) -> Callable[[], None]:
    """Compute values from now on, on all threads; return what ends it."""
    stop_noting = tensor_class.note_wrapped_numbers(thread)
    remove = backend_kernels.replace_kernels(list(_kernels(unknown)))

    loader.move_data(in_queue=False)
    undo: list[Callable[[], None]] = [
        functools.partial(loader.move_data, in_queue=True),
        stop_noting,
        remove,
    ]

    def end() -> None:
        while undo:
            undo.pop()()

    # The interpreter must not be gone when the dispatcher lets go of the kernels.
    atexit.register(end)
    return end


def _kernels(unknown: Unknown) -> Iterator[tuple[str, Callable[..., Any], bool]]:
    special = {
        "aten::contiguous": _contiguous,
        "aten::resize_": _resized,
        "aten::resize_as_": _resized,
    }
    collectives = Collectives()
    for name in backend_kernels.backend_operators():
        namespace = name.partition("::")[0]
        if namespace not in _NAMESPACES or name in _NO_VALUES:
            continue
        op = redispatch.find_overload(name)
        run = None if op is None else backend_kernels.backend_kernel(name)
        if run is None:
            continue
        if namespace == _COLLECTIVE:
            yield name, collectives.kernel(name, run), False
            continue
        if name in special:
            yield name, special[name](run, collectives), False
            continue
        formula = find_formula(name)
        plan = Plan(op, formula)
        if not plan.gives_values:
            continue
        known = formula is not None or backend_kernels.has_cpu_kernel(name)
        if known and plan.elementwise:
            yield name, _elementwise(op, plan, unknown, collectives, run), False
        else:
            kernel = _kernel(op, plan, unknown, collectives, run, known=known)
            yield name, kernel, False
        above = backend_kernels.backend_kernel(name, above_autograd=True)
        # What such a kernel draws, it draws in the operators that it calls.
        if above is not None and not plan.draws:
            plan = Plan(op, formula, above_autograd=True)
            kernel = _kernel(op, plan, unknown, collectives, above, known=known)
            yield name, _unless_wrapped(kernel, above), True


def _kernel(
    op: Any,
    plan: Plan,
    unknown: Unknown,
    collectives: Collectives,
    run: Callable[..., Any],
    *,
    known: bool,
) -> Callable[..., Any]:
    name = op.name()
    restore = restorer(op)
    compute, write, here = plan.compute, plan.write, thread

    def kernel(keyset: Any, *args: Any, **kwargs: Any) -> Any:
        numbers = here.seen.numbers
        if numbers:
            args, kwargs = restore(args, kwargs, numbers)
        if _is_replaced(sys._getframe().f_back):
            return run(keyset, *args, **kwargs)
        if collectives.queued:
            collectives.wait()
        computed: Computed | None = None
        refusal: Exception | None = None
        try:
            if known:
                try:
                    with _quiet():
                        computed = compute(args, kwargs)
                except Exception as error:  # noqa: BLE001 - whatever a kernel raises
                    refusal = error
            result = run(keyset, *args, **kwargs)
            if computed is not None:
                try:
                    return write(result, computed)
                except OtherFormError as error:
                    refusal = error
            with _quiet():
                unknown.settle(name, plan.targets(result, args, kwargs), refusal)
        except BaseException:
            # The traceback keeps this frame; it must not keep tensors alive.
            args = ()
            kwargs = {}
            raise
        return result

    modes.hide_with_calls_from_dynamo(kernel)
    return kernel


def _elementwise(
    op: Any,
    plan: Plan,
    unknown: Unknown,
    collectives: Collectives,
    run: Callable[..., Any],
) -> Callable[..., Any]:
    """The kernel for operators that are computed after torch_npu's: see `Plan`."""
    name = op.name()
    restore = restorer(op)
    compute_and_write, here = plan.compute_and_write, thread

    def kernel(keyset: Any, *args: Any, **kwargs: Any) -> Any:
        numbers = here.seen.numbers
        if numbers:
            args, kwargs = restore(args, kwargs, numbers)
        if _is_replaced(sys._getframe().f_back):
            return run(keyset, *args, **kwargs)
        if collectives.queued:
            collectives.wait()
        try:
            result = run(keyset, *args, **kwargs)
            with _quiet():
                try:
                    compute_and_write(result, args, kwargs)
                except Exception as error:  # noqa: BLE001 - whatever a kernel raises
                    unknown.settle(name, plan.targets(result, args, kwargs), error)
        except BaseException:
            # As in the other kernel.
            args = ()
            kwargs = {}
            raise
        return result

    _elementwise_codes.add(id(kernel.__code__))
    modes.hide_with_calls_from_dynamo(kernel)
    return kernel


def _unless_wrapped(
    kernel: Callable[..., Any], run: Callable[..., Any]
) -> Callable[..., Any]:
    """The kernel, but for calls on wrappers: what they come to has values below."""

    def choose(keyset: Any, *args: Any, **kwargs: Any) -> Any:
        given = tensors_in([*args, *kwargs.values()])
        chosen = run if any(map(backend_kernels.is_wrapper, given)) else kernel
        return chosen(keyset, *args, **kwargs)

    modes.hide_from_dynamo(choose)
    return choose


def _contiguous(
    run: Callable[..., Any], collectives: Collectives
) -> Callable[..., Any]:
    """Returns its argument, or a copy that no other operator makes."""

    def kernel(keyset: Any, tensor: Any, *args: Any, **kwargs: Any) -> Any:
        collectives.wait()
        result = run(keyset, tensor, *args, **kwargs)
        if result is not tensor and result.data_ptr() != tensor.data_ptr():
            with _quiet():
                copy_into(result, alias(tensor))
        return result

    modes.hide_with_calls_from_dynamo(kernel)
    return kernel


def _resized(run: Callable[..., Any], collectives: Collectives) -> Callable[..., Any]:
    """Moves to another place where it needs more room, and takes its elements along."""

    def kernel(keyset: Any, tensor: Any, size: Any, *args: Any, **kwargs: Any) -> Any:
        collectives.wait()
        with _quiet():
            held = None
            wanted = size.numel() if on_device(size) else math.prod(size)
            if room_of(tensor) < wanted:
                before = tensor.data_ptr()
                held = elements_of(tensor)
                if held is not None:
                    held = held.clone()
        result = run(keyset, tensor, size, *args, **kwargs)
        if held is not None and tensor.data_ptr() != before:
            with _quiet():
                now = elements_of(tensor)
                if now is not None:
                    now[: held.numel()].copy_(held)
        return result

    modes.hide_with_calls_from_dynamo(kernel)
    return kernel
