# SPDX-License-Identifier: BSD-3-Clause
"""Trace a program without running it, and say why where that cannot be done."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from types import FrameType
from typing import Any

import torch
from attrs import evolve, frozen

from npu_dispatch_inspect._torch_private import aot, redispatch, tracing
from npu_dispatch_inspect.capture._graph_failures import failure, not_traceable
from npu_dispatch_inspect.capture._graph_places import Place, Watch
from npu_dispatch_inspect.capture._graph_program import Program
from npu_dispatch_inspect.capture._graph_recording import Recording
from npu_dispatch_inspect.capture._graph_state import untouched
from npu_dispatch_inspect.capture._hook_threads import hidden
from npu_dispatch_inspect.records.graphs import (
    FailureKind,
    GraphFailure,
    InputKind,
)

__all__ = ["TRACING", "Traced", "trace_program"]

AS_COMPILED = (
    "The program was traced with torch.compiler.is_compiling() set: otherwise it looks "
    "at values of tensors."
)

RNN_DROPOUT = (
    "torch leaves out the dropout between the layers of nn.{name} where it takes it "
    "apart: the graphs have none, and eager execution has."
)


@frozen(kw_only=True)
class Traced:
    """What came of tracing a program."""

    run: Callable[..., Any] | None = None
    """Takes the flat tensors; None where tracing failed."""
    holds: Callable[[Sequence[Any]], bool] | None = None
    """For symbolic sizes: whether the graphs are right for other tensors as well."""
    failure: GraphFailure | None = None
    notes: tuple[str, ...] = ()


def trace_program(
    program: Program, start: Callable[..., Recording], frame: FrameType | None
) -> tuple[Recording, Traced]:
    """Trace a program and have its graphs compiled; nothing is executed.

    Args:
        program: the call; its tensors are let go of.
        start: makes the recording, given where nodes come from.
        frame: the frame that asked for it.
    """
    watch = Watch(frame)

    def places(_: Any) -> Mapping[str, Place]:
        return watch.places()

    recording = start(
        flat=lambda: program.inputs, results=lambda: program.results, places=places
    )
    try:
        refused = not_traceable(program, recording)
        if refused is not None:
            return recording, Traced(failure=refused)
        traced = _attempt(program, recording, watch)
        if (
            traced.failure is not None
            and traced.failure.kind is FailureKind.DATA_DEPENDENT_VALUE
        ):
            # Libraries leave out such checks where they know that they are traced.
            watch = Watch(frame)
            with tracing.as_if_compiling():
                again = _attempt(program, recording, watch)
            if again.failure is None:
                return recording, evolve(again, notes=(*again.notes, AS_COMPILED))
        return recording, traced
    finally:
        program.forget_tensors()


TRACING = threading.RLock()
"""One thread at a time: FX tracing patches classes of the process, and the module that is
traced has other parameters meanwhile."""


@contextmanager
def _surroundings(program: Program) -> Iterator[None]:
    with TRACING, ExitStack() as stack:
        stack.enter_context(untouched([module for _, module in program.modules]))
        # Tracers of operators are about what runs, and nothing does.
        stack.enter_context(tracing.without_active_modes())
        stack.enter_context(hidden())
        stack.enter_context(redispatch.python_keeping_result())
        stack.enter_context(tracing.quietly())
        yield


def _attempt(program: Program, recording: Recording, watch: Watch) -> Traced:
    inputs: Sequence[Any] = program.tensors
    holds = None
    with _surroundings(program):
        if recording.options.dynamic:
            free = [each.kind is InputKind.ARGUMENT for each in program.inputs]
            inputs, environment = tracing.fake_inputs(program.tensors, free)
            fakes = list(inputs)

            def holds(args: Sequence[Any]) -> bool:
                return tracing.guards_hold(environment, fakes, args)

        recording.step = "trace"
        try:
            with watch.watching():
                run = aot.compile_flat(program, inputs, **recording.compilers())
        except Exception as error:  # noqa: BLE001 - whatever it is, it becomes a record
            if watch.graph is None and recording.step == "trace":
                _trace_again(program, inputs, watch)
            return Traced(
                failure=failure(error, recording, watch.graph, program.function)
            )
    notes = [
        f"Buffer {name} is assigned to; the graphs show it as a write."
        for name in program.results.assigned
    ] + [
        f"Attribute {name} changes when the program runs; graphs do not change it."
        for name in program.results.attributes
    ]
    notes += [
        RNN_DROPOUT.format(name=name) for name in _without_dropout(program, watch)
    ]
    return Traced(run=run, holds=holds, notes=tuple(notes))


def _without_dropout(program: Program, watch: Watch) -> set[str]:
    """Classes of recurrent modules whose dropout did not become a node.

    The decompositions of torch.gru, lstm and rnn compare the number of layers the
    wrong way round and set the dropout to zero (up to torch 2.13 at least).
    """
    wanted = {
        type(each).__name__
        for _, module in program.modules
        for each in module.modules()
        if isinstance(each, torch.nn.RNNBase)
        and each.training
        and each.dropout
        and each.num_layers > 1
    }
    if not wanted or watch.graph is None:
        return set()
    places = watch.places()
    for node in watch.graph.nodes:
        place = places.get(node.name)
        random = torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ())
        if random and place is not None:
            wanted.discard(place.module_type or "")
    return wanted


def _trace_again(program: Program, inputs: Sequence[Any], watch: Watch) -> None:
    """Find what comes before the failure.

    AOTAutograd first runs the forward without a graph, to learn of aliases: what fails
    there leaves nothing behind.
    """
    try:
        with watch.watching():
            tracing.trace_partly(program, inputs)
    except Exception:  # noqa: BLE001 - it fails as it did before
        return
