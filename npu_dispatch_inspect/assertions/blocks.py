# SPDX-License-Identifier: BSD-3-Clause
"""Assertions on what a block of code calls."""

from __future__ import annotations

from collections.abc import Iterable
from types import TracebackType
from typing import TYPE_CHECKING, Any

from npu_dispatch_inspect.assertions._look import Ignored
from npu_dispatch_inspect.assertions.counts import (
    assert_has_ops,
    assert_no_ops,
    assert_only_ops,
    assert_op_count,
)
from npu_dispatch_inspect.assertions.sequences import assert_ops, assert_ops_in_order
from npu_dispatch_inspect.errors import UsageError
from npu_dispatch_inspect.records import Phase

if TYPE_CHECKING:
    from npu_dispatch_inspect.traces.ops import OpTrace

__all__ = ["expect_ops"]

__unittest = True


class expect_ops:  # noqa: N801 - read as a function: with expect_ops(...):
    """Trace a block and check what it called.

    The checks are made when the block ends; where it raises, its exception goes on
    and nothing is checked.

    Args:
        *patterns: operators that are called at least once.
        exactly: all calls in order, as for `assert_ops`.
        in_order: calls in this order, as for `assert_ops_in_order`.
        none_of: operators that are not called.
        only: no operators but these.
        at_least: so many calls in all, or more.
        at_most: so many calls in all, or fewer.
        phase: look at this phase only.
        module: look at modules whose path matches this glob only.
        ignore: operators to leave out.
        **tracer: options of `OpTracer`: ``engine="dispatcher"``.

    Example:
        >>> import torch
        >>> from npu_dispatch_inspect import expect_ops
        >>> layer, x = torch.nn.Linear(4, 2), torch.ones(3, 4)
        >>> with expect_ops("aten::addmm", none_of=["aten::mm"], at_most=4) as trace:
        ...     y = layer(x)
        >>> trace.names
        ('aten::t', 'aten::addmm')
    """

    def __init__(
        self,
        *patterns: object,
        exactly: Iterable[object] | None = None,
        in_order: Iterable[object] = (),
        none_of: Iterable[object] = (),
        only: Iterable[object] | None = None,
        at_least: int | None = None,
        at_most: int | None = None,
        phase: Phase | str | None = None,
        module: str | None = None,
        ignore: Ignored = (),
        **tracer: Any,
    ) -> None:
        for word, value in (
            ("exactly", exactly),
            ("in_order", in_order),
            ("none_of", none_of),
            ("only", only),
        ):
            if isinstance(value, str):
                msg = f"{word}= takes a list of operators, not {value!r} alone."
                raise UsageError(msg)
        self._patterns = patterns
        self._exactly = None if exactly is None else list(exactly)
        self._in_order = tuple(in_order)
        self._none_of = tuple(none_of)
        self._only = None if only is None else tuple(only)
        self._bounds: dict[str, Any] = {"at_least": at_least, "at_most": at_most}
        self._look: dict[str, Any] = {
            "phase": phase,
            "module": module,
            "ignore": ignore,
        }
        if not (
            patterns
            or self._in_order
            or self._none_of
            or self._exactly is not None
            or self._only is not None
            or any(each is not None for each in self._bounds.values())
        ):
            msg = (
                "expect_ops expects nothing: give operators, exactly=, in_order=, "
                "none_of=, only=, at_least= or at_most=."
            )
            raise UsageError(msg)
        self._options = tracer
        self._tracer: Any = None

    def __enter__(self) -> OpTrace:
        """Begin to trace.

        Returns:
            The trace that is being filled.
        """
        # torch is needed here and not before.
        from npu_dispatch_inspect.capture.ops import OpTracer

        self._tracer = OpTracer(**self._options)
        trace: OpTrace = self._tracer.__enter__()
        return trace

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Stop, and check where the block did not raise."""
        __tracebackhide__ = True
        self._tracer.__exit__(kind, error, traceback)
        if kind is None:
            self._check(self._tracer.trace)

    def _check(self, trace: OpTrace) -> None:
        __tracebackhide__ = True
        if self._exactly is not None:
            assert_ops(trace, self._exactly, **self._look)
        if self._patterns:
            assert_has_ops(trace, *self._patterns, **self._look)
        if self._none_of:
            assert_no_ops(trace, *self._none_of, **self._look)
        if self._in_order:
            assert_ops_in_order(trace, *self._in_order, **self._look)
        if self._only is not None:
            assert_only_ops(trace, *self._only, **self._look)
        if any(each is not None for each in self._bounds.values()):
            assert_op_count(trace, **self._bounds, **self._look)
