# SPDX-License-Identifier: BSD-3-Clause
"""Private API behind computed values: a kernel of ours in front of torch_npu's own.

It stands on the backend's key, the last one a call comes to, below autograd and
autocast. Threads need nothing for it, and calls on other devices do not meet it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from npu_dispatch_inspect._torch_private import dispatcher

__all__ = [
    "CPU_KEYS",
    "BackendKernel",
    "arguments_of",
    "backend_kernel",
    "backend_operators",
    "cpu_kernel",
    "differentiable",
    "empty_queue",
    "has_cpu_kernel",
    "is_elementwise",
    "is_wrapper",
    "may_see_lazy",
    "missing_features",
    "moves_elements",
    "quiet",
    "replace_kernels",
    "returns_of",
    "storage_at",
]

BackendKernel = Callable[..., Any]

_KEY = "PrivateUse1"
_ABOVE = "AutogradPrivateUse1"
_RUNS_ABOVE = "RegisterAutogradNPU"
"""The file in which torch_npu registers kernels of its own above autograd."""
_NEEDED = (
    "_dispatch_get_computed_kernel_for_dispatch_key",
    "_dispatch_has_kernel_for_dispatch_key",
    "_construct_storage_from_data_pointer",
    "_ForceDispatchKeyGuard",
)

CPU_KEYS = torch._C.DispatchKeySet(torch._C.DispatchKey.CPU)
_ALWAYS = torch._C.DispatchKeySet(torch._C.DispatchKey.BackendSelect)
"""Where a call without tensors finds its device; a thread normally includes it."""


def missing_features() -> tuple[str, ...]:
    """Name what this torch lacks of what the mechanism rests on.

    The kernel that a key has can be called from Python since torch 2.9; the others
    are in 2.6 to 2.13.
    """
    return tuple(each for each in _NEEDED if not hasattr(torch._C, each))


def backend_operators() -> Iterator[str]:
    """Name each operator that has a kernel of the backend's own; 2.1 to 2.13.

    Kernels without a schema are among them: nobody can call those.
    """
    for name in dispatcher.operator_names():
        if torch._C._dispatch_has_kernel_for_dispatch_key(name, _KEY):
            yield name


def backend_kernel(name: str, *, above_autograd: bool = False) -> BackendKernel | None:
    """The kernel that the backend has now, called with key set and arguments.

    Args:
        name: an operator of `backend_operators`.
        above_autograd: the one that torch_npu has for composites of torch, which
            may do the work itself without coming to the backend's key; None where
            there is none. It is known by the file that registers it.

    Seen in 2.13 (`_SafeKernelFunction.call_boxed`).
    """
    if above_autograd and not torch._C._dispatch_has_kernel_for_dispatch_key(
        name, _ABOVE
    ):
        return None
    key = torch._C._dispatch_key_parse(_ABOVE if above_autograd else _KEY)
    kernel = torch._C._dispatch_get_computed_kernel_for_dispatch_key(name, key)
    if above_autograd and _RUNS_ABOVE not in repr(kernel):
        return None
    run: BackendKernel = kernel.call_boxed
    return run


def replace_kernels(
    kernels: Iterable[tuple[str, Callable[..., Any], bool]],
) -> Callable[[], None]:
    """Put a Python kernel that takes the key set in front of the backend's.

    Args:
        kernels: operator, kernel, and whether it stands above autograd.

    Returns the function that takes them away again. They do not show in
    `dispatcher.registration_dump` and `computed_dump`. Seen in 2.13.
    """
    libraries: dict[str, Any] = {}
    for name, kernel, above in kernels:
        namespace = name.partition("::")[0]
        library = libraries.get(namespace)
        if library is None:
            library = torch._C._dispatch_library(
                "IMPL", namespace, "", dispatcher.UNSEEN, 0
            )
            libraries[namespace] = library
        library.impl(name, _ABOVE if above else _KEY, kernel, True)  # type: ignore[call-arg]  # noqa: FBT003

    def remove() -> None:
        for each in libraries.values():
            each.reset()

    return remove


def has_cpu_kernel(name: str) -> bool:
    """Tell whether the operator can run on the CPU, composites included; 2.1 to 2.13."""
    return bool(torch._C._dispatch_has_computed_kernel_for_dispatch_key(name, "CPU"))


def cpu_kernel(op: Any) -> Callable[..., Any]:
    """The function that runs an operator's CPU kernel and nothing above it; 2.4 to 2.13."""
    return functools.partial(op._handle.redispatch_boxed, CPU_KEYS)


def arguments_of(op: Any) -> Iterator[tuple[str, bool, str, bool, bool, Any]]:
    """(name, keyword only, type, written, is ``out``, default) per argument; 2.1 to 2.13."""
    for each in op._schema.arguments:
        alias = each.alias_info
        yield (
            each.name,
            each.kwarg_only,
            str(each.type),
            alias is not None and alias.is_write,
            each.is_out,
            each.default_value,
        )


def returns_of(op: Any) -> Iterator[tuple[str, bool, bool]]:
    """(type, is an argument that was written, is a view of one) per result; 2.1 to 2.13."""
    for each in op._schema.returns:
        alias = each.alias_info
        written = alias is not None and alias.is_write
        yield str(each.type), written, alias is not None and not written


_MOVE = frozenset(
    (
        "aten::_to_copy",
        "aten::clone",
        "aten::copy_",
        "npu::_npu_format_cast",
        "npu::npu_format_cast",
    )
)
_FILL = frozenset(
    (
        "aten::fill_",
        "aten::full",
        "aten::full_like",
        "aten::ones",
        "aten::ones_like",
        "aten::zero_",
        "aten::zeros",
        "aten::zeros_like",
    )
)

