# SPDX-License-Identifier: BSD-3-Clause
"""The arguments of a call as the CPU's kernel is to be given them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch

from npu_dispatch_inspect._torch_private.backend_kernels import arguments_of
from npu_dispatch_inspect.values._memory import (
    alias,
    are_apart,
    is_plain,
    on_device,
    over,
)

__all__ = ["Arguments", "has_half", "tensors_in"]

_Written = list[tuple[torch.Tensor, torch.Tensor]]
_See = Callable[[torch.Tensor], torch.Tensor]
_Role = Callable[[Any, _See, _Written], Any]

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


class Arguments:
    """What is to become of each argument of an operator.

    Args:
        op: the overload.
        lazy: views still to be conjugated or negated may be among them.
    """

    def __init__(self, op: Any, *, lazy: bool) -> None:
        self._see = alias if lazy else over
        self._is_plain = is_plain if lazy else on_device
        unstated = _UNSTATED.get(op.name().partition(".")[0], ())
        self._places: list[tuple[int, _Role]] = []
        self._names: dict[str, _Role] = {}
        for place, each in enumerate(arguments_of(op)):
            argument, by_name, kind, written, is_out, _ = each
            role = _role(argument, kind, written or argument in unstated, is_out)
            if role is not None:
                self._names[argument] = role
                if not by_name:
                    self._places.append((place, role))
        roles = self._names.values()
        self.are_written = not _WRITES.isdisjoint(roles)
        self.have_out = _fresh in roles
        self.have_generator = "generator" in self._names
        self._tensors = [
            (place, role in _WRITES)
            for place, role in self._places
            if role in _WRITES or role is _read
        ]

    def apart(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], *, wide: bool
    ) -> tuple[list[Any], dict[str, Any], _Written]:
        """For a kernel that is not to write into memory of the device.

        Args:
            args: by position.
            kwargs: by name.
            wide: read half-precision numbers as float32.

        Returns:
            Arguments by position and name; and each tensor that the call writes, with
            what the kernel is given for it.
        """
        written: _Written = []
        see = _widened if wide else self._see
        sent = list(args)
        count = len(sent)
        for place, role in self._places:
            if place < count and sent[place] is not None:
                sent[place] = role(sent[place], see, written)
        if not kwargs:
            return sent, kwargs, written
        named = dict(kwargs)
        for name, value in kwargs.items():
            role_of = self._names.get(name)
            if role_of is not None and value is not None:
                named[name] = role_of(value, see, written)
        return sent, named, written

    def in_place(self, args: tuple[Any, ...]) -> list[Any] | None:
        """For a kernel that is to write where the tensors lie; None where it cannot.

        It cannot where what it writes is no plain memory of the device, where tensors
        overlap, so that one could be read after another was written, and where lists
        hold several types, so that the CPU could refuse them half-way.
        """
        sent = list(args)
        is_plain = self._is_plain
        every: list[torch.Tensor] = []
        several = False
        for place, is_written in self._tensors:
            value = sent[place] if place < len(sent) else None
            if isinstance(value, torch.Tensor):
                if is_plain(value):
                    sent[place] = seen = over(value)
                    every.append(seen)
                elif is_written or not value.is_cpu:
                    return None
            elif isinstance(value, list):
                if not all(map(is_plain, value)):
                    return None
                several = True
                sent[place] = those = list(map(over, value))
                every += those
        if several and len({each.dtype for each in every}) > 1:
            return None
        return sent if are_apart(every) else None

    def written(
        self, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Iterator[torch.Tensor]:
        """Every tensor that a call writes."""
        for place, role in self._places:
            if role in _WRITES and place < len(args):
                yield from tensors_in(args[place])
        for name, value in kwargs.items():
            if self._names.get(name) in _WRITES:
                yield from tensors_in(value)


def _read(value: Any, see: _See, _: _Written) -> Any:
    if isinstance(value, torch.Tensor):
        return see(value)
    if isinstance(value, (list, tuple)):
        return [None if each is None else see(each) for each in value]
    return value


def _copied(value: Any, see: _See, written: _Written) -> Any:
    if not isinstance(value, torch.Tensor):
        return [_copied(each, see, written) for each in value]
    copy = see(value).clone()
    written.append((value, copy))
    return copy


def _fresh(value: Any, see: _See, written: _Written) -> Any:
    if not isinstance(value, torch.Tensor):
        return [_fresh(each, see, written) for each in value]
    fresh = torch.empty(0, dtype=_dtype(value.dtype, see, written), device="cpu")
    written.append((value, fresh))
    return fresh


def _dtype(value: Any, see: _See, _: _Written) -> Any:
    return _HALF.get(value, value) if see is _widened else value


def _device(_value: Any, _see: _See, _written: _Written) -> torch.device:
    return torch.device("cpu")


def _nothing(_value: Any, _see: _See, _written: _Written) -> None:
    """Pinned memory is the caller's; a generator is put in later."""


_WRITES = frozenset((_copied, _fresh))


def _role(name: str, kind: str, written: bool, is_out: bool) -> _Role | None:  # noqa: FBT001
    if "Tensor" in kind:
        if is_out:
            return _fresh
        return _copied if written else _read
    if "Device" in kind or (name == "device" and "int" in kind):
        return _device
    if name == "dtype":
        return _dtype
    return _nothing if "Generator" in kind or name == "pin_memory" else None


def _widened(tensor: torch.Tensor) -> torch.Tensor:
    seen = alias(tensor)
    return seen.to(_HALF.get(seen.dtype, seen.dtype))


def has_half(args: Iterable[Any], kwargs: dict[str, Any]) -> bool:
    """True where one of the arguments is, or asks for, half precision."""
    values = [*args, *kwargs.values()]
    return any(
        value in _HALF for value in values if isinstance(value, torch.dtype)
    ) or any(each.dtype in _HALF for value in values for each in tensors_in(value))


def tensors_in(value: Any) -> Iterator[torch.Tensor]:
    """Every tensor with memory of its own kind in a value, lists included."""
    if isinstance(value, torch.Tensor):
        if value.layout is torch.strided:
            yield value
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from tensors_in(each)
