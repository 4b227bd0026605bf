# SPDX-License-Identifier: BSD-3-Clause
"""Casts and copies among the calls of a report, and what asked for them."""

from __future__ import annotations

from collections.abc import Iterable

from attrs import frozen

from npu_dispatch_inspect.records import OpRecord, SourceLocation, TensorSpec
from npu_dispatch_inspect.records.chains import ChainNode, Verdict

__all__ = ["Copy", "copies_in"]


@frozen(kw_only=True)
class Copy:
    """A cast or copy, and what asked for it.

    Example:
        >>> import torch
        >>> from npu_dispatch_inspect import inspect_dispatch
        >>> with inspect_dispatch() as seen:
        ...     y = torch.ones(3, 4).npu()
        >>> (copy,) = seen.copies_and_casts
        >>> copy.kind
        'host to device'
    """

    kind: str
    """``"dtype cast"``, ``"format cast"``, ``"contiguous copy"`` (the strides
    change), ``"copy"``, ``"host to device"``, ``"device to host"``."""
    node: ChainNode
    copied: TensorSpec
    """What was copied or cast."""
    result: TensorSpec | None
    """What it became; None where it became a Python number."""
    cause: str | None
    """The call it was made in, and why where that is known: ``"autocast of
    aten::linear"``; None where the program asked for it itself."""
    source: SourceLocation | None
    """The user's line."""

    def __str__(self) -> str:
        change = str(self.copied)
        if self.result is not None and str(self.result) != change:
            change += f" -> {self.result}"
        cause = f", {self.cause}" if self.cause else ""
        return f"{self.kind}: {change}{cause}"


_COPY_NAMES = {
    "aten::_copy_from_and_resize": ("self", "dst"),
    "aten::_local_scalar_dense": ("self", None),
    "aten::_to_copy": ("self", None),
    "aten::clone": ("self", None),
    "aten::copy_": ("src", "self"),
    "npu::_npu_dtype_cast": ("self", None),
    "npu::npu_dtype_cast": ("self", None),
    "npu::npu_format_cast": ("self", None),
}
"""Which argument is copied, and which is written; None where a new one is made."""

_INTO_A_TENSOR = ("aten::copy_", "aten::_copy_from_and_resize")

_ASKED_BY_PROGRAM = frozenset(
    {"aten::to", "aten::contiguous", "aten::_to_cpu", "aten::item", "aten::cpu"}
)
"""Calls whose whole purpose is the copy inside them."""


def copies_in(chains: Iterable[ChainNode]) -> tuple[Copy, ...]:
    """Every cast and copy of the chains; what a copy does inside is that copy."""
    found: list[Copy] = []
    for chain in chains:
        _collect(chain, found)
    return tuple(found)


def _collect(chain: ChainNode, found: list[Copy]) -> None:
    pending: list[tuple[ChainNode, tuple[ChainNode, ...]]] = [(chain, ())]
    while pending:
        node, above = pending.pop()
        if node.op.name in _COPY_NAMES:
            copy = _copy(node, above)
            if copy is not None:
                found.append(copy)
        elif node.verdict is not Verdict.KERNEL:
            # What a CPU kernel does inside is no business of the device.
            pending.extend((child, (*above, node)) for child in reversed(node.children))


def _copy(node: ChainNode, above: tuple[ChainNode, ...]) -> Copy | None:
    op = node.op
    source_name, target_name = _COPY_NAMES[op.name]
    named = {argument.name: argument.value for argument in op.inputs}
    copied = named.get(source_name)
    result = named.get(target_name) if target_name else None
    if result is None and op.output_tensors:
        result = op.output_tensors[0]
    if not isinstance(copied, TensorSpec):
        return None
    result = result if isinstance(result, TensorSpec) else None
    kind = _copy_kind(op.name, copied, result)
    if kind is None:
        return None
    source = op.source or next(
        (outer.op.source for outer in reversed(above) if outer.op.source), None
    )
    return Copy(
        kind=kind,
        node=node,
        copied=copied,
        result=result,
        cause=_cause(above) or _node(op),
        source=source,
    )


def _copy_kind(name: str, copied: TensorSpec, result: TensorSpec | None) -> str | None:
    host = copied.device == "cpu"
    if result is None:
        return None if host else "device to host"
    if host != (result.device == "cpu"):
        return "host to device" if host else "device to host"
    if (
        name not in _INTO_A_TENSOR
        and copied.storage_id == result.storage_id is not None
    ):
        return None  # nothing was to be done
    if name == "npu::npu_format_cast":
        return "format cast"
    if copied.dtype != result.dtype:
        return "dtype cast"
    if name in _INTO_A_TENSOR or copied.stride == result.stride:
        return "copy"
    return "contiguous copy"


def _node(op: OpRecord) -> str | None:
    """Where autograd made the copy: there is no line of the user's."""
    return None if op.autograd_node is None else f"in {op.autograd_node}"


def _cause(above: tuple[ChainNode, ...]) -> str | None:
    for outer in reversed(above):
        if outer.verdict is Verdict.CPU_FALLBACK:
            return f"CPU fallback of {outer.op.qualified_name}"
        if outer.verdict is Verdict.HIDDEN_CPU:
            return f"CPU work inside {outer.op.qualified_name}"
        if outer.op.path and outer.op.path[0].key.startswith("Autocast"):
            return f"autocast of {outer.op.name}"
    for outer in reversed(above):
        if outer.op.name not in _ASKED_BY_PROGRAM:
            return f"in {outer.op.name}"
    return None
