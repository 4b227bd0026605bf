# SPDX-License-Identifier: BSD-3-Clause
"""The dispatcher's tables."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch._decomp import decomposition_table

__all__ = [
    "DECOMPOSITION",
    "UNSEEN",
    "all_schemas",
    "computed_dump",
    "dispatch_key_names",
    "higher_order_operators",
    "operator_names",
    "private_backend_name",
    "python_kernels",
    "python_kernels_of",
    "registration_dump",
    "schemas_of",
]


def registration_dump(name: str) -> str:
    """Return who registered what for one operator; empty for an unknown name.

    Seen in torch 2.1 to 2.14.
    """
    try:
        text = str(torch._C._dispatch_dump(name))
    except RuntimeError:
        return ""  # overloads such as "default" are refused rather than unknown
    return _without_unseen(text) if UNSEEN in text else text


def computed_dump(name: str) -> str:
    """Return which kernel wins for each key; empty for an unknown name.

    Seen in torch 2.1 to 2.14.
    """
    text = str(torch._C._dispatch_dump_table(name))
    if UNSEEN in text:
        places = dict(_places_behind_unseen(name))
        ours = f"registered at {UNSEEN}:0 "
        lines = (line.partition(": ") for line in text.splitlines())
        text = "".join(
            f"{key}{colon}{place.replace(ours, f'{places.get(key)} ')}\n"
            for key, colon, place in lines
        )
    return text


UNSEEN = "npu_dispatch_inspect/values"
"""Kernels registered from this place are no part of the tables: they only pass on."""


def _without_unseen(dump: str) -> str:
    """The dump as it is without our kernels: the next one of the key is active again."""
    kept: list[str] = []
    covered = ""
    for line in dump.splitlines():
        key, _, place = line.partition(": ")
        if place.startswith(f"registered at {UNSEEN}:"):
            covered = key
            continue
        kept.append(line)
        if covered and key == f"{covered} (inactive)":
            kept[-1] = f"{covered}: {place}"
            covered = ""
    return "".join(f"{line}\n" for line in kept)


def _places_behind_unseen(name: str) -> Iterator[tuple[str, str]]:
    """Yield key and ``registered at FILE:LINE`` of what our kernels stand in front of."""
    covered = ""
    for line in str(torch._C._dispatch_dump(name)).splitlines():
        key, _, place = line.partition(": ")
        if place.startswith(f"registered at {UNSEEN}:"):
            covered = key
        elif covered and key == f"{covered} (inactive)":
            yield covered, place.partition(" :: ")[0]
            covered = ""


def operator_names() -> list[str]:
    """Name every operator the dispatcher has at this moment.

    The list grows as libraries load, so it is never kept. Seen in torch 2.1 to 2.14.
    """
    return list(torch._C._dispatch_get_all_op_names())


def schemas_of(operator: str) -> Iterator[tuple[str, object]]:
    """Yield qualified name and schema of each overload, those of TorchScript too.

    Seen in torch 2.6 to 2.14.
    """
    for schema in torch._C._jit_get_schemas_for_operator(operator):
        yield _qualified(schema), schema


def all_schemas() -> Iterator[tuple[str, object]]:
    """Yield qualified name and schema of everything TorchScript knows.

    Seen in torch 2.1 to 2.14.
    """
    for schema in torch._C._jit_get_all_schemas():
        yield _qualified(schema), schema


@functools.cache
def dispatch_key_names() -> tuple[str, ...]:
    """Name every dispatch key: the exported ones, and those that are not.

    `DispatchKey.__members__` lacks a few (``Tracer``). They are found by asking for
    the key of every single bit; torch 2.6 cannot, so there they are those in the
    table of an operator that has nearly all. Seen in torch 2.1 to 2.14.
    """
    names = dict.fromkeys(
        name
        for name in torch._C.DispatchKey.__members__
        if not name.startswith(("StartOf", "EndOf"))
    )
    key_set = torch._C.DispatchKeySet
    if hasattr(key_set, "from_raw_repr"):
        for bit in range(64):
            key = key_set.from_raw_repr(1 << bit).highestPriorityTypeId()
            name = str(torch._C._dispatch_key_name(key))
            if not name.endswith(("Undefined", "Unknown")):
                names.setdefault(name)
    for line in computed_dump("aten::linear").splitlines():
        names.setdefault(line.partition(": ")[0])
    return tuple(names)


def private_backend_name() -> str | None:
    """Return what ``PrivateUse1`` was renamed to, None where it was not.

    Seen in torch 2.1 to 2.14.
    """
    name = str(torch._C._get_privateuse1_backend_name())
    return None if name == "privateuseone" else name


DECOMPOSITION = "decomposition"
"""Stands for a key where torch's decomposition table has a function."""


def python_kernels() -> Iterator[tuple[str, str, Callable[..., Any]]]:
    """Yield operator, key and function of every kernel registered in Python only.

    Looks at overload objects that exist already; one that was never made has
    none. Functions of the decomposition table come with `DECOMPOSITION` for a
    key. Seen in torch 2.1 to 2.14 (`OpOverload.py_kernels`,
    `torch._decomp.decomposition_table`).
    """
    for namespace in list(vars(torch.ops).values()):
        if not isinstance(namespace, torch._ops._OpNamespace):
            continue
        for packet in list(vars(namespace).values()):
            if not isinstance(packet, torch._ops.OpOverloadPacket):
                continue
            for overload in list(vars(packet).values()):
                if isinstance(overload, torch._ops.OpOverload):
                    yield from _kernels_of(overload)


def python_kernels_of(name: str) -> Iterator[tuple[str, str, Callable[..., Any]]]:
    """Yield the same for one operator: ``"aten::add.Tensor"``.

    Seen in torch 2.1 to 2.14.
    """
    namespace, _, rest = name.partition("::")
    operator, _, overload = rest.partition(".")
    group = vars(torch.ops).get(namespace)
    packet = vars(group).get(operator) if group is not None else None
    found = vars(packet).get(overload or "default") if packet is not None else None
    if isinstance(found, torch._ops.OpOverload):
        yield from _kernels_of(found)


def higher_order_operators() -> Iterator[tuple[str, dict[str, Callable[..., Any]]]]:
    """Yield name and Python kernels by key of every higher-order operator.

    Seen in torch 2.1 to 2.14 (`torch._ops._higher_order_ops`).
    """
    for operator in list(torch._ops._higher_order_ops.values()):
        kernels = {
            _key_name(key): function for key, function in operator.py_kernels.items()
        }
        yield f"{operator.namespace}::{operator.name()}", kernels


def _kernels_of(
    overload: torch._ops.OpOverload[Any, Any],
) -> Iterator[tuple[str, str, Callable[..., Any]]]:
    for key, function in list(overload.py_kernels.items()):
        yield overload.name(), _key_name(key), function
    decomposition = decomposition_table.get(overload)
    if decomposition is not None:
        yield overload.name(), DECOMPOSITION, decomposition


def _qualified(schema: torch._C.FunctionSchema) -> str:
    suffix = f".{schema.overload_name}" if schema.overload_name else ""
    return f"{schema.name}{suffix}"


def _key_name(key: object) -> str:
    if isinstance(key, torch._C.DispatchKey):
        return str(torch._C._dispatch_key_name(key))
    return str(key)  # a TorchDispatchMode class, on some higher-order operators
