# SPDX-License-Identifier: BSD-3-Clause
"""Queries on traces that are built by hand; nothing is traced and no torch is needed."""

from __future__ import annotations

import copy
import pickle

import pytest

from npu_dispatch_inspect import (
    VIEW_OPS,
    Argument,
    Environment,
    OpRecord,
    OpTrace,
    Phase,
    SourceLocation,
    TensorSpec,
    UsageError,
)

ENVIRONMENT = Environment(tool="0", python="3.11.0", platform="linux-x86_64")


def spec(number, storage=None):
    return TensorSpec(
        dtype="float32",
        device="cpu",
        shape=(2,),
        id=number,
        storage_id=storage or number,
    )


def call(index, name, *inputs, outputs=(), written=(), **fields):
    """One record; tensors are given by their ids, written ones by position."""
    return OpRecord(
        index=index,
        name=f"aten::{name}",
        inputs=tuple(
            Argument(
                name=f"a{position}",
                value=each if isinstance(each, TensorSpec) else spec(each),
                written=position in written,
            )
            for position, each in enumerate(inputs)
        ),
        outputs=tuple(
            each if isinstance(each, TensorSpec) else spec(each) for each in outputs
        ),
        **fields,
    )


def trace_of(*records, **fields):
    return OpTrace(records=records, environment=ENVIRONMENT, **fields)


LINE = SourceLocation(file="/somewhere/model.py", line=7, function="forward")


@pytest.fixture
def step():
    """A little training step."""
    return trace_of(
        call(0, "t", 1, outputs=(2,), module="fc", root="Net", module_type="Linear"),
        call(
            1,
            "addmm",
            3,
            2,
            outputs=(4,),
            module="fc",
            root="Net",
            regions=("body",),
            source=LINE,
        ),
        call(
            2,
            "gelu",
            4,
            outputs=(5,),
            module="act|again",
            root="Net",
            regions=("body", "end"),
        ),
        call(3, "sum", 5, outputs=(6,), overload="dim_IntList"),
        call(
            4,
            "gelu_backward",
            6,
            4,
            outputs=(7,),
            phase=Phase.BACKWARD,
            forward_index=2,
        ),
        call(
            5, "mm", 7, outputs=(8,), phase=Phase.BACKWARD, forward_index=1, module="fc"
        ),
        call(6, "add_", 1, 8, outputs=(1,), written=(0,), phase=Phase.OPTIMIZER),
        label="step",
    )


def test_names_are_in_order(step):
    """`names` leaves the overload out, `qualified_names` has it where it matters."""
    assert step.names[:4] == ("aten::t", "aten::addmm", "aten::gelu", "aten::sum")
    assert step.qualified_names[2:4] == ("aten::gelu", "aten::sum.dim_IntList")


def test_records_have_two_names(step):
    """`ops` and `records` are the same."""
    assert step.ops == step.records == tuple(step)


def test_a_slice_is_a_trace_and_keeps_the_indices(step):
    """A position in a part is a position in the whole."""
    part = step[2:5]
    assert isinstance(part, OpTrace)
    assert [each.index for each in part] == [2, 3, 4]
    assert [each.index for each in part[1:][::-1]] == [4, 3]
    assert part[0] is step[2]
    assert step[-1].name == "aten::add_"
    assert part.label == "step"


def test_phases_are_views(step):
    """Each phase is a trace of its own."""
    assert len(step.forward) == 4
    assert step.backward.names == ("aten::gelu_backward", "aten::mm")
    assert step.optimizer.names == ("aten::add_",)
    assert step.backward.forward.names == ()


def test_modules_are_found_by_glob(step):
    """A glob over the path; of several names, one has to match."""
    assert step.in_module("fc").names == ("aten::t", "aten::addmm", "aten::mm")
    assert (
        step.in_module("again").names == step.in_module("act").names == ("aten::gelu",)
    )
    assert step.in_module("a*").names == ("aten::gelu",)
    assert step.in_module("nowhere").names == ()
    assert len(step.in_module("*")) == 4


def test_regions_are_found_by_glob(step):
    """A call is in each of the regions around it."""
    assert step.in_region("body").names == ("aten::addmm", "aten::gelu")
    assert step.in_region("e?d").names == ("aten::gelu",)


def test_conditions_of_a_filter_all_hold(step):
    """Name, phase, module, region and a function can be combined."""
    assert step.filter(name="aten::*mm", phase="backward").names == ("aten::mm",)
    assert step.filter(lambda each: each.index > 2, module="fc").names == ("aten::mm",)
    assert step.filter(region="body", name="aten::gelu*").names == ("aten::gelu",)
    assert step.filter() == step


def test_an_unknown_phase_is_told_of(step):
    """The sentence lists the phases there are."""
    with pytest.raises(UsageError, match="'optimizer'"):
        step.filter(phase="sideways")


def test_find_takes_overloads(step):
    """A glob is tried with and without the overload."""
    assert (
        step.find("aten::sum").names
        == step.find("aten::sum.dim_*").names
        == ("aten::sum",)
    )
    assert step.find("aten::sum.out").names == ()
    assert step.find("aten::t.default").names == ("aten::t",)


def test_without_takes_sets_and_globs(step):
    """Sets are compared by name, text as a glob; both at once."""
    assert "aten::t" not in step.without(VIEW_OPS).names
    assert step.without("aten::*mm", {"aten::sum.dim_IntList"}, VIEW_OPS).names == (
        "aten::gelu",
        "aten::gelu_backward",
        "aten::add_",
    )
    assert [each.index for each in step.without("aten::t")] == [1, 2, 3, 4, 5, 6]


