# SPDX-License-Identifier: BSD-3-Clause
"""What is told about a call or a launch when its row is opened."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import TypeAlias

from npu_dispatch_inspect.export._html_model import Part
from npu_dispatch_inspect.records import (
    AclnnRecord,
    Argument,
    Constant,
    ExceptionRecord,
    KernelChoice,
    LoggedArgument,
    OpPluginCall,
    OpRecord,
    SourceLocation,
    TaskKind,
    TaskRecord,
    TensorSpec,
    Value,
    tensors_in,
)
from npu_dispatch_inspect.records.chains import ChainNode, Launch

__all__ = [
    "call_parts",
    "dtypes_text",
    "launch_parts",
    "logged_arguments",
    "shapes_text",
    "task_text",
]

MAX_KEYS = 40
MAX_ITEMS = 64
"""So many elements of a list are shown when a row is open."""
_SHOWN_TENSORS = 6
"""A cell names so many tensors of each side."""


@lru_cache(maxsize=4096)
def _tensor_note(spec: TensorSpec) -> str:
    """Everything about a tensor that ``f32[2, 3]`` does not say."""
    parts = [spec.device]
    if spec.stride is not None:
        parts.append(f"stride {', '.join(map(str, spec.stride)) or 'none'}")
    if spec.offset not in (None, 0):
        parts.append(f"offset {spec.offset}")
    if spec.layout != "strided":
        parts.append(spec.layout)
    if spec.requires_grad:
        parts.append("requires grad")
    if spec.subclass:
        parts.append(spec.subclass)
    parts.extend(spec.flags)
    if spec.unknown:
        parts.append(f"not known: {', '.join(spec.unknown)}")
    return " · ".join(parts)


def _value_text(value: Value) -> str:
    if isinstance(value, tuple):
        shown = [_value_text(each) for each in value[:MAX_ITEMS]]
        if len(value) > MAX_ITEMS:
            shown.append(f"... {len(value) - MAX_ITEMS} more")
        return f"[{', '.join(shown)}]"
    return str(value) if isinstance(value, (TensorSpec, Constant)) else repr(value)


def _note(value: Value) -> str:
    if isinstance(value, TensorSpec):
        return _tensor_note(value)
    if isinstance(value, tuple):
        devices = dict.fromkeys(spec.device for spec in tensors_in(value))
        return ", ".join(devices)
    return ""


def _argument(argument: Argument) -> tuple[str, str, str]:
    notes = [_note(argument.value)]
    if argument.written:
        notes.append("written")
    if argument.default:
        notes.append("default")
    return (
        argument.name,
        _value_text(argument.value),
        " · ".join(note for note in notes if note),
    )


Specs: TypeAlias = "tuple[TensorSpec, ...]"


def shapes_text(given: Specs, made: Specs = ()) -> str:
    """``[2, 8], [8, 4] → [2, 4]``."""
    left, right = _listed(map(_shape, given)), _listed(map(_shape, made))
    return f"{left} → {right}".lstrip() if right else left


def dtypes_text(given: Specs, made: Specs = ()) -> str:
    """``f32, f16 → f32``: each dtype of a side once; one alone where both are alike."""
    left, right = (
        ", ".join(dict.fromkeys(spec.abbreviated_dtype for spec in specs))
        for specs in (given, made)
    )
    return left if right in ("", left) else f"{left} → {right}".lstrip()


def _shape(spec: TensorSpec) -> str:
    return "[?]" if spec.shape is None else f"[{', '.join(map(str, spec.shape))}]"


def _listed(texts: Iterable[str]) -> str:
    found = list(texts)
    more = len(found) - _SHOWN_TENSORS
    shown = ", ".join(found[:_SHOWN_TENSORS])
    return f"{shown}, ... {more} more" if more > 0 else shown


def call_parts(op: OpRecord, node: ChainNode | None) -> Iterator[Part]:
    """Arguments, results, line, way through the dispatcher, launches with tasks.

    Args:
        op: the call.
        node: the same call with what it came to; None where that is not known.
    """
    if node is not None:
        yield Part("Verdict", "text", ((node.verdict.value,), (node.why,)))
    if op.exception is not None:
        yield _exception(op.exception)
    if op.source is not None:
        yield Part("Source line", "code", (_source(op.source),))
    if op.path:
        yield Part("Kernels on the way", "steps", tuple(map(_step, op.path)))
    if node is not None:
        yield from _launched(node)
    if op.inputs:
        yield Part("Arguments", "pairs", tuple(map(_argument, op.inputs)))
    if op.outputs:
        yield Part(
            "Results",
            "pairs",
            tuple(("", _value_text(each), _note(each)) for each in op.outputs),
        )
    if op.keys:
        yield Part("Dispatch keys alive", "text", ((", ".join(op.keys[:MAX_KEYS]),),))
    facts = tuple(_facts(op))
    if facts:
        yield Part("Circumstances", "pairs", facts)


def _exception(exception: ExceptionRecord) -> Part:
    return Part("Raised", "code", ((exception.type,), (exception.message,)))


def _source(source: SourceLocation) -> tuple[str]:
    return (str(source),)


def _step(choice: KernelChoice) -> tuple[str, str, str]:
    return (choice.key, choice.kind, choice.site)


def _launched(node: ChainNode) -> Iterator[Part]:
    for launch in node.launches:
        yield _launch(launch)
    for task in node.aclops:
        head = (task.name or "", f"aclop · {task_text(task)}")
        yield Part("Launch", "launch", (head,))
    if node.op_plugin:
        yield Part(
            "op-plugin functions entered",
            "text",
            tuple((each.name,) for each in node.op_plugin),
        )


def _launch(launch: Launch) -> Part:
    record = launch.record
    notes = [record.command] if record.command else []
    if record.stream is not None and record.stream >= 0:
        notes.append(f"stream {record.stream}")
    if record.synchronous:
        notes.append("synchronous: the host waits for it")
    if launch.task is not None:
        notes.append(task_text(launch.task))
    if not record.text and record.attribution:
        notes.append(record.attribution)
    head = (record.name, " · ".join(notes))
    return Part("Launch", "launch", (head, *logged_arguments(record)))


def logged_arguments(
    record: AclnnRecord | OpPluginCall,
) -> tuple[tuple[str, str, str], ...]:
    """The arguments as the log shows them, and whether these are all."""
    rows = tuple(map(_logged_argument, record.arguments or ()))
    if record.truncated not in (None, "cut at a NUL byte"):
        rows += (("...", "cut off", record.truncated or ""),)
    return rows


def _logged_argument(argument: Argument) -> tuple[str, str, str]:
    name, value, note = _argument(argument)
    if not isinstance(argument, LoggedArgument):
        return name, value, note
    notes = [argument.kind, note]
    if not argument.known:
        value = "not shown"
    if argument.partial:
        notes.append(f"the first of {argument.length}")
    return name, value, " · ".join(each for each in notes if each)


def task_text(task: TaskRecord) -> str:
    """What the queue made of a task."""
    if task.slot is None:
        return "named by the profiler"
    text = f"task {task.slot}"
    if task.kind is not TaskKind.OPERATOR:
        text += f" ({task.kind.value})"
    if task.ret not in (None, 0):
        text += f" failed with {task.ret}"
    elif task.written is None:
        text += " not seen written"
    else:
        text += " done" if task.executed else " not seen to run"
    if task.queued_us is not None:
        text += f", {task.queued_us} µs in the queue"
    return text


def _facts(op: OpRecord) -> Iterator[tuple[str, str, str]]:
    if op.module is not None:
        yield "module", op.module or op.root or "", op.module_type or ""
    if op.recomputed:
        yield "recomputed", "yes", "ran again inside backward"
    if op.autograd_node:
        yield "autograd node", op.autograd_node, ""
    if op.regions:
        yield "regions", " / ".join(op.regions), ""
    if op.compiled:
        yield "compiled", "yes", "inside a torch.compile'd region"
    if op.thread:
        yield "thread", str(op.thread), "0 is the one that entered the block"
    if op.duration_ns is not None:
        yield "host time", f"{op.duration_ns / 1000:.1f} µs", "dispatch, not the device"


def launch_parts(record: AclnnRecord | OpPluginCall) -> Iterator[Part]:
    """Arguments of a logged call and the line itself."""
    rows = logged_arguments(record)
    if rows:
        yield Part("Arguments", "pairs", rows)
    yield Part("Log line", "code", ((record.text.rstrip(),),))
