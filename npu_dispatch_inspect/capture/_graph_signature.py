# SPDX-License-Identifier: BSD-3-Clause
"""What a call has in common with an earlier one whose graphs are right for it too."""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from npu_dispatch_inspect._torch_private import tracing
from npu_dispatch_inspect.capture._graph_program import Program

__all__ = ["signature"]

MAX_FUNCTIONS = 2000
"""So many functions are looked into for globals, closures and further functions."""


def signature(program: Program, *, dynamic: bool) -> Any:
    """Something to compare two calls of one function by.

    Args:
        program: the call.
        dynamic: leave sizes and strides out.
    """
    tensors = program.tensors
    modules = [module for _, module in program.modules]
    return (
        tuple(_tensor(each, dynamic=dynamic) for each in tensors),
        _sharing(tensors),
        tuple((each.kind, each.names) for each in program.inputs),
        tuple((name, _plain(value)) for name, value in program.constants),
        program.layout,
        _switches(),
        tuple(map(_module, _inside(modules))),
        tuple(_looked_at(program.function, modules)),
    )


def _tensor(tensor: torch.Tensor, *, dynamic: bool) -> Any:
    if not tracing.has_sizes(tensor):
        return type(tensor)
    sizes: Any = tensor.dim()
    if not dynamic:
        strided = tensor.layout is torch.strided
        sizes = (tensor.shape, tensor.stride() if strided else None)
    return (
        type(tensor),
        sizes,
        tensor.dtype,
        tensor.device,
        tensor.layout,
        tensor.requires_grad,
        tensor.is_leaf,
        tensor.dtype.is_complex and tensor.is_conj(),
        tensor.is_neg(),
        tensor._is_view(),
        tensor.is_inference(),
    )


def _sharing(tensors: Sequence[torch.Tensor]) -> tuple[Any, ...]:
    """Which inputs are on one storage, and where: these are traced in another way."""
    groups: dict[int, list[int]] = {}
    for number, tensor in enumerate(tensors):
        key = tracing.storage_key(tensor)
        if key is not None:
            groups.setdefault(key, []).append(number)
    return tuple(
        tuple((number, *_part(tensors[number])) for number in numbers)
        for numbers in groups.values()
        if len(numbers) > 1
    )


def _part(tensor: torch.Tensor) -> tuple[Any, ...]:
    base = tensor._base
    whole = None
    if base is not None:
        whole = (base.shape, base.stride(), base.dtype, base.requires_grad)
    return tensor.storage_offset(), tensor.shape, tensor.stride(), whole


MAX_DEPTH = 8
"""Containers that are nested more deeply are told apart by identity."""

MAX_ITEMS = 256
"""So are larger dictionaries and sets: those are registries more often than settings."""

_PLAIN = (bool, int, float, complex, str, bytes, type(None))
_TORCH = (torch.dtype, torch.device, torch.layout, torch.memory_format)


def _plain(value: Any, depth: int = 0) -> Any:
    """Something to compare a value by; its identity where it is not plain."""
    if isinstance(value, (float, complex)):
        # NaN is no other number than before, and -0.0 is another one than 0.0.
        return type(value), repr(value)
    if isinstance(value, _PLAIN):
        # 1 and True are equal, and make different graphs.
        return type(value), value
    if isinstance(value, _TORCH):
        return value
    if depth < MAX_DEPTH:
        if isinstance(value, (list, tuple)):
            return type(value), tuple(_plain(each, depth + 1) for each in value)
        if type(value) is dict and len(value) <= MAX_ITEMS:
            return dict, _plain(tuple(value.items()), depth + 1)
        if type(value) in {set, frozenset} and len(value) <= MAX_ITEMS:
            return type(value), frozenset(_plain(each, depth + 1) for each in value)
    return _Same(value)


