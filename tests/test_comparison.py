# SPDX-License-Identifier: BSD-3-Clause
"""Two sides compared: traces, reports, logs, graphs, tables, lists."""

from __future__ import annotations

import pickle

import pytest
from attrs import evolve

from npu_dispatch_inspect import (
    DispatchReport,
    OpTrace,
    TensorSpec,
    UsageError,
    compare,
)
from npu_dispatch_inspect.chains import join
from npu_dispatch_inspect.records import Argument
from npu_dispatch_inspect.records.comparisons import Change, Difference, Place
from tests.report_examples import training_step
from tests.table_examples import TABLE
from tests.training_trace import LOGS, RECORDS, TRACE


def trace_of(records, **more):
    """A trace of other records."""
    return OpTrace(records=records, environment=TRACE.environment, **more)


def halved(record):
    """The same call with its first argument in half precision."""
    first, *rest = record.inputs
    value = evolve(first.value, dtype="float16")
    return evolve(record, inputs=(evolve(first, value=value), *rest))


class TestCalls:
    """Traces and lists of names."""

    def test_the_same(self):
        """A trace differs in nothing from an equal one."""
        found = compare(TRACE, trace_of(RECORDS))
        assert found.same
        assert (len(found), found.differences, found.sizes) == (0, (), (13, 13))
        assert str(found) == "no difference: 13 ops on both sides"

    def test_a_call_less_has_index_module_and_line_on_its_side(self):
        """What only one side has is placed on that side, and nowhere on the other."""
        found = compare(TRACE, trace_of([*RECORDS[:4], *RECORDS[5:]]))
        assert found.differences == (
            Difference(
                kind="only left",
                left=Place(
                    name="npu::npu_format_cast",
                    index=4,
                    phase="forward",
                    module="mlp.fc2",
                    line="model.py:33",
                ),
                right=None,
            ),
        )

    def test_the_text_names_the_first_difference_and_shows_rows_around(self):
        """The verdict comes first, then the place, then the rows."""
        found = compare(
            trace_of(RECORDS[:6]),
            trace_of([*RECORDS[:4], RECORDS[5]]),
            names=("a", "b"),
        )
        assert str(found) == (
            "op sequence differs: 1 only in a (a 6, b 5)\n"
            "  first difference: npu::npu_format_cast at #4 in mlp.fc2 only in a\n"
            "                    model.py:33\n"
            "\n"
            "  (- a, + b)\n"
            "    ... 2 matching ops\n"
            "    #2  fwd  aten::gelu            f32[2, 8]                     mlp.act  model.py:32\n"
            "    #3  fwd  aten::t               f32[4, 8]                     mlp.fc2  model.py:33\n"
            "  - #4  fwd  npu::npu_format_cast  f32[4, 8], 29                 mlp.fc2  model.py:33\n"
            "    #5  fwd  aten::addmm           f32[4], f32[2, 8], f32[8, 4]  mlp.fc2  model.py:33"
        )

    def test_the_same_call_with_other_tensors(self):
        """Dtypes and shapes of the same call are compared, and both are told."""
        other = trace_of([halved(RECORDS[0]), *RECORDS[1:]])
        found = compare(TRACE, other, names=("a", "b"))
        (difference,) = found.differences
        assert difference.kind == "changed"
        assert difference.changes == (
            Change(what="tensors", left="f32[8, 8]", right="f16[8, 8]"),
        )
        assert str(found) == (
            "1 of 13 ops on both sides differs in tensors (1)\n"
            "  #0 aten::t  mlp.fc1  model.py:31\n"
            "    tensors: a  f32[8, 8]\n"
            "             b  f16[8, 8]"
        )
        assert compare(TRACE, other, details=()).same

    def test_arguments_are_compared_when_asked(self):
        """A number among the arguments counts where `details` says so."""
        cast = RECORDS[4]
        changed = evolve(
            cast,
            inputs=(cast.inputs[0], Argument(name=cast.inputs[1].name, value=2)),
        )
        left, right = trace_of([cast]), trace_of([changed])
        assert compare(left, right).same
        (difference,) = compare(left, right, details=("arguments",)).differences
        name = cast.inputs[1].name
        assert difference.changes == (
            Change(what="arguments", left=f"{name}=29", right=f"{name}=2"),
        )

    def test_devices_are_no_difference(self):
        """CPU and NPU are compared by operator, dtype and shape."""
        moved = [
            evolve(
                record,
                inputs=tuple(
                    evolve(each, value=evolve(each.value, device="npu:0"))
                    if isinstance(each.value, TensorSpec)
                    else each
                    for each in record.inputs
                ),
            )
            for record in RECORDS
        ]
        assert compare(TRACE, trace_of(moved)).same

    def test_names_in_lists(self):
        """Names stand for calls; a list goes with a list or a trace."""
        found = compare(
            ["aten::mm", "aten::add.Tensor", "aclnnAdd"], ["aten::addmm", "aclnnAdd"]
        )
        assert [each.kind for each in found.differences] == [
            "only left", "only left", "only right",
        ]  # fmt: skip
        assert [each.left and each.left.name for each in found.differences] == [
            "aten::mm", "aten::add.Tensor", None,
        ]  # fmt: skip
        assert compare(list(TRACE.qualified_names), TRACE).same

    def test_overloads_are_different_operators(self):
        """``sum`` and ``sum.dim_IntList`` are not the same call."""
        assert not compare(["aten::sum"], ["aten::sum.dim_IntList"]).same

    def test_where_chooses_calls(self):
        """Only calls for which the function holds are compared."""
        other = trace_of(RECORDS[7:])
        assert not compare(TRACE, other).same
        assert compare(
            TRACE, other, where=lambda call: call.phase.value == "backward"
        ).same

    def test_what_makes_the_answer_uncertain_is_said(self):
        """Two engines see different calls, and a cut trace has an open end."""
        found = compare(TRACE, trace_of(RECORDS, engine="dispatcher", truncated=True))
        assert found.same
        assert found.notes == (
            (
                "The traces were made by two engines, dispatch_mode and dispatcher: one "
                "sees calls that the other does not."
            ),
            "The right side ends at its limit of calls.",
        )

    def test_labels_name_the_sides(self):
        """Labels that differ are used; else the sides are left and right."""
        found = compare(trace_of(RECORDS, label="cpu"), trace_of(RECORDS, label="npu"))
        assert found.names == ("cpu", "npu")
        assert compare(TRACE, TRACE).names == ("left", "right")

    def test_rows_are_limited(self):
        """Long lists of changes are counted, not shown."""
        other = trace_of(
            [halved(each) if each.index != 4 else each for each in RECORDS]
        )
        text = compare(TRACE, other).to_text(max_rows=2)
        assert "12 of 13 ops on both sides differ" in text
        assert text.endswith("  ... 10 more")
        assert "more" not in compare(TRACE, other).to_text(max_rows=None)

    def test_a_comparison_is_a_value(self):
        """It is equal to itself after pickling, and prints the same."""
        found = compare(TRACE, trace_of(RECORDS[1:]))
        again = pickle.loads(pickle.dumps(found))
        assert again == found
        assert str(again) == str(found)


