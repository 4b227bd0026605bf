# SPDX-License-Identifier: BSD-3-Clause
"""Exceptions of tracing as records that say what failed, where, and what can be done."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any

import torch

from npu_dispatch_inspect._torch_private import aot, modes, tracing
from npu_dispatch_inspect.capture import _frames
from npu_dispatch_inspect.capture._build import _op_name
from npu_dispatch_inspect.capture._graph_build import link
from npu_dispatch_inspect.capture._graph_program import Program, Results
from npu_dispatch_inspect.capture._graph_recording import Recording
from npu_dispatch_inspect.capture._graph_records import partial_graph
from npu_dispatch_inspect.records import ExceptionRecord, Phase, SourceLocation
from npu_dispatch_inspect.records.graphs import (
    CapturedGraph,
    FailureKind,
    GraphFailure,
    GraphStage,
)
from npu_dispatch_inspect.records.names import qualified

__all__ = ["closed_over", "failure", "not_traceable", "unsupported"]


def failure(
    error: BaseException,
    recording: Recording,
    graph: Any,
    function: Callable[..., Any] | None,
) -> GraphFailure:
    """The record of an exception.

    Args:
        error: what was raised.
        recording: the capture in which it was raised.
        graph: the FX graph that had been traced by then; None where there is none.
        function: the captured function.
    """
    kind, called = _kind(error)
    frames = list(_frames_of(error))
    called = called if called is not None else _operator(frames)
    operator = _qualified(called)
    source = _source(frames)
    phase: Phase | None = None
    partial = None
    if recording.step == "partition":
        kind = FailureKind.PARTITION
    elif recording.step == "compile":
        kind = FailureKind.COMPILER
    else:
        engine = modes.autograd_codes()[0]
        backward = any(each.f_code is engine for each in frames)
        phase = Phase.BACKWARD if backward else Phase.FORWARD
        if graph is not None:
            partial = partial_graph(
                graph,
                index=recording.index,
                flat=recording.flat(),
                places=recording.places(graph),
                options=recording.options,
                environment=recording.environment,
            )
            if backward:
                source = _forward_source(graph, partial) or source
    return GraphFailure(
        index=recording.index,
        kind=kind,
        message=_message(kind, operator, error, recording, function),
        stage=recording.stage or GraphStage.JOINT,
        phase=phase,
        operator=operator,
        source=source,
        exception=ExceptionRecord(type=_type_name(error), message=str(error)),
        partial=partial,
    )


def _kind(error: BaseException) -> tuple[FailureKind, Any]:
    """The kind of the exception, or of one that it was raised from."""
    seen: BaseException | None = error
    while seen is not None:
        word, called = aot.fail_kind(seen)
        if word != "other":
            return FailureKind(word), called
        seen = seen.__cause__ or seen.__context__
    return FailureKind.OTHER, None


def _frames_of(error: BaseException) -> Iterator[Any]:
    """The frames that the exception came through, outermost first."""
    trace: TracebackType | None = error.__traceback__
    while trace is not None:
        yield trace.tb_frame
        trace = trace.tb_next


def _operator(frames: list[Any]) -> Any:
    """The innermost operator that was being traced: a local of torch's own frames."""
    for frame in reversed(frames):
        if _frames._classify(frame.f_code.co_filename) & _frames.USER:
            return None
        called = frame.f_locals.get("func")
        if isinstance(called, modes.operator_class):
            return called
    return None


def _qualified(called: Any) -> str | None:
    if not isinstance(called, modes.operator_class):
        return None
    return qualified(*_op_name(called))


def _source(frames: list[Any]) -> SourceLocation | None:
    for frame in reversed(frames):
        if _frames._classify(frame.f_code.co_filename) == _frames.USER:
            return _frames.locate(frame.f_code, frame.f_lasti)
    return None


def _forward_source(graph: Any, partial: CapturedGraph) -> SourceLocation | None:
    """The line of the forward operator whose derivative was being computed."""
    last = None
    for node in graph.nodes:
        if node.op == "call_function":
            last = node
    if last is None:
        return None
    number = aot.node_facts(last)[3]
    maker = None if number is None else link(graph, {}).makers.get(number)
    return None if maker is None else partial.node(maker).source


