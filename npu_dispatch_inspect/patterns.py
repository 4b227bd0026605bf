# SPDX-License-Identifier: BSD-3-Clause
"""Patterns of operator calls: one call, and what may follow what.

A pattern stands for a set of sequences of calls, so that all of it can be said as
a regular expression over calls:

=====================  ==========================================================
``op("aten::mm")``     one call of that operator
``...``                any run of calls, also an empty one
``~a``                 a run of calls none of which is ``a``
``a >> b``             ``a``, then ``b``; other calls may come between
``a >> ~c >> b``       the same, with no ``c`` between
``a & b``              both in any order; other calls may come between
``a | b``              either
``a * 3``              three in a row; ``a * (1, None)`` is one or more
``optional(a)``        ``a`` or nothing
``any_order(a, b)``    both in any order, nothing between
=====================  ==========================================================

Wherever a pattern is taken, an operator's name, a glob, a compiled regular
expression, a ``torch.ops`` object or a set of names will do. Patterns are immutable
and hold no state; one can be used in many tests.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, cast

from attrs import evolve, frozen

from npu_dispatch_inspect._call_patterns import CallPattern, call_pattern
from npu_dispatch_inspect.errors import UsageError
from npu_dispatch_inspect.records import Phase

__all__ = [
    "AllOf",
    "Call",
    "Either",
    "Pattern",
    "Repeat",
    "Run",
    "Then",
    "any_order",
    "as_pattern",
    "as_patterns",
    "op",
    "optional",
    "resolve",
    "single_calls",
    "then",
]

MAX_ANY_ORDER = 8
"""So many patterns can be in any order: n of them have n! orders."""


class Pattern:
    """What all patterns can do; see the module for what the operators mean."""

    __slots__ = ()

    def __rshift__(self, other: object) -> Then:
        """This, then the other."""
        return then(self, other)

    def __rrshift__(self, other: object) -> Then:
        """The other, then this."""
        return then(other, self)

    def __and__(self, other: object) -> AllOf:
        """Both, in any order."""
        return _all_of(self, other)

    def __rand__(self, other: object) -> AllOf:
        """Both, in any order."""
        return _all_of(other, self)

    def __or__(self, other: object) -> Either:
        """One of the two."""
        return _either(self, other)

    def __ror__(self, other: object) -> Either:
        """One of the two."""
        return _either(other, self)

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


def op(
    name: object,
    *,
    phase: Phase | str | None = None,
    module: str | None = None,
    region: str | None = None,
    dtype: object = None,
    device: str | None = None,
    shape: tuple[Any, ...] | None = None,
    where: Callable[[Any], bool] | None = None,
    torch: str | None = None,
    torch_npu: str | None = None,
) -> Call:
    """One call of an operator, with conditions.

    Args:
        name: ``"aten::sum"`` for any overload, ``"aten::sum.dim_IntList"`` for that
            one, a glob over the whole name (``"npu::*"``), a compiled regular
            expression (which must match all of it), or a ``torch.ops`` object.
        phase: ``"forward"``, ``"backward"``, ``"optimizer"``.
        module: a glob over the module path.
        region: a glob over the names of the `region` blocks around the call.
        dtype: ``"f16"``, ``"float16"`` or ``torch.float16``.
        device: a glob: ``"npu:*"``.
        shape: sizes, ``None`` for any one size, ``...`` for any number of them.
            One tensor among the arguments and results must have dtype, device
            and shape as asked for.
        where: a function of the record, for everything else.
        torch: versions of torch for which this pattern is there at all:
            ``">=2.7"``, ``">=2.7,<2.9"``. For others it is left out of the list,
            chain or choice that it stands in.
        torch_npu: the same for torch_npu; where it is not installed, the pattern
            is left out.

    Raises:
        UsageError: a condition cannot be understood.

    Example:
        >>> from npu_dispatch_inspect import op
        >>> op("aten::mm", phase="backward", shape=(..., 8))
        op('aten::mm', phase='backward', shape=(..., 8))
    """
    call = call_pattern(
        name,
        phase=phase,
        module=module,
        region=region,
        dtype=dtype,
        device=device,
        shape=shape,
        where=where,
        torch=torch,
        torch_npu=torch_npu,
    )
    return Call(call=call)


def optional(pattern: object) -> Repeat:
    """The pattern or nothing."""
    return as_pattern(pattern) * (0, 1)


def any_order(*patterns: object) -> AllOf:
    """All of them in any order, with nothing between."""
    return _checked(AllOf(items=tuple(map(as_pattern, patterns)), gaps=False))


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
        calls = tuple(op(each) for each in sorted(value, key=str))
        return calls[0] if len(calls) == 1 else Either(branches=calls)
    if isinstance(value, (list, tuple)):
        msg = (
            "A list is no pattern: give its items one by one, or join them with "
            ">> (then), & (any order) or | (either)."
        )
        raise UsageError(msg)
    return op(value)


def single_calls(pattern: Pattern) -> tuple[Call, ...] | None:
    """The alternatives of a pattern that always is one call; None for any other."""
    if isinstance(pattern, Call):
        return (pattern,)
    if isinstance(pattern, Either):
        parts = [single_calls(each) for each in pattern.branches]
        if all(part is not None for part in parts):
            return tuple(call for part in parts for call in part or ())
    return None


def as_patterns(values: Iterable[object]) -> list[Pattern]:
    """The same for several; a name that comes often is looked at once."""
    known: dict[str, Pattern] = {}
    patterns = []
    for each in values:
        if isinstance(each, str):
            if each not in known:
                known[each] = as_pattern(each)
            patterns.append(known[each])
        else:
            patterns.append(as_pattern(each))
    return patterns


def resolve(pattern: Pattern, versions: Mapping[str, str | None]) -> Pattern | None:
    """The pattern for these versions; None where nothing of it is left.

    Args:
        pattern: any pattern.
        versions: of ``"torch"`` and ``"torch_npu"``; None where it is not there.
    """
    if isinstance(pattern, Call):
        return pattern if pattern.call.applies(versions) else None
    if isinstance(pattern, Run):
        if not pattern.forbidden:
            return pattern
        kept = _resolved(pattern.forbidden, versions)
        return Run(forbidden=cast("tuple[Call, ...]", kept))
    if isinstance(pattern, Repeat):
        item = resolve(pattern.item, versions)
        return item and evolve(pattern, item=item)
    if isinstance(pattern, Either):
        branches = _resolved(pattern.branches, versions)
        return _either(*branches) if len(branches) > 1 else next(iter(branches), None)
    if isinstance(pattern, Then):
        items = _resolved(pattern.items, versions)
        return then(*items) if len(items) > 1 else next(iter(items), None)
    assert isinstance(pattern, AllOf)
    items = _resolved(pattern.items, versions)
    return evolve(pattern, items=items) if items else None


def _resolved(
    patterns: Iterable[Pattern], versions: Mapping[str, str | None]
) -> tuple[Pattern, ...]:
    kept = (resolve(each, versions) for each in patterns)
    return tuple(each for each in kept if each is not None)


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


def _either(*parts: object) -> Either:
    branches: list[Pattern] = []
    for part in parts:
        pattern = as_pattern(part)
        branches.extend(pattern.branches if isinstance(pattern, Either) else (pattern,))
    return Either(branches=tuple(branches))


def _all_of(*parts: object) -> AllOf:
    items: list[Pattern] = []
    for part in parts:
        pattern = as_pattern(part)
        same = isinstance(pattern, AllOf) and pattern.gaps
        items.extend(cast("AllOf", pattern).items if same else (pattern,))
    return _checked(AllOf(items=tuple(items), gaps=True))


def _checked(pattern: AllOf) -> AllOf:
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
