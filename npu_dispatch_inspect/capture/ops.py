# SPDX-License-Identifier: BSD-3-Clause
"""Trace operator calls: `OpTracer` and its shortcut `trace_ops`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Literal, Protocol

from attrs import evolve

from npu_dispatch_inspect._torch_private import modes, weak_references
from npu_dispatch_inspect.capture import _scopes
from npu_dispatch_inspect.capture._build import Builder, KeyReader
from npu_dispatch_inspect.capture._decorator import Decorator
from npu_dispatch_inspect.capture._describe import Reference
from npu_dispatch_inspect.capture._dispatch_mode import DispatchModeEngine
from npu_dispatch_inspect.capture._hook_engine import DispatcherEngine
from npu_dispatch_inspect.capture._recorder import Recorder
from npu_dispatch_inspect.capture._scopes import region
from npu_dispatch_inspect.capture._sink import Sink
from npu_dispatch_inspect.capture._streams import follow_calls, unfollow_calls
from npu_dispatch_inspect.capture._threads import Follower, follow, leave
from npu_dispatch_inspect.environment import read_environment
from npu_dispatch_inspect.errors import UsageError
from npu_dispatch_inspect.traces.ops import OpTrace

__all__ = ["OpTracer", "region", "trace_ops"]


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

    def stop(self) -> Any:
        """Stop seeing them; False where this is not the thread that began."""


ENGINES: dict[str, Any] = {
    "dispatch_mode": DispatchModeEngine,
    "dispatcher": DispatcherEngine,
}


class OpTracer(Decorator):
    """Record the operator calls of a block; a context manager and a decorator.

    Args:
        label: a name for people.
        engine: ``"dispatch_mode"`` records what reaches `__torch_dispatch__`,
            that is, calls below autograd; ``"dispatcher"`` records every call the
            dispatcher makes, composites and calls inside kernels included, with
            its dispatch keys, and changes no operator of the program.
        detail: ``"full"``, or ``"names"`` for operator, phase and module only.
        max_ops: record so many calls, then only mark the trace as truncated.
        threads: ``"current"`` for the thread that enters the block and the threads
            that autograd runs its backward passes on; ``"all"`` for those that are
            started inside the block (`threading.Thread`) as well.
        sink: a file that takes the records while the program runs, so that
            memory stays small; see `npu_dispatch_inspect.serialization`. The
            trace reads it back when somebody looks.

    Raises:
        UsageError: an argument is not one of those above, the tracer is entered
            twice, it is used without brackets, or the file cannot be written.

    A tracer can be used again after it was left; each time it makes a new trace.

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
        threads: Literal["current", "all"] = "current",
        sink: str | os.PathLike[str] | None = None,
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
        if threads not in ("current", "all"):
            msg = f"threads must be 'current' or 'all', not {threads!r}."
            raise UsageError(msg)
        if max_ops is not None and (type(max_ops) is not int or max_ops < 0):
            msg = f"max_ops must be a whole number from 0 up, not {max_ops!r}."
            raise UsageError(msg)
        if sink is not None and not isinstance(sink, (str, os.PathLike)):
            msg = f"sink must be the path of a file, not {sink!r}."
            raise UsageError(msg)
        self._label = label
        self._engine = ENGINES[engine]
        self._detail = detail
        self._max_ops = max_ops
        self._all_threads = threads == "all"
        self._sink = sink
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
        run = _Run(
            self._engine,
            label=self._label,
            detail=self._detail,
            max_ops=self._max_ops,
            all_threads=self._all_threads,
            sink=self._sink,
        )
        run.start()
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
        if run is not None:
            run.stop()

    @contextmanager
    def pause(self) -> Iterator[None]:
        """Record nothing inside this inner block, on any thread."""
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


_OWN_MODULES = ("npu_dispatch_inspect.capture", "npu_dispatch_inspect._torch_private")


class _Run:
    """One traced block, and the source of its trace."""

    def __init__(
        self,
        kind: Any,
        *,
        label: str | None,
        detail: str,
        max_ops: int | None,
        all_threads: bool,
        sink: str | os.PathLike[str] | None,
    ) -> None:
        self.finished = False
        self._kind = kind
        self._label = label
        self._detail = detail
        self._environment = read_environment()
        self._notes: list[str] = []
        self._sink = sink and Sink(
            sink, engine=kind.name, label=label, environment=self._environment
        )
        self.recorder = Recorder(
            detail=detail,
            nesting=kind.nesting,
            max_ops=max_ops,
            drain=self._sink.drain if self._sink else None,
        )
        if self._sink:
            self._sink.builds_with(self._builder())
        self._engine: Engine = kind(self.recorder)
        self._follower = Follower(
            make_engine=(lambda: kind(self.recorder)) if all_threads else None,
            note=self._notes.append,
            in_child=self._in_child,
            new_thread=self.recorder.new_thread,
        )

    def start(self) -> None:
        modes.hide_modules_from_dynamo(*_OWN_MODULES)
        weak_references.hide_from_swap(Reference)
        _scopes.track()
        try:
            follow(self._follower)
            follow_calls(self.recorder)
            self._engine.start()
        except BaseException:
            self._let_go()
            if self._sink:
                self._sink.abandon()
            raise

    def stop(self) -> None:
        self.recorder.close()
        try:
            if self._engine.stop() is False:
                self._notes.append(
                    "The block was left on another thread than it was entered on."
                )
        finally:
            self._let_go()
            self._finish()

    def _let_go(self) -> None:
        leave(self._follower)
        unfollow_calls(self.recorder)
        _scopes.untrack()
        self.recorder.forget()
        weak_references.show_to_swap(Reference)

    def _finish(self) -> None:
        # The device may have come up inside the block; the modes are those with
        # which it began.
        begun = self._environment
        self._environment = evolve(
            read_environment(), grad_mode=begun.grad_mode, autocast=begun.autocast
        )
        if (
            self._kind is DispatchModeEngine
            and not modes.stays_compiled
            and modes.has_compiled()
        ):
            self._notes.append(
                "Functions compiled by torch.compile that were called in the block run "
                "eagerly from now on: torch 2.9 or later is needed to leave them alone."
            )
        if self._sink:
            try:
                self.recorder.flush()
                self._sink.end(
                    environment=self._environment,
                    truncated=self.recorder.truncated,
                    notes=self._all_notes(),
                )
            except Exception as error:  # noqa: BLE001 - the program's own result is not lost
                self.recorder.fault("The file of this trace is not whole", error)
        self.finished = True

    def _in_child(self) -> None:
        self.recorder.close()
        self._engine.stop()
        if self._sink:
            self._sink.abandon()
            self._sink = None

    def _all_notes(self) -> tuple[str, ...]:
        return (*self._notes, *self.recorder.faults)

    def _builder(self) -> Builder:
        recorder, kind = self.recorder, self._kind
        return Builder(
            sites=recorder.sites,
            started_ns=recorder.started_ns,
            thread=recorder.thread,
            first_node=recorder.first_node,
            below_autograd=kind.below_autograd,
            read_keys=kind.read_keys,
            detail=self._detail,
        )

    def snapshot(self) -> OpTrace:
        rows = self.recorder.rows()
        return OpTrace(
            records=self._sink.records(rows)
            if self._sink
            else self._builder().records(rows),
            environment=self._environment,
            engine=self._kind.name,
            label=self._label,
            truncated=self.recorder.truncated,
            notes=self._all_notes(),
        )
