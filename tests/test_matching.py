# SPDX-License-Identifier: BSD-3-Clause
"""Alignment and search, against regular expressions that say the same."""

from __future__ import annotations

import importlib
import random
import re
from itertools import combinations

import pytest

from npu_dispatch_inspect import op, optional
from npu_dispatch_inspect.matching import _lcs, align, search
from npu_dispatch_inspect.patterns import Then, as_pattern
from tests.pattern_cases import (
    LETTERS,
    calls,
    fewest_differences,
    fits,
    list_expression,
    random_call,
    random_list,
    random_pattern,
    random_text,
    search_expression,
    steps_in,
)

CASES = 3000


def check_rows(alignment, text):
    """The rows cover the trace in order, and what is a match does match."""
    positions = [row.position for row in alignment.rows if row.position is not None]
    assert positions == list(range(len(text)))
    for row in alignment.rows:
        assert (row.call is None) == (row.kind == "missing")
        assert bool(row.wanted) == (row.kind in ("match", "missing"))
        if row.kind == "match":
            assert any(each.call.matches(row.call) for each in row.wanted)
    kinds = [row.kind for row in alignment.rows]
    assert alignment.missing == kinds.count("missing")
    assert alignment.unexpected == kinds.count("unexpected")
    assert alignment.matched == (alignment.first is None)


def test_lists_fit_what_their_expression_fits():
    """A list of patterns fits a trace if and only if its regular expression does."""
    source = random.Random(1)
    fitting = 0
    for _ in range(CASES):
        text, items = random_text(source, 9), random_list(source)
        expected = fits(text, list_expression(items))
        alignment = align(calls(text), items)
        assert alignment.matched == expected, (text, items)
        check_rows(alignment, text)
        fitting += expected
    assert CASES * 0.1 < fitting < CASES * 0.9


def test_alignment_has_the_fewest_differences():
    """No way of leaving out calls and steps has fewer differences."""
    source = random.Random(2)
    tried = 0
    while tried < CASES:
        text, items = random_text(source, 5), random_list(source)
        if steps_in(items) > 6:
            continue
        tried += 1
        alignment = align(calls(text), items)
        differences = alignment.missing + alignment.unexpected
        assert differences == fewest_differences(text, items), (text, items)
        check_rows(alignment, text)


def test_searches_find_what_their_expression_finds():
    """A pattern is found if and only if its regular expression is."""
    source = random.Random(3)
    found = 0
    for _ in range(CASES):
        text, pattern = random_text(source, 9), random_pattern(source)
        expected = fits(text, search_expression(pattern))
        answer = search(calls(text), pattern)
        assert answer.matched == expected, (text, pattern)
        found += expected
        statuses = [step.status for step in answer.steps]
        if expected:
            assert set(statuses) <= {"ok"}
        else:
            failed = statuses.index("failed")
            assert statuses[:failed] == ["ok"] * failed
            assert set(statuses[failed + 1 :]) <= {"not reached"}
    assert CASES * 0.1 < found < CASES * 0.9


def test_found_calls_fit_and_follow_one_another():
    """The calls of a chain never go back, and each is one its pattern allows."""
    source = random.Random(4)
    for _ in range(CASES):
        chain = Then(items=tuple(random_call(source) for _ in range(4)))
        text = random_text(source, 12)
        answer = search(calls(text), chain)
        taken = [step.positions for step in answer.steps if step.status == "ok"]
        positions = [each for (each,) in taken]
        assert positions == sorted(set(positions))
        # The earliest calls there are: what a reader going from left to right takes.
        at = 0
        for (position,), item in zip(taken, chain.items, strict=False):
            letters = item.call.operator.strip("[]")
            assert position == min(text.find(each, at) % 99 for each in letters)
            at = position + 1


