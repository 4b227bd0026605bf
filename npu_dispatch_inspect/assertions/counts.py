# SPDX-License-Identifier: BSD-3-Clause
"""Assertions on which operators are called and how often."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from npu_dispatch_inspect.assertions._look import (
    Ignored,
    Seen,
    cannot_tell,
    fail,
    fits,
    look,
)
from npu_dispatch_inspect.assertions._settings import SETTINGS
from npu_dispatch_inspect.display.places import (
    Words,
    call_name,
    capped,
    counted,
    near_names,
    places,
    unmet_text,
)
from npu_dispatch_inspect.errors import UsageError
from npu_dispatch_inspect.patterns import Pattern, single_calls
from npu_dispatch_inspect.records import Phase

__all__ = [
    "assert_has_ops",
    "assert_no_ops",
    "assert_only_ops",
    "assert_op_count",
    "assert_ops_replaced",
]

__unittest = True

_IN_VERDICT = 3
_PLACES = 3
_NOTHING = "nothing was traced: did the code run inside the block?"


def assert_has_ops(
    trace: object,
    *patterns: object,
    phase: Phase | str | None = None,
    module: str | None = None,
    ignore: Ignored = (),
) -> None:
    """Each of these operators is called at least once.

    Args:
        trace: a trace, a captured graph, or a list of names.
        *patterns: names, globs, or ``op(...)`` with conditions; a set of names is
            there if one of them is.
        phase: look at this phase only.
        module: look at modules whose path matches this glob only.
        ignore: operators to leave out.

    Raises:
        AssertionError: one is not; the text names similar ones that are.

    Example:
        >>> from npu_dispatch_inspect import assert_has_ops
        >>> assert_has_ops(["aten::t", "aten::addmm"], "aten::addmm")
    """
    __tracebackhide__ = True
    _some(patterns, "assert_has_ops")
    seen = look(trace, phase=phase, module=module, ignore=ignore)
    wanted = seen.singles(patterns, "assert_has_ops")
    missing = [each for each in wanted if not seen.fitting(each)]
    if not missing:
        return
    head = f"missing {_noun(len(missing), seen.words)}: {_list(map(str, missing))}"
    lines = [f"{head}, traced {counted(len(seen.calls), seen.words)}"]
    for each in missing:
        lines += [f"  {each}: {remark}" for remark in _remarks(each, seen)]
    fail(lines, seen)


def assert_no_ops(
    trace: object,
    *patterns: object,
    phase: Phase | str | None = None,
    module: str | None = None,
    ignore: Ignored = (),
) -> None:
    """None of these operators is called.

    Args:
        trace: a trace, a captured graph, or a list of names.
        *patterns: names, globs, sets of names, or ``op(...)`` with conditions.
        phase: look at this phase only.
        module: look at modules whose path matches this glob only.
        ignore: operators to leave out.

    Raises:
        AssertionError: one is; the text tells where.

    Example:
        >>> from npu_dispatch_inspect import assert_no_ops
        >>> assert_no_ops(["aten::t", "aten::addmm"], "npu::*", "aten::_to_copy")
    """
    __tracebackhide__ = True
    _some(patterns, "assert_no_ops")
    seen = look(trace, phase=phase, module=module, ignore=ignore)
    forbidden = seen.singles(patterns, "assert_no_ops")
    calls = [call for call in seen.calls if any(fits(each, call) for each in forbidden)]
    if calls:
        _refuse("forbidden {}", calls, seen)
    if seen.cut:
        cannot_tell(f"that there is no {' or '.join(map(str, forbidden))}", seen)


def assert_only_ops(
    trace: object,
    *patterns: object,
    phase: Phase | str | None = None,
    module: str | None = None,
    ignore: Ignored = (),
) -> None:
    """No operator but these is called; they need not be.

    Args:
        trace: a trace, a captured graph, or a list of names.
        *patterns: names, globs, sets of names, or ``op(...)`` with conditions.
        phase: look at this phase only.
        module: look at modules whose path matches this glob only.
        ignore: operators to leave out.

    Raises:
        AssertionError: another one is; the text tells where.

    Example:
        >>> from npu_dispatch_inspect import assert_only_ops
        >>> assert_only_ops(["aten::t", "aten::addmm"], "aten::*")
    """
    __tracebackhide__ = True
    seen = look(trace, phase=phase, module=module, ignore=ignore)
    allowed = seen.singles(patterns, "assert_only_ops")
    calls = [
        call for call in seen.calls if not any(fits(each, call) for each in allowed)
    ]
    if calls:
        _refuse("{} not allowed", calls, seen)
    if seen.cut:
        cannot_tell("that there are no others", seen)


def assert_op_count(
    trace: object,
    pattern: object = None,
    count: int | None = None,
    *,
    at_least: int | None = None,
    at_most: int | None = None,
    phase: Phase | str | None = None,
    module: str | None = None,
    ignore: Ignored = (),
) -> None:
    """An operator, or all together, are called so many times.

    Args:
        trace: a trace, a captured graph, or a list of names.
        pattern: what to count; everything where it is left out.
        count: exactly so many.
        at_least: so many or more.
        at_most: so many or fewer.
        phase: look at this phase only.
        module: look at modules whose path matches this glob only.
        ignore: operators to leave out.

    Raises:
        AssertionError: the number is another one; the text tells where the calls
            were made.

    Example:
        >>> from npu_dispatch_inspect import assert_op_count
        >>> assert_op_count(["aten::mm", "aten::t", "aten::mm"], "aten::mm", 2)
        >>> assert_op_count(["aten::mm", "aten::t", "aten::mm"], at_most=40)
    """
    __tracebackhide__ = True
    if isinstance(pattern, int):
        msg = (
            "assert_op_count takes an operator and a number, or at_least= and "
            f"at_most= for all operators, not {pattern!r} alone."
        )
        raise UsageError(msg)
    low, high, wanted = _bounds(count, at_least, at_most)
    seen = look(trace, phase=phase, module=module, ignore=ignore)
    if pattern is None:
        calls, of = list(seen.calls), ""
    else:
        patterns = seen.singles([pattern], "assert_op_count")
        if not patterns:
            return
        calls, of = seen.fitting(patterns[0]), f" of {patterns[0]}"
    number = len(calls)
    if low <= number and (high is None or number <= high):
        if seen.cut and high is not None:
            cannot_tell(f"the number of calls{of}", seen)
        return
    if of:
        noun = "call" if wanted.split()[-1] == "1" else "calls"
    else:
        noun = _noun(int(wanted.split()[-1]), seen.words)
    lines = [f"expected {wanted} {noun}{of}, traced {number}"]
    if of:
        lines += [f"  {each}" for each in places(calls, SETTINGS.rows)]
        if not calls:
            lines += [f"  {each}" for each in _remarks(patterns[0], seen)]
    elif calls:
        lines += [f"  {each}" for each in _frequent(calls)]
    elif not seen.outside:
        lines.append(f"  {_NOTHING}")
    fail(lines, seen)


def assert_ops_replaced(
    before: object,
    after: object,
    *,
    removed: Iterable[object] = (),
    added: Iterable[object] = (),
    partly: bool = False,
    ignore: Ignored = (),
) -> None:
    """A pass over a graph, or a switch, has put operators in the place of others.

    Args:
        before: a trace or graph from before.
        after: the one from afterwards.
        removed: operators that were there and are not any more.
        added: operators that were not there and are now.
        partly: fewer of `removed` and more of `added` are enough.
        ignore: operators to leave out of both.

    Raises:
        AssertionError: one of them was not replaced; the text has all numbers.

    Example:
        >>> from npu_dispatch_inspect import assert_ops_replaced
        >>> before, after = ["aten::silu", "aten::mul"], ["npu::npu_swiglu"]
        >>> assert_ops_replaced(before, after, removed=before, added=after)
    """
    __tracebackhide__ = True
    old, new = look(before, ignore=ignore), look(after, ignore=ignore)
    function = "assert_ops_replaced"
    for word, value in (("removed", removed), ("added", added)):
        if isinstance(value, (str, Pattern)):
            msg = f"{word}= takes a list of operators, not {value!r} alone."
            raise UsageError(msg)
    gone, come = old.singles(removed, function), new.singles(added, function)
    if not gone and not come:
        msg = "assert_ops_replaced needs removed=[...], added=[...] or both."
        raise UsageError(msg)
    rows, wrong = [], []
    for sign, patterns in (("removed", gone), ("added", come)):
        for each in patterns:
            numbers = len(old.fitting(each)), len(new.fitting(each))
            fault = _fault(sign, *numbers, partly=partly)
            if fault:
                wrong.append(f"{each} {fault}")
            mark = "FAIL" if fault else "ok"
            rows.append(f"  {mark:<4}  {sign:<7}  {each}: {numbers[0]} -> {numbers[1]}")
    if wrong:
        first = (
            wrong[0] if len(wrong) == 1 else f"{wrong[0]} (and {len(wrong) - 1} more)"
        )
        lines = [f"{old.words.plural} not replaced: {first}", *rows]
        lines.append(f"  in all: {len(old.calls)} -> {len(new.calls)}")
        fail(lines, old, new)
    for seen in (old, new):
        if seen.cut:
            cannot_tell("what was replaced", seen)


def _fault(sign: str, before: int, after: int, *, partly: bool) -> str | None:
    """What is wrong with the numbers of one operator, None where nothing is."""
    if sign == "removed":
        if not before:
            return "was not there before"
        if partly:
            return None if after < before else f"is still called {after} times"
        return None if not after else f"is still called {_times(after)}"
    if not after:
        return "is not there afterwards"
    if partly:
        return (
            None
            if after > before
            else f"is not called more often ({before} -> {after})"
        )
    return None if not before else f"was there before, {_times(before)}"


def _times(number: int) -> str:
    return "once" if number == 1 else f"{number} times"


def _bounds(
    count: int | None, at_least: int | None, at_most: int | None
) -> tuple[int, int | None, str]:
    """Fewest, most, and both in words."""
    for each in (count, at_least, at_most):
        if each is not None and (
            not isinstance(each, int) or isinstance(each, bool) or each < 0
        ):
            msg = f"A number of calls is a whole number from 0 up, not {each!r}."
            raise UsageError(msg)
    if count is not None:
        if at_least is not None or at_most is not None:
            msg = "Give a number, or at_least= and at_most=, not both."
            raise UsageError(msg)
        return count, count, str(count)
    if at_least is not None and at_most is not None:
        if at_least > at_most:
            msg = f"at_least={at_least} is more than at_most={at_most}."
            raise UsageError(msg)
        return at_least, at_most, f"{at_least} to {at_most}"
    if at_least is not None:
        return at_least, None, f"at least {at_least}"
    if at_most is not None:
        return 0, at_most, f"at most {at_most}"
    msg = "How many calls? Give a number, at_least= or at_most=."
    raise UsageError(msg)


def _some(patterns: Sequence[object], function: str) -> None:
    if not patterns:
        msg = f"{function} needs at least one operator."
        raise UsageError(msg)


def _refuse(what: str, calls: Sequence[Any], seen: Seen) -> None:
    """Fail with every operator among some calls, and where it was called."""
    __tracebackhide__ = True
    by_name: dict[str, list[Any]] = {}
    for call in calls:
        by_name.setdefault(call_name(call), []).append(call)
    head = _list(f"{name} ({_times(len(each))})" for name, each in by_name.items())
    verdict = what.format(_noun(len(by_name), seen.words))
    lines = [f"{verdict}: {head}, traced {counted(len(seen.calls), seen.words)}"]
    rows = [
        f"{name}: {', '.join(places(each, _PLACES))}" for name, each in by_name.items()
    ]
    lines += [f"  {each}" for each in capped(rows, SETTINGS.rows, seen.words.plural)]
    fail(lines, seen)


def _list(names: Iterable[str]) -> str:
    """As many names as a verdict can hold."""
    all_names = list(names)
    shown = ", ".join(all_names[:_IN_VERDICT])
    more = len(all_names) - _IN_VERDICT
    return f"{shown} and {more} more" if more > 0 else shown


def _noun(number: int, words: Words) -> str:
    return words.noun if number == 1 else words.plural


def _remarks(pattern: Pattern, seen: Seen) -> list[str]:
    """Why an operator that was asked for is not there."""
    if not seen.calls and not seen.outside:
        return [_NOTHING]
    outside = [call for call in seen.outside if fits(pattern, call)]
    if outside:
        return [f"called elsewhere: {', '.join(places(outside, _PLACES))}"]
    alternatives = single_calls(pattern) or ()
    unmet = (unmet_text(each, seen.calls) for each in alternatives)
    remarks = [each for each in unmet if each is not None]
    if remarks:
        return remarks
    near = [
        name
        for each in alternatives
        for name in near_names(each.call.operator, seen.calls)
    ]
    if near:
        return [f"similar: {', '.join(dict.fromkeys(near))}"]
    return ["no similar name was traced"]


def _frequent(calls: Sequence[Any]) -> list[str]:
    """The operators by how often they are called."""
    numbers = Counter(map(call_name, calls))
    rows = [f"{number}x {name}" for name, number in numbers.most_common()]
    return capped(rows, SETTINGS.rows, "operators")
