# SPDX-License-Identifier: BSD-3-Clause
"""All mechanisms at once: `DispatchInspector` and its shortcut `inspect_dispatch`."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from types import TracebackType
from typing import Final, Literal

from npu_dispatch_inspect.capture._decorator import Decorator
from npu_dispatch_inspect.capture._function_events import FunctionEvents
from npu_dispatch_inspect.capture.logs import LogCapture
from npu_dispatch_inspect.capture.ops import OpTracer
from npu_dispatch_inspect.chains import FILTER, join
from npu_dispatch_inspect.errors import InspectError, UsageError
from npu_dispatch_inspect.npu_logs import LogParser
from npu_dispatch_inspect.records import (
    AsyncErrorRecord,
    Environment,
    ExceptionRecord,
    SourceLocation,
)
from npu_dispatch_inspect.records.chains import Failure, Launch
from npu_dispatch_inspect.traces.logs import LogTrace
from npu_dispatch_inspect.traces.ops import OpTrace
from npu_dispatch_inspect.traces.report import DispatchReport

__all__ = ["DispatchInspector", "inspect_dispatch"]

LAST_LAUNCHES: Final = 8
"""So many launches before an error are shown: any of them may be the cause."""

REFUSED: Final = (161, 361, 561)
"""Thousands of the codes with which aclnn refuses a call before it is launched."""


class DispatchInspector(Decorator):
    """Record a block's calls, kernels, launches and queue tasks, joined.

    Args:
        label: a name for people.
        engine: ``"dispatcher"`` sees every dispatcher call and its kernel;
            ``"dispatch_mode"`` works where a torch build lacks what that needs,
            and leaves kernels unknown.
        max_ops: record so many calls, then only mark the report as truncated.
        threads: ``"all"`` records threads that are started inside the block as well,
            ``"current"`` only this one and those of its backward passes. Lines of a
            thread that is not recorded may be taken for those of a recorded call.
        profiler: listen to torch's profiler as well. torch_npu names every operator
            to it, also where its log lines cannot: an aclop that the host waits
            for, or any aclop while the task queue is off. torch has one profiler,
            so the block must not use it itself.

    Raises:
        UsageError: an argument is not one of those above, the inspector is
            entered twice, or it is used without brackets.

    With torch_npu its log lines are captured as well; without it (or where its
    loggers cannot be switched on, which the report's notes say) the chain ends in
    the kernel.

    Example:
        >>> import torch
        >>> from npu_dispatch_inspect import inspect_dispatch
        >>> with inspect_dispatch() as seen:
        ...     y = torch.nn.functional.linear(torch.ones(1, 2), torch.ones(3, 2))
        >>> [node.op.name for node in seen.chains]
        ['aten::ones', 'aten::ones', 'aten::linear']
    """

    def __init__(
        self,
        label: str | None = None,
        *,
        engine: Literal["dispatcher", "dispatch_mode"] = "dispatcher",
        max_ops: int | None = None,
        threads: Literal["current", "all"] = "all",
        profiler: bool = False,
    ) -> None:
        if callable(label):
            msg = (
                "inspect_dispatch needs its brackets: write @inspect_dispatch() "
                "above the function."
            )
            raise UsageError(msg)
        self._tracer = OpTracer(label, engine=engine, max_ops=max_ops, threads=threads)
        self._profiler = profiler
        self._stack: ExitStack | None = None
        self._run: _Run | None = None
        self.report: DispatchReport | None = None
        """The report of the last block, or of the one that is running."""

    def __enter__(self) -> DispatchReport:
        """Begin to record.

        Returns:
            The report that is being filled.
        """
        if self._stack is not None:
            msg = (
                "This inspector is already recording; make a second one with "
                "inspect_dispatch() to inspect inside its block."
            )
            raise UsageError(msg)
        run = _Run()
        with ExitStack() as stack:
            if "torch_npu" in sys.modules:
                run.capture(stack)
            if self._profiler:
                run.listen(stack)
            run.trace = stack.enter_context(self._tracer)
            self._stack = stack.pop_all()
        self._run = run
        self.report = DispatchReport.of_source(run)
        return self.report

    def capture_logs(self) -> None:
        """Capture torch_npu's lines from now on, where they are not captured yet.

        For a block in which torch_npu is imported: it could not log before.
        """
        if self._run is not None and self._stack is not None:
            self._run.capture(self._stack)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Stop recording; an exception of the block goes on its way."""
        stack, self._stack = self._stack, None
        if stack is None or self._run is None:
            return
        try:
            stack.__exit__(kind, error, traceback)
        finally:
            self._run.finish(error)


inspect_dispatch = DispatchInspector
"""``with inspect_dispatch() as seen:`` — see `DispatchInspector`."""


class _Run:
    """One inspected block, and the source of its report."""

    trace: OpTrace

    def __init__(self) -> None:
        self.finished = False
        self._logs: LogTrace | None = None
        self._notes: list[str] = []
        self._exception: ExceptionRecord | None = None
        self._events: FunctionEvents | None = None

    def capture(self, stack: ExitStack) -> None:
        if self._logs is not None:
            return
        try:
            self._logs = stack.enter_context(LogCapture())
        except InspectError as error:
            self._notes.append(f"torch_npu's log lines were not captured: {error}")

    def listen(self, stack: ExitStack) -> None:
        self._events = FunctionEvents()
        stack.callback(self._events.stop)

    def _filtered(self, logs: LogTrace | None) -> list[str]:
        words = None if logs is None else self.trace.environment.switch(FILTER)
        if words is None:
            return []
        return [f"{FILTER}={words} keeps some lines from being printed."]

    def finish(self, error: BaseException | None) -> None:
        # Leaving the program is no failure of it.
        if error is not None and not isinstance(error, (SystemExit, GeneratorExit)):
            self._exception = ExceptionRecord(
                type=type(error).__qualname__, message=str(error)
            )
        self.finished = True

    def snapshot(self) -> DispatchReport:
        trace, logs = self.trace, self._logs
        if not self.finished:
            # What a running block shows now must not change under its reader.
            trace, logs = trace[:], logs if logs is None else logs[:]
        events = self._events
        native = None
        if events is not None and self.finished and not events.notes:
            native = events.native_calls(trace.records)
        joined = join(trace, logs, native)
        return DispatchReport(
            chains=joined.chains,
            trace=trace,
            logs=logs,
            failure=_failure(self._exception, trace, logs),
            logger_calls=joined.logger_calls,
            native_calls=native,
            notes=(
                *self._notes,
                *self._filtered(logs),
                *(events.notes if events else ()),
            ),
        )


def _failure(
    exception: ExceptionRecord | None, trace: OpTrace, logs: LogTrace | None
) -> Failure | None:
    if exception is None:
        return None
    told = list(_device_errors(exception.message))
    surfaced = bool(told)
    if surfaced and logs is not None:
        # The queue's thread has printed what the exception leaves out.
        told.extend(reversed(logs.errors))
    reported = next((each.operator for each in told if each.operator), None)
    code = next((each.code for each in told if each.code), None)
    lines: dict[int, SourceLocation | None] = {
        op.index: op.source for op in trace.records
    }
    launches = () if logs is None else logs.launches[-LAST_LAUNCHES:]
    return Failure(
        exception=exception,
        reported=reported,
        code=code,
        asynchronous=surfaced and _behind_the_host(code, trace.environment),
        before=tuple(
            (Launch(record=each), None if each.op is None else lines.get(each.op))
            for each in launches
        ),
    )


def _device_errors(message: str) -> tuple[AsyncErrorRecord, ...]:
    """What the text of an exception tells of an error of the device."""
    parsed = LogParser().feed_all(message.encode("utf-8", "surrogateescape"))
    return tuple(each for each in parsed if isinstance(each, AsyncErrorRecord))


def _behind_the_host(code: int | None, environment: Environment) -> bool:
    """The error is one of the device, and the device works behind the host."""
    blocking = environment.switch("ASCEND_LAUNCH_BLOCKING") not in (None, "0")
    return not blocking and (code is None or code // 1000 not in REFUSED)