class TestReportsAndLogs:
    """What reports know besides the calls, and launches alone."""

    def test_a_report_with_itself(self):
        """Equal reports have equal chains."""
        assert compare(training_step(), training_step()).same

    def test_launches_and_verdicts_are_compared(self):
        """A call that launches something else on the other side is told."""
        one = training_step()
        lines = [evolve(one.logs[0], name="aclnnCast"), *one.logs[1:]]
        logs = type(one.logs)(records=lines)
        other = DispatchReport(
            chains=join(one.trace, logs).chains, trace=one.trace, logs=logs
        )
        (difference,) = compare(one, other).differences
        assert difference.left.name == "aten::_to_copy"
        assert (
            Change(what="launches", left="aclnnInplaceCopy", right="aclnnCast")
            in difference.changes
        )

    def test_a_report_and_its_parts(self):
        """A trace is compared with the trace of a report, a log with its log."""
        report = training_step()
        assert compare(report, report.trace).what == "ops"
        assert compare(report.trace, report).same
        assert compare(report.logs, report).what == "launches"
        assert compare(report.logs, report).same

    def test_verdicts_are_left_out_where_one_side_launched_nothing(self):
        """On the CPU every verdict is another one, which is no news."""
        one = training_step()
        quiet = DispatchReport(chains=join(one.trace, None).chains, trace=one.trace)
        found = compare(one, quiet)
        assert found.same
        assert found.notes == (
            "Only one side launched anything, so verdicts are not compared.",
        )

    def test_logs_are_compared_by_launches(self):
        """Of two logs the launches are compared, in order."""
        found = compare(LOGS, LOGS[:0])
        assert found.what == "launches"
        assert {each.kind for each in found.differences} == {"only left"}


class TestTables:
    """Registration tables."""

    def test_the_same(self):
        """Equal tables have no differences."""
        found = compare(TABLE, TABLE)
        assert found.same
        assert found.alignment is None
        assert str(found).startswith("no difference between the registrations (left ")

    def test_an_operator_less(self):
        """What is only in one table is told with its place."""
        name = TABLE.names[0]
        fewer = TABLE.operators().select(*TABLE.names[1:])
        found = compare(TABLE, fewer, names=("old", "new"))
        assert not found.same
        assert {each.kind for each in found.differences} == {"only left"}
        assert all(each.left.name.startswith(name) for each in found.differences)
        assert found.what == "registrations"
        assert str(found).startswith(
            f"registrations differ: {len(found)} only in old "
            f"(old {len(TABLE)} operators, new {len(TABLE) - 1})"
        )


@pytest.mark.parametrize(
    ("left", "right", "sentence"),
    [
        (TABLE, TRACE, "A dispatch table can be compared with a dispatch table, not with OpTrace."),
        (TRACE, LOGS, "A log can be compared with a log or a report, not with OpTrace."),
        (TRACE, 5, "compare() takes traces, reports, logs, graphs, tables or lists"),
        (TRACE, "aten::mm", "compare() takes traces, reports, logs"),
        ([5], ["aten::mm"], "5 is no operator call and no operator's name."),
    ],
)  # fmt: skip
def test_what_cannot_be_compared(left, right, sentence):
    """Sides without anything in common are refused with a sentence."""
    with pytest.raises(UsageError) as caught:
        compare(left, right)
    assert sentence in str(caught.value)


def test_unknown_options_are_refused():
    """A detail that is not there and a wrong number of names are said."""
    with pytest.raises(
        UsageError, match="There is no detail 'shape': choose from tensors"
    ):
        compare(TRACE, TRACE, details=("shape",))
    with pytest.raises(UsageError, match="names= takes a name for each"):
        compare(TRACE, TRACE, names=("one",))


def test_a_report_without_lines_and_a_log():
    """A log has nothing in common with a report that captured none."""
    report = DispatchReport(chains=(), trace=TRACE)
    with pytest.raises(UsageError, match="has no log lines to compare with"):
        compare(LOGS, report)
