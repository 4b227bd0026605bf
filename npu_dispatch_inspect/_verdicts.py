# SPDX-License-Identifier: BSD-3-Clause
"""What one call came to, decided by what was seen to happen.

In this order: the kernel that the tables give it, the launches and tasks that its
log lines name, the calls that were made inside it. The absence of a line alone
decides nothing: what is left is "unknown", with what speaks against knowing it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from npu_dispatch_inspect._verdict_sets import (
    ALLOCATIONS,
    COPIES,
    IN_PLACE_VIEWS,
    RETURNING_THE_TARGET,
    WRAPPED_COPIES,
)
from npu_dispatch_inspect.records import (
    KernelChoice,
    OpRecord,
    TaskRecord,
    TensorSpec,
    tensors_in,
)
from npu_dispatch_inspect.records.chains import ChainNode, Launch, Verdict

__all__ = ["Seen", "judge"]

COMPOSITE_KINDS = frozenset({"math kernel", "default backend kernel", "nested kernel"})
"""Kernels of every backend, which call other operators."""

HANDING_ON = ("Autocast", "FuncTorch", "Functionalize", "Batched", "Python")
"""Keys whose kernels change the tensors and call the operator, or others, again."""

Judged = tuple[Verdict, str]


class Seen(NamedTuple):
    """What is known of one call."""

    op: OpRecord
    children: tuple[ChainNode, ...] = ()
    launches: tuple[Launch, ...] = ()
    aclops: tuple[TaskRecord, ...] = ()
    doubt: str | None = None
    """Why something the call did may have gone unseen."""
    jit_compile: bool | None = None


def judge(seen: Seen) -> Judged:
    """The verdict, and the fact that decided it as one sentence."""
    op = seen.op
    last = op.path[-1] if op.path else None
    if (
        last is not None
        and last.kind == "backend fallback"
        and last.key == "PrivateUse1"
    ):
        return Verdict.CPU_FALLBACK, f"The tables give it {_kernel(last)}{_raised(op)}."
    if seen.launches:
        return _judge_launches(seen, last)
    if seen.aclops:
        return Verdict.ACLOP, f"It ran {_names(seen.aclops)} as aclop{_raised(op)}."
    if last is None:
        return _judge_without_kernel(seen)
    if last.kind in COMPOSITE_KINDS or last.key.startswith(HANDING_ON):
        return _judge_composite(op, last, seen.children)
    if not _on_npu(op, last):
        return Verdict.KERNEL, f"It reached {_kernel(last)}{_raised(op)}."
    return _judge_npu_kernel(seen, last)


def _judge_launches(seen: Seen, last: KernelChoice | None) -> Judged:
    names = _names(seen.launches)
    if last is not None and last.kind in COMPOSITE_KINDS:
        return (
            Verdict.ACLNN_VIA,
            f"It launched {names} through calls that were not recorded.",
        )
    hidden = _cpu_work(seen.children)
    also = f", ran {_names(seen.aclops)} as aclop" if seen.aclops else ""
    if hidden is not None:
        also += f", and called {hidden.op.qualified_name} on the CPU"
    return Verdict.ACLNN, f"It launched {names}{also}{_raised(seen.op)}."


def _judge_without_kernel(seen: Seen) -> Judged:
    op = seen.op
    if seen.children:
        return Verdict.COMPOSITE, "Its kernel is not in the tables; it called others."
    if _returns_view(op) and seen.doubt is None:
        return Verdict.NO_LAUNCH, "It returned a view of an input."
    return Verdict.UNKNOWN, f"Its kernel was not observed{_raised(op)}."


def _judge_composite(
    op: OpRecord, last: KernelChoice, children: tuple[ChainNode, ...]
) -> Judged:
    if _is_view(op, children):
        return Verdict.NO_LAUNCH, "It returned a view of an input."
    calls = ", which calls other operators" if children else ""
    return Verdict.COMPOSITE, f"It reached {_kernel(last)}{calls}{_raised(op)}."


def _is_view(op: OpRecord, children: tuple[ChainNode, ...]) -> bool:
    """It returned a view, and so did everything that it called."""
    return _returns_view(op) and all(
        child.verdict is Verdict.NO_LAUNCH for child in children
    )


def _judge_npu_kernel(seen: Seen, last: KernelChoice) -> Judged:
    op = seen.op
    hidden = _cpu_work(seen.children)
    if hidden is not None:
        how = (
            ", which fell back to the CPU"
            if hidden.verdict is Verdict.CPU_FALLBACK
            else " on the CPU"
        )
        return (
            Verdict.HIDDEN_CPU,
            f"Its NPU kernel called {hidden.op.qualified_name}{how}.",
        )
    inside = [node for child in seen.children for node in child.walk()]
    via = [node.op.name for node in inside if node.launches]
    if via:
        return Verdict.ACLNN_VIA, f"Its NPU kernel called {_listed(via)}{_raised(op)}."
    via = [node.op.name for node in inside if node.aclops]
    if via:
        return Verdict.ACLOP, f"Its NPU kernel called {_listed(via)}, run as aclop."
    if op.exception is not None:
        return Verdict.UNKNOWN, f"It raised {op.exception.type} before any launch."
    return _judge_quiet(seen, last, inside)


def _judge_quiet(seen: Seen, last: KernelChoice, inside: list[ChainNode]) -> Judged:
    """An NPU kernel that launched nothing that was seen."""
    op = seen.op
    doubt = f"; {seen.doubt}" if seen.doubt else ""
    if op.name in ALLOCATIONS:
        return Verdict.NO_LAUNCH, "It made or reshaped memory and computed nothing."
    if _returns_view(op) and op.name not in RETURNING_THE_TARGET:
        return Verdict.NO_LAUNCH, "It returned a view of an input."
    unclear = next((n.op.name for n in inside if n.verdict is Verdict.UNKNOWN), None)
    if unclear:
        doubt = f"; it called {unclear}, whose route is unknown{doubt}"
    if op.name in COPIES or (
        op.name in WRAPPED_COPIES
        and any(node.verdict is Verdict.COPY for node in inside)
    ):
        if doubt:
            return Verdict.COPY, f"Its work is to move data; how is not known{doubt}."
        return Verdict.COPY, "It moved data by the runtime, not by an aclnn launch."
    certain = not doubt and not seen.jit_compile
    if certain and not op.output_tensors and not op.written:
        return Verdict.NO_LAUNCH, "It returned no tensor, and no launch was seen."
    if seen.jit_compile and not doubt:
        doubt = (
            "; jit_compile is on, and an aclop that the host waits for leaves no line: "
            "inspect_dispatch(profiler=True) would see it"
        )
    return (
        Verdict.UNKNOWN,
        f"It reached {_kernel(last)} and no launch was seen{doubt}.",
    )


def _cpu_work(children: Sequence[ChainNode]) -> ChainNode | None:
    """The first call inside an NPU kernel that did a part of its work on the CPU.

    Kernels also use the CPU for numbers (the product of two scalars). Work is what
    takes data that came from the device, or makes data that goes there.
    """
    inside = [node for child in children for node in child.walk()]
    came = _moved(inside, from_cpu=False)
    goes = _moved(inside, from_cpu=True)
    for node in inside:
        if node.verdict is Verdict.CPU_FALLBACK:
            return node
        if not _computed_on_cpu(node):
            continue
        op = node.op
        results = {spec.storage_id for spec in (*op.output_tensors, *_written(op))}
        if came & {spec.storage_id for spec in op.input_tensors}:
            # What it makes of data from the device goes on being that.
            return node
        if goes & results:
            return node
    return None


def _moved(inside: Sequence[ChainNode], *, from_cpu: bool) -> set[int]:
    """Storages on the CPU that data came to from the device, or went from there."""
    found: set[int | None] = set()
    for node in inside:
        op = node.op
        written = _written(op)
        targets = written or op.output_tensors
        sources = [spec for spec in op.input_tensors if spec not in written]
        if op.name not in COPIES or not targets or not sources:
            continue
        source, target = sources[0], targets[0]
        if (source.device == "cpu") == from_cpu and (
            target.device == "cpu"
        ) != from_cpu:
            host = source if from_cpu else target
            if not (from_cpu and host.shape == ()):
                found.add(host.storage_id)
    return {each for each in found if each is not None}


def _computed_on_cpu(node: ChainNode) -> bool:
    op = node.op
    return (
        node.verdict in (Verdict.KERNEL, Verdict.COMPOSITE)
        and bool(op.path)
        and op.path[-1].key == "CPU"
        and op.name not in COPIES
        and op.name not in ALLOCATIONS
        and op.name not in WRAPPED_COPIES
        and not _returns_view(op)
    )


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
        and (not op.written or op.name in IN_PLACE_VIEWS)
        and all(spec.storage_id in storages for spec in outputs)
    )


def _written(op: OpRecord) -> tuple[TensorSpec, ...]:
    return tensors_in(tuple(each.value for each in op.inputs if each.written))


def _kernel(choice: KernelChoice) -> str:
    site = f" at {choice.site}" if choice.site else ""
    return f"the {choice.key} {choice.kind}{site}"


def _raised(op: OpRecord) -> str:
    return f" and raised {op.exception.type}" if op.exception is not None else ""


def _names(found: Sequence[Launch | TaskRecord]) -> str:
    return _listed([each.name or "" for each in found])


def _listed(names: Sequence[str]) -> str:
    return ", ".join(dict.fromkeys(names))
