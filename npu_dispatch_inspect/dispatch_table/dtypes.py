# SPDX-License-Identifier: BSD-3-Clause
"""The third stage: which dtypes an operator takes, found out by trying."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch.utils import _pytree as pytree

from npu_dispatch_inspect._torch_private import keysets
from npu_dispatch_inspect.dispatch_table._overloads import resolve_overload
from npu_dispatch_inspect.environment import read_environment
from npu_dispatch_inspect.errors import UsageError
from npu_dispatch_inspect.records.paths import DtypeProbe

__all__ = ["DTYPES", "probe_dtypes"]

DTYPES = (
    "float64",
    "float32",
    "float16",
    "bfloat16",
    "complex64",
    "int64",
    "int32",
    "int16",
    "int8",
    "uint8",
    "bool",
)
"""What is tried where nothing else is asked for."""
MAX_ELEMENTS = 65536
"""A larger tensor in the sample is refused: trying is to cost nothing."""
_REACH_OUT = frozenset(
    {
        "_c10d_functional",
        "_c10d_functional_autograd",
        "c10d",
        "c10d_functional",
        "fsdp",
        "npu_custom_dist",
        "symm_mem",
    }
)
"""Namespaces whose operators talk to other processes."""


def probe_dtypes(
    operator: object,
    *sample: Any,
    dtypes: Sequence[str | torch.dtype] = DTYPES,
    **kwargs: Any,
) -> tuple[DtypeProbe, ...]:
    """Try an operator with one dtype after another.

    It runs for real, on tensors of its own: ones in the shape, and on the
    device, of those in the sample. The dtype of the first tensor of the sample
    is what changes, in every tensor that has it; the others are copied.

    Args:
        operator: Name or `torch.ops` object.
        *sample: Positional arguments that would work.
        dtypes: What to try.
        **kwargs: Keyword arguments that would work.

    Returns:
        One answer for each of `dtypes`, in their order.

    Raises:
        UsageError: the sample has no tensor, or a large one, or the operator
            talks to other processes.

    Example:
        >>> import torch
        >>> from npu_dispatch_inspect import probe_dtypes
        >>> x = torch.ones(2, dtype=torch.int32)
        >>> for probe in probe_dtypes("aten::bitwise_not", x, dtypes=["int32", "float32"]):
        ...     print(probe.dtype, probe.outcome)
        int32 supported
        float32 refused
    """
    op = resolve_overload(operator, sample, kwargs)
    _check(op, sample, kwargs)
    certain = not read_environment().stand_in
    tensors = _tensors((sample, kwargs))
    changed = tensors[0].dtype
    probes = []
    with _undisturbed(tensors):
        for dtype in map(_dtype, dtypes):
            args, named = pytree.tree_map_only(
                torch.Tensor, _Maker(changed, dtype), (sample, kwargs)
            )
            probes.append(_try(op, args, named, dtype, certain=certain))
    return tuple(probes)


class _Maker:
    """Makes the tensors of one trial."""

    def __init__(self, changed: torch.dtype, dtype: torch.dtype) -> None:
        self._changed = changed
        self._dtype = dtype

    def __call__(self, tensor: torch.Tensor) -> torch.Tensor:
        if tensor.dtype != self._changed:
            return tensor.detach().clone()
        return torch.ones_like(tensor, dtype=self._dtype, requires_grad=False)


def _try(
    op: Any, args: Any, kwargs: Any, dtype: torch.dtype, *, certain: bool
) -> DtypeProbe:
    name = str(dtype).removeprefix("torch.")
    try:
        results = _tensors(op(*args, **kwargs))
    except Exception as error:  # noqa: BLE001 - the refusal is the answer
        message = " ".join(str(error).split("\n", 1)[0].split())
        return DtypeProbe(dtype=name, outcome="refused", message=message)
    found = tuple(each.dtype for each in results)
    promoted = (
        bool(found)
        and found[0] not in (dtype, torch.bool)
        and torch.can_cast(dtype, found[0])
    )
    return DtypeProbe(
        dtype=name,
        outcome="promoted" if promoted else "supported",
        results=tuple(str(each).removeprefix("torch.") for each in found),
        certain=certain,
    )


def _check(op: Any, sample: Any, kwargs: Any) -> None:
    if op.namespace in _REACH_OUT:
        message = (
            f"{op.name()} talks to other processes, so it is not tried: "
            f"choose an operator that computes here."
        )
        raise UsageError(message)
    tensors = _tensors((sample, kwargs))
    if not tensors:
        message = f"The sample for {op.name()} has no tensor whose dtype could change."
        raise UsageError(message)
    largest = max(each.numel() for each in tensors)
    if largest > MAX_ELEMENTS:
        message = (
            f"A tensor of the sample has {largest} elements: give smaller ones, "
            f"at most {MAX_ELEMENTS}."
        )
        raise UsageError(message)


def _tensors(values: Any) -> list[torch.Tensor]:
    return [
        each for each in pytree.tree_leaves(values) if isinstance(each, torch.Tensor)
    ]


def _dtype(dtype: str | torch.dtype) -> torch.dtype:
    found = getattr(torch, dtype, None) if isinstance(dtype, str) else dtype
    if not isinstance(found, torch.dtype):
        message = f"torch has no dtype {dtype!r}: write it as torch does, 'float16'."
        raise UsageError(message)
    return found


@contextlib.contextmanager
def _undisturbed(tensors: list[torch.Tensor]) -> Iterator[None]:
    """A block that changes no random state, records no gradient, shows to no tracer."""
    devices = {
        each.device for each in tensors if each.device.type not in ("cpu", "meta")
    }
    with contextlib.ExitStack() as stack:
        stack.enter_context(keysets.quiet_block())
        stack.enter_context(torch.no_grad())
        stack.enter_context(torch.random.fork_rng(devices=[]))
        for device in devices:
            stack.enter_context(
                torch.random.fork_rng(
                    devices=[device.index or 0], device_type=device.type
                )
            )
        yield
