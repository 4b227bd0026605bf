# SPDX-License-Identifier: BSD-3-Clause
"""Assertions on the order of calls."""

from __future__ import annotations

from collections.abc import Iterable

from npu_dispatch_inspect._call_patterns import CallPattern, overload_of
from npu_dispatch_inspect.assertions._look import (
    LAUNCHES,
    Ignored,
    Seen,
    cannot_tell,
    fail,
    look,
)
from npu_dispatch_inspect.assertions._settings import SETTINGS
from npu_dispatch_inspect.display.diff import alignment_text, search_text
from npu_dispatch_inspect.display.places import Words
from npu_dispatch_inspect.errors import UsageError
from npu_dispatch_inspect.matching import align, search
from npu_dispatch_inspect.patterns import Call, Pattern, Run, as_pattern, then
from npu_dispatch_inspect.records import Phase

__all__ = [
    "assert_launches",
    "assert_ops",
    "assert_ops_in_order",
    "assert_ops_match",
    "assert_same_ops",
]

__unittest = True


def assert_ops(
    trace: object,
    expected: Iterable[object] | Pattern,
    *,
    phase: Phase | str | None = None,
    module: str | None = None,
    ignore: Ignored = (),
) -> None:
    """The calls are exactly these, in this order.

    Args:
        trace: a trace, a captured graph, or a list of names.
        expected: patterns, one after the other; ``...`` takes any run of calls.
            Names are compared; tensors only where a pattern mentions them.
        phase: look at this phase only.
        module: look at modules whose path matches this glob only.
        ignore: operators to leave out, such as `VIEW_OPS`; none by default.

    Raises:
        AssertionError: they are not; the first line says by how much.
        UsageError: a pattern cannot be understood.

    Example:
        >>> from npu_dispatch_inspect import assert_ops
        >>> names = ["aten::t", "aten::addmm", "aten::view", "aten::sum"]
        >>> assert_ops(names, ["aten::t", "aten::addmm", ..., "aten::sum"])
    """
    __tracebackhide__ = True
    seen = look(trace, phase=phase, module=module, ignore=ignore)
    _exactly(seen, expected, "assert_ops")


def assert_launches(
    logs: object, expected: Iterable[object] | Pattern, *, ignore: Ignored = ()
) -> None:
    """The aclnn operators that were launched are exactly these, in this order.

    Args:
        logs: a `LogTrace`, a report, or a list of names.
        expected: patterns as for `assert_ops`: ``"aclnnAddmm"``, ``...``.
        ignore: launches to leave out.

    Raises:
        AssertionError: they are not.

    Example:
        >>> import torch
        >>> from npu_dispatch_inspect import assert_launches, capture_logs
        >>> x = torch.ones(2, 3).npu()
        >>> with capture_logs() as logs:
        ...     y = x @ x.t()
        >>> assert_launches(logs, ["aclnnMatmul"])
    """
    __tracebackhide__ = True
    # A report of all mechanisms has the log as a trace of its own.
    trace = getattr(logs, "logs", logs)
    if trace is None:
        msg = "No log was captured with this report, so its launches are not known."
        raise UsageError(msg)
    seen = look(trace, ignore=ignore, words=LAUNCHES)
    _exactly(seen, expected, "assert_launches")


def assert_ops_in_order(
    trace: object,
    *patterns: object,
    phase: Phase | str | None = None,
    module: str | None = None,
    ignore: Ignored = (),
) -> None:
    """These calls are there in this order; others may come before, between, after.

    Args:
        trace: a trace, a captured graph, or a list of names.
        *patterns: what follows what. ``~op(...)`` between two of them: that call
            does not come between.
        phase: look at this phase only.
        module: look at modules whose path matches this glob only.
        ignore: operators to leave out.

    Raises:
        AssertionError: a pattern does not follow; the text tells which were found.

    Example:
        >>> from npu_dispatch_inspect import assert_ops_in_order
        >>> assert_ops_in_order(["aten::t", "aten::addmm", "aten::gelu"], "aten::t", "aten::gelu")
    """
    __tracebackhide__ = True
    if not patterns:
        msg = "assert_ops_in_order needs at least one pattern."
        raise UsageError(msg)
    seen = look(trace, phase=phase, module=module, ignore=ignore)
    _found(seen, then(*patterns))


