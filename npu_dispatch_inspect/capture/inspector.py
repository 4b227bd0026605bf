# SPDX-License-Identifier: BSD-3-Clause
"""All mechanisms at once: `DispatchInspector` and its shortcut `inspect_dispatch`."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from contextlib import ExitStack
from types import TracebackType
from typing import Any, Literal, TypeVar

from npu_dispatch_inspect.capture.logs import LogCapture
from npu_dispatch_inspect.capture.ops import OpTracer
from npu_dispatch_inspect.chains import join
from npu_dispatch_inspect.errors import InspectError, UsageError
from npu_dispatch_inspect.records import ExceptionRecord, SourceLocation
from npu_dispatch_inspect.records.chains import Launch
from npu_dispatch_inspect.traces.logs import LogTrace
from npu_dispatch_inspect.traces.ops import OpTrace
from npu_dispatch_inspect.traces.report import LAST_LAUNCHES, DispatchReport, Failure

__all__ = ["DispatchInspector", "inspect_dispatch"]

F = TypeVar("F", bound=Callable[..., Any])

_DEVICE_ERRORS = (
    "aclrt",
    "aicore",
    "aicpu",
    "working operator name",
    "NPU error",
    "NPU function error",
    "stacktrace may be inaccurate",
)
"""Words of an exception that came from the device."""


class DispatchInspector:
    """Record a block's calls, kernels, launches and queue tasks, joined.

    Args:
        label: a name for people.
        engine: ``"dispatcher"`` sees every dispatcher call and its kernel;
            ``"dispatch_mode"`` works where a torch build lacks what that needs,
            and leaves kernels unknown.
        max_ops: record so many calls, then only mark the report as truncated.

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
    ) -> None:
        if callable(label):
            msg = (
                "inspect_dispatch needs its brackets: write @inspect_dispatch() "
                "above the function."
            )
            raise UsageError(msg)
        self._tracer = OpTracer(label, engine=engine, max_ops=max_ops)
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
        with ExitStack() as stack:
            notes: list[str] = []
            logs: LogTrace | None = None
            if "torch_npu" in sys.modules:
                try:
                    logs = stack.enter_context(LogCapture())
                except InspectError as error:
                    notes.append(f"torch_npu's log lines were not captured: {error}")
            trace = stack.enter_context(self._tracer)
            self._stack = stack.pop_all()
        self._run = _Run(trace, logs, notes)
        self.report = DispatchReport.of_source(self._run)
        return self.report

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
        stack.__exit__(kind, error, traceback)
        self._run.finish(error)

    def __call__(self, function: F) -> F:
        """Decorate a function: each call is one inspected block, `report` the last."""

        @functools.wraps(function)
        def inspected(*args: Any, **kwargs: Any) -> Any:
            with self:
                return function(*args, **kwargs)

        return inspected  # type: ignore[return-value]


inspect_dispatch = DispatchInspector
"""``with inspect_dispatch() as seen:`` — see `DispatchInspector`."""


class _Run:
    """One inspected block, and the source of its report."""

    def __init__(self, trace: OpTrace, logs: LogTrace | None, notes: list[str]) -> None:
        self.finished = False
        self._trace = trace
        self._logs = logs
        self._notes = notes
        self._error: BaseException | None = None
        self._exception: ExceptionRecord | None = None

    def finish(self, error: BaseException | None) -> None:
        if error is not None:
            self._exception = ExceptionRecord(
                type=type(error).__qualname__, message=str(error)
            )
        self.finished = True

    def snapshot(self) -> DispatchReport:
        trace, logs = self._trace, self._logs
        return DispatchReport(
            chains=join(trace, logs),
            trace=trace,
            logs=logs,
            failure=self._failure(trace, logs),
            notes=tuple(self._notes),
        )

    def _failure(self, trace: OpTrace, logs: LogTrace | None) -> Failure | None:
        if self._exception is None:
            return None
        errors = () if logs is None else logs.errors
        lines: dict[int, SourceLocation | None] = {
            op.index: op.source for op in trace.records
        }
        launches = () if logs is None else logs.launches[-LAST_LAUNCHES:]
        return Failure(
            exception=self._exception,
            reported=errors[-1].operator if errors else None,
            asynchronous=bool(errors)
            or any(word in self._exception.message for word in _DEVICE_ERRORS),
            before=tuple(
                (
                    Launch(record=each),
                    None if each.op is None else lines.get(each.op),
                )
                for each in launches
            ),
        )
