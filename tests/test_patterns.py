# SPDX-License-Identifier: BSD-3-Clause
"""Patterns of single calls, the algebra's rules, versions, and their texts."""

from __future__ import annotations

import copy
import pickle
import re

import pytest

from npu_dispatch_inspect import (
    DETACH_OPS,
    Argument,
    OpRecord,
    Phase,
    TensorSpec,
    UsageError,
    any_order,
    op,
    optional,
)
from npu_dispatch_inspect._versions import holds
from npu_dispatch_inspect.patterns import Call, Run, as_pattern, resolve


def tensor(*shape, dtype="float32", device="cpu"):
    """A tensor."""
    return TensorSpec(dtype=dtype, device=device, shape=shape)


MM = OpRecord(
    index=3,
    name="aten::mm",
    inputs=(
        Argument(name="self", value=tensor(2, 8)),
        Argument(name="mat2", value=tensor(8, 4, dtype="float16")),
    ),
    outputs=(tensor(2, 4, device="npu:0"),),
    phase=Phase.BACKWARD,
    module="mlp.fc1",
    regions=("step", "attention"),
)


def fits(pattern, record=MM):
    """Whether a single-call pattern fits a record."""
    return as_pattern(pattern).call.matches(record)


def named(name, overload="default"):
    """A record with a name alone."""
    return OpRecord(index=0, name=name, overload=overload)


@pytest.mark.parametrize(
    ("pattern", "name", "overload", "expected"),
    [
        ("aten::sum", "aten::sum", "dim_IntList", True),
        ("aten::sum", "aten::sum", "default", True),
        ("aten::sum", "aten::cumsum", "default", False),
        ("aten::sum.dim_IntList", "aten::sum", "dim_IntList", True),
        ("aten::sum.dim_IntList", "aten::sum", "default", False),
        ("aten::sum.default", "aten::sum", "default", True),
        ("aten::sum.default", "aten::sum", "dim_IntList", False),
        ("aten.sum", "aten::sum", "default", True),
        ("aten.sum.dim_IntList", "aten::sum", "dim_IntList", True),
        ("aten.sum.dim_IntList", "aten::sum", "default", False),
        ("npu::*", "npu::npu_rms_norm", "default", True),
        ("npu::*", "aten::npu", "default", False),
        ("aten::*_backward", "aten::gelu_backward", "default", True),
        ("aten::*_backward", "aten::gelu_backward", "grad_input", True),
        ("aten::add.*", "aten::add", "Tensor", True),
        ("aten::MM", "aten::mm", "default", False),
        ("aten::[ab]mm", "aten::bmm", "default", True),
        (re.compile(r"aten::(mm|bmm)"), "aten::bmm", "default", True),
        (re.compile(r"aten::(mm|bmm)"), "aten::addmm", "default", False),
        (re.compile(r"mm"), "aten::mm", "default", False),
        (re.compile(r"aten::add\..*"), "aten::add", "Tensor", True),
        ("aclnnAddmm", "aclnnAddmm", "default", True),
    ],
)
def test_names(pattern, name, overload, expected):
    """Names, overloads, globs over the whole name, and regular expressions."""
    assert fits(pattern, named(name, overload)) is expected


def test_torch_operators():
    """torch.ops packets mean any overload, overloads that one."""
    import torch

    packet, overload = torch.ops.aten.sum, torch.ops.aten.sum.dim_IntList
    assert fits(packet, named("aten::sum", "dim_IntList"))
    assert fits(packet, named("aten::sum"))
    assert fits(overload, named("aten::sum", "dim_IntList"))
    assert not fits(overload, named("aten::sum"))
    assert fits(torch.ops.aten.mm.default, named("aten::mm"))
    assert fits(op("aten::mm", dtype=torch.float16))


@pytest.mark.parametrize(
    ("conditions", "expected"),
    [
        ({"phase": "backward"}, True),
        ({"phase": Phase.FORWARD}, False),
        ({"module": "mlp.*"}, True),
        ({"module": "mlp"}, False),
        ({"region": "att*"}, True),
        ({"region": "mlp"}, False),
        ({"dtype": "f16"}, True),
        ({"dtype": "float32"}, True),
        ({"dtype": "torch.bfloat16"}, False),
        ({"device": "npu:*"}, True),
        ({"device": "cuda:*"}, False),
        ({"shape": (8, 4)}, True),
        ({"shape": (..., 8)}, True),
        ({"shape": (8, ...)}, True),
        ({"shape": (None, 4)}, True),
        ({"shape": (...,)}, True),
        ({"shape": ()}, False),
        ({"shape": (2, 8, ...)}, True),
        ({"shape": (2,)}, False),
        # One tensor must be all of it: float16 is [8, 4], npu:0 is [2, 4].
        ({"dtype": "f16", "shape": (8, 4)}, True),
        ({"dtype": "f16", "shape": (2, 4)}, False),
        ({"dtype": "f16", "device": "npu:*"}, False),
        ({"where": lambda record: record.index == 3}, True),
        ({"where": lambda record: record.index == 4}, False),
    ],
)
def test_conditions(conditions, expected):
    """Every condition on place and tensors, each alone and on one tensor together."""
    assert fits(op("aten::mm", **conditions)) is expected


