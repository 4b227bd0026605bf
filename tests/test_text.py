# SPDX-License-Identifier: BSD-3-Clause
"""The text of traces, from records made by hand."""

from __future__ import annotations

from npu_dispatch_inspect import (
    Argument,
    Constant,
    Environment,
    ExceptionRecord,
    OpRecord,
    OpTrace,
    Phase,
    SourceLocation,
    TensorSpec,
)
from npu_dispatch_inspect.display.ops import op_table
from npu_dispatch_inspect.display.text import op_text, table, value_text

HERE = Environment(tool="0.1.0", python="3.11.7", platform="linux-x86_64")


def tensor(*shape, dtype="float32"):
    """A tensor on the CPU."""
    return TensorSpec(dtype=dtype, device="cpu", shape=shape)


ADDMM = OpRecord(
    index=0,
    name="aten::addmm",
    inputs=(
        Argument(name="self", value=tensor(64)),
        Argument(name="mat1", value=tensor(32, 128)),
        Argument(name="mat2", value=tensor(128, 64)),
        Argument(name="beta", value=1, default=True),
    ),
    outputs=(tensor(32, 64),),
    root="Net",
    module="fc",
    module_type="Linear",
    source=SourceLocation(file="/home/me/net.py", line=12, function="forward"),
)
SUM = OpRecord(
    index=1,
    name="aten::sum",
    overload="dim_IntList",
    depth=1,
    parent=0,
    inputs=(
        Argument(name="self", value=tensor(32, 64)),
        Argument(name="dim", value=(0,)),
        Argument(name="keepdim", value=False, default=True),
        Argument(name="dtype", value=Constant(kind="dtype", text="float16")),
    ),
    phase=Phase.BACKWARD,
    exception=ExceptionRecord(type="RuntimeError", message="no"),
)


def test_table_of_a_trace():
    """Numbers, phases, nested operators, tensors, modules and the user's lines."""
    assert str(OpTrace(records=[ADDMM, SUM], environment=HERE)) == (
        "#  phase  operator                 inputs -> outputs                                    module       line\n"
        "0  fwd    aten::addmm              f32[64], f32[32, 128], f32[128, 64] -> f32[32, 64]   fc (Linear)  net.py:12\n"
        "1  bwd      aten::sum.dim_IntList  f32[32, 64], [0], dtype=float16 raised RuntimeError\n"
        "2 operator calls"
    )


def test_empty_trace():
    """A trace without calls says so."""
    assert str(OpTrace(environment=HERE)) == (
        "#  phase  operator  inputs -> outputs  module  line\n0 operator calls"
    )


def test_long_trace_is_folded():
    """A long trace shows its beginning, its end and how much is between."""
    records = [OpRecord(index=each, name="aten::t") for each in range(1000)]
    lines = str(OpTrace(records=records, environment=HERE)).splitlines()
    assert lines[150].split()[0] == "149"
    assert lines[151] == "... 820 more"
    assert lines[152].split()[0] == "970"
    assert lines[-1] == "1000 operator calls"
    assert op_table(
        OpTrace(records=records, environment=HERE), max_rows=2
    ).splitlines()[3:] == [
        "... 998 more",
        "1000 operator calls",
    ]


def test_truncation_and_notes_are_said():
    """What is missing stands under the table."""
    trace = OpTrace(
        records=[ADDMM],
        environment=HERE,
        truncated=True,
        notes=("A thread was not seen.",),
    )
    assert str(trace).splitlines()[-2:] == [
        "1 operator call, truncated: max_ops was reached",
        "note: A thread was not seen.",
    ]


def test_one_call_on_a_line():
    """A call reads like a call; defaults are left out, what follows them is named."""
    assert op_text(ADDMM) == (
        "aten::addmm(f32[64], f32[32, 128], f32[128, 64]) -> f32[32, 64]"
    )
    assert op_text(SUM) == (
        "aten::sum.dim_IntList(f32[32, 64], [0], dtype=float16) raised RuntimeError"
    )


def test_values():
    """Text is quoted, lists are cut, unknown shapes are a question mark."""
    assert value_text("a'b") == '"a\'b"'
    assert value_text((1, None, 2.5, True, 9, 9)) == "[1, None, 2.5, True, ... 2 more]"
    assert value_text(TensorSpec(dtype="bfloat16", device="npu:0")) == "bf16[?]"
    assert value_text(tensor("s0", 3, dtype="int64")) == "i64[s0, 3]"


def test_cells_are_single_lines():
    """A cell with a line break or of great length does not break the table."""
    text = table(("a", "b"), [("x\ny", "z" * 200)])
    assert text.splitlines() == ["a    b", f"x y  {'z' * 61}..."]


def test_repr_is_short():
    """repr() is one line of code-like text; print() is the table."""
    trace = OpTrace(records=[ADDMM], environment=HERE, label="step 1")
    assert repr(trace) == "OpTrace('step 1', 1 ops, engine='dispatch_mode')"
