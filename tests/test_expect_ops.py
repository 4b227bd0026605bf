# SPDX-License-Identifier: BSD-3-Clause
"""expect_ops: what a block may call, and the whole text where it does not."""

from __future__ import annotations

import re

import pytest

from npu_dispatch_inspect import expect_ops
from npu_dispatch_inspect.assertions._settings import SETTINGS, Settings


@pytest.fixture(autouse=True)
def _settings(monkeypatch):
    """Texts as long as they are without the plugin, whatever -v says here."""
    for name, value in vars(Settings()).items():
        monkeypatch.setattr(SETTINGS, name, value)


def nothing():
    """Calls nothing."""


def linear():
    """Calls aten::t and aten::addmm."""
    import torch

    layer, x = torch.nn.Linear(4, 2), torch.ones(3, 4)
    yield
    layer(x)


def many():
    """Calls aten::relu 10,000 times."""
    import torch

    x = torch.ones(3, 4)
    yield
    for _ in range(10_000):
        x = x.relu()


def run(program, patterns=(), **expected):
    """The program inside the block; what it prepares is outside."""
    steps = program()
    if steps is not None:
        next(steps)
    with expect_ops(*patterns, **expected) as trace:
        for _ in steps or ():
            pass
    return trace


@pytest.mark.parametrize(
    ("program", "expected"),
    [
        (linear, {"patterns": ["aten::addmm"]}),
        (linear, {"exactly": ["aten::t", "aten::addmm"]}),
        (linear, {"in_order": ["aten::t", "aten::addmm"]}),
        (linear, {"none_of": ["npu::*"]}),
        (linear, {"only": ["aten::*"]}),
        (linear, {"at_least": 2, "at_most": 2}),
        (linear, {"at_most": 0, "module": "x"}),
        (linear, {"at_most": 0, "ignore": ["aten::*"]}),
        (linear, {"at_most": 0, "phase": "backward"}),
        (linear, {"patterns": ["aten::linear"], "engine": "dispatcher"}),
        (many, {"exactly": ["aten::relu"] * 10_000}),
        (many, {"only": ["aten::relu"], "at_least": 10_000, "at_most": 10_000}),
        (nothing, {"exactly": []}),
        (nothing, {"none_of": ["aten::t"]}),
        (nothing, {"only": ["aten::t"]}),
        (nothing, {"at_most": 1}),
    ],
)
def test_pass(program, expected):
    """A block that calls what it should ends quietly."""
    run(program, **expected)


def test_all_at_once():
    """Every expectation in one block; it gives the trace."""
    trace = run(
        linear,
        ["aten::addmm"],
        exactly=["aten::t", "aten::addmm"],
        in_order=["aten::t", "aten::addmm"],
        none_of=["npu::*"],
        only=["aten::*"],
        at_least=2,
        at_most=2,
    )
    assert trace.names == ("aten::t", "aten::addmm")


