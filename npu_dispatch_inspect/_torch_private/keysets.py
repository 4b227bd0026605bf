# SPDX-License-Identifier: BSD-3-Clause
"""Dispatch key sets, and running one operator at a key of our choice."""

from __future__ import annotations

import contextlib
import functools
import warnings
from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.utils._python_dispatch import _disable_current_modes

__all__ = [
    "Keys",
    "below",
    "call_at_key",
    "device_keys",
    "empty_keys",
    "fake_mode",
    "has_kernel",
    "highest",
    "is_fake",
    "matching_overload",
    "named_keys",
    "null_pointers",
    "number_keys",
    "quiet_block",
    "reads_values",
    "tensor_keys",
    "thread_keys",
    "thread_with_keys",
    "untraced",
]

Keys = torch._C.DispatchKeySet
"""A set of dispatch keys. Seen in torch 2.1 to 2.14."""


def tensor_keys(tensor: torch.Tensor) -> Keys:
    """Return the keys of one tensor. Seen in torch 2.1 to 2.14."""
    return torch._C._dispatch_keys(tensor)


@functools.cache
def number_keys() -> Keys:
    """Return the keys of a Python number where a tensor is wanted.

    torch makes a CPU tensor of it. Seen in torch 2.1 to 2.14.
    """
    with torch.inference_mode(False), _disable_current_modes():  # noqa: FBT003
        return tensor_keys(torch.zeros((), device="cpu"))


def device_keys(device_type: str, layout: torch.layout) -> Keys | None:
    """Return the key that BackendSelect chooses, None where that is not known.

    Seen in torch 2.4 to 2.14 (`_dispatch_key_for_device`).
    """
    name = torch._C._dispatch_key_for_device(device_type)
    prefix = {
        torch.strided: "",
        torch.sparse_coo: "Sparse",
        torch.sparse_csr: "SparseCsr",
        torch.sparse_csc: "SparseCsr",
        torch.sparse_bsr: "SparseCsr",
        torch.sparse_bsc: "SparseCsr",
    }.get(layout)
    return None if prefix is None else named_keys((f"{prefix}{name}",))


def thread_keys() -> tuple[Keys, Keys]:
    """Return the keys this thread adds and takes away. Seen in torch 2.1 to 2.14."""
    return (
        torch._C._dispatch_tls_local_include_set(),
        torch._C._dispatch_tls_local_exclude_set(),
    )


def named_keys(names: Iterable[str]) -> Keys:
    """Return the set of some keys; a name this torch lacks is left out.

    Seen in torch 2.1 to 2.14.
    """
    keys = empty_keys()
    for name in names:
        with contextlib.suppress(RuntimeError):
            keys = keys.add(torch._C._dispatch_key_parse(name))
    return keys


def empty_keys() -> Keys:
    """Return the set without a key. Seen in torch 2.1 to 2.14."""
    return torch._C.DispatchKeySet(torch._C.DispatchKey.Undefined)


def highest(keys: Keys) -> str | None:
    """Return the name of the key that is tried first, None in an empty set.

    Seen in torch 2.1 to 2.14.
    """
    key = keys.highestPriorityTypeId()
    if key == torch._C.DispatchKey.Undefined:
        return None
    return str(torch._C._dispatch_key_name(key))


def below(keys: Keys, name: str) -> Keys:
    """Return the keys of a set that come after one key. Seen in torch 2.1 to 2.14."""
    key = torch._C._dispatch_key_parse(name)
    return keys & torch._C._dispatch_keyset_full_after(key)


def has_kernel(operator: str, key: str) -> bool:
    """Tell whether a kernel is registered for this very key. Seen in 2.1 to 2.14."""
    return bool(torch._C._dispatch_has_kernel_for_dispatch_key(operator, key))


def matching_overload(
    operator: str, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> str:
    """Name the overload that a call with these arguments is for.

    Raises:
        RuntimeError: none fits; torch says why for each.

    Seen in torch 2.2 to 2.14 (`_jit_resolve_packet`).
    """
    with quiet_block():  # a number is made a tensor on the way, by operators
        return str(torch._C._jit_resolve_packet(operator, *args, **kwargs))


def call_at_key(
    op: Any, key: str, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """Run the kernel registered for one key, alias keys included.

    Seen in torch 2.1 to 2.14 (`OpOverload._op_dk`).
    """
    return op._op_dk(getattr(torch._C.DispatchKey, key), *args, **kwargs)


def reads_values(error: Exception) -> bool:
    """Tell whether a kernel failed because it wanted the values of a fake tensor.

    The wordings are those of torch 2.6 to 2.14.
    """
    text = str(error)
    return "data is not allocated" in text or "data pointer of Tensor" in text


def is_fake(tensor: torch.Tensor) -> bool:
    """Tell whether a tensor stands for a real one. Seen in torch 2.1 to 2.14."""
    return isinstance(tensor, FakeTensor)


def fake_mode() -> FakeTensorMode:
    """Make the mode under which tensors have everything but values.

    A kernel that asks for the values gets an exception; with torch's default it
    gets a null pointer. Seen in torch 2.5 to 2.14
    (`FakeTensorMode._allow_unsafe_data_ptr_access`).
    """
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    mode._allow_unsafe_data_ptr_access = False
    return mode


@contextlib.contextmanager
def null_pointers(mode: FakeTensorMode) -> Iterator[None]:
    """Give a block whose new fake tensors have a null pointer for data, and no error.

    torch warns of it once in a process, on stderr, as of a mistake of the
    program; it is ours, so it is asked for here where it can be caught.
    Seen in torch 2.5 to 2.14.
    """
    before = mode._allow_unsafe_data_ptr_access
    mode._allow_unsafe_data_ptr_access = True
    try:
        _spend_pointer_warning()
        yield
    finally:
        mode._allow_unsafe_data_ptr_access = before


@functools.cache
def _spend_pointer_warning() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.empty(1).data_ptr()


@contextlib.contextmanager
def quiet_block() -> Iterator[None]:
    """Give a block that no mode and no tracer of this thread sees.

    Seen in torch 2.6 to 2.14.
    """
    with _disable_current_modes(), torch._C.DisableTorchFunctionSubclass(), untraced():
        yield


@contextlib.contextmanager
def untraced() -> Iterator[None]:
    """Give a block that a tracer by dispatch key does not see. Seen in 2.6 to 2.14."""
    tracer = named_keys(("TESTING_ONLY_GenericMode",))
    included, excluded = thread_keys()
    # Not included is less than excluded: a tracer follows handlers of torch,
    # which it knows by finding its key excluded.
    with torch._C._ForceDispatchKeyGuard(included - tracer, excluded - tracer):
        yield


@contextlib.contextmanager
def thread_with_keys(included: Keys, excluded: Keys) -> Iterator[None]:
    """Give a block in which the thread adds and takes away exactly these keys.

    The keys that belong to the modes of the block stay. Seen in torch 2.1 to 2.14.
    """
    now, _ = thread_keys()
    modes = now & named_keys(("Python", "PythonTLSSnapshot"))
    with torch._C._ForceDispatchKeyGuard(included | modes, excluded):
        yield
