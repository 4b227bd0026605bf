# SPDX-License-Identifier: BSD-3-Clause
"""Arguments and results to raw rows: the hot half of describing a call.

A raw row is what the tracer keeps until somebody looks: plain tuples, with
torch's immutable singletons (dtype, device, Size) left as they are. Tensors
become tuples, sequences become lists, so the two never get mixed up. The cold
half, raw row to record, is in `_build`.

Identity: a tensor's number is found through its address *and* a weak reference,
so an address that Python uses again gets a new number. Only weak references are
held: a strong one to an output would make autograd copy where it would steal.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any, NamedTuple

import torch

from npu_dispatch_inspect._torch_private import modes

__all__ = ["Describe", "Opaque", "describer"]

MAX_ITEMS = 1024
"""Longer sequences are cut: the rest is given as one `Opaque` that says how many."""


class Opaque(NamedTuple):
    """Raw form of a `Constant`: what it was and how it reads."""

    kind: str
    text: str


class Describe(NamedTuple):
    """The functions of one `describer`; they share its numbering."""

    tensor: Callable[[torch.Tensor], tuple[Any, ...]]
    value: Callable[[Any], Any]
    values: Callable[[Any], list[Any]]


_PLAIN = frozenset({type(None), bool, int, float, complex, str})
_AS_IS = frozenset({torch.dtype, torch.device, torch.layout, torch.memory_format})
_SYMBOLIC = {
    torch.SymInt: "symint",
    torch.SymFloat: "symfloat",
    torch.SymBool: "symbool",
}


def describer() -> Describe:
    """Make the functions that describe values, with a numbering of their own."""
    # id -> [weak reference, number, last row, weak reference to its storage]
    tensors: dict[int, list[Any]] = {}
    storages: dict[int, tuple[weakref.ref[Any], int]] = {}
    sizes: dict[Any, Any] = {}
    last_tensor = last_storage = 0
    plain_tensor, parameter = torch.Tensor, torch.nn.Parameter
    ref, intern = weakref.ref, sizes.setdefault

    def number_storage(storage: Any) -> int:
        nonlocal last_storage
        known = storages.get(id(storage))
        if known is not None and known[0]() is storage:
            return known[1]
        last_storage += 1
        storages[id(storage)] = (ref(storage), last_storage)
        return last_storage

    def tensor_row(tensor: torch.Tensor) -> tuple[Any, ...]:
        known = tensors.get(id(tensor))
        if known is None or known[0]() is not tensor:
            return new_tensor(tensor)
        row = known[2]
        storage_ref = known[3]
        if storage_ref is None:
            return odd_tensor(tensor, known)
        # A tensor keeps its dtype, device and bits as long as it keeps its storage
        # and dtype; `x.data = y` changes at least one of the two.
        storage = tensor.untyped_storage()
        if (
            storage is storage_ref()
            and tensor.shape == row[2]
            and tensor.stride() == row[3]
            and tensor.storage_offset() == row[4]
            and tensor.dtype is row[5]
            and tensor.requires_grad is row[7]
        ):
            return row  # type: ignore[no-any-return]
        return plain_row(tensor, known, storage)

    def new_tensor(tensor: torch.Tensor) -> tuple[Any, ...]:
        nonlocal last_tensor
        last_tensor += 1
        known = tensors[id(tensor)] = [ref(tensor), last_tensor, None, None]
        kind = type(tensor)
        if (
            kind is plain_tensor or kind is parameter
        ) and not tensor._has_symbolic_sizes_strides:
            try:
                return plain_row(tensor, known, tensor.untyped_storage())
            except Exception:  # noqa: BLE001 - sparse, nested, functorch wrappers: no strides or storage
                known[3] = None
        return odd_tensor(tensor, known)

    def plain_row(
        tensor: torch.Tensor, known: list[Any], storage: Any
    ) -> tuple[Any, ...]:
        # Shapes repeat where tensors do not: one copy of each is kept, as a plain
        # tuple, which the garbage collector soon stops to visit.
        shape, stride, dtype = tuple(tensor.shape), tensor.stride(), tensor.dtype
        device = tensor.device
        row = known[2] = (
            known[1],
            number_storage(storage),
            intern(shape, shape),
            intern(stride, stride),
            tensor.storage_offset(),
            dtype,
            intern(device, device),
            tensor.requires_grad,
            type(tensor) is parameter,
            tensor.is_neg(),
            dtype.is_complex and tensor.is_conj(),
        )
        known[3] = ref(storage)
        return row

    def odd_tensor(tensor: torch.Tensor, known: list[Any]) -> tuple[Any, ...]:
        row = (known[1], _odd_tensor(tensor, tensor_row, number_storage))
        if row == known[2]:
            return known[2]  # type: ignore[no-any-return]
        known[2] = row
        return row

    def value_row(value: Any) -> Any:
        kind = type(value)
        if kind is plain_tensor:
            return tensor_row(value)
        if kind in _PLAIN or kind in _AS_IS:
            return value
        if isinstance(value, plain_tensor):
            return tensor_row(value)
        if isinstance(value, (list, tuple)):
            rows = [value_row(each) for each in value[:MAX_ITEMS]]
            if len(value) > MAX_ITEMS:
                rows.append(Opaque("cut", f"... {len(value) - MAX_ITEMS} more"))
            return rows
        return _odd_value(value, value_row)

    def value_rows(values: Any) -> list[Any]:
        # The loop body repeats value_row's first two branches on purpose: they
        # serve nearly every argument, and a call per argument costs 15 %.
        rows = []
        for value in values:
            kind = type(value)
            if kind is plain_tensor or kind is parameter:
                rows.append(tensor_row(value))
            elif kind in _PLAIN:
                rows.append(value)
            else:
                rows.append(value_row(value))
        return rows

    modes.hide_from_dynamo(
        number_storage,
        tensor_row,
        new_tensor,
        plain_row,
        odd_tensor,
        value_row,
        value_rows,
        _odd_tensor,
        _odd_value,
    )
    return Describe(tensor_row, value_row, value_rows)


def _odd_tensor(
    tensor: torch.Tensor,
    tensor_row: Callable[[torch.Tensor], tuple[Any, ...]],
    number_storage: Callable[[Any], int],
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
    if not getattr(tensor, "is_nested", False) and fields.get("layout") is torch.strided:
        read("stride", lambda: tuple(map(_size, tensor.stride())))
        read("offset", lambda: _size(tensor.storage_offset()))
        read("storage_id", lambda: number_storage(tensor.untyped_storage()))
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
    for flag in ("is_quantized", "is_nested"):
        if getattr(tensor, flag, False) is True:
            flags.append(flag[3:])
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


def _odd_value(value: Any, value_row: Callable[[Any], Any]) -> Any:
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
