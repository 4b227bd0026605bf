# SPDX-License-Identifier: BSD-3-Clause
"""Raw rows of what is seldom met: tensors without plain strides, objects, functions.

The half of `_describe` that need not be fast.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch

from npu_dispatch_inspect._torch_private import modes

__all__ = ["MAX_ITEMS", "Opaque", "Stand", "odd_tensor", "odd_value"]

MAX_ITEMS = 1024
"""Longer sequences are cut: the rest is given as one `Opaque` that says how many."""

_SYMBOLIC = {
    torch.SymInt: "symint",
    torch.SymFloat: "symfloat",
    torch.SymBool: "symbool",
}


class Opaque(NamedTuple):
    """Raw form of a `Constant`: what it was and how it reads."""

    kind: str
    text: str


class Stand:
    """Stands for a function of the program, which is described in its place."""

    function: Callable[..., Any]


def odd_tensor(
    tensor: torch.Tensor,
    tensor_row: Callable[[torch.Tensor], tuple[Any, ...]],
    number_of: Callable[[int], int],
) -> tuple[Any, ...]:
    """Fields by name for a tensor that the fast path cannot describe."""
    fields: dict[str, Any] = {}
    unknown = []

    def read(name: str, get: Callable[[], Any]) -> None:
        try:
            fields[name] = get()
        except Exception:  # noqa: BLE001 - each kind of tensor refuses in its own way
            unknown.append(name)

    read("dtype", lambda: tensor.dtype)
    read("device", lambda: tensor.device)
    read("shape", lambda: tuple(map(_size, tensor.shape)))
    read("layout", lambda: tensor.layout)
    read("requires_grad", lambda: tensor.requires_grad)
    if (
        not getattr(tensor, "is_nested", False)
        and fields.get("layout") is torch.strided
    ):
        read("stride", lambda: tuple(map(_size, tensor.stride())))
        read("offset", lambda: _size(tensor.storage_offset()))
        read(
            "storage_id",
            lambda: number_of(modes.storage_address(tensor)),
        )
    flags = []
    for flag, test in (
        ("conj", "is_conj"),
        ("neg", "is_neg"),
    ):
        try:
            if getattr(tensor, test)():
                flags.append(flag)
        except Exception:  # noqa: BLE001
            unknown.append(flag)
    flags.extend(
        flag
        for flag in ("quantized", "nested")
        if getattr(tensor, f"is_{flag}", False) is True
    )
    kind = type(tensor)
    if kind is not torch.Tensor:
        fields["subclass"] = kind.__name__
        if modes.is_fake(tensor):
            flags.append("fake")
        flatten = getattr(tensor, "__tensor_flatten__", None)
        if flatten is not None:
            try:
                names, _ = flatten()
                fields["inner"] = tuple(
                    (name, tensor_row(getattr(tensor, name))) for name in names
                )
            except Exception:  # noqa: BLE001
                unknown.append("inner")
    fields["flags"] = tuple(flags)
    fields["unknown"] = tuple(unknown)
    return tuple(fields.items())


def _size(size: Any) -> int | str:
    # A symbolic size is turned into text at once: comparing it later would add
    # a guard to the program that is being watched.
    return size if type(size) is int else str(size)


def odd_value(value: Any, value_row: Callable[[Any], Any]) -> Any:
    """Raw form of a value that is neither a tensor, nor plain, nor a sequence."""
    while isinstance(value, Stand):
        value = value.function
    kind = type(value)
    symbolic = _SYMBOLIC.get(kind)
    if symbolic is not None:
        return Opaque(symbolic, str(value))
    if isinstance(value, torch.Generator):
        return Opaque("generator", str(value.device))
    if isinstance(value, dict):
        return [
            [value_row(key), value_row(each)]
            for key, each in list(value.items())[:MAX_ITEMS]
        ]
    if isinstance(value, torch.ScriptObject):
        return Opaque("torchbind", modes.torchbind_name(value))
    if isinstance(value, torch.nn.Module):
        return Opaque("callable", kind.__name__)
    if callable(value):
        name = getattr(value, "__qualname__", None) or kind.__qualname__
        return Opaque("callable", str(name))
    return Opaque("object", kind.__qualname__)