def test_unmet_conditions_are_told():
    """A call of the right name tells what it lacks."""
    pattern = op("aten::mm", phase="forward", module="x", dtype="bf16", shape=(1, ...))
    assert pattern.call.unmet(MM) == ("phase forward", "module x", "bf16[1, ...]")


def test_a_set_of_names_is_either_of_them():
    """A named set such as DETACH_OPS is a pattern."""
    assert str(as_pattern(DETACH_OPS)) == "aten::alias | aten::detach"
    assert str(as_pattern({"aten::t"})) == "aten::t"


@pytest.mark.parametrize(
    ("pattern", "code", "text"),
    [
        (op("aten::mm"), "op('aten::mm')", "aten::mm"),
        (
            op("aten.sum.dim_IntList"),
            "op('aten::sum.dim_IntList')",
            "aten::sum.dim_IntList",
        ),
        (op(re.compile("a|b")), "op(re.compile('a|b'))", "/a|b/"),
        (
            op(
                "aten::mm",
                phase="backward",
                module="mlp.*",
                dtype="f16",
                shape=(..., 8),
            ),
            "op('aten::mm', phase='backward', module='mlp.*', dtype='float16', shape=(..., 8))",
            "aten::mm (backward, in mlp.*, f16[..., 8])",
        ),
        (
            op("aten::mm", device="npu:*", shape=(None,), region="r", where=fits),
            "op('aten::mm', region='r', device='npu:*', shape=(None,), where=fits)",
            "aten::mm (in region r, any[?] on npu:*, where fits)",
        ),
        (op("a") >> "b" >> ..., "op('a') >> op('b') >> ...", "a >> b >> ..."),
        (
            "a" >> ~op("c") >> op("b"),
            "op('a') >> ~(op('c')) >> op('b')",
            "a >> ... without c >> b",
        ),
        (op("a") & "b" & "c", "op('a') & op('b') & op('c')", "a & b & c"),
        ("a" & (op("b") | "c"), "op('a') & (op('b') | op('c'))", "a & (b | c)"),
        ("a" | op("b"), "op('a') | op('b')", "a | b"),
        (op("a") * 3, "op('a') * 3", "a * 3"),
        (
            (op("a") >> "b") * (1, None),
            "(op('a') >> op('b')) * (1, None)",
            "(a >> b) * (1, None)",
        ),
        (optional("a"), "optional(op('a'))", "optional(a)"),
        (
            any_order("a", optional("b")),
            "any_order(op('a'), optional(op('b')))",
            "any_order(a, optional(b))",
        ),
        (~(op("a") | "b"), "~(op('a') | op('b'))", "... without a or b"),
    ],
)
def test_texts(pattern, code, text):
    """repr() is code, str() is for people."""
    assert repr(pattern) == code
    assert str(pattern) == text


def test_runs_side_by_side_are_one():
    """~a >> ~b means that neither comes between."""
    assert str(op("x") >> ~op("a") >> ~op("b") >> "y") == "x >> ... without a or b >> y"


def test_chains_and_choices_are_flat():
    """How operators are bracketed makes no difference."""
    a, b, c = map(op, "abc")
    assert (a >> b) >> c == a >> (b >> c)
    assert (a | b) | c == a | (b | c)
    assert (a & b) & c == a & (b & c)


