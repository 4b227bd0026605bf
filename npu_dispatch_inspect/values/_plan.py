# SPDX-License-Identifier: BSD-3-Clause
"""How one operator's values come about: what it is given, what it writes.

A call is computed before torch_npu's kernel runs, and its results are written
after it. Before, because the kernel may run copies and other operators that write
into the very tensors the call reads; after, because they may write into its results.

An operator that only combines or moves elements (`Plan.elementwise`) is computed and
written after it. Its kernel calls nothing but operators of that sort, and reads no
value of theirs; so those are not computed (`_kernels`), every tensor is as it was
before, and what is written in place is computed where it lies. There, a tensor that
stands twice in a list is changed twice, one after the other, as on the CPU; and a
call that the CPU refuses half-way through a list has changed what came before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch

from npu_dispatch_inspect._torch_private.backend_kernels import (
    arguments_of,
    cpu_kernel,
    is_elementwise,
    may_see_lazy,
    moves_elements,
    quiet,
    returns_of,
)
from npu_dispatch_inspect.values import _random
from npu_dispatch_inspect.values._arguments import Arguments, has_half, tensors_in
from npu_dispatch_inspect.values._memory import (
    copied_simply,
    copy_into,
    give_shape,
    on_device,
)

__all__ = ["Computed", "OtherFormError", "Plan"]

_ALSO_DRAW = ("npu::npu_fusion_attention_v3",)
"""Operators that draw random numbers although they are not tagged so."""

_DATA_DEPENDENT = (
    "bincount",
    "index",
    "masked_select",
    "nonzero",
    "repeat_interleave",
    "unique",
)
"""Beginnings of operators whose results have a size that depends on values."""


class Computed:
    """What a call gives: its results, and what its written arguments become."""

    __slots__ = ("returned", "written")

    def __init__(self, returned: tuple[Any, ...], written: list[Any]) -> None:
        self.returned = returned
        self.written = written


class Plan:
    """Everything about an operator that does not change from call to call.

    Args:
        op: the overload.
        formula: called instead of the CPU kernel, with every argument by name. It
            returns results as torch_npu's kernel has them, and changes written
            arguments in place.
        above_autograd: the calls are met there.
    """

    def __init__(
        self,
        op: Any,
        formula: Callable[..., Any] | None = None,
        *,
        above_autograd: bool = False,
    ) -> None:
        self._run = cpu_kernel(op) if formula is None else _bound(op, formula)
        name = op.name()
        lazy = above_autograd or may_see_lazy(op)
        self._arguments = Arguments(op, lazy=lazy)
        self._moves = moves_elements(op)
        self._writes = self._arguments.are_written
        self._returns = tuple(returns_of(op))
        base = name.partition("::")[2].lstrip("_")
        self._data_dependent = base.startswith(_DATA_DEPENDENT)
        self.draws = (
            self._arguments.have_generator
            or torch.Tag.nondeterministic_seeded in op.tags
            or name in _ALSO_DRAW
        )
        self.elementwise = (
            is_elementwise(op) and not self._arguments.have_out and not self.draws
        )

    @property
    def gives_values(self) -> bool:
        """False for an operator that neither writes nor returns anything new."""
        return self._writes or any(not view for _, _, view in self._returns)

    def compute(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Computed:
        """Compute a call on the CPU; nothing of the device's is written yet."""
        draw = _draw(args, kwargs) if self.draws else None
        try:
            return self._compute(args, kwargs, draw, wide=False)
        except (NotImplementedError, RuntimeError) as error:
            if not _lacks_half(error, args, kwargs):
                raise
            return self._compute(args, kwargs, draw, wide=True)

    def _compute(
        self,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        draw: int | None,
        *,
        wide: bool,
    ) -> Computed:
        sent, named, written = self._arguments.apart(args, kwargs, wide=wide)
        if draw is None:
            result = self._run(*sent, **named)
        elif self._arguments.have_generator:
            named = {**named, "generator": _random.borrowed(draw)}
            result = self._run(*sent, **named)
        else:
            with _random.default_seeded(draw):
                result = self._run(*sent, **named)
        return Computed(_as_tuple(result, len(self._returns)), written)

    def compute_and_write(
        self, result: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        """Compute an elementwise call and write it, inside `quiet`."""
        if self._moves and args and result is args[0] and not self._writes:
            return
        if self._writes:
            sent = self._arguments.in_place(args)
            if sent is not None:
                try:
                    self._run(*sent, **kwargs)
                except (NotImplementedError, RuntimeError) as error:
                    # The CPU refuses a type before it writes anything.
                    if not _lacks_half(error, args, kwargs):
                        raise
                else:
                    return
        self._write(result, self.compute(args, kwargs))

    def write(self, result: Any, computed: Computed) -> Any:
        """Write what was computed into what the kernel returned and was given.

        Returns:
            The result for the caller: the kernel's own, but for plain numbers.
        """
        if (
            type(result) is torch.Tensor
            and not computed.written
            and result.layout is torch.strided
        ):
            (value,) = computed.returned
            if copied_simply(result, value):
                return result
        with quiet():
            return self._write(result, computed)

    def _write(self, result: Any, computed: Computed) -> Any:
        for target, value in computed.written:
            self._fill(target, value)
        returned = list(_as_tuple(result, len(self._returns)))
        changed = False
        for place, (_, is_argument, _) in enumerate(self._returns):
            if is_argument:
                continue
            value = computed.returned[place]
            if callable(value):
                value = value(returned[place])
            if isinstance(value, (torch.Tensor, list, tuple)):
                self._fill(returned[place], value)
            elif returned[place] is not value and value is not None:
                returned[place] = value
                changed = True
        if not changed:
            return result
        return returned[0] if len(returned) == 1 else tuple(returned)

    def _fill(self, target: Any, value: Any) -> None:
        if isinstance(target, torch.Tensor):
            if (
                not isinstance(value, torch.Tensor)
                or target.layout is not torch.strided
            ):
                # A sparse tensor is made of tensors that are computed on their own.
                return
            if target.shape != value.shape:
                if self._data_dependent:
                    give_shape(target, value)
                elif target.numel() == value.numel():
                    value = value.reshape(target.shape)
                else:
                    raise OtherFormError(tuple(target.shape), tuple(value.shape))
            copy_into(target, value)
        elif isinstance(target, (list, tuple)):
            for each, its_value in zip(target, value, strict=True):
                self._fill(each, its_value)

    def targets(
        self, result: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Iterator[torch.Tensor]:
        """Every tensor that a call has written."""
        yield from self._arguments.written(args, kwargs)
        returned = _as_tuple(result, len(self._returns))
        for value, (_, is_argument, _) in zip(returned, self._returns, strict=True):
            if not is_argument:
                yield from tensors_in(value)


class OtherFormError(Exception):
    """The CPU's result has another shape than torch_npu's kernel gave it."""

    def __init__(self, target: tuple[int, ...], value: tuple[int, ...]) -> None:
        super().__init__(f"torch_npu made a result of shape {target}, the CPU {value}")


def _bound(op: Any, formula: Callable[..., Any]) -> Callable[..., Any]:
    names, defaults = [], {}
    for name, by_name, _, _, _, default in arguments_of(op):
        if not by_name:
            names.append(name)
        defaults[name] = default

    def run(*args: Any, **kwargs: Any) -> Any:
        given = dict(zip(names, args, strict=False))
        return formula(**{**defaults, **given, **kwargs})

    return run


def _draw(args: tuple[Any, ...], kwargs: dict[str, Any]) -> int:
    generator = kwargs.get("generator")
    if generator is None:
        device = kwargs.get("device")
        index = None if device is None else torch.device(device).index
        for each in args:
            if on_device(each):
                index = each.device.index
                break
        if index is None:
            index = torch.npu.current_device()  # type: ignore[attr-defined]
        generator = _random.generator_of(index)
    return _random.draw_for(generator)


def _lacks_half(
    error: Exception, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> bool:
    # "addmm_impl_cpu_" not implemented for 'Half', and the like.
    return "not implemented for" in str(error) and has_half(args, kwargs)


def _as_tuple(result: Any, count: int) -> tuple[Any, ...]:
    if count == 1:
        return (result,)
    return () if count == 0 or result is None else tuple(result)
