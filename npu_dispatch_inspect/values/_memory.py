# SPDX-License-Identifier: BSD-3-Clause
"""CPU tensors over the memory of NPU tensors: on the stand-in that is host memory."""

from __future__ import annotations

import itertools
from typing import Any

import torch

from npu_dispatch_inspect._torch_private import modes
from npu_dispatch_inspect._torch_private.backend_kernels import (
    cpu_kernel,
    storage_at,
)

__all__ = [
    "alias",
    "are_apart",
    "copied_simply",
    "copy_into",
    "elements_of",
    "give_shape",
    "is_plain",
    "on_device",
    "over",
    "room_of",
]

_set = cpu_kernel(torch.ops.aten.set_.source_Storage_storage_offset)
_copy = cpu_kernel(torch.ops.aten.copy_.default)
_empty = cpu_kernel(torch.ops.aten.empty.memory_format)

_KEPT = 4096
_kept: dict[tuple[Any, ...], torch.Tensor] = {}
"""Made before, by place and form. torch_npu hands the same blocks out again and again,
and a tensor over a place is right for whoever has the place now."""

_apart: dict[tuple[int, ...], list[torch.Tensor]] = {}
"""Tensors found apart before, by their identities; kept, so that those stay theirs."""


def on_device(value: Any) -> bool:
    """True for a tensor whose memory is the device's."""
    return isinstance(value, torch.Tensor) and not (value.is_cpu or value.is_meta)


def alias(tensor: torch.Tensor) -> torch.Tensor:
    """The same elements as a CPU tensor, for reading; a CPU tensor is its own.

    Of a view that is to be conjugated or negated when it is read, a copy that is.
    """
    if tensor.is_cpu:
        return tensor
    found = over(tensor)
    if tensor.is_conj():
        return found.conj().resolve_conj()
    if tensor.is_neg():
        return found.neg()
    return found


def copy_into(tensor: torch.Tensor, value: torch.Tensor) -> None:
    """Write elements into a tensor of the device (or the CPU), with its type."""
    if tensor.is_cpu:
        _copy(tensor, value)
        return
    if tensor.is_conj():
        value = value.conj().resolve_conj()
    elif tensor.is_neg():
        value = value.neg()
    place = over(tensor)
    if place is not value:
        _copy(place, value)


def is_plain(tensor: torch.Tensor) -> bool:
    """True where what is written into the alias of a tensor is what it then holds."""
    return not (tensor.is_cpu or tensor.is_conj() or tensor.is_neg())


def are_apart(tensors: list[torch.Tensor]) -> bool:
    """True where no two tensors of `over` share memory, other than being the same."""
    key = tuple(map(id, tensors))
    if len(key) < 2 or key in _apart:  # noqa: PLR2004 - one is apart from none
        return True
    different = dict(zip(key, tensors, strict=True)).values()
    spans = sorted(
        (each.data_ptr(), each.data_ptr() + each.untyped_storage().nbytes())
        for each in different
    )
    if any(end > start for (_, end), (start, _) in itertools.pairwise(spans)):
        return False
    if len(_apart) >= _KEPT:
        _apart.clear()
    _apart[key] = tensors
    return True


def copied_simply(tensor: torch.Tensor, value: Any) -> bool:
    """Do the same where it is nothing but moving bytes; tell whether it was done.

    Nothing is called on the way that somebody could see, so that it needs no quiet.
    """
    if (
        modes.function_modes()
        or not isinstance(value, torch.Tensor)
        or tensor.is_cpu
        or tensor.shape != value.shape
        or tensor.dtype is not value.dtype
        or tensor.is_conj()
        or tensor.is_neg()
    ):
        return False
    _copy(over(tensor), value)
    return True


def give_shape(tensor: torch.Tensor, like: torch.Tensor) -> None:
    """Make a result as large as it should be, where that depends on values."""
    tensor.resize_(like.shape)


def elements_of(tensor: torch.Tensor) -> torch.Tensor | None:
    """Everything in the storage of a tensor of the device from its first element on."""
    count = room_of(tensor)
    address = tensor.data_ptr()
    if count <= 0 or not address:
        return None
    return _made(address, tensor.dtype, torch.Size([count]), (1,))


def room_of(tensor: torch.Tensor) -> int:
    """How many elements the storage holds, from a tensor's first one on."""
    room = tensor.untyped_storage().nbytes() // tensor.element_size()
    return int(room - tensor.storage_offset())


def over(tensor: torch.Tensor) -> torch.Tensor:
    """A CPU tensor over the memory of one of the device; a CPU tensor is its own.

    It knows nothing of conjugation and negation that are still to be done.
    """
    if tensor.is_cpu:
        return tensor
    place = (tensor.data_ptr(), tensor.dtype, tensor.shape, tensor.stride())
    found = _kept.get(place)
    if found is None:
        found = _made(*place)
        if len(_kept) >= _KEPT:
            _kept.clear()
        _kept[place] = found
    return found


def _made(
    address: int, dtype: torch.dtype, shape: torch.Size, strides: tuple[int, ...]
) -> torch.Tensor:
    if 0 in shape or not address:
        return _empty(shape, dtype=dtype)  # type: ignore[no-any-return]
    steps = zip(shape, strides, strict=True)
    extent = 1 + sum((int(size) - 1) * stride for size, stride in steps)
    made = _empty((0,), dtype=dtype)
    storage = storage_at(address, extent * dtype.itemsize)
    return _set(made, storage, 0, shape, strides)  # type: ignore[no-any-return]