_READ_VALUES = frozenset(
    f"aten::{name}{ending}"
    for name in (
        "gcd",
        "isneginf",
        "isposinf",
        "logical_and",
        "logical_xor",
        "logit",
        "sinc",
    )
    for ending in ("", "_")
)
"""Where torch_npu goes through aclop, it does these on the CPU, or reads a number."""


def moves_elements(op: Any) -> bool:
    """True for an operator whose result has the elements of its first argument."""
    return op._schema.name in _MOVE


def is_elementwise(op: Any) -> bool:
    """True for an operator that moves, fills or combines elements, and does no more.

    Named above, on lists of tensors, or tagged pointwise. Of the latter, only what
    gives tensors (``equal`` gives a number), and what has an autograd kernel, so that
    what its own kernel calls is below autograd. Tags seen in 2.13.
    """
    name = op._schema.name
    if name in _FILL or name in _MOVE:
        return True
    return (
        name.startswith("aten::")
        and name not in _READ_VALUES
        and (torch.Tag.pointwise in op.tags or name.startswith("aten::_foreach_"))
        and all("Tensor" in str(each.type) for each in op._schema.returns)
        and torch._C._dispatch_has_kernel_for_dispatch_key(op.name(), "Autograd")
    )


def may_see_lazy(op: Any) -> bool:
    """True for an operator that is given views still to be conjugated or negated.

    Below autograd, any other is given copies in which that has been done: those that
    are given the views have a kernel, or a fallthrough, of their own on the key.
    """
    return any(
        torch._C._dispatch_has_kernel_for_dispatch_key(op.name(), key)
        for key in ("Conjugate", "Negative")
    )


@functools.cache
def _unwanted_keys() -> torch._C.DispatchKeySet:
    # All that can stand above a CPU kernel, by the names of the keys that have
    # kernels there; what this torch does not know is not in its way.
    keys = torch._C._dispatch_keyset_full_after(torch._C.DispatchKey.BackendSelect)
    above = torch._C._dispatch_keyset_full() - keys
    for name in ("BackendSelect", "Conjugate", "Negative", "ZeroTensor"):
        above = above.remove(torch._C._dispatch_key_parse(name))
    return above.add(torch._C._dispatch_key_parse("PythonDispatcher"))


class quiet:  # noqa: N801 - reads as the block that it is
    """A block whose calls are plain computation: nobody sees them, nothing is added.

    No tracer, dispatch mode, `__torch_function__` mode, profiler, autocast or
    autograd takes part in it. Seen in 2.13 (`_enable_record_function`,
    `DisableTorchFunction`).
    """

    __slots__ = ("_functions", "_keys")

    def __enter__(self) -> None:
        """Put everything aside that this thread has on."""
        self._keys = torch._C._ForceDispatchKeyGuard(_ALWAYS, _unwanted_keys())
        self._functions = torch._C.DisableTorchFunction()
        self._functions.__enter__()
        self._keys.__enter__()
        torch._C._autograd._enable_record_function(False)  # noqa: FBT003 - a switch

    def __exit__(self, *exception: object) -> None:
        """Take it out again."""
        torch._C._autograd._enable_record_function(True)  # noqa: FBT003 - a switch
        self._keys.__exit__(None, None, None)
        self._functions.__exit__(None, None, None)


@contextmanager
def differentiable() -> Iterator[None]:
    """A block inside `quiet` in which autograd records; seen in 2.13."""
    after = torch._C._dispatch_keyset_full_after
    autograd = after(torch._C._dispatch_key_parse("Tracer")) - after(
        torch._C.DispatchKey.ADInplaceOrView
    )
    keys = torch._C._ForceDispatchKeyGuard(
        _ALWAYS | torch._C.DispatchKeySet(torch._C.DispatchKey.ADInplaceOrView),
        _unwanted_keys() - autograd,
    )
    with torch.inference_mode(mode=False), torch.enable_grad(), keys:
        yield


_WRAPPERS = (
    "Python",
    "Functionalize",
    "FuncTorchGradWrapper",
    "FuncTorchBatched",
    "Batched",
)


@functools.cache
def _wrapper_keys() -> torch._C.DispatchKeySet:
    keys = torch._C.DispatchKeySet(torch._C._dispatch_key_parse(_WRAPPERS[0]))
    for name in _WRAPPERS[1:]:
        keys = keys.add(torch._C._dispatch_key_parse(name))
    return keys


def is_wrapper(tensor: torch.Tensor) -> bool:
    """True for a tensor that stands for others or for none, and has no memory.

    Fake, functional, batched and differentiated ones; a kernel above autograd meets
    them. Keys seen in 2.6 to 2.13.
    """
    keys = torch._C._dispatch_keys(tensor) & _wrapper_keys()
    return keys.raw_repr() != 0


def empty_queue(device: int) -> None:
    """Wait until torch_npu's queue for a device has run; seen in torch_npu 2.13.

    `_npu_getCurrentRawStream`: whoever gets at the raw stream may launch on it, so
    torch_npu lets the queue run empty first.
    """
    import torch_npu

    torch_npu._C._npu_getCurrentRawStream(device)


def storage_at(address: int, size: int) -> Any:
    """A CPU storage over memory that somebody else owns; 2.6 to 2.13."""
    return torch._C._construct_storage_from_data_pointer(
        address, torch.device("cpu"), size
    )