FAILURES = [
    (
        linear,
        {"exactly": ["aten::t"]},
        """\
op sequence differs: 1 unexpected (expected 1, traced 2)
  first difference: unexpected aten::addmm at #1 in Linear
                    here.py:1

  (- expected, + traced)
    #0  fwd  aten::t      f32[2, 4]                     Linear  here.py:1
  + #1  fwd  aten::addmm  f32[2], f32[3, 4], f32[4, 2]  Linear  here.py:1""",
    ),
    (
        linear,
        {"patterns": ["aten::mm"]},
        """\
missing op: aten::mm, traced 2 ops
  aten::mm: no similar name was traced""",
    ),
    (
        linear,
        {"in_order": ["aten::addmm", "aten::t"]},
        """\
op order not satisfied: no aten::t after #1 (1 of 2 found)
  ok    aten::addmm  -> #1 aten::addmm
  FAIL  aten::t      no match after #1 (it does occur earlier: #0)
  in 2 ops""",
    ),
    (
        linear,
        {"none_of": ["aten::t"]},
        """\
forbidden op: aten::t (once), traced 2 ops
  aten::t: 1x forward Linear here.py:1 (#0)""",
    ),
    (
        linear,
        {"only": ["aten::t"]},
        """\
op not allowed: aten::addmm (once), traced 2 ops
  aten::addmm: 1x forward Linear here.py:1 (#1)""",
    ),
    (
        linear,
        {"at_least": 3},
        """\
expected at least 3 ops, traced 2
  1x aten::t
  1x aten::addmm""",
    ),
    (
        linear,
        {"at_most": 1},
        """\
expected at most 1 op, traced 2
  1x aten::t
  1x aten::addmm""",
    ),
    (
        linear,
        {"none_of": ["aten::linear"], "engine": "dispatcher"},
        """\
forbidden op: aten::linear (once), traced 10 ops
  aten::linear: 1x forward Linear here.py:1 (#0)""",
    ),
    (
        many,
        {"exactly": ["aten::relu"] * 9999},
        """\
op sequence differs: 1 unexpected (expected 9999, traced 10000)
  first difference: unexpected aten::relu at #9999
                    here.py:1

  (- expected, + traced)
    ... 9997 matching ops
    #9997  fwd  aten::relu  f32[3, 4]  here.py:1
    #9998  fwd  aten::relu  f32[3, 4]  here.py:1
  + #9999  fwd  aten::relu  f32[3, 4]  here.py:1""",
    ),
    (
        many,
        {"patterns": ["aten::mm"]},
        """\
missing op: aten::mm, traced 10000 ops
  aten::mm: no similar name was traced""",
    ),
    (
        many,
        {"in_order": ["aten::relu", "aten::t"]},
        """\
op order not satisfied: no aten::t after #0 (1 of 2 found)
  ok    aten::relu  -> #0 aten::relu
  FAIL  aten::t     no match after #0: aten::t is nowhere
  in 10000 ops""",
    ),
    (
        many,
        {"none_of": ["aten::relu"]},
        """\
forbidden op: aten::relu (10000 times), traced 10000 ops
  aten::relu: 10000x forward here.py:1 (#0, #1, #2, #3, ...)""",
    ),
    (
        many,
        {"only": ["aten::t"]},
        """\
op not allowed: aten::relu (10000 times), traced 10000 ops
  aten::relu: 10000x forward here.py:1 (#0, #1, #2, #3, ...)""",
    ),
    (
        many,
        {"at_least": 10_001},
        """\
expected at least 10001 ops, traced 10000
  10000x aten::relu""",
    ),
    (
        many,
        {"at_most": 1},
        """\
expected at most 1 op, traced 10000
  10000x aten::relu""",
    ),
    (
        nothing,
        {"exactly": ["aten::t"]},
        """\
op sequence differs: 1 missing (expected 1, traced 0)
  first difference: aten::t is missing at the beginning
                    nothing was traced: did the code run inside the block?

  (- expected, + traced)
  -   aten::t""",
    ),
    (
        nothing,
        {"patterns": ["aten::mm"]},
        """\
missing op: aten::mm, traced 0 ops
  aten::mm: nothing was traced: did the code run inside the block?""",
    ),
    (
        nothing,
        {"in_order": ["aten::addmm", "aten::t"]},
        """\
op order not satisfied: no aten::addmm (0 of 2 found)
  FAIL  aten::addmm  no match: nothing was traced
  --    aten::t      not reached
  in 0 ops""",
    ),
    (
        nothing,
        {"at_least": 3},
        """\
expected at least 3 ops, traced 0
  nothing was traced: did the code run inside the block?""",
    ),
]


@pytest.mark.parametrize(("program", "expected", "text"), FAILURES)
def test_failure(program, expected, text):
    """Each expectation of a block fails with the text of its assertion."""
    with pytest.raises(AssertionError) as caught:
        run(program, **expected)
    assert re.sub(r"test_expect_ops\.py:\d+", "here.py:1", str(caught.value)) == text


def test_an_exception_of_the_block_goes_on():
    """Where the block raises, nothing else is said."""
    with pytest.raises(ZeroDivisionError), expect_ops("aten::mm"):
        1 / 0  # noqa: B018