def test_names_align_as_regular_expressions_say():
    """Plain names: as many pairs as the longest subsequence that `re` can find."""
    source = random.Random(6)
    for _ in range(CASES // 3):
        text, wanted = random_text(source, 9), random_text(source, 9)
        longest = max(
            len(part)
            for size in range(len(wanted) + 1)
            for part in combinations(wanted, size)
            if re.search(".*".join(part), text)
        )
        alignment = align(calls(text), list(wanted))
        assert sum(row.kind == "match" for row in alignment.rows) == longest
        check_rows(alignment, text)


def test_piecewise_alignment_is_an_alignment(monkeypatch):
    """Aligned window by window, all calls and all names are still there, in order."""
    source = random.Random(7)
    monkeypatch.setattr(_lcs, "MAX_CELLS", 3)
    for _ in range(CASES):
        monkeypatch.setattr(_lcs, "WINDOW", source.randint(2, 5))
        text, wanted = random_text(source, 12), random_text(source, 12)
        alignment = align(calls(text), list(wanted))
        check_rows(alignment, text)
        rebuilt = [row.wanted[0].call.operator for row in alignment.rows if row.wanted]
        assert "".join(rebuilt) == wanted
        assert alignment.matched == (text == wanted)


def test_long_random_sequences_equal_the_short_way():
    """Two hundred calls: automaton and bit rows agree on the number of differences."""
    source = random.Random(5)
    for _ in range(40):
        text = "".join(source.choices(LETTERS, k=200))
        wanted = "".join(each for each in text if source.random() > 0.1)
        plain = align(calls(text), list(wanted))
        # An optional pattern that cannot be there makes it one for the automaton.
        other = align(calls(text), [*wanted, optional("x")])
        assert (plain.missing, plain.unexpected) == (other.missing, other.unexpected)
        check_rows(other, text)


def test_expected_sizes():
    """The fewest and most calls that a list can take."""

    def size(*items):
        return align([], items).expected

    assert size() == (0, 0)
    assert size("a", "b") == (2, 2)
    assert size("a", ...) == (1, None)
    assert size(optional("a"), op("b") * 3) == (3, 4)
    assert size(op("a") * (2, None)) == (2, None)
    assert size(op("a") | (op("b") >> "c") | optional("d")) == (0, None)
    assert size((op("a") | optional("d")) * 2) == (0, 2)
    assert size(op("a") & "b") == (2, None)


def test_too_many_differences_end_at_the_first(monkeypatch):
    """Where the work would be too much, the rows end at the first difference."""
    module = importlib.import_module("npu_dispatch_inspect.matching._align")
    monkeypatch.setattr(module, "MAX_WORK", 3)
    alignment = align(calls("abcd"), ["a", optional("x"), "b", "d", "d"])
    assert not alignment.whole
    assert not alignment.matched
    assert [(row.kind, row.position) for row in alignment.rows] == [
        ("match", 0),
        ("match", 1),
        ("missing", None),
        ("unexpected", 2),
    ]
    assert [str(each) for each in alignment.rows[2].wanted] == ["d"]


@pytest.mark.parametrize(
    ("text", "pattern", "steps"),
    [
        ("abc", op("a") >> "c", [("ok", (0,)), ("ok", (2,))]),
        ("aab", op("a") >> "b", [("ok", (0,)), ("ok", (2,))]),
        ("axab", op("a") >> ~op("x") >> "b", [("ok", (2,)), ("ok", ()), ("ok", (3,))]),
        (
            "cab",
            op("a") >> "c" >> "b",
            [("ok", (1,)), ("failed", ()), ("not reached", ())],
        ),
        (
            "adb",
            op("a") >> ~op("d") >> "b",
            [("ok", (0,)), ("failed", ()), ("not reached", ())],
        ),
        ("ad", op("a") >> ~op("d") >> "b", [("ok", (0,)), ("ok", ()), ("failed", ())]),
        ("ad", op("a") >> ~op("d"), [("ok", (0,)), ("failed", ())]),
        ("da", ~op("d") >> "a", [("failed", ()), ("not reached", ())]),
        ("", as_pattern("a"), [("failed", ())]),
    ],
)
def test_steps_of_a_search(text, pattern, steps):
    """Each pattern takes the earliest call it can; the log ends where it failed."""
    found = search(calls(text), pattern)
    assert [(each.status, each.positions) for each in found.steps] == steps


def test_a_failed_step_says_where_its_call_is():
    """Earlier occurrences, the call in the way, and what is nowhere are told."""
    (_, step, _) = search(calls("cab"), op("a") >> "c" >> "b").steps
    assert step.elsewhere == (0,)
    (_, step, _) = search(calls("adb"), op("a") >> ~op("d") >> "b").steps
    assert (step.forbidden, step.elsewhere) == (1, (2,))
    (step,) = search(calls("ab"), op("b") & "x" & "y").steps
    assert [str(each) for each in step.absent] == ["x", "y"]
