# SPDX-License-Identifier: BSD-3-Clause
"""A function that runs its captured graphs, and captures again for a new signature."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Any, Protocol

import torch
from attrs import frozen

from npu_dispatch_inspect._torch_private import tracing
from npu_dispatch_inspect.capture._graph_program import Program, Results

__all__ = ["Compiled", "Entry"]


@frozen(kw_only=True)
class Entry:
    """The graphs of one signature."""

    run: Callable[..., Any] | None
    """Takes the flat tensors; None where capturing failed: the function itself runs."""
    results: Results
    holds: Callable[[Sequence[torch.Tensor]], bool] | None = None
    """For symbolic sizes: whether the graphs are right for these tensors as well."""


class Trace(Protocol):
    """Captures a program."""

    def __call__(self, program: Program, frame: FrameType | None) -> Entry | None:
        """The graphs as a function; None where nothing is captured any more."""


class Compiled:
    """What `AOTGraphCapture.compile` returns.

    Args:
        function: the function or module.
        trace: captures a call of it.
        dynamic: sizes are left to the graphs' own conditions.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        trace: Trace,
        *,
        dynamic: bool,
    ) -> None:
        self._function = function
        self._trace = trace
        self._dynamic = dynamic
        self._entries: dict[Any, list[Entry]] = {}
        functools.update_wrapper(self, function, updated=())

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the graphs for these arguments, capturing them where they are new."""
        program = Program(self._function, args, kwargs)
        tensors = program.tensors
        key = self._key(program)
        entries = self._entries.setdefault(key, [])
        for each in entries:
            if each.holds is None or each.holds(tensors):
                entry = each
                break
        else:
            captured = self._trace(program, sys._getframe(1))
            if captured is None:
                return self._function(*args, **kwargs)
            entry = captured
            entries.append(entry)
        if entry.run is None or entry.results.build is None:
            return self._function(*args, **kwargs)
        return entry.results.build(entry.run(*tensors))

    def _key(self, program: Program) -> Any:
        return (
            tuple(map(self._tensor_key, program.tensors)),
            tuple((each.kind, each.names) for each in program.inputs),
            tuple((name, _plain(value)) for name, value in program.constants),
            program.layout,
            _switches(),
            _state(self._function, [module for _, module in program.modules]),
        )

    def _tensor_key(self, tensor: torch.Tensor) -> Any:
        sizes: Any = tensor.dim()
        if not self._dynamic:
            strided = tensor.layout is torch.strided
            sizes = (tensor.shape, tensor.stride() if strided else None)
        return (
            type(tensor),
            sizes,
            tensor.dtype,
            tensor.device,
            tensor.layout,
            tensor.requires_grad,
            tensor.is_leaf,
            tensor.dtype.is_complex and tensor.is_conj(),
            tensor.is_neg(),
            tensor._is_view(),
            # Two inputs on one storage are traced in another way.
            tracing.storage_key(tensor) if tensor._is_view() else None,
        )


_PLAIN = (bool, int, float, complex, str, bytes, type(None))


def _plain(value: Any) -> Any:
    """Something to compare a value by; its identity where it is not plain."""
    if isinstance(value, _PLAIN):
        # 1, 1.0 and True are equal, and make different graphs.
        return type(value), value
    if isinstance(value, (torch.dtype, torch.device, torch.layout)):
        return value
    if isinstance(value, (list, tuple)):
        return type(value), tuple(map(_plain, value))
    return _Same(value)


class _Same:
    """Equal to itself alone; kept, so that nothing else can get its identity."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and other.value is self.value

    def __hash__(self) -> int:
        return id(self.value)


def _switches() -> tuple[Any, ...]:
    """What torch's own switches make of the same program."""
    kinds = ["cpu", "cuda"]
    if hasattr(torch, "npu"):
        kinds.append("npu")
    autocast = []
    for kind in kinds:
        try:
            on = torch.is_autocast_enabled(kind)
            autocast.append(torch.get_autocast_dtype(kind) if on else None)
        except RuntimeError:  # this torch does not know the device type
            autocast.append(None)
    return (
        torch.is_grad_enabled(),
        torch.is_inference_mode_enabled(),
        torch.get_default_dtype(),
        torch.are_deterministic_algorithms_enabled(),
        *autocast,
    )


def _state(
    function: Callable[..., Any], modules: Sequence[torch.nn.Module]
) -> tuple[Any, ...]:
    """Plain values that the program may look at: of its modules, closure and globals."""
    state: list[Any] = []
    for module in modules:
        for each in module.modules():
            own = vars(each)
            state.append(
                tuple(
                    (name, type(value), value)
                    for name, value in own.items()
                    if isinstance(value, _PLAIN)
                )
            )
            state.append(
                (
                    type(each),
                    *own["_forward_hooks"].values(),
                    *own["_forward_pre_hooks"].values(),
                )
            )
    plain = inspect.unwrap(function)
    code = getattr(plain, "__code__", None)
    if code is not None:
        for cell in plain.__closure__ or ():
            try:
                state.append(_plain(cell.cell_contents))
            except ValueError:  # not assigned yet
                state.append(None)
        globals_ = plain.__globals__
        state.extend(
            (name, _plain(globals_[name])) for name in code.co_names if name in globals_
        )
    return tuple(state)
