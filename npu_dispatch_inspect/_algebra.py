# SPDX-License-Identifier: BSD-3-Clause
"""The classes behind `patterns`, and the operators that join them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import cast

from attrs import frozen

from npu_dispatch_inspect._call_patterns import CallPattern, call_pattern
from npu_dispatch_inspect.errors import UsageError

__all__ = [
    "AllOf",
    "Call",
    "Either",
    "Pattern",
    "Repeat",
    "Run",
    "Then",
    "as_pattern",
    "checked",
    "either",
    "single_calls",
    "then",
]

MAX_ANY_ORDER = 8
"""So many patterns can be in any order: n of them have n! orders."""


class Pattern:
    """What all patterns can do; see the module for what the operators mean.

    Example:
        >>> from npu_dispatch_inspect import assert_ops_match, op
        >>> pattern = op("aten::mm") >> (op("aten::add") | op("aten::sub"))
        >>> assert_ops_match(["aten::mm", "aten::t", "aten::sub"], pattern)
    """

    __slots__ = ()

    def __rshift__(self, other: object) -> Then:
        """This, then the other."""
        return then(self, other)

    def __rrshift__(self, other: object) -> Then:
        """The other, then this."""
        return then(other, self)

    def __and__(self, other: object) -> AllOf:
        """Both, in any order."""
        return all_of(self, other)

    def __rand__(self, other: object) -> AllOf:
        """Both, in any order."""
        return all_of(other, self)

    def __or__(self, other: object) -> Either:
        """One of the two."""
        return either(self, other)

    def __ror__(self, other: object) -> Either:
        """One of the two."""
        return either(other, self)

    def __mul__(self, times: int | tuple[int, int | None]) -> Repeat:
        """So many in a row: ``a * 3``, ``a * (1, None)``."""
        low, high = times if isinstance(times, tuple) else (times, times)
        if not _is_count(low) or not (
            high is None or (_is_count(high) and high >= low)
        ):
            msg = (
                f"A pattern is repeated 3 or (1, 4) or (1, None) times, not {times!r}."
            )
            raise UsageError(msg)
        _refuse_runs("*", self)
        return Repeat(item=self, low=low, high=high)

    def __invert__(self) -> Run:
        """A run of calls, none of which is this one."""
        calls = single_calls(self)
        if calls is None:
            msg = (
                f"~ forbids single calls, so it takes op(...) or op(...) | op(...), "
                f"not {self}."
            )
            raise UsageError(msg)
        return Run(forbidden=calls)

    @property
    def open_ended(self) -> bool:
        """It begins or ends with a run: how far that reaches, its neighbours say."""
        return False


@frozen(kw_only=True, repr=False)
class Call(Pattern):
    """One call; made by `op`."""

    call: CallPattern

    def __repr__(self) -> str:
        """As code."""
        return repr(self.call)

    def __str__(self) -> str:
        """For people."""
        return str(self.call)


@frozen(kw_only=True, repr=False)
class Run(Pattern):
    """Any number of calls, none of which is forbidden: ``...`` and ``~a``."""

    forbidden: tuple[Call, ...] = ()

    @property
    def open_ended(self) -> bool:
        """It is nothing but a run."""
        return True

    def __repr__(self) -> str:
        """As code."""
        if not self.forbidden:
            return "..."
        return f"~({' | '.join(map(repr, self.forbidden))})"

    def __str__(self) -> str:
        """For people."""
        if not self.forbidden:
            return "..."
        return f"... without {' or '.join(map(str, self.forbidden))}"


@frozen(kw_only=True, repr=False)
class Then(Pattern):
    """One after the other, with any calls between: ``a >> b``."""

    items: tuple[Pattern, ...]

    @property
    def open_ended(self) -> bool:
        """It begins or ends with a run."""
        return self.items[0].open_ended or self.items[-1].open_ended

    def __repr__(self) -> str:
        """As code."""
        return _joined(" >> ", self.items, repr)

    def __str__(self) -> str:
        """For people."""
        return _joined(" >> ", self.items, str)


@frozen(kw_only=True, repr=False)
class Either(Pattern):
    """One of several: ``a | b``."""

    branches: tuple[Pattern, ...]

    @property
    def open_ended(self) -> bool:
        """One of them begins or ends with a run."""
        return any(each.open_ended for each in self.branches)

    def __repr__(self) -> str:
        """As code."""
        return _joined(" | ", self.branches, repr)

    def __str__(self) -> str:
        """For people."""
        return _joined(" | ", self.branches, str)


@frozen(kw_only=True, repr=False)
class AllOf(Pattern):
    """All of them in any order, each by calls of its own."""

    items: tuple[Pattern, ...]
    gaps: bool
    """Other calls may come between: ``a & b``; not so in ``any_order(a, b)``."""

    def __repr__(self) -> str:
        """As code."""
        if self.gaps:
            return _joined(" & ", self.items, repr)
        return f"any_order({', '.join(map(repr, self.items))})"

    def __str__(self) -> str:
        """For people."""
        if self.gaps:
            return _joined(" & ", self.items, str)
        return f"any_order({', '.join(map(str, self.items))})"


@frozen(kw_only=True, repr=False)
class Repeat(Pattern):
    """So many in a row."""

    item: Pattern
    low: int
    high: int | None
    """None: any number from `low` up."""

    def __repr__(self) -> str:
        """As code."""
        return self._text(repr)

    def __str__(self) -> str:
        """For people."""
        return self._text(str)

    def _text(self, text: Callable[[object], str]) -> str:
        if (self.low, self.high) == (0, 1):
            return f"optional({text(self.item)})"
        times = self.low if self.low == self.high else (self.low, self.high)
        return f"{_joined('', (self.item,), text)} * {times}"


def as_pattern(value: object) -> Pattern:
    """The pattern that a name, glob, regular expression, set or ``...`` stands for.

    Raises:
        UsageError: it stands for none.
    """
    if isinstance(value, Pattern):
        return value
    if value is ...:
        return Run()
    if isinstance(value, (set, frozenset)):
        if not value:
            msg = "An empty set of names is no pattern; leave it out."
            raise UsageError(msg)
        calls = tuple(_call(each) for each in sorted(value, key=str))
        return calls[0] if len(calls) == 1 else Either(branches=calls)
    if isinstance(value, (list, tuple)):
        msg = (
            "A list is no pattern: give its items one by one, or join them with "
            ">> (then), & (any order) or | (either)."
        )
        raise UsageError(msg)
    return _call(value)


def single_calls(pattern: Pattern) -> tuple[Call, ...] | None:
    """The alternatives of a pattern that always is one call; None for any other."""
    if isinstance(pattern, Call):
        return (pattern,)
    if isinstance(pattern, Either):
        parts = [single_calls(each) for each in pattern.branches]
        if all(part is not None for part in parts):
            return tuple(call for part in parts for call in part or ())
    return None


def then(*parts: object) -> Then:
    """One after the other, with any calls between: ``a >> b >> c``."""
    items: list[Pattern] = []
    for part in parts:
        pattern = as_pattern(part)
        for item in pattern.items if isinstance(pattern, Then) else (pattern,):
            last = items[-1] if items else None
            if isinstance(item, Run) and isinstance(last, Run):
                # ~a >> ~b: neither of them comes between.
                items[-1] = Run(forbidden=(*last.forbidden, *item.forbidden))
                continue
            if not isinstance(item, Run):
                _refuse_runs(">>", item)
            items.append(item)
    return Then(items=tuple(items))


def either(*parts: object) -> Either:
    """One of them: ``a | b``."""
    branches: list[Pattern] = []
    for part in parts:
        pattern = as_pattern(part)
        branches.extend(pattern.branches if isinstance(pattern, Either) else (pattern,))
    return Either(branches=tuple(branches))


def all_of(*parts: object) -> AllOf:
    """Both in any order: ``a & b``."""
    items: list[Pattern] = []
    for part in parts:
        pattern = as_pattern(part)
        same = isinstance(pattern, AllOf) and pattern.gaps
        items.extend(cast("AllOf", pattern).items if same else (pattern,))
    return checked(AllOf(items=tuple(items), gaps=True))


def checked(pattern: AllOf) -> AllOf:
    """Refuse patterns that cannot be in any order.

    Raises:
        UsageError: they are too many, none, or begin or end with a run.
    """
    word = "&" if pattern.gaps else "any_order"
    if not pattern.items:
        msg = "any_order needs at least one pattern."
        raise UsageError(msg)
    if len(pattern.items) > MAX_ANY_ORDER:
        msg = (
            f"{word} takes up to {MAX_ANY_ORDER} patterns, not {len(pattern.items)}; "
            f"assert_has_ops and assert_op_count look at any number of operators "
            f"whatever their order."
        )
        raise UsageError(msg)
    _refuse_runs(word, *pattern.items)
    return pattern


def _refuse_runs(word: str, *patterns: Pattern) -> None:
    for each in patterns:
        if each.open_ended:
            msg = (
                f"{word} cannot take {each}, which begins or ends with ... or ~: put "
                f"those between patterns of a chain (a >> ~b >> c) or of a list."
            )
            raise UsageError(msg)


def _joined(word: str, parts: Iterable[Pattern], text: Callable[[object], str]) -> str:
    return word.join(
        f"({text(each)})"
        if isinstance(each, (Then, Either)) or _is_and(each)
        else text(each)
        for each in parts
    )


def _is_and(pattern: Pattern) -> bool:
    return isinstance(pattern, AllOf) and pattern.gaps


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _call(name: object) -> Call:
    return Call(call=call_pattern(name))