def _message(
    kind: FailureKind,
    operator: str | None,
    error: BaseException,
    recording: Recording,
    function: Callable[..., Any] | None,
) -> str:
    what = operator or "An operator"
    said = (str(error).strip().splitlines() or [""])[0]
    raised = f"{_type_name(error)}: {said}" if said else _type_name(error)
    if kind is FailureKind.NO_META_KERNEL:
        return (
            f"{what} has no meta kernel, so torch does not know what it returns "
            f"without running it: register one with torch.library.register_fake."
        )
    if kind is FailureKind.DATA_DEPENDENT_VALUE:
        return (
            f"The program asks for the value of a tensor"
            f"{f' ({operator})' if operator else ''}, and a graph has none: use "
            f"torch.where or torch.cond, or capture with torch.compile, which ends the "
            f"graph there."
        )
    if kind is FailureKind.DATA_DEPENDENT_SHAPE:
        return (
            f"The size of what {operator or 'an operator'} returns depends on values: "
            f"use an operator of fixed size, such as torch.where, or capture with "
            f"torch.compile, which ends the graph there."
        )
    if kind is FailureKind.CLOSED_OVER_TENSOR:
        names = closed_over(function)
        which = f" ({', '.join(names)})" if names else ""
        return (
            f"The function uses a tensor that is not among its inputs{which}: give it "
            f"as an argument, or register it on the module as a buffer."
        )
    if kind is FailureKind.PARTITION:
        name = recording.options.partition_name
        return f"The partition function {name} raised {raised}"
    if kind is FailureKind.COMPILER:
        stage = recording.stage.value if recording.stage else "graph"
        return f"The compiler of the {stage} graph raised {raised}"
    at = f" at {operator}" if operator else ""
    return f"Tracing failed{at}: {raised}"


def closed_over(function: Callable[..., Any] | None) -> list[str]:
    """Names of tensors that a function uses and does not take as arguments."""
    if function is None:
        return []
    if isinstance(function, torch.nn.Module):
        return [
            f"{path}.{name}" if path else name
            for path, module in function.named_modules()
            for name, value in vars(module).items()
            if isinstance(value, torch.Tensor)
        ]
    plain = inspect.unwrap(function)
    code = getattr(plain, "__code__", None)
    if code is None:
        return []
    found = []
    for name, cell in zip(code.co_freevars, plain.__closure__ or (), strict=False):
        try:
            value = cell.cell_contents
        except ValueError:  # not assigned yet
            continue
        if isinstance(value, torch.Tensor):
            found.append(name)
    found += [
        name
        for name in code.co_names
        if isinstance(plain.__globals__.get(name), torch.Tensor)
    ]
    return found


def _type_name(error: BaseException) -> str:
    kind = type(error)
    if kind.__module__ in {"builtins", "__main__"}:
        return kind.__qualname__
    return f"{kind.__module__}.{kind.__qualname__}"


def unsupported(results: Results, recording: Recording) -> GraphFailure | None:
    """Why graphs that were captured cannot stand for the function; None where they can.

    A graph gives tensors back; what else the function does with them has to be known.
    """
    if results.hidden is not None:
        message = (
            f"Tensors inside {results.hidden} cannot be taken out: return them by "
            f"themselves, or register the class with torch.utils._pytree."
        )
    elif results.changed is not None:
        message = (
            f"Buffer {results.changed} is assigned a tensor of another size or dtype, "
            f"which a graph cannot do: write to it with copy_."
        )
    else:
        return None
    return _refused(recording, message)


def not_traceable(program: Program, recording: Recording) -> GraphFailure | None:
    """Why a program cannot be traced with these inputs; None where it can."""
    for tensor, each in zip(program.tensors, program.inputs, strict=True):
        if tracing.of_another_level(tensor):
            return _refused(
                recording,
                f"{each.names[0]} is a tensor of torch.func.vmap, grad or another "
                f"tracer that is at work: capture outside of it a function that has "
                f"it inside.",
            )
        if not tracing.has_sizes(tensor):
            return _refused(
                recording,
                f"{each.names[0]} has no sizes yet, or none that torch can trace: call "
                f"a lazy module once before, and give nested tensors the jagged layout.",
            )
    return None


def _refused(recording: Recording, message: str) -> GraphFailure:
    return GraphFailure(
        index=recording.index,
        kind=FailureKind.UNSUPPORTED_VALUE,
        message=message,
        exception=ExceptionRecord(type="UsageError", message=message),
    )
