# SPDX-License-Identifier: BSD-3-Clause
"""A function that runs its captured graphs, and captures again for a new signature."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Any, Protocol

import torch
from attrs import frozen

from npu_dispatch_inspect._torch_private import tracing
from npu_dispatch_inspect.capture._graph_program import Program, Results
from npu_dispatch_inspect.capture._graph_signature import signature
from npu_dispatch_inspect.capture._graph_trace import TRACING

__all__ = ["Compiled", "Entry"]


MAX_FAILED = 16
"""A function whose every call is another signature is not to be traced for ever."""


@frozen(kw_only=True)
class Entry:
    """The graphs of one signature."""

    run: Callable[..., Any] | None
    """Takes the flat tensors; None where capturing failed: the function itself runs."""
    results: Results
    holds: Callable[[Sequence[torch.Tensor]], bool] | None = None
    """For symbolic sizes: whether the graphs are right for these tensors as well."""

    def __call__(self, tensors: Sequence[torch.Tensor]) -> Any:
        """Run the graphs."""
        assert self.run is not None
        assert self.results.build is not None
        return self.results.build(self.run(*tensors))


class Trace(Protocol):
    """Captures a program."""

    def __call__(self, program: Program, frame: FrameType | None) -> Entry | None:
        """The graphs as a function; None where nothing is captured any more."""


class Compiled:
    """What `AOTGraphCapture.compile` returns.

    Args:
        function: the function or module.
        trace: captures a call of it.
        dynamic: sizes are left to the graphs' own conditions.
        note: takes a sentence for whoever reads what was captured.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        trace: Trace,
        *,
        dynamic: bool,
        note: Callable[[str], None],
    ) -> None:
        self._function = function
        self._trace = trace
        self._dynamic = dynamic
        self._note = note
        self._entries: dict[Any, list[Entry]] = {}
        self._failed = 0
        functools.update_wrapper(self, function, updated=())

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the graphs for these arguments, capturing them where they are new."""
        with TRACING:  # elsewhere the module may be what a trace makes of it
            program = Program(self._function, args, kwargs)
            key = signature(program, dynamic=self._dynamic)
        tensors = program.tensors
        if any(map(tracing.of_another_level, tensors)):
            # Inside torch.func.vmap, or while something else traces.
            return self._function(*args, **kwargs)
        entry = self._entry(key, tensors)
        if entry is None:
            # The first run as well: AOTAutograd looks at it with a dispatch mode.
            with TRACING:
                entry = self._entry(key, tensors)  # of another thread meanwhile
                if entry is None:
                    entry = self._capture(program, sys._getframe(1))
                    try:
                        if entry is not None and entry.run is not None:
                            return entry(tensors)
                    finally:
                        if entry is not None:
                            self._entries.setdefault(key, []).append(entry)
        if entry is None or entry.run is None:
            return self._function(*args, **kwargs)
        return entry(tensors)

    def _entry(self, key: Any, tensors: Sequence[torch.Tensor]) -> Entry | None:
        for each in self._entries.get(key, ()):
            if each.holds is None or each.holds(tensors):
                return each
        return None

    def _capture(self, program: Program, frame: FrameType) -> Entry | None:
        if self._failed >= MAX_FAILED:
            return None
        entry = self._trace(program, frame)
        if entry is not None and entry.run is None:
            self._count_failure()
        return entry

    def _count_failure(self) -> None:
        self._failed += 1
        if self._failed == MAX_FAILED:
            name = getattr(self._function, "__name__", type(self._function).__name__)
            self._note(
                f"{name} could not be captured for {MAX_FAILED} signatures; what is "
                f"new after them runs as it is, without another attempt."
            )
