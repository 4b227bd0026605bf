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
        program = Program(self._function, args, kwargs)
        tensors = program.tensors
        if any(map(tracing.of_another_level, tensors)):
            # Inside torch.func.vmap, or while something else traces.
            return self._function(*args, **kwargs)
        key = signature(program, dynamic=self._dynamic)
        for each in self._entries.get(key, ()):
            if each.holds is None or each.holds(tensors):
                entry = each
                break
        else:
            captured = None
            if self._failed < MAX_FAILED:
                captured = self._trace(program, sys._getframe(1))
            if captured is None:
                return self._function(*args, **kwargs)
            entry = captured
            self._entries.setdefault(key, []).append(entry)
            if entry.run is None:
                self._count_failure()
        if entry.run is None or entry.results.build is None:
            return self._function(*args, **kwargs)
        return entry.results.build(entry.run(*tensors))

    def _count_failure(self) -> None:
        self._failed += 1
        if self._failed == MAX_FAILED:
            name = getattr(self._function, "__name__", type(self._function).__name__)
            self._note(
                f"{name} could not be captured for {MAX_FAILED} signatures; what is "
                f"new after them runs as it is, without another attempt."
            )
