# SPDX-License-Identifier: BSD-3-Clause
"""How one operator's values come about: what it is given, what it writes.

A call is computed before torch_npu's kernel runs, and its results are written
after it. Before, because the kernel may run copies and other operators that write
into the very tensors the call reads; after, because they may write into its results.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch

from npu_dispatch_inspect._torch_private.backend_kernels import (
    arguments_of,
    cpu_kernel,
    quiet,
    returns_of,
)
from npu_dispatch_inspect.values import _random
from npu_dispatch_inspect.values._memory import (
    alias,
    copied_simply,
    copy_into,
    give_shape,
    on_device,
)

__all__ = ["Computed", "OtherFormError", "Plan", "tensors_in"]

_READ, _WRITTEN, _OUT, _DEVICE, _GENERATOR, _DTYPE, _PIN = range(7)

_HALF = {
    torch.float16: torch.float32,
    torch.bfloat16: torch.float32,
    torch.complex32: torch.complex64,
    **{
        getattr(torch, name): torch.float32
        for name in ("float8_e4m3fn", "float8_e5m2", "float8_e8m0fnu")
        if hasattr(torch, name)
    },
}
"""What a type is computed in where the CPU has no kernel for it."""

_UNSTATED = {
    "aten::_copy_from_and_resize": ("dst",),
    "aten::native_batch_norm": ("running_mean", "running_var"),
    "aten::batch_norm_gather_stats_with_counts": ("running_mean", "running_var"),
    "aten::rrelu_with_noise": ("noise",),
}
"""Arguments that are written although the schema does not say so."""

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
    """

    def __init__(self, op: Any, formula: Callable[..., Any] | None = None) -> None:
        self._run = cpu_kernel(op) if formula is None else _bound(op, formula)
        name = op.name()
        unstated = _UNSTATED.get(name.partition(".")[0], ())
        self._places: list[tuple[int, int]] = []
        self._names: dict[str, int] = {}
        self._writes = False
        takes_generator = False
        for place, each in enumerate(arguments_of(op)):
            argument, by_name, kind, written, is_out, _ = each
            role = _role(argument, kind, written or argument in unstated, is_out)
            if role is None:
                continue
            self._writes |= role in {_WRITTEN, _OUT}
            takes_generator |= role == _GENERATOR
            self._names[argument] = role
            if not by_name:
                self._places.append((place, role))
        self._returns = tuple(returns_of(op))
        base = name.partition("::")[2].lstrip("_")
        self._data_dependent = base.startswith(_DATA_DEPENDENT)
        self._takes_generator = takes_generator
        self.draws = (
            takes_generator
            or torch.Tag.nondeterministic_seeded in op.tags
            or name in _ALSO_DRAW
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
            # "addmm_impl_cpu_" not implemented for 'Half', and the like.
            if "not implemented for" not in str(error) or not _has_half(args, kwargs):
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
        written: list[Any] = []
        convert = _Converter(written, draw, wide=wide)
        sent = list(args)
        count = len(sent)
        for place, role in self._places:
            if place < count:
                sent[place] = convert(sent[place], role)
        named = kwargs
        if kwargs:
            roles = self._names
            named = {
                name: convert(value, roles[name]) if name in roles else value
                for name, value in kwargs.items()
            }
        if draw is None:
            result = self._run(*sent, **named)
        elif self._takes_generator:
            named = {**named, "generator": _random.borrowed(draw)}
            result = self._run(*sent, **named)
        else:
            with _random.default_seeded(draw):
                result = self._run(*sent, **named)
        return Computed(_as_tuple(result, len(self._returns)), written)

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
        for place, role in self._places:
            if role in {_WRITTEN, _OUT} and place < len(args):
                yield from tensors_in(args[place])
        for name, value in kwargs.items():
            if self._names.get(name) in {_WRITTEN, _OUT}:
                yield from tensors_in(value)
        returned = _as_tuple(result, len(self._returns))
        for value, (_, is_argument, _) in zip(returned, self._returns, strict=True):
            if not is_argument:
                yield from tensors_in(value)


class OtherFormError(Exception):
    """The CPU's result has another shape than torch_npu's kernel gave it."""

    def __init__(self, target: tuple[int, ...], value: tuple[int, ...]) -> None:
        super().__init__(f"torch_npu made a result of shape {target}, the CPU {value}")


class _Converter:
    """Turns the arguments of one call into those for the CPU."""

    __slots__ = ("_draw", "_see", "_wide", "_written")

    def __init__(self, written: list[Any], draw: int | None, *, wide: bool) -> None:
        self._written = written
        self._draw = draw
        self._wide = wide
        self._see = _widened if wide else alias

    def __call__(self, value: Any, role: int) -> Any:
        if role == _READ:
            if isinstance(value, torch.Tensor):
                return self._see(value)
            if isinstance(value, (list, tuple)):
                return [self._see(v) if v is not None else None for v in value]
            return value
        if value is None:
            return None
        if role in {_WRITTEN, _OUT}:
            make = self._copied if role == _WRITTEN else self._fresh
            if isinstance(value, torch.Tensor):
                return make(value)
            return [make(each) for each in value]
        if role == _DEVICE:
            return torch.device("cpu")
        if role == _DTYPE:
            return _HALF.get(value, value) if self._wide else value
        return None  # pinned memory is the caller's; a generator is put in later

    def _copied(self, tensor: torch.Tensor) -> torch.Tensor:
        copy = self._see(tensor).clone()
        self._written.append((tensor, copy))
        return copy

    def _fresh(self, tensor: torch.Tensor) -> torch.Tensor:
        dtype = _HALF.get(tensor.dtype, tensor.dtype) if self._wide else tensor.dtype
        fresh = torch.empty(0, dtype=dtype, device="cpu")
        self._written.append((tensor, fresh))
        return fresh


def _role(name: str, kind: str, written: bool, is_out: bool) -> int | None:  # noqa: FBT001
    if "Tensor" in kind:
        if is_out:
            return _OUT
        return _WRITTEN if written else _READ
    if "Device" in kind or (name == "device" and "int" in kind):
        return _DEVICE
    if "Generator" in kind:
        return _GENERATOR
    if name == "dtype":
        return _DTYPE
    return _PIN if name == "pin_memory" else None


def _widened(tensor: torch.Tensor) -> torch.Tensor:
    seen = alias(tensor)
    return seen.to(_HALF.get(seen.dtype, seen.dtype))


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


def _has_half(args: Iterable[Any], kwargs: dict[str, Any]) -> bool:
    values = [*args, *kwargs.values()]
    return any(
        value in _HALF for value in values if isinstance(value, torch.dtype)
    ) or (any(each.dtype in _HALF for value in values for each in tensors_in(value)))


def tensors_in(value: Any) -> Iterator[torch.Tensor]:
    """Every tensor with memory of its own kind in a value, lists included."""
    if isinstance(value, torch.Tensor):
        if value.layout is torch.strided:
            yield value
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from tensors_in(each)


def _as_tuple(result: Any, count: int) -> tuple[Any, ...]:
    if count == 1:
        return (result,)
    return () if count == 0 or result is None else tuple(result)
