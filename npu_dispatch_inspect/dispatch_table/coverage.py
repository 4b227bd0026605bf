# SPDX-License-Identifier: BSD-3-Clause
"""Which of a program's operators a device has kernels for."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable
from typing import Any

from attrs import evolve

from npu_dispatch_inspect.dispatch_table._composites import GENERATED
from npu_dispatch_inspect.dispatch_table.explain import explain
from npu_dispatch_inspect.dispatch_table.reader import read_dispatch_table
from npu_dispatch_inspect.errors import UsageError
from npu_dispatch_inspect.records.coverage import Coverage, CoveredCall
from npu_dispatch_inspect.records.registrations import KernelState, OverloadGroup
from npu_dispatch_inspect.traces.ops import OpTrace
from npu_dispatch_inspect.traces.tables import DispatchTable

__all__ = ["HIDDEN_CPU", "coverage"]

HIDDEN_CPU = {
    "aten::std": "with a correction that is no integer",
    "aten::std_mean": "with a correction that is no integer",
    "aten::scatter_reduce": "where CANN lacks aclnnScatterReduce",
    "aten::adaptive_max_pool3d": "for float64",
    "aten::logit": "in its own implementation",
    "aten::logit_backward": "in its own implementation",
    "aten::_masked_softmax": "for some shapes",
    "aten::_embedding_bag_per_sample_weights_backward": "in its own implementation",
    "aten::unfold_backward": "in its own implementation",
    "aten::_transform_bias_rescale_qkv": "in its own implementation",
    "aten::_pad_packed_sequence": "in its own implementation",
    "aten::copy_": "for casts of complex32 and float8",
}
"""NPU kernels known to compute on the CPU in some cases, and when. Read from the
sources of torch_npu 2.13; std was also measured."""


def coverage(
    target: OpTrace | Callable[..., Any],
    *args: Any,
    key: str | None = None,
    table: DispatchTable | None = None,
    **kwargs: Any,
) -> Coverage:
    """Tell for every operator call what a device has for it.

    Args:
        target: A trace, or a function or module that is then followed without
            running it (`explain`).
        *args: What the function is called with.
        key: The dispatch key that stands for the device: ``"NPU"``, ``"CPU"``.
            By default ``PrivateUse1``.
        table: The tables to look in, such as saved ones of another torch_npu.
            By default those of this process.
        **kwargs: What the function is called with.

    Returns:
        One `CoveredCall` for every call, in the order they start.

    Raises:
        UsageError: a trace comes with arguments, or `target` is neither.

    Example:
        >>> import torch
        >>> from npu_dispatch_inspect import coverage
        >>> found = coverage(torch.nn.Linear(3, 4), torch.ones(2, 3), key="CPU")
        >>> {state.value: count for state, count in found.counts.items()}
        {'default backend kernel': 2, 'own kernel': 2, 'composite': 1}
    """
    if isinstance(target, OpTrace):
        if args or kwargs:
            message = "A trace has its calls already: give coverage() no arguments."
            raise UsageError(message)
        calls = [(each.qualified_name, each.module) for each in target]
        return _coverage(calls, "trace", key, table, complete=target.complete)
    if not callable(target):
        message = (
            f"coverage() takes a trace, a function or a module, "
            f"not {type(target).__name__}."
        )
        raise UsageError(message)
    explanation = explain(target, *args, **kwargs)
    calls = [(each.qualified_name, each.module) for each in explanation.walk()]
    return _coverage(calls, "prediction", key, table, complete=explanation.complete)


def _coverage(
    calls: Iterable[tuple[str, str | None]],
    source: str,
    key: str | None,
    table: DispatchTable | None,
    *,
    complete: bool,
) -> Coverage:
    if table is None:
        table = read_dispatch_table()
    wanted = table.keys.canonical(key or "PrivateUse1")
    known = set(table.names)
    seen: dict[str, CoveredCall] = {}
    covered = []
    for name, module in calls:
        if name not in seen:
            seen[name] = _covered(name, wanted, table, known)
        covered.append(evolve(seen[name], module=module))
    return Coverage(key=wanted, source=source, calls=tuple(covered), complete=complete)


def _covered(
    name: str, key: str, table: DispatchTable, known: Container[str]
) -> CoveredCall:
    kernel = table.kernel(name, key) if name in known else None
    through = None
    if kernel is not None and GENERATED in (kernel.file or ""):
        through = _out_variant(name, table)
        if through is not None:
            kernel = table.kernel(through, key)
    state = KernelState.MISSING if kernel is None else kernel.state
    return CoveredCall(
        operator=name,
        module=None,
        state=state,
        site=kernel.site if kernel is not None else "",
        through=through,
        risk=_risk(name, key, state),
    )


def _out_variant(name: str, table: DispatchTable) -> str | None:
    """The overload that takes the same arguments and the results besides."""
    group = table[name.partition(".")[0]]
    if not isinstance(group, OverloadGroup):
        return None
    wanted = _inputs(table.entry(_explicit(name)).schema)
    for entry in group:
        if entry.qualified_name != name and _inputs(entry.schema) == wanted:
            return entry.qualified_name
    return None


def _inputs(schema: str | None) -> tuple[str, ...]:
    """The arguments of a schema without those that it writes to."""
    inside = (schema or "").partition("(")[2].rpartition(") ->")[0]
    return tuple(
        argument
        for argument in inside.split(", ")
        if argument not in ("*", "") and "!)" not in argument
    )


def _explicit(name: str) -> str:
    return name if "." in name else f"{name}.default"


def _risk(name: str, key: str, state: KernelState) -> str | None:
    if key != "PrivateUse1" or state is not KernelState.OWN_KERNEL:
        return None
    return HIDDEN_CPU.get(name.partition(".")[0])