def assert_ops_match(
    trace: object,
    pattern: object,
    *,
    phase: Phase | str | None = None,
    module: str | None = None,
    ignore: Ignored = (),
) -> None:
    """The pattern is found in the calls: ``a >> (b | c) >> ~d``.

    Other calls may come before and after it; a ``~d`` at an end of the pattern
    reaches to that end of the trace.

    Args:
        trace: a trace, a captured graph, or a list of names.
        pattern: see `patterns`.
        phase: look at this phase only.
        module: look at modules whose path matches this glob only.
        ignore: operators to leave out.

    Raises:
        AssertionError: it is not found.

    Example:
        >>> from npu_dispatch_inspect import assert_ops_match, op
        >>> names = ["aten::t", "aten::addmm", "aten::gelu", "aten::sum"]
        >>> assert_ops_match(names, op("aten::addmm") >> ~op("npu::*") >> "aten::sum")
    """
    __tracebackhide__ = True
    seen = look(trace, phase=phase, module=module, ignore=ignore)
    _found(seen, as_pattern(pattern))


def assert_same_ops(
    first: object,
    second: object,
    *,
    names: tuple[str, str] | None = None,
    phase: Phase | str | None = None,
    module: str | None = None,
    ignore: Ignored = (),
) -> None:
    """Two traces have the same calls in the same order, overloads included.

    Args:
        first: a trace, a captured graph, or a list of names.
        second: the other one.
        names: what to call them; by default their labels, or their devices.
        phase: look at this phase only.
        module: look at modules whose path matches this glob only.
        ignore: operators to leave out of both.

    Raises:
        AssertionError: they have not.

    Example:
        >>> from npu_dispatch_inspect import assert_same_ops
        >>> try:
        ...     assert_same_ops(["aten::bmm"], ["aten::matmul"])
        ... except AssertionError as error:
        ...     print(str(error).splitlines()[0])
        op sequence differs: 1 only in first, 1 only in second (first 1, second 1)
    """
    __tracebackhide__ = True
    if names is not None and (isinstance(names, str) or len(names) != 2):  # noqa: PLR2004
        msg = f"names= takes a name for each of the two traces, not {names!r}."
        raise UsageError(msg)
    left = look(first, phase=phase, module=module, ignore=ignore)
    right = look(second, phase=phase, module=module, ignore=ignore)
    known: dict[tuple[str, str], Call] = {}
    wanted = []
    for call in left.calls:
        key = (call.name, overload_of(call))
        if key not in known:
            known[key] = Call(call=CallPattern(name=key[0], overload=key[1]))
        wanted.append(known[key])
    result = align(right.calls, wanted)
    if result.matched:
        for seen in (left, right):
            if seen.cut:
                cannot_tell("whether all calls are the same", seen)
        return
    one, other = names or _names(first, second)
    words = Words(
        noun=left.words.noun,
        plural=left.words.plural,
        expected=one,
        traced=other,
        compared=True,
    )
    fail(
        [
            alignment_text(
                result,
                words=words,
                left=left.calls,
                max_rows=SETTINGS.rows,
                more=SETTINGS.more,
            )
        ],
        left,
        right,
    )


def _names(first: object, second: object) -> tuple[str, str]:
    """Labels if they differ, else devices, else the order."""
    for tell in (_label, _device):
        one, other = tell(first), tell(second)
        if one and other and one != other:
            return one, other
    return "first", "second"


def _label(trace: object) -> str | None:
    label: str | None = getattr(trace, "label", None)
    return label


def _device(trace: object) -> str | None:
    device: str | None = getattr(getattr(trace, "environment", None), "device", None)
    return device


def _exactly(seen: Seen, expected: Iterable[object] | Pattern, function: str) -> None:
    __tracebackhide__ = True
    if isinstance(expected, Pattern):
        expected = [expected]
    if isinstance(expected, (str, bytes, set, frozenset)) or not isinstance(
        expected, Iterable
    ):
        msg = (
            f"{function} takes a list of patterns in order, not {expected!r}; "
            f"assert_has_ops looks for single ones."
        )
        raise UsageError(msg)
    items = seen.patterns(expected)
    result = align(seen.calls, items)
    if result.matched:
        if seen.cut and not (items and items[-1] == Run()):
            cannot_tell("whether these are all calls", seen)
        return
    fail(
        [
            alignment_text(
                result, words=seen.words, max_rows=SETTINGS.rows, more=SETTINGS.more
            )
        ],
        seen,
    )


def _found(seen: Seen, pattern: Pattern) -> None:
    __tracebackhide__ = True
    patterns = seen.patterns([pattern])
    if not patterns:
        return
    wanted = patterns[0]
    result = search(seen.calls, wanted)
    if not result.matched:
        fail([search_text(result, seen.calls, words=seen.words)], seen)
    last = result.steps[-1].pattern if result.steps else None
    if seen.cut and isinstance(last, Run):
        cannot_tell(f"whether the end is {last}", seen)