def test_counts_are_sorted(step):
    """The most frequent first, then by name."""
    doubled = trace_of(*step, call(7, "mm"))
    assert list(doubled.counts().items())[:2] == [("aten::mm", 2), ("aten::add_", 1)]


def test_the_tree_nests_calls():
    """Children stand under their parent in the order of the calls."""
    trace = trace_of(
        call(0, "linear"),
        call(1, "t", parent=0, depth=1),
        call(2, "transpose", parent=1, depth=2),
        call(3, "addmm", parent=0, depth=1),
        call(4, "relu"),
    )
    linear, relu = trace.tree()
    assert [each.name for each in linear.walk()] == [
        "aten::linear",
        "aten::t",
        "aten::transpose",
        "aten::addmm",
    ]
    assert [child.record.name for child in linear.children] == [
        "aten::t",
        "aten::addmm",
    ]
    assert relu.children == ()
    assert [node.record.index for node in trace[1:].tree()] == [1, 3, 4]


def test_a_deep_tree_needs_no_recursion_to_build():
    """Depth is not bounded by Python's stack."""
    count = 5000
    trace = trace_of(
        *(
            call(index, "f", parent=index - 1 if index else None, depth=index)
            for index in range(count)
        )
    )
    assert len(trace.tree()) == 1


def test_flow_names_makers_and_users(step):
    """Who made the inputs, who used the results."""
    flow = step.flow(step[2])
    assert [each.name for each in flow.makers] == ["aten::addmm"]
    assert [each.name for each in flow.users] == ["aten::sum"]
    assert step.flow(step[0]).makers == ()


def test_flow_takes_the_last_maker():
    """What has been overwritten was made by the call that did it."""
    trace = trace_of(
        call(0, "ones", outputs=(1,)),
        call(1, "add_", 1, outputs=(1,), written=(0,)),
        call(2, "sin", 1, outputs=(2,)),
    )
    assert [each.index for each in trace.flow(trace[2]).makers] == [1]
    assert [each.index for each in trace.flow(trace[0]).users] == [1]
    assert [each.index for each in trace.flow(trace[1]).users] == [2]


def test_flow_follows_writes_through_views():
    """Writing into a view writes the tensor it is a view of."""
    base, view = spec(1, storage=9), spec(2, storage=9)
    trace = trace_of(
        call(0, "ones", outputs=(base,)),
        call(1, "t", base, outputs=(view,)),
        call(2, "zero_", view, outputs=(view,), written=(0,)),
        call(3, "sin", base, outputs=(3,)),
    )
    assert [each.index for each in trace.flow(trace[3]).makers] == [2]


def test_flow_sees_writes_that_return_nothing():
    """A list that is written in place is made by that call."""
    trace = trace_of(
        call(0, "ones", outputs=(1,)),
        call(1, "_foreach_add_", 1, written=(0,)),
        call(2, "sin", 1, outputs=(2,)),
    )
    assert [each.index for each in trace.flow(trace[2]).makers] == [1]
    assert [each.index for each in trace.flow(trace[1]).users] == [2]


def test_flow_does_not_join_tensors_without_an_id():
    """Unknown identity is not the same identity."""
    unknown = TensorSpec(dtype="float32", device="cpu")
    trace = trace_of(
        call(0, "a", outputs=(unknown,)),
        call(1, "b", unknown, outputs=(unknown,)),
        call(2, "c", unknown),
    )
    assert trace.flow(trace[1]).makers == trace.flow(trace[1]).users == ()


def test_equality_is_by_value(step):
    """Equal in every field, never equal to a list of names, usable as a key."""
    same = trace_of(*step.records, label="step")
    assert step == same
    assert hash(step) == hash(same)
    assert step != step[1:]
    assert step != trace_of(*step.records)
    assert step != trace_of(*step.records, label="step", notes=("something",))
    assert (step == list(step.names)) is False


@pytest.mark.parametrize(
    "duplicate",
    [copy.copy, copy.deepcopy, lambda trace: pickle.loads(pickle.dumps(trace))],
)
def test_a_trace_can_be_copied(step, duplicate):
    """Copies and pickles are equal."""
    assert duplicate(step) == step


def test_a_trace_says_whether_it_is_complete(step):
    """A note or the limit makes it incomplete."""
    assert step.complete
    assert not trace_of(truncated=True).complete
    assert not trace_of(notes=("one thread was not seen",)).complete


def test_the_text_is_a_table_without_paths_or_ids(step):
    """The same between machines: the file's name, not where it lies."""
    text = step.to_text()
    assert text == str(step)
    lines = text.splitlines()
    assert lines[2].split() == [
        "1",
        "fwd",
        "aten::addmm",
        "f32[2],",
        "f32[2]",
        "->",
        "f32[2]",
        "fc",
        "model.py:7",
    ]
    assert lines[-1] == "7 operator calls"
    assert "/somewhere" not in text


def test_the_text_says_what_is_missing():
    """The limit and the notes stand below the table."""
    text = str(
        trace_of(call(0, "sin"), truncated=True, notes=("A thread was not seen.",))
    )
    assert text.splitlines()[-2:] == [
        "1 operator call, truncated: max_ops was reached",
        "note: A thread was not seen.",
    ]


def test_the_repr_is_short(step):
    """Label, number and engine."""
    assert repr(step) == "OpTrace('step', 7 ops, engine='dispatch_mode')"


def test_traces_need_no_torch(python):
    """Records can be read where torch is not installed."""
    done = python(
        """
        import sys; sys.modules["torch"] = None
        from npu_dispatch_inspect import OpTrace, OpRecord, Environment, load, save
        e = Environment(tool="0", python="3", platform="x")
        print(len(OpTrace(records=[OpRecord(index=0, name="aten::sin")], environment=e)))
        """
    )
    assert (done.stdout, done.stderr) == ("1\n", "")
