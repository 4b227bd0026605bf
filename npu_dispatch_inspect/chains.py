# SPDX-License-Identifier: BSD-3-Clause
"""Join operator calls, kernels, log lines and queue tasks into chains.

Pure: traces in, chains out. What a call came to is decided by what was seen to
happen, in this order: the kernel that the tables give it, the launches that its
log lines name, the calls that were made inside it. The absence of a line alone
decides nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from attrs import evolve

from npu_dispatch_inspect.records import KernelChoice, OpRecord, TensorSpec
from npu_dispatch_inspect.records.chains import ChainNode, Launch, Verdict
from npu_dispatch_inspect.records.logs import OpPluginCall
from npu_dispatch_inspect.traces.logs import LogTrace
from npu_dispatch_inspect.traces.ops import CallNode, OpTrace

__all__ = ["join"]

COPIES = frozenset(
    {
        "aten::_copy_from",
        "aten::_copy_from_and_resize",
        "aten::_local_scalar_dense",
        "aten::_pin_memory",
        "aten::copy_",
        "npu::npu_format_cast",
    }
)
"""Operators whose work is to move data; a kernel that calls them computes nothing."""

COMPOSITE_KINDS = frozenset({"math kernel", "default backend kernel", "nested kernel"})
"""Kernels of every backend, which call other operators."""

HANDING_ON = ("Autocast", "FuncTorch", "Functionalize", "Batched", "Python")
"""Keys whose kernels change the tensors and call the operator, or others, again."""

ALLOCATIONS = frozenset(
    {
        "aten::_efficientzerotensor",
        "aten::empty",
        "aten::empty_like",
        "aten::empty_permuted",
        "aten::empty_strided",
        "aten::new_empty",
        "aten::new_empty_strided",
        "aten::resize_",
        "aten::set_",
        "npu::empty_with_format",
        "npu::unsafe_empty_with_format",
    }
)
"""Operators that make or reshape memory and compute nothing."""

OUTSIDE_DISPATCH = frozenset(
    {
        "aten::_to_copy",
        "aten::_to_cpu",
        "aten::clone",
        "aten::contiguous",
        "aten::item",
        "aten::to",
        "aten::cpu",
    }
)
"""Composites around copies."""


class _Evidence(NamedTuple):
    """What the logs say, by index of the call."""

    launches: Mapping[int, tuple[Launch, ...]]
    op_plugin: Mapping[int, tuple[OpPluginCall, ...]]
    complete: bool
    """Launches were captured: a call without one launched none by aclnn."""


def join(trace: OpTrace, logs: LogTrace | None = None) -> tuple[ChainNode, ...]:
    """The calls of a trace as chains, nested as they were made.

    Args:
        trace: calls of engine "dispatcher"; with engine "dispatch_mode" the tree
            is flat and kernels are not known.
        logs: lines captured beside it, with launches attributed to calls.
    """
    evidence = _evidence(logs)
    made: dict[int, ChainNode] = {}
    tree = trace.tree()
    # Children before parents, without recursion: traces can be deep.
    order: list[CallNode] = []
    pending = list(tree)
    while pending:
        call = pending.pop()
        order.append(call)
        pending.extend(call.children)
    for call in reversed(order):
        children = tuple(made[child.record.index] for child in call.children)
        made[call.record.index] = _node(call.record, children, evidence)
    return tuple(made[call.record.index] for call in tree)


def _evidence(logs: LogTrace | None) -> _Evidence:
    if logs is None:
        return _Evidence({}, {}, complete=False)
    tasks = {task.launch: task for task in logs.tasks if task.launch is not None}
    launches: dict[int, list[Launch]] = {}
    for record in logs.launches:
        if record.op is not None:
            launch = Launch(record=record, task=tasks.get(record.index))
            launches.setdefault(record.op, []).append(launch)
    entered: dict[int, list[OpPluginCall]] = {}
    for call in logs.op_plugin_calls:
        if call.op is not None:
            entered.setdefault(call.op, []).append(call)
    return _Evidence(
        {op: tuple(found) for op, found in launches.items()},
        {op: tuple(found) for op, found in entered.items()},
        complete=logs.complete and not _launches_missing(logs),
    )


def _launches_missing(logs: LogTrace) -> bool:
    return any(each.what == "op_plugin" for each in logs.missing)


def _node(
    op: OpRecord, children: tuple[ChainNode, ...], evidence: _Evidence
) -> ChainNode:
    launches = evidence.launches.get(op.index, ())
    entered = evidence.op_plugin.get(op.index, ())
    children = _mark_logger(children, entered, launches)
    verdict, why = _judge(op, children, launches, evidence)
    return ChainNode(
        op=op,
        verdict=verdict,
        why=why,
        op_plugin=entered,
        launches=launches,
        children=children,
    )


def _mark_logger(
    children: tuple[ChainNode, ...],
    entered: tuple[OpPluginCall, ...],
    launches: tuple[Launch, ...],
) -> tuple[ChainNode, ...]:
    """Mark the calls by which torch_npu's logger read values it printed.

    For every 0-dim NPU tensor in a line it copies the tensor to the host and
    widens it, two calls that follow each other. Their number is known from the
    lines, so no call of the program's own is taken for one.
    """
    printed = sum(
        argument.kind == "NPU scalar Tensor"
        for record in (*entered, *(launch.record for launch in launches))
        for argument in record.arguments or ()
    )
    if not printed:
        return children
    marked = list(children)
    place = 0
    while printed and place + 1 < len(marked):
        if _reads_value(marked[place].op, marked[place + 1].op):
            for each in (place, place + 1):
                marked[each] = _by_logger(marked[each])
            printed -= 1
            place += 1
        place += 1
    return tuple(marked)


def _reads_value(copy: OpRecord, widen: OpRecord) -> bool:
    if (copy.qualified_name, widen.qualified_name) != (
        "aten::to.dtype_layout",
        "aten::to.dtype",
    ):
        return False
    copied, result, wide = (
        each[0] if each else None
        for each in (copy.input_tensors, copy.output_tensors, widen.output_tensors)
    )
    return (
        copied is not None
        and result is not None
        and wide is not None
        and copied.shape == ()
        and copied.device != "cpu"
        and result.device == "cpu" == wide.device
    )


def _by_logger(node: ChainNode) -> ChainNode:
    return evolve(
        node,
        by_logger=True,
        children=tuple(_by_logger(child) for child in node.children),
    )


def _judge(
    op: OpRecord,
    children: tuple[ChainNode, ...],
    launches: tuple[Launch, ...],
    evidence: _Evidence,
) -> tuple[Verdict, str]:
    last = op.path[-1] if op.path else None
    if last is not None and last.kind == "backend fallback" and last.key == "PrivateUse1":
        return Verdict.CPU_FALLBACK, f"The tables give it {_kernel(last)}."
    if launches:
        names = ", ".join(launch.name for launch in launches)
        return Verdict.ACLNN, f"It launched {names}."
    if last is None:
        return Verdict.UNKNOWN, "Its kernel was not observed."
    if last.kind in COMPOSITE_KINDS or last.key.startswith(HANDING_ON):
        return _judge_composite(op, last, children)
    if not _on_npu(op, last):
        return Verdict.KERNEL, f"It reached {_kernel(last)}."
    return _judge_npu_kernel(op, last, children, evidence)


def _judge_composite(
    op: OpRecord, last: KernelChoice, children: tuple[ChainNode, ...]
) -> tuple[Verdict, str]:
    if not children and _returns_view(op):
        return Verdict.NO_LAUNCH, "It returned a view of an input."
    return Verdict.COMPOSITE, f"It reached {_kernel(last)}, which calls other operators."


def _judge_npu_kernel(
    op: OpRecord,
    last: KernelChoice,
    children: tuple[ChainNode, ...],
    evidence: _Evidence,
) -> tuple[Verdict, str]:
    inside = [
        node
        for child in children
        for node in child.walk()
        if not node.by_logger
    ]
    hidden = _cpu_work(inside)
    if hidden is not None:
        return (
            Verdict.HIDDEN_CPU,
            f"Its NPU kernel called {hidden.op.qualified_name} on the CPU.",
        )
    via = [node for node in inside if node.launches]
    if via:
        names = ", ".join(dict.fromkeys(node.op.name for node in via))
        return Verdict.ACLNN_VIA, f"Its NPU kernel called {names}."
    if op.name in ALLOCATIONS:
        return Verdict.NO_LAUNCH, "It made memory and computed nothing."
    if _returns_view(op) and op.name not in COPIES:
        return Verdict.NO_LAUNCH, "It returned a view of an input."
    if op.name in COPIES or any(node.op.name in COPIES for node in inside):
        return Verdict.COPY, "It copied data by the runtime, not by an aclnn launch."
    if op.exception is not None:
        return Verdict.UNKNOWN, f"It raised {op.exception.type} before it launched."
    missing = "" if evidence.complete else "; launches were not captured completely"
    return (
        Verdict.UNKNOWN,
        f"It reached {_kernel(last)} and no launch was seen{missing}.",
    )


def _cpu_work(inside: Iterable[ChainNode]) -> ChainNode | None:
    """The first call among those inside a kernel that computed on the CPU."""
    for node in inside:
        op = node.op
        if (
            node.verdict is Verdict.KERNEL
            and op.path
            and op.path[-1].key == "CPU"
            and op.name not in COPIES
            and op.name not in ALLOCATIONS
            and op.name not in OUTSIDE_DISPATCH
            and not _returns_view(op)
            and any(_computes(spec) for spec in op.output_tensors)
        ):
            return node
    return None


def _computes(spec: TensorSpec) -> bool:
    return spec.device == "cpu"


def _on_npu(op: OpRecord, last: KernelChoice) -> bool:
    if "PrivateUse1" in last.key:
        return True
    # BackendSelect hands on by the device that was asked for, not by a tensor's.
    return last.key == "BackendSelect" and any(
        spec.device.startswith("npu") for spec in op.output_tensors
    )


def _returns_view(op: OpRecord) -> bool:
    """Every tensor it returned shares the storage of a tensor it was given."""
    storages = {spec.storage_id for spec in op.input_tensors} - {None}
    outputs = op.output_tensors
    return (
        bool(outputs)
        and not op.written
        and all(spec.storage_id in storages for spec in outputs)
    )


def _kernel(choice: KernelChoice) -> str:
    site = f" at {choice.site}" if choice.site else ""
    return f"the {choice.key} {choice.kind}{site}"
