# SPDX-License-Identifier: BSD-3-Clause
"""Arguments of a predicted call as records."""

from __future__ import annotations

from typing import Any

import torch

from npu_dispatch_inspect.dispatch_table.path import bound
from npu_dispatch_inspect.records.values import Argument, Constant, TensorSpec, Value

__all__ = ["arguments"]

_KINDS: dict[type, str] = {
    torch.dtype: "dtype",
    torch.device: "device",
    torch.layout: "layout",
    torch.memory_format: "memory_format",
    torch.Generator: "generator",
}


def arguments(
    op: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[Argument, ...]:
    """The arguments given, by the names of the schema."""
    written = {
        each.name
        for each in op._schema.arguments
        if each.alias_info is not None and each.alias_info.is_write
    }
    return tuple(
        Argument(name=name, value=_value(value), written=name in written)
        for name, _, value in bound(op, args, kwargs)
    )


def _value(value: Any) -> Value:
    if value is None or isinstance(value, bool | int | float | complex | str):
        return value
    if isinstance(value, torch.Tensor):
        return _tensor(value)
    if isinstance(value, list | tuple):
        return tuple(_value(each) for each in value)
    kind = _KINDS.get(type(value), "object")
    return Constant(kind=kind, text=str(value).removeprefix("torch."))


def _tensor(tensor: torch.Tensor) -> TensorSpec:
    unknown = []
    shape: tuple[int | str, ...] | None = None
    stride: tuple[int | str, ...] | None = None
    try:
        shape = tuple(map(_size, tensor.shape))
    except RuntimeError:  # a strided nested tensor has no single shape
        unknown.append("shape")
    if tensor.layout is torch.strided and shape is not None:
        stride = tuple(map(_size, tensor.stride()))
    cls = type(tensor)
    plain = cls is torch.Tensor or cls.__name__ == "FakeTensor"
    return TensorSpec(
        dtype=str(tensor.dtype).removeprefix("torch."),
        device=str(tensor.device),
        shape=shape,
        stride=stride,
        layout=str(tensor.layout).removeprefix("torch."),
        requires_grad=tensor.requires_grad,
        subclass=None if plain else cls.__name__,
        unknown=tuple(unknown),
    )


def _size(size: Any) -> int | str:
    return size if isinstance(size, int) else str(size)
