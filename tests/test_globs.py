# SPDX-License-Identifier: BSD-3-Clause
"""Globs over operators and module paths mean the same wherever they are given."""

from __future__ import annotations

import pytest

from npu_dispatch_inspect import DispatchReport, OpTrace, assert_op_count, op
from npu_dispatch_inspect._globs import in_module, is_operator
from npu_dispatch_inspect.chains import join
from npu_dispatch_inspect.cli._filters import Filters
from tests.training_trace import HERE, record, tensor

TRACE = OpTrace(
    records=[
        record(0, "aten::gelu", tensor(2), module="act|again"),
        record(1, "aten::sum", tensor(2), overload="dim_IntList"),
    ],
    environment=HERE,
)
REPORT = DispatchReport(chains=join(TRACE).chains, trace=TRACE)


@pytest.mark.parametrize(
    ("glob", "expected"),
    [("act", True), ("again", True), ("act|again", True), ("a", False), ("*n", True)],
)
def test_shared_module(glob, expected):
    """A module with several names is found by each, and no glob finds what is outside."""
    assert in_module("act|again", glob) is expected
    assert not in_module(None, glob)
    found = ["aten::gelu"] if expected else []
    assert list(TRACE.in_module(glob).names) == found
    assert [each.op.name for each in REPORT.only(glob).chains] == found
    assert op("*", module=glob).call.matches(TRACE[0]) is expected
    assert_op_count(TRACE, "*", len(found), module=glob)
    part = Filters(module=glob).apply(REPORT, "report.json")
    assert [each.op.name for each in part.chains] == found


def test_overload():
    """An operator is found with and without its overload."""
    assert is_operator("aten::sum", "dim_IntList", "aten::sum")
    assert is_operator("aten::sum", "dim_IntList", "aten::sum.dim*")
    assert not is_operator("aten::sum", "dim_IntList", "aten::sum.default")


def test_report_of_chosen_calls():
    """A report can be cut down to the outermost calls that a function chooses."""
    part = REPORT.filter(lambda node: node.op.module is None)
    assert [each.op.name for each in part.chains] == ["aten::sum"]
    assert part.trace == TRACE
