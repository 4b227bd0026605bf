# SPDX-License-Identifier: BSD-3-Clause
"""Random patterns, each with the regular expression that says the same.

The letters a to d are operators, so that a trace is a text and `re` can judge it.
The expressions are written from the documented meaning of the patterns alone.
"""

from __future__ import annotations

import itertools
import re
from types import SimpleNamespace

from npu_dispatch_inspect import any_order, op, optional
from npu_dispatch_inspect.errors import UsageError
from npu_dispatch_inspect.patterns import AllOf, Call, Either, Repeat, Run, Then

LETTERS = "abcd"


def calls(text):
    """A trace with one call for each letter."""
    return [
        SimpleNamespace(name=each, index=number) for number, each in enumerate(text)
    ]


def _letters(call):
    return f"[{call.call.operator}]" if call.call.glob is False else call.call.operator


def expression(pattern, dropped=frozenset(), ids=None):
    """The regular expression of a pattern; steps whose number is dropped are empty."""
    ids = itertools.count() if ids is None else ids

    def sub(each):
        return expression(each, dropped, ids)

    if isinstance(pattern, Call):
        return "" if next(ids) in dropped else _letters(pattern)
    if isinstance(pattern, Run):
        forbidden = "".join(each.call.operator for each in pattern.forbidden)
        return (
            f"[^{forbidden.replace('[', '').replace(']', '')}]*" if forbidden else ".*"
        )
    if isinstance(pattern, Then):
        text = ""
        for before, each in zip((None, *pattern.items), pattern.items, strict=False):
            if (
                before is not None
                and not isinstance(before, Run)
                and not isinstance(each, Run)
            ):
                text += ".*"
            text += sub(each)
        return text
    if isinstance(pattern, Either):
        if all(isinstance(each, Call) for each in pattern.branches):
            # One call that is one of several: missing, it is missed once.
            if next(ids) in dropped:
                return ""
            return f"(?:{'|'.join(map(_letters, pattern.branches))})"
        return f"(?:{'|'.join(map(sub, pattern.branches))})"
    if isinstance(pattern, Repeat):
        text = "".join(sub(pattern.item) for _ in range(pattern.low))
        if pattern.high is None:
            # Two of any number may lack steps: more is no use in short texts.
            whole = f"(?:{expression(pattern.item)})*"
            return f"{text}{whole}(?:{sub(pattern.item)})?{whole}(?:{sub(pattern.item)})?{whole}"
        more = pattern.high - pattern.low
        return (
            text + "".join(f"(?:{sub(pattern.item)}" for _ in range(more)) + ")?" * more
        )
    assert isinstance(pattern, AllOf)
    parts = [sub(each) for each in pattern.items]
    gap = ".*" if pattern.gaps else ""
    orders = (gap.join(order) for order in itertools.permutations(parts))
    return f"(?:{'|'.join(orders)})"


def list_expression(patterns, dropped=frozenset()):
    """The regular expression of patterns with nothing between."""
    ids = itertools.count()
    return "".join(expression(each, dropped, ids) for each in patterns)


def steps_in(patterns):
    """How many steps of a list of patterns can be missing."""
    ids = itertools.count()
    for each in patterns:
        expression(each, frozenset(), ids)
    return next(ids)


def search_expression(pattern):
    """The regular expression that fits a whole trace with the pattern in it."""
    if isinstance(pattern, Either):
        return "|".join(f"(?:{search_expression(each)})" for each in pattern.branches)
    items = pattern.items if isinstance(pattern, Then) else (pattern,)
    before = "" if isinstance(items[0], Run) else ".*"
    after = "" if isinstance(items[-1], Run) else ".*"
    return before + expression(pattern) + after


def fits(text, regex):
    """Whether the whole text fits."""
    return re.fullmatch(regex, text) is not None


def fewest_differences(text, patterns):
    """By trial: the fewest letters and steps that must go for the rest to fit."""
    steps = steps_in(patterns)
    things = [
        *(("call", each) for each in range(len(text))),
        *(("step", each) for each in range(steps)),
    ]
    for count in range(len(things) + 1):
        for gone in itertools.combinations(things, count):
            left = "".join(
                letter
                for number, letter in enumerate(text)
                if ("call", number) not in gone
            )
            dropped = frozenset(number for kind, number in gone if kind == "step")
            if fits(left, list_expression(patterns, dropped)):
                return count
    raise AssertionError


def random_text(source, size):
    """Up to ``size`` letters."""
    return "".join(source.choices(LETTERS, k=source.randint(0, size)))


def random_call(source):
    """One letter, or one of two."""
    return op(source.choice([*LETTERS, "[ab]", "[cd]"]))


def random_run(source):
    """Any run, or one without a letter."""
    return source.choice([Run(), ~op(source.choice(LETTERS))])


def random_pattern(source, depth=2):
    """A pattern of every kind, nested."""
    if not depth or source.random() < 0.25:
        return random_call(source)
    a, b, c = (random_pattern(source, depth - 1) for _ in range(3))
    r = random_run(source)
    times = source.choice([2, (0, 2), (1, 3), (0, None), (2, None)])
    make = source.choice(
        [
            lambda: a >> b,
            lambda: a >> b >> c,
            lambda: a >> r >> b,
            lambda: a >> r,
            lambda: r >> a,
            lambda: a | b,
            lambda: a | b | c,
            lambda: a & b,
            lambda: a & b & c,
            lambda: any_order(a, b),
            lambda: any_order(a, b, c),
            lambda: optional(a),
            lambda: a * times,
        ]
    )
    try:
        return make()
    except UsageError:  # a run where none may stand
        return a


def random_list(source):
    """A list of patterns, runs among them."""
    return [
        source.choice([random_call, random_pattern, random_run])(source)
        for _ in range(source.randint(0, 4))
    ]