class _Same:
    """Equal to itself alone; kept, so that nothing else can get its identity."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and other.value is self.value

    def __hash__(self) -> int:
        return id(self.value)


def _switches() -> tuple[Any, ...]:
    """What torch's own switches make of the same program."""
    kinds = ["cpu", "cuda"]
    if hasattr(torch, "npu"):
        kinds.append("npu")
    autocast = []
    for kind in kinds:
        try:
            on = torch.is_autocast_enabled(kind)
            autocast.append(torch.get_autocast_dtype(kind) if on else None)
        except RuntimeError:  # this torch does not know the device type
            autocast.append(None)
    return (
        torch.is_grad_enabled(),
        torch.is_inference_mode_enabled(),
        torch.get_default_dtype(),
        tracing.default_device(),
        torch.are_deterministic_algorithms_enabled(),
        # Which attention a program gets.
        torch.backends.cuda.flash_sdp_enabled(),
        torch.backends.cuda.mem_efficient_sdp_enabled(),
        torch.backends.cuda.math_sdp_enabled(),
        torch.backends.cuda.cudnn_sdp_enabled(),
        torch.backends.mha.get_fastpath_enabled(),
        *autocast,
    )


def _inside(modules: Sequence[torch.nn.Module]) -> Iterator[torch.nn.Module]:
    for module in modules:
        yield from module.modules()


def _module(module: torch.nn.Module) -> Any:
    """The plain values, the functions and the hooks of one module."""
    own = vars(module)
    return (
        type(module),
        tuple((name, _plain(value)) for name, value in own.items() if _counts(value)),
        tuple(
            tuple(map(_Same, own[name].values()))
            for name in (
                "_forward_pre_hooks",
                "_forward_hooks",
                "_backward_pre_hooks",
                "_backward_hooks",
            )
        ),
    )


def _counts(value: Any, depth: int = 0) -> bool:
    """True for plain values, functions, and containers of nothing else."""
    if depth < MAX_DEPTH:
        if isinstance(value, (list, tuple, set, frozenset)):
            return all(_counts(each, depth + 1) for each in value)
        if type(value) is dict:
            return all(_counts(each, depth + 1) for each in value.values())
    if isinstance(value, (*_PLAIN, *_TORCH)):
        return True
    return callable(value) and not isinstance(value, torch.nn.Module)


def _looked_at(
    function: Callable[..., Any], modules: Sequence[torch.nn.Module]
) -> Iterator[Any]:
    """The functions that run, and what they find in their closures and globals.

    Those of the program, and the functions that these find there in turn. torch's own
    do not count: its switches are looked at by themselves.
    """
    kinds: dict[Any, None] = dict.fromkeys(map(type, _inside(modules)))
    pending: list[Any] = [
        function,
        *(kind.forward for kind in kinds),
        # Some libraries put a function of their own on the module itself.
        *(
            vars(each)["forward"]
            for each in _inside(modules)
            if "forward" in vars(each)
        ),
    ]
    seen: set[int] = set()
    while pending and len(seen) < MAX_FUNCTIONS:
        plain = _python_function(pending.pop())
        if plain is None or id(plain) in seen or _is_torchs(plain.__module__):
            continue
        seen.add(id(plain))
        yield _Same(plain)
        for value in _found(plain):
            if not isinstance(value, torch.nn.Module):
                yield _plain(value)
            if callable(value):
                pending.append(value)


def _python_function(value: Any) -> types.FunctionType | None:
    while isinstance(value, functools.partial):
        value = value.func
    if isinstance(value, (type, torch.nn.Module)):
        return None
    value = inspect.unwrap(value)
    value = getattr(value, "__func__", value)
    return value if isinstance(value, types.FunctionType) else None


def _is_torchs(name: str | None) -> bool:
    return name is not None and (name == "torch" or name.startswith("torch."))


def _found(function: types.FunctionType) -> Iterator[Any]:
    """The values of a function's closure, of its globals, and of modules among these."""
    for cell in function.__closure__ or ():
        try:
            yield cell.cell_contents
        except ValueError:  # not assigned yet
            yield None
    names = _names(function.__code__)
    for name in names:
        if name not in function.__globals__:
            continue
        value = function.__globals__[name]
        yield value
        if isinstance(value, types.ModuleType) and not _is_torchs(value.__name__):
            yield from (vars(value)[each] for each in names if each in vars(value))


@functools.lru_cache(maxsize=4096)
def _names(code: types.CodeType) -> tuple[str, ...]:
    """Names that code may look up, that of functions inside it included."""
    names = list(code.co_names)
    for each in code.co_consts:
        if isinstance(each, types.CodeType):
            names += _names(each)
    return tuple(dict.fromkeys(names))