def test_patterns_are_values():
    """Patterns are equal by content, hash, copy and pickle."""
    pattern = (
        op("a", shape=(..., 1)) >> (~op("b")) >> any_order("c", op(re.compile("d")) * 2)
    )
    assert pickle.loads(pickle.dumps(pattern)) == pattern == copy.deepcopy(pattern)
    assert len({pattern, copy.deepcopy(pattern)}) == 1


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: op(""),
            "'' is no operator: write its name ('aten::addmm'), a glob ('npu::*'), re.compile(...), torch.ops.aten.addmm, or op(...).",
        ),
        (
            lambda: op(len),
            "<built-in function len> is no operator: write its name ('aten::addmm'), a glob ('npu::*'), re.compile(...), torch.ops.aten.addmm, or op(...).",
        ),
        (
            lambda: op(re.compile(b"x")),
            "A regular expression over names is one of text, not of bytes.",
        ),
        (
            lambda: op("a", phase="back"),
            "phase= is one of 'forward', 'backward', 'optimizer', 'other', not 'back'.",
        ),
        (
            lambda: op("a", dtype="flot16"),
            "dtype= is written as f16, float16 or torch.float16, not 'flot16' (did you mean float16 or bfloat16?).",
        ),
        (
            lambda: op("a", dtype="x"),
            "dtype= is written as f16, float16 or torch.float16, not 'x'.",
        ),
        (
            lambda: op("a", shape=8),
            "shape= takes a tuple of sizes, None (any size) and ... (any number of sizes), not 8.",
        ),
        (lambda: op("a", module=1), "module= takes a name or glob as text, not 1."),
        (lambda: op("a", where="x"), "where= takes a function of the record, not 'x'."),
        (
            lambda: op("a", torch="2.7"),
            "A version is asked for as '>=2.7' or '>=2.7,<2.9', not '2.7'.",
        ),
        (
            lambda: op("a") * -1,
            "A pattern is repeated 3 or (1, 4) or (1, None) times, not -1.",
        ),
        (
            lambda: op("a") * (3, 2),
            "A pattern is repeated 3 or (1, 4) or (1, None) times, not (3, 2).",
        ),
        (
            lambda: ~(op("a") >> "b"),
            "~ forbids single calls, so it takes op(...) or op(...) | op(...), not a >> b.",
        ),
        (
            lambda: op("a") & ~op("b"),
            "& cannot take ... without b, which begins or ends with ... or ~: put those between patterns of a chain (a >> ~b >> c) or of a list.",
        ),
        (
            lambda: optional(...),
            "* cannot take ..., which begins or ends with ... or ~: put those between patterns of a chain (a >> ~b >> c) or of a list.",
        ),
        (any_order, "any_order needs at least one pattern."),
        (
            lambda: any_order(*"abcdefghi"),
            "any_order takes up to 8 patterns, not 9; assert_has_ops and assert_op_count look at any number of operators whatever their order.",
        ),
        (
            lambda: as_pattern(["a"]),
            "A list is no pattern: give its items one by one, or join them with >> (then), & (any order) or | (either).",
        ),
        (
            lambda: as_pattern(set()),
            "An empty set of names is no pattern; leave it out.",
        ),
    ],
)
def test_mistakes_are_told_in_one_sentence(make, message):
    """What cannot be understood is refused with what to write instead."""
    with pytest.raises(UsageError) as caught:
        make()
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("wanted", "version", "expected"),
    [
        (">=2.7", "2.7.0+cpu", True),
        (">=2.7", "2.13.0", True),
        (">=2.7.0", "2.7", True),
        (">=2.7", "2.6.1", False),
        (">=2.5,<2.7", "2.6.0", True),
        (">=2.5,<2.7", "2.7.0", False),
        ("==2.7", "2.7.1", True),
        ("!=2.7", "2.7.1", False),
        ("<=2.7", "2.7.1.post2", True),
        (">2.7", "2.7.1", False),
        (">2.7", "2.8.0a0", True),
        ("<2.10", "2.9", True),
        (">=2.7", None, False),
    ],
)
def test_versions(wanted, version, expected):
    """Release numbers are compared as numbers; a line such as 2.7 includes 2.7.1."""
    assert holds(wanted, version, "torch_npu") is expected


def test_a_version_that_cannot_be_read():
    """A version without a number is not guessed at."""
    with pytest.raises(UsageError) as caught:
        holds(">=2.7", "unknown", "torch")
    assert str(caught.value) == (
        "The version 'unknown' of torch has no release number to compare."
    )
    with pytest.raises(UsageError) as caught:
        holds(">=2.7", None, "torch")
    assert str(caught.value) == (
        "A pattern asks for torch's version, which this trace does not tell: "
        "leave torch= out."
    )


def test_patterns_follow_versions():
    """A pattern for other versions is left out of what it stands in."""
    new, old = op("n", torch=">=2.7"), op("o", torch="<2.7")
    at = {"torch": "2.13.0", "torch_npu": None}
    cases = [
        (new, "n"),
        (old, "None"),
        (new | old, "n"),
        (new | old | "x", "n | x"),
        (old | old, "None"),
        ("a" >> old >> op("b"), "a >> b"),
        ("a" >> old, "a"),
        (op("a") >> ~op("x") >> old >> ~op("y") >> "b", "a >> ... without x or y >> b"),
        (any_order("a", old), "any_order(a)"),
        (any_order(old), "None"),
        (optional(old), "None"),
        (new * 2, "n * 2"),
        (op("a") >> ~(old | op("z")) >> "b", "a >> ... without z >> b"),
        (op("a") >> ~old >> "b", "a >> ... >> b"),
        (op("a", torch_npu=">=2.6"), "None"),
        (Run(), "..."),
    ]
    for pattern, expected in cases:
        assert str(resolve(pattern, at)) == expected
    assert isinstance(resolve(new | old, at), Call)
