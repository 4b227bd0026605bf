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

from attrs import evolve

from npu_dispatch_inspect._algebra import (
    AllOf,
    Call,
    Either,
    Pattern,
    Repeat,
    Run,
    Then,
    as_pattern,
    checked,
    either,
    single_calls,
    then,
)
from npu_dispatch_inspect._call_patterns import call_pattern
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

    Returns:
        A pattern, to be used wherever a name can be; ``>>``, ``&``, ``|``, ``*`` and
        ``~`` join patterns.

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
    """The pattern or nothing.

    Args:
        pattern: a name, a `torch.ops` object or a pattern.

    Returns:
        A pattern, to be used wherever a name can be.

    Raises:
        UsageError: it cannot be understood.

    Example:
        >>> from npu_dispatch_inspect import assert_ops, optional
        >>> wanted = ["aten::t", optional("aten::clone"), "aten::mm"]
        >>> assert_ops(["aten::t", "aten::mm"], wanted)
        >>> assert_ops(["aten::t", "aten::clone", "aten::mm"], wanted)
    """
    return as_pattern(pattern) * (0, 1)


def any_order(*patterns: object) -> AllOf:
    """All of them in any order, with nothing between.

    Args:
        *patterns: names, `torch.ops` objects or patterns; up to eight.

    Returns:
        A pattern, to be used wherever a name can be.

    Raises:
        UsageError: one of them cannot be understood, or there are too many.

    Example:
        >>> from npu_dispatch_inspect import any_order, assert_ops
        >>> wanted = ["aten::t", any_order("aten::mul", "aten::add")]
        >>> assert_ops(["aten::t", "aten::add", "aten::mul"], wanted)
    """
    return checked(AllOf(items=tuple(map(as_pattern, patterns)), gaps=False))


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
        return either(*branches) if len(branches) > 1 else next(iter(branches), None)
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
