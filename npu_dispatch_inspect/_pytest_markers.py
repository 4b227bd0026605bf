# SPDX-License-Identifier: BSD-3-Clause
"""The markers that look at all a test calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import pytest

if TYPE_CHECKING:
    from npu_dispatch_inspect.traces.ops import OpTrace

__all__ = ["Check", "checks_of"]


class Check(NamedTuple):
    """What one marker asks for."""

    marker: str
    engine: str
    """The tracer's engine that sees what it is about."""
    run: Callable[[OpTrace], None]
    """Fails the test."""


def checks_of(item: pytest.Item) -> list[Check]:
    """The checks of a test's markers."""
    checks = [_forbid(marker) for marker in item.iter_markers("forbid_ops")]
    # The closest of several limits counts: a class may set one for its tests.
    limit = item.get_closest_marker("max_ops")
    if limit is not None:
        checks.append(_limit(limit))
    if item.get_closest_marker("no_cpu_fallback") is not None:
        # The operators left to the CPU are often called inside kernels of others.
        checks.append(Check("no_cpu_fallback", "dispatcher", _no_fallback))
    return checks


def _forbid(marker: pytest.Mark) -> Check:
    from npu_dispatch_inspect.assertions.counts import assert_no_ops

    if not marker.args:
        _refuse("forbid_ops names the operators: forbid_ops('npu::npu_format_cast').")

    def run(trace: OpTrace) -> None:
        _calling("forbid_ops", assert_no_ops, trace, *marker.args, **marker.kwargs)

    return Check("forbid_ops", "dispatch_mode", run)


def _limit(marker: pytest.Mark) -> Check:
    from npu_dispatch_inspect.assertions.counts import assert_op_count

    if len(marker.args) != 1 or not isinstance(marker.args[0], int):
        _refuse("max_ops takes one number: max_ops(40).")

    def run(trace: OpTrace) -> None:
        limit = {"at_most": marker.args[0]}
        _calling("max_ops", assert_op_count, trace, **limit, **marker.kwargs)

    return Check("max_ops", "dispatch_mode", run)


def _no_fallback(trace: OpTrace) -> None:
    from npu_dispatch_inspect.assertions.tables import assert_no_fallback
    from npu_dispatch_inspect.dispatch_table.reader import read_dispatch_table

    on_npu = trace.filter(
        lambda record: any(
            each.device.startswith("npu")
            for each in (*record.input_tensors, *record.output_tensors)
        )
    )
    if not len(on_npu):
        return
    table = read_dispatch_table()
    _calling("no_cpu_fallback", assert_no_fallback, table, on_npu)


def _calling(
    marker: str, function: Callable[..., None], *arguments: Any, **options: Any
) -> None:
    """Call an assertion; fail without a traceback, which would not show the test."""
    from npu_dispatch_inspect.errors import UsageError

    try:
        function(*arguments, **options)
    except (AssertionError, TypeError, UsageError) as error:
        failure = str(error)
    else:
        return
    # Outside the handler: pytest would show the first exception as well.
    _refuse(f"{marker}: {failure}")


def _refuse(message: str) -> NoReturn:
    pytest.fail(message, pytrace=False)
