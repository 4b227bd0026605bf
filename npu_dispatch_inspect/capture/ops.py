# SPDX-License-Identifier: BSD-3-Clause
"""Trace operator calls: `OpTracer` and its shortcut `trace_ops`."""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Literal, Protocol, TypeVar

from attrs import evolve

from npu_dispatch_inspect.capture import _scopes
from npu_dispatch_inspect.capture._build import Builder, KeyReader
from npu_dispatch_inspect.capture._dispatch_mode import DispatchModeEngine
from npu_dispatch_inspect.capture._hook_engine import DispatcherEngine
from npu_dispatch_inspect.capture._recorder import Recorder
from npu_dispatch_inspect.capture._scopes import region
from npu_dispatch_inspect.environment import read_environment
from npu_dispatch_inspect.errors import UsageError
from npu_dispatch_inspect.records import Environment
from npu_dispatch_inspect.traces.ops import OpTrace

__all__ = ["OpTracer", "region", "trace_ops"]

F = TypeVar("F", bound=Callable[..., Any])


class Engine(Protocol):
    """What feeds a recorder: see `_dispatch_mode` and `_dispatcher_hook`."""

    name: str
    below_autograd: bool
    """Calls are seen after their autograd node has been made."""
    nesting: bool
    """A call that begins before another has ended is inside it."""
    read_keys: KeyReader | None

    def start(self) -> None:
        """Begin to see this thread's calls."""

    def stop(self) -> None:
        """Stop seeing them."""


ENGINES: dict[str, Any] = {
    "dispatch_mode": DispatchModeEngine,
    "dispatcher": DispatcherEngine,
}


class OpTracer:
    """Record the operator calls of a block; a context manager and a decorator.

    Args:
        label: a name for people.
        engine: ``"dispatch_mode"`` records what reaches `__torch_dispatch__`,
            that is, calls below autograd; ``"dispatcher"`` records every call the
            dispatcher makes, composites and calls inside kernels included, with
            its dispatch keys, and changes no operator of the program.
        detail: ``"full"``, or ``"names"`` for operator, phase and module only.
        max_ops: record so many calls, then only mark the trace as truncated.

    Raises:
        UsageError: an argument is not one of those above, the tracer is entered
            twice, or it is used without brackets.

    A tracer sees the thread that entered it and the threads that autograd runs
    backward on. It can be used again after it was left; each time it makes a
    new trace.

    Example:
        >>> import torch
        >>> from npu_dispatch_inspect import OpTracer
        >>> tracer = OpTracer("double")
        >>> with tracer as trace:
        ...     y = torch.ones(2) * 2
        >>> trace.names
        ('aten::ones', 'aten::mul')
    """

    def __init__(
        self,
        label: str | None = None,
        *,
        engine: Literal["dispatch_mode", "dispatcher"] = "dispatch_mode",
        detail: Literal["full", "names"] = "full",
        max_ops: int | None = None,
    ) -> None:
        if callable(label):
            msg = "trace_ops needs its brackets: write @trace_ops() above the function."
            raise UsageError(msg)
        if engine not in ENGINES:
            msg = f"engine must be one of {sorted(ENGINES)}, not {engine!r}."
            raise UsageError(msg)
        if detail not in ("full", "names"):
            msg = f"detail must be 'full' or 'names', not {detail!r}."
            raise UsageError(msg)
        if max_ops is not None and (not isinstance(max_ops, int) or max_ops < 0):
            msg = f"max_ops must be a whole number from 0 up, not {max_ops!r}."
            raise UsageError(msg)
        self._label = label
        self._engine_name = engine
        self._detail = detail
        self._max_ops = max_ops
        self._run: _Run | None = None
        self.trace: OpTrace | None = None
        """The trace of the last block, or of the one that is running."""

    def __enter__(self) -> OpTrace:
        """Begin to record.

        Returns:
            The trace that is being filled.
        """
        if self._run is not None:
            msg = (
                "This tracer is already recording; make a second one with "
                "trace_ops() to trace inside its block."
            )
            raise UsageError(msg)
        kind = ENGINES[self._engine_name]
        recorder = Recorder(
            detail=self._detail, nesting=kind.nesting, max_ops=self._max_ops
        )
        engine: Engine = kind(recorder)
        run = _Run(recorder, engine, self._label)
        _scopes.track()
        try:
            engine.start()
        except BaseException:
            _scopes.untrack()
            raise
        self._run = run
        self.trace = OpTrace.of_source(run)
        return self.trace

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Stop recording; an exception of the block goes on its way."""
        run, self._run = self._run, None
        if run is None:
            return
        run.engine.stop()
        _scopes.untrack()
        run.finish()

    def __call__(self, function: F) -> F:
        """Decorate a function: each call is one traced block, `trace` the last."""

        @functools.wraps(function)
        def traced(*args: Any, **kwargs: Any) -> Any:
            with self:
                return function(*args, **kwargs)

        return traced  # type: ignore[return-value]

    @contextmanager
    def pause(self) -> Iterator[None]:
        """Record nothing inside this inner block."""
        run = self._run
        if run is None:
            msg = "pause() works inside the tracer's block only."
            raise UsageError(msg)
        run.recorder.paused += 1
        try:
            yield
        finally:
            run.recorder.paused -= 1


trace_ops = OpTracer
"""``with trace_ops() as trace:`` — see `OpTracer`."""


class _Run:
    """One traced block, and the source of its trace."""

    def __init__(self, recorder: Recorder, engine: Engine, label: str | None) -> None:
        self.recorder = recorder
        self.engine = engine
        self.finished = False
        self._label = label
        self._begun = read_environment()
        self._environment: Environment | None = None
        self._process = os.getpid()
        self._thread = threading.get_ident()

    def finish(self) -> None:
        # The device may have come up inside the block; the modes are those with
        # which it began.
        self._environment = evolve(
            read_environment(),
            grad_mode=self._begun.grad_mode,
            autocast=self._begun.autocast,
        )
        self.finished = True

    def snapshot(self) -> OpTrace:
        recorder, engine = self.recorder, self.engine
        builder = Builder(
            sites=recorder.sites,
            started_ns=recorder.started_ns,
            thread=recorder.thread,
            first_node=recorder.first_node,
            below_autograd=engine.below_autograd,
            read_keys=engine.read_keys,
        )
        return OpTrace(
            records=builder.records(recorder.rows()),
            notes=tuple(recorder.faults),
            environment=self._environment or self._begun,
            engine=engine.name,
            label=self._label,
            truncated=recorder.truncated,
        )
