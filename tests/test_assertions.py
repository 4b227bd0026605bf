# SPDX-License-Identifier: BSD-3-Clause
"""Every assertion: what passes, and the whole text of what fails."""

from __future__ import annotations

import re
import traceback
import unittest

import pytest
from attrs import evolve

from npu_dispatch_inspect import (
    DETACH_OPS,
    VIEW_OPS,
    OpTrace,
    UsageError,
    any_order,
    assert_has_ops,
    assert_kernel,
    assert_launches,
    assert_log,
    assert_no_logs,
    assert_no_ops,
    assert_only_ops,
    assert_op_count,
    assert_ops,
    assert_ops_in_order,
    assert_ops_match,
    assert_ops_replaced,
    assert_same_ops,
    expect_ops,
    op,
    optional,
)
from npu_dispatch_inspect.assertions._settings import SETTINGS, Settings
from npu_dispatch_inspect.records.chains import ChainNode, Verdict
from npu_dispatch_inspect.traces.report import DispatchReport
from tests.training_trace import (
    BACK,
    CUT,
    EMPTY,
    HERE,
    HUGE,
    HUGE_LOGS,
    LOGS,
    NAMES,
    NO_LOGS,
    NPU,
    RECORDS,
    TRACE,
    record,
)


@pytest.fixture(autouse=True)
def _settings(monkeypatch):
    """Texts as long as they are without the plugin, whatever -v says here."""
    for name, value in vars(Settings()).items():
        monkeypatch.setattr(SETTINGS, name, value)


FAILURES = [
    (
        lambda: assert_ops(TRACE, [*NAMES[:4], "aten::addmm", *NAMES[6:], "aten::mm"]),
        """\
op sequence differs: 1 missing, 1 unexpected (expected 13, traced 13)
  first difference: unexpected npu::npu_format_cast at #4 in mlp.fc2
                    model.py:33

  (- expected, + traced)
    ... 2 matching ops
    #2   fwd  aten::gelu             f32[2, 8]                     mlp.act  model.py:32
    #3   fwd  aten::t                f32[4, 8]                     mlp.fc2  model.py:33
  + #4   fwd  npu::npu_format_cast   f32[4, 8], 29                 mlp.fc2  model.py:33
    #5   fwd  aten::addmm            f32[4], f32[2, 8], f32[8, 4]  mlp.fc2  model.py:33
    #6   fwd  aten::sum              f32[2, 4]                              model.py:39
    ... 3 matching ops
    #10  bwd  aten::sum.dim_IntList  f32[2, 4], [0]                mlp.fc2  model.py:40
    #11  bwd  aten::gelu_backward    f32[2, 8], f32[2, 8]          mlp.act  model.py:40
  -           aten::mm
    #12  bwd  aten::mm               f32[8, 2], f16[2, 8]          mlp.fc1  model.py:40""",
    ),
    (
        lambda: assert_ops(TRACE, ["aten::t", ..., "aten::linear", ...]),
        """\
op sequence differs: 1 missing (expected at least 2, traced 13)
  first difference: aten::linear is missing after #0 in mlp.fc1 (aten::t)
                    model.py:31
                    aten::linear is nowhere in the trace

  (- expected, + traced)
    #0  fwd  aten::t       f32[8, 8]                     mlp.fc1  model.py:31
  -          aten::linear
    #1  fwd  aten::addmm   f32[8], f32[2, 8], f32[8, 8]  mlp.fc1  model.py:31
    #2  fwd  aten::gelu    f32[2, 8]                     mlp.act  model.py:32
    ... 10 matching ops""",
    ),
    (
        lambda: assert_ops(TRACE, [..., op("aten::mm", dtype="bf16")]),
        """\
op sequence differs: 1 missing (expected at least 1, traced 13)
  first difference: aten::mm (bf16) is missing after #12 in mlp.fc1 (aten::mm)
                    model.py:40
                    2 calls of that name: 2 not bf16

  (- expected, + traced)
    ... 11 matching ops
    #11  bwd  aten::gelu_backward  f32[2, 8], f32[2, 8]  mlp.act  model.py:40
    #12  bwd  aten::mm             f32[8, 2], f16[2, 8]  mlp.fc1  model.py:40
  -           aten::mm (bf16)""",
    ),
    (
        lambda: assert_ops(TRACE, ["aten::t", op("aten::addmm", shape=(16, 8)), ...]),
        """\
op sequence differs: 1 missing (expected at least 2, traced 13)
  first difference: aten::addmm (any[16, 8]) is missing after #0 in mlp.fc1 (aten::t)
                    model.py:31
                    2 calls of that name: 2 not any[16, 8]

  (- expected, + traced)
    #0  fwd  aten::t                   f32[8, 8]                     mlp.fc1  model.py:31
  -          aten::addmm (any[16, 8])
    #1  fwd  aten::addmm               f32[8], f32[2, 8], f32[8, 8]  mlp.fc1  model.py:31
    #2  fwd  aten::gelu                f32[2, 8]                     mlp.act  model.py:32
    ... 10 matching ops""",
    ),
    (
        lambda: assert_ops(
            TRACE,
            ["aten::mm", "aten::mm"],
            phase="backward",
            ignore=["aten::sum", "aten::ones_like"],
        ),
        """\
op sequence differs: 2 unexpected (expected 2, traced 4)
  first difference: unexpected aten::expand at #8
                    model.py:40

  (- expected, + traced)
  + #8   bwd  aten::expand         f32[], [2, 4]                  model.py:40
    #9   bwd  aten::mm             f32[2, 4], f32[4, 8]  mlp.fc2  model.py:40
  + #11  bwd  aten::gelu_backward  f32[2, 8], f32[2, 8]  mlp.act  model.py:40
    #12  bwd  aten::mm             f32[8, 2], f16[2, 8]  mlp.fc1  model.py:40
  only phase backward: 6 of 13 ops
  left out by ignore=: 2 ops""",
    ),
    (
        lambda: assert_ops(TRACE, []),
        """\
op sequence differs: 13 unexpected (expected 0, traced 13)
  first difference: unexpected aten::t at #0 in mlp.fc1
                    model.py:31

  (- expected, + traced)
  + #0  fwd  aten::t               f32[8, 8]                     mlp.fc1  model.py:31
  + #1  fwd  aten::addmm           f32[8], f32[2, 8], f32[8, 8]  mlp.fc1  model.py:31
  + #2  fwd  aten::gelu            f32[2, 8]                     mlp.act  model.py:32
  + #3  fwd  aten::t               f32[4, 8]                     mlp.fc2  model.py:33
  + #4  fwd  npu::npu_format_cast  f32[4, 8], 29                 mlp.fc2  model.py:33
  + #5  fwd  aten::addmm           f32[4], f32[2, 8], f32[8, 4]  mlp.fc2  model.py:33
  + #6  fwd  aten::sum             f32[2, 4]                              model.py:39
  + #7  bwd  aten::ones_like       f32[]                                  model.py:40
  + #8  bwd  aten::expand          f32[], [2, 4]                          model.py:40
  + #9  bwd  aten::mm              f32[2, 4], f32[4, 8]          mlp.fc2  model.py:40
    ... 3 more unexpected
  print(trace) shows the trace""",
    ),
    (
        lambda: assert_ops(EMPTY, ["aten::t", "aten::addmm"]),
        """\
op sequence differs: 2 missing (expected 2, traced 0)
  first difference: aten::t is missing at the beginning
                    nothing was traced: did the code run inside the block?

  (- expected, + traced)
  -   aten::t
  -   aten::addmm""",
    ),
    (
        lambda: assert_ops(
            EMPTY, [optional("aten::t"), "aten::addmm", any_order("aten::a", "aten::b")]
        ),
        """\
op sequence differs: 3 missing (expected 3 to 4, traced 0)
  first difference: aten::addmm is missing at the beginning
                    nothing was traced: did the code run inside the block?

  (- expected, + traced)
  -   aten::addmm
  -   aten::a
  -   aten::b""",
    ),
    (
        lambda: assert_ops(HUGE, ["aten::add"] * 3),
        """\
op sequence differs: 99997 unexpected (expected 3, traced 100000)
  first difference: unexpected aten::add.Tensor at #3

  (- expected, + traced)
    ... 1 matching op
    #1   fwd  aten::add.Tensor  f32[4], 1
    #2   fwd  aten::add.Tensor  f32[4], 1
  + #3   fwd  aten::add.Tensor  f32[4], 1
  + #4   fwd  aten::add.Tensor  f32[4], 1
  + #5   fwd  aten::add.Tensor  f32[4], 1
  + #6   fwd  aten::add.Tensor  f32[4], 1
  + #7   fwd  aten::add.Tensor  f32[4], 1
  + #8   fwd  aten::add.Tensor  f32[4], 1
  + #9   fwd  aten::add.Tensor  f32[4], 1
  + #10  fwd  aten::add.Tensor  f32[4], 1
  + #11  fwd  aten::add.Tensor  f32[4], 1
  + #12  fwd  aten::add.Tensor  f32[4], 1
    ... 99987 more unexpected
  print(trace) shows the trace""",
    ),
    (
        lambda: assert_ops(HUGE, [..., "aten::mul", ...]),
        """\
op sequence differs: 1 missing (expected at least 1, traced 100000)
  first difference: aten::mul is missing at the beginning
                    aten::mul is nowhere in the trace

  (- expected, + traced)
  -          aten::mul
    #0  fwd  aten::add.Tensor  f32[4], 1
    #1  fwd  aten::add.Tensor  f32[4], 1
    ... 99998 matching ops""",
    ),
    (
        lambda: assert_ops(HUGE, ["aten::mul", optional("aten::x")] * 50),
        """\
op sequence differs from #0 on (expected 50 to 100, traced 100000)
  first difference: expected aten::mul, traced aten::add.Tensor at #0

  (- expected, + traced)
  -          aten::mul
  + #0  fwd  aten::add.Tensor  f32[4], 1
    ... the rest was not compared: there are too many differences
  print(trace) shows the trace""",
    ),
    (
        lambda: assert_ops(CUT, ["aten::t", "aten::addmm", "aten::gelu"]),
        """\
cannot tell whether these are all calls: only the first 3 ops were recorded
  the trace was cut off at max_ops: later calls are not known""",
    ),
    (
        lambda: assert_ops(CUT, ["aten::t", "aten::gelu"]),
        """\
op sequence differs: 1 unexpected (expected 2, traced 3)
  first difference: unexpected aten::addmm at #1 in mlp.fc1
                    model.py:31

  (- expected, + traced)
    #0  fwd  aten::t      f32[8, 8]                     mlp.fc1  model.py:31
  + #1  fwd  aten::addmm  f32[8], f32[2, 8], f32[8, 8]  mlp.fc1  model.py:31
    #2  fwd  aten::gelu   f32[2, 8]                     mlp.act  model.py:32
  the trace was cut off at max_ops: later calls are not known""",
    ),
    (
        lambda: assert_launches(LOGS, ["aclnnAddmm", "aclnnGeluV2"]),
        """\
launch sequence differs: 1 missing, 1 unexpected (expected 2, traced 2)
  first difference: expected aclnnGeluV2, traced aclnnGelu at #3
                    aclnnGeluV2 is nowhere in the trace; similar: aclnnGelu

  (- expected, + traced)
    #1  aclnnAddmm   f32[2, 8]
  -     aclnnGeluV2
  + #3  aclnnGelu    f32[2, 8]""",
    ),
    (
        lambda: assert_launches(NO_LOGS, ["aclnnAddmm"]),
        """\
launch sequence differs: 1 missing (expected 1, traced 0)
  first difference: aclnnAddmm is missing at the beginning
                    nothing was traced: did the code run inside the block?

  (- expected, + traced)
  -   aclnnAddmm""",
    ),
    (
        lambda: assert_launches(HUGE_LOGS, ["aclnnAdd", ..., "aclnnMul"]),
        """\
launch sequence differs: 1 missing (expected at least 2, traced 100000)
  first difference: aclnnMul is missing after #99999 (aclnnAdd)
                    aclnnMul is nowhere in the trace; similar: aclnnAdd

  (- expected, + traced)
    ... 99998 matching launches
    #99998  aclnnAdd  f32[2, 8]
    #99999  aclnnAdd  f32[2, 8]
  -         aclnnMul""",
    ),
    (
        lambda: assert_ops_in_order(
            TRACE, "aten::addmm", "aten::gelu*", "npu::*", "aten::gelu", "aten::mm"
        ),
        """\
op order not satisfied: no aten::gelu after #4 (3 of 5 found)
  ok    aten::addmm  -> #1 aten::addmm
  ok    aten::gelu*  -> #2 aten::gelu
  ok    npu::*       -> #4 npu::npu_format_cast
  FAIL  aten::gelu   no match after #4 (it does occur earlier: #2)
  --    aten::mm     not reached
  in 13 ops""",
    ),
    (
        lambda: assert_ops_in_order(TRACE, "aten::gelu", ~op("npu::*"), "aten::addmm"),
        """\
op order not satisfied: npu::npu_format_cast at #4 in mlp.fc2 comes before aten::addmm (1 of 2 found)
  ok    aten::gelu          -> #2 aten::gelu
  FAIL  ... without npu::*  npu::npu_format_cast at #4 in mlp.fc2 comes before aten::addmm
  --    aten::addmm         not reached
  in 13 ops""",
    ),
    (
        lambda: assert_ops_in_order(TRACE, "aten::gelu", "aten::adddmm"),
        """\
op order not satisfied: no aten::adddmm after #2 (1 of 2 found)
  ok    aten::gelu    -> #2 aten::gelu
  FAIL  aten::adddmm  no match after #2: aten::adddmm is nowhere; similar: aten::addmm
  in 13 ops""",
    ),
    (
        lambda: assert_ops_in_order(EMPTY, "aten::t", "aten::addmm"),
        """\
op order not satisfied: no aten::t (0 of 2 found)
  FAIL  aten::t      no match: nothing was traced
  --    aten::addmm  not reached
  in 0 ops""",
    ),
    (
        lambda: assert_ops_in_order(HUGE, "aten::add.Tensor", "aten::mul", "aten::add"),
        """\
op order not satisfied: no aten::mul after #0 (1 of 3 found)
  ok    aten::add.Tensor  -> #0 aten::add.Tensor
  FAIL  aten::mul         no match after #0: aten::mul is nowhere
  --    aten::add         not reached
  in 100000 ops""",
    ),
    (
        lambda: assert_ops_match(TRACE, op("aten::addmm") & "aten::mul" & "aten::t"),
        """\
op order not satisfied: no aten::addmm & aten::mul & aten::t
  FAIL  aten::addmm & aten::mul & aten::t  no match: aten::mul is nowhere
  in 13 ops""",
    ),
    (
        lambda: assert_ops_match(TRACE, ~op("aten::t") >> op("aten::addmm")),
        """\
op order not satisfied: aten::t at #0 in mlp.fc1 comes before aten::addmm
  FAIL  ... without aten::t  aten::t at #0 in mlp.fc1 comes before aten::addmm
  --    aten::addmm          not reached
  in 13 ops""",
    ),
    (
        lambda: assert_ops_match(TRACE, op("aten::sum.default") >> ~op("aten::mm")),
        """\
op order not satisfied: aten::mm at #9 in mlp.fc2 comes after #6
  ok    aten::sum.default     -> #6 aten::sum
  FAIL  ... without aten::mm  aten::mm at #9 in mlp.fc2 comes after #6
  in 13 ops""",
    ),
    (
        lambda: assert_ops_match(TRACE, (op("aten::mul") >> "aten::t") | "aten::x"),
        """\
op order not satisfied: no (aten::mul >> aten::t) | aten::x
  FAIL  (aten::mul >> aten::t) | aten::x  no match: aten::mul, aten::x are nowhere
  in 13 ops""",
    ),
    (
        lambda: assert_ops_match(EMPTY, op("aten::t") | "aten::x"),
        """\
op order not satisfied: no aten::t | aten::x
  FAIL  aten::t | aten::x  no match: nothing was traced
  in 0 ops""",
    ),
    (
        lambda: assert_ops_match(HUGE, ~op("aten::add")),
        """\
op order not satisfied: aten::add.Tensor at #0
  FAIL  ... without aten::add  aten::add.Tensor at #0
  in 100000 ops""",
    ),
    (
        lambda: assert_ops_match(CUT, op("aten::addmm") >> ~op("aten::mm")),
        """\
cannot tell whether the end is ... without aten::mm: only the first 3 ops were recorded
  the trace was cut off at max_ops: later calls are not known""",
    ),
    (
        lambda: assert_same_ops(
            TRACE, OpTrace(records=(*RECORDS[:4], *RECORDS[5:]), environment=NPU)
        ),
        """\
op sequence differs: 1 only in cpu (cpu 13, npu 12)
  first difference: npu::npu_format_cast at #4 in mlp.fc2 only in cpu
                    model.py:33

  (- cpu, + npu)
    ... 2 matching ops
    #2  fwd  aten::gelu            f32[2, 8]                     mlp.act  model.py:32
    #3  fwd  aten::t               f32[4, 8]                     mlp.fc2  model.py:33
  - #4  fwd  npu::npu_format_cast  f32[4, 8], 29                 mlp.fc2  model.py:33
    #5  fwd  aten::addmm           f32[4], f32[2, 8], f32[8, 4]  mlp.fc2  model.py:33
    #6  fwd  aten::sum             f32[2, 4]                              model.py:39
    ... 6 matching ops""",
    ),
    (
        lambda: assert_same_ops(
            TRACE,
            OpTrace(
                records=(*RECORDS[:9], record(9, "aten::bmm", **BACK), *RECORDS[10:]),
                environment=NPU,
            ),
            phase="backward",
        ),
        """\
op sequence differs: 1 only in cpu, 1 only in npu (cpu 6, npu 6)
  first difference: aten::mm at #9 in mlp.fc2 in cpu, aten::bmm at #9 in npu
                    model.py:40

  (- cpu, + npu)
    #7   bwd  aten::ones_like        f32[]                          model.py:40
    #8   bwd  aten::expand           f32[], [2, 4]                  model.py:40
  - #9   bwd  aten::mm               f32[2, 4], f32[4, 8]  mlp.fc2  model.py:40
  + #9   bwd  aten::bmm                                             model.py:40
    #10  bwd  aten::sum.dim_IntList  f32[2, 4], [0]        mlp.fc2  model.py:40
    #11  bwd  aten::gelu_backward    f32[2, 8], f32[2, 8]  mlp.act  model.py:40
    ... 1 matching op
  only phase backward: 6 of 13 ops""",
    ),
    (
        lambda: assert_same_ops(TRACE, EMPTY),
        """\
op sequence differs: 13 only in first (first 13, second 0)
  first difference: aten::t at #0 in mlp.fc1 only in first
                    model.py:31

  (- first, + second)
  - #0  fwd  aten::t               f32[8, 8]                     mlp.fc1  model.py:31
  - #1  fwd  aten::addmm           f32[8], f32[2, 8], f32[8, 8]  mlp.fc1  model.py:31
  - #2  fwd  aten::gelu            f32[2, 8]                     mlp.act  model.py:32
  - #3  fwd  aten::t               f32[4, 8]                     mlp.fc2  model.py:33
  - #4  fwd  npu::npu_format_cast  f32[4, 8], 29                 mlp.fc2  model.py:33
  - #5  fwd  aten::addmm           f32[4], f32[2, 8], f32[8, 4]  mlp.fc2  model.py:33
  - #6  fwd  aten::sum             f32[2, 4]                              model.py:39
  - #7  bwd  aten::ones_like       f32[]                                  model.py:40
  - #8  bwd  aten::expand          f32[], [2, 4]                          model.py:40
  - #9  bwd  aten::mm              f32[2, 4], f32[4, 8]          mlp.fc2  model.py:40
    ... 3 more only in first
  print(trace) shows the trace""",
    ),
    (
        lambda: assert_same_ops(HUGE, HUGE[:99_000], names=("before", "after")),
        """\
op sequence differs: 1000 only in before (before 100000, after 99000)
  first difference: aten::add.Tensor at #99000 only in before

  (- before, + after)
    ... 98998 matching ops
    #98998  fwd  aten::add.Tensor  f32[4], 1
    #98999  fwd  aten::add.Tensor  f32[4], 1
  - #99000  fwd  aten::add.Tensor  f32[4], 1
  - #99001  fwd  aten::add.Tensor  f32[4], 1
  - #99002  fwd  aten::add.Tensor  f32[4], 1
  - #99003  fwd  aten::add.Tensor  f32[4], 1
  - #99004  fwd  aten::add.Tensor  f32[4], 1
  - #99005  fwd  aten::add.Tensor  f32[4], 1
  - #99006  fwd  aten::add.Tensor  f32[4], 1
  - #99007  fwd  aten::add.Tensor  f32[4], 1
  - #99008  fwd  aten::add.Tensor  f32[4], 1
  - #99009  fwd  aten::add.Tensor  f32[4], 1
    ... 990 more only in before
  print(trace) shows the trace""",
    ),
    (
        lambda: assert_same_ops(CUT, CUT),
        """\
cannot tell whether all calls are the same: only the first 3 ops were recorded
  the trace was cut off at max_ops: later calls are not known""",
    ),
    (
        lambda: assert_has_ops(TRACE, "aten::adddmm", "aten::t"),
        """\
missing op: aten::adddmm, traced 13 ops
  aten::adddmm: similar: aten::addmm""",
    ),
    (
        lambda: assert_has_ops(
            TRACE, "aten::sum.dim", "mm", "npu::npu_rms_norm", "x::y"
        ),
        """\
missing ops: aten::sum.dim, mm, npu::npu_rms_norm and 1 more, traced 13 ops
  aten::sum.dim: similar: aten::sum
  mm: similar: aten::mm
  npu::npu_rms_norm: no similar name was traced
  x::y: no similar name was traced""",
    ),
    (
        lambda: assert_has_ops(TRACE, op("aten::mm", dtype="bf16", phase="backward")),
        """\
missing op: aten::mm (backward, bf16), traced 13 ops
  aten::mm (backward, bf16): 2 calls of that name: 2 not bf16""",
    ),
    (
        lambda: assert_has_ops(TRACE, "aten::gelu", phase="backward"),
        """\
missing op: aten::gelu, traced 6 ops
  aten::gelu: called elsewhere: 1x forward mlp.act model.py:32 (#2)
  only phase backward: 6 of 13 ops""",
    ),
    (
        lambda: assert_has_ops(EMPTY, "aten::t"),
        """\
missing op: aten::t, traced 0 ops
  aten::t: nothing was traced: did the code run inside the block?""",
    ),
    (
        lambda: assert_has_ops(HUGE, "aten::mul"),
        """\
missing op: aten::mul, traced 100000 ops
  aten::mul: no similar name was traced""",
    ),
    (
        lambda: assert_no_ops(TRACE, "npu::*"),
        """\
forbidden op: npu::npu_format_cast (once), traced 13 ops
  npu::npu_format_cast: 1x forward mlp.fc2 model.py:33 (#4)""",
    ),
    (
        lambda: assert_no_ops(
            TRACE, VIEW_OPS, "aten::sum", op("aten::mm", dtype="f16"), "npu::*"
        ),
        """\
forbidden ops: aten::t (2 times), npu::npu_format_cast (once), aten::sum (once) and 3 more, traced 13 ops
  aten::t: 1x forward mlp.fc1 model.py:31 (#0), 1x forward mlp.fc2 model.py:33 (#3)
  npu::npu_format_cast: 1x forward mlp.fc2 model.py:33 (#4)
  aten::sum: 1x forward model.py:39 (#6)
  aten::expand: 1x backward model.py:40 (#8)
  aten::sum.dim_IntList: 1x backward mlp.fc2 model.py:40 (#10)
  aten::mm: 1x backward mlp.fc1 model.py:40 (#12)""",
    ),
    (
        lambda: assert_no_ops(HUGE, "aten::add"),
        """\
forbidden op: aten::add.Tensor (100000 times), traced 100000 ops
  aten::add.Tensor: 100000x forward (#0, #1, #2, #3, ...)""",
    ),
    (
        lambda: assert_no_ops(CUT, "aten::mm"),
        """\
cannot tell that there is no aten::mm: only the first 3 ops were recorded
  the trace was cut off at max_ops: later calls are not known""",
    ),
    (
        lambda: assert_only_ops(TRACE, "aten::*"),
        """\
op not allowed: npu::npu_format_cast (once), traced 13 ops
  npu::npu_format_cast: 1x forward mlp.fc2 model.py:33 (#4)""",
    ),
    (
        lambda: assert_only_ops(
            TRACE, "aten::sum", "aten::mm", phase="backward", module="mlp.*"
        ),
        """\
op not allowed: aten::gelu_backward (once), traced 4 ops
  aten::gelu_backward: 1x backward mlp.act model.py:40 (#11)
  only phase backward, module mlp.*: 4 of 13 ops""",
    ),
    (
        lambda: assert_only_ops(HUGE, "aten::mul"),
        """\
op not allowed: aten::add.Tensor (100000 times), traced 100000 ops
  aten::add.Tensor: 100000x forward (#0, #1, #2, #3, ...)""",
    ),
    (
        lambda: assert_only_ops(CUT, "aten::*"),
        """\
cannot tell that there are no others: only the first 3 ops were recorded
  the trace was cut off at max_ops: later calls are not known""",
    ),
    (
        lambda: assert_op_count(TRACE, "aten::mm", 3),
        """\
expected 3 calls of aten::mm, traced 2
  1x backward mlp.fc2 model.py:40 (#9)
  1x backward mlp.fc1 model.py:40 (#12)""",
    ),
    (
        lambda: assert_op_count(TRACE, "aten::mm", 1, phase="backward"),
        """\
expected 1 call of aten::mm, traced 2
  1x backward mlp.fc2 model.py:40 (#9)
  1x backward mlp.fc1 model.py:40 (#12)
  only phase backward: 6 of 13 ops""",
    ),
    (
        lambda: assert_op_count(TRACE, "aten::adddmm", 1),
        """\
expected 1 call of aten::adddmm, traced 0
  similar: aten::addmm""",
    ),
    (
        lambda: assert_op_count(TRACE, at_most=5),
        """\
expected at most 5 ops, traced 13
  2x aten::t
  2x aten::addmm
  2x aten::mm
  1x aten::gelu
  1x npu::npu_format_cast
  1x aten::sum
  1x aten::ones_like
  1x aten::expand
  1x aten::sum.dim_IntList
  1x aten::gelu_backward""",
    ),
    (
        lambda: assert_op_count(TRACE, "aten::t", at_least=3, at_most=4),
        """\
expected 3 to 4 calls of aten::t, traced 2
  1x forward mlp.fc1 model.py:31 (#0)
  1x forward mlp.fc2 model.py:33 (#3)""",
    ),
    (
        lambda: assert_op_count(EMPTY, "aten::t", at_least=1),
        """\
expected at least 1 call of aten::t, traced 0
  nothing was traced: did the code run inside the block?""",
    ),
    (
        lambda: assert_op_count(EMPTY, at_least=1),
        """\
expected at least 1 op, traced 0
  nothing was traced: did the code run inside the block?""",
    ),
    (
        lambda: assert_op_count(HUGE, "aten::add", at_most=40),
        """\
expected at most 40 calls of aten::add, traced 100000
  100000x forward (#0, #1, #2, #3, ...)""",
    ),
    (
        lambda: assert_op_count(HUGE, at_most=40),
        """\
expected at most 40 ops, traced 100000
  100000x aten::add.Tensor""",
    ),
    (
        lambda: assert_op_count(CUT, "aten::t", 1),
        """\
cannot tell the number of calls of aten::t: only the first 3 ops were recorded
  the trace was cut off at max_ops: later calls are not known""",
    ),
    (
        lambda: assert_ops_replaced(
            TRACE,
            TRACE[:4],
            removed=["npu::npu_format_cast", "aten::gelu"],
            added=["aten::mul"],
        ),
        """\
ops not replaced: aten::gelu is still called once (and 1 more)
  ok    removed  npu::npu_format_cast: 1 -> 0
  FAIL  removed  aten::gelu: 1 -> 1
  FAIL  added    aten::mul: 0 -> 0
  in all: 13 -> 4""",
    ),
    (
        lambda: assert_ops_replaced(
            TRACE, TRACE, removed=["aten::mm"], added=["aten::addmm"], partly=True
        ),
        """\
ops not replaced: aten::mm is still called 2 times (and 1 more)
  FAIL  removed  aten::mm: 2 -> 2
  FAIL  added    aten::addmm: 2 -> 2
  in all: 13 -> 13""",
    ),
    (
        lambda: assert_ops_replaced(EMPTY, EMPTY, removed=["aten::mm"]),
        """\
ops not replaced: aten::mm was not there before
  FAIL  removed  aten::mm: 0 -> 0
  in all: 0 -> 0""",
    ),
    (
        lambda: assert_ops_replaced(HUGE, HUGE, removed=["aten::add"]),
        """\
ops not replaced: aten::add is still called 100000 times
  FAIL  removed  aten::add: 100000 -> 100000
  in all: 100000 -> 100000""",
    ),
    (
        lambda: assert_ops_replaced(CUT, TRACE, removed=["aten::x"]),
        """\
ops not replaced: aten::x was not there before
  FAIL  removed  aten::x: 0 -> 0
  in all: 3 -> 13
  the trace was cut off at max_ops: later calls are not known""",
    ),
    (
        lambda: assert_log(LOGS, level="WARNING", message="*fell back*"),
        """\
no log line of level WARNING with '*fell back*' (captured 5)
  captured: 3 INFO, 1 DEBUG, 1 WARNING""",
    ),
    (
        lambda: assert_log(LOGS, level=">=ERROR"),
        """\
no log line of level >=ERROR (captured 5)
  captured: 3 INFO, 1 DEBUG, 1 WARNING""",
    ),
    (
        lambda: assert_log(LOGS, message=re.compile("EXEC"), count=1),
        """\
expected 1 log line with 'EXEC', captured 2 (of 5)
  #1 INFO torch_npu.op_plugin: EXEC_NPU_CMD aclnnAddmm
  #3 INFO torch_npu.op_plugin: EXEC_NPU_CMD aclnnGelu""",
    ),
    (
        lambda: assert_log(NO_LOGS, logger="torch_npu.*"),
        """\
no log line of logger torch_npu.* (captured 0)
  nothing was captured""",
    ),
    (
        lambda: assert_log(HUGE_LOGS, message="*aclnnAdd*", count=3),
        """\
expected 3 log lines with '*aclnnAdd*', captured 100000 (of 100000)
  #0 INFO torch_npu.op_plugin: EXEC_NPU_CMD aclnnAdd
  #1 INFO torch_npu.op_plugin: EXEC_NPU_CMD aclnnAdd
  #2 INFO torch_npu.op_plugin: EXEC_NPU_CMD aclnnAdd
  #3 INFO torch_npu.op_plugin: EXEC_NPU_CMD aclnnAdd
  #4 INFO torch_npu.op_plugin: EXEC_NPU_CMD aclnnAdd
  #5 INFO torch_npu.op_plugin: EXEC_NPU_CMD aclnnAdd
  #6 INFO torch_npu.op_plugin: EXEC_NPU_CMD aclnnAdd
  #7 INFO torch_npu.op_plugin: EXEC_NPU_CMD aclnnAdd
  #8 INFO torch_npu.op_plugin: EXEC_NPU_CMD aclnnAdd
  #9 INFO torch_npu.op_plugin: EXEC_NPU_CMD aclnnAdd
  #10 INFO torch_npu.op_plugin: EXEC_NPU_CMD aclnnAdd
  #11 INFO torch_npu.op_plugin: EXEC_NPU_CMD aclnnAdd
  #12 INFO torch_npu.op_plugin: EXEC_NPU_CMD aclnnAdd
  #13 INFO torch_npu.op_plugin: EXEC_NPU_CMD aclnnAdd
  #14 INFO torch_npu.op_plugin: EXEC_NPU_CMD aclnnAdd
  #15 INFO torch_npu.op_plugin: EXEC_NPU_CMD aclnnAdd
  #16 INFO torch_npu.op_plugin: EXEC_NPU_CMD aclnnAdd
  #17 INFO torch_npu.op_plugin: EXEC_NPU_CMD aclnnAdd
  #18 INFO torch_npu.op_plugin: EXEC_NPU_CMD aclnnAdd
  #19 INFO torch_npu.op_plugin: EXEC_NPU_CMD aclnnAdd
  ... 99980 more lines""",
    ),
    (
        lambda: assert_no_logs(LOGS, level=">=INFO"),
        """\
4 unexpected log lines of level >=INFO (captured 5)
  #1 INFO torch_npu.op_plugin: EXEC_NPU_CMD aclnnAddmm
  #2 WARNING torch_npu.dispatch: CAUTION: aten::digamma.out falls back to run on the CPU
  #3 INFO torch_npu.op_plugin: EXEC_NPU_CMD aclnnGelu
  #4 INFO torch_npu.memory: xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx...""",
    ),
    (
        lambda: assert_no_logs(HUGE_LOGS),
        """\
100000 unexpected log lines (captured 100000)
  #0 INFO torch_npu.op_plugin: EXEC_NPU_CMD aclnnAdd
  #1 INFO torch_npu.op_plugin: EXEC_NPU_CMD aclnnAdd
  #2 INFO torch_npu.op_plugin: EXEC_NPU_CMD aclnnAdd
  #3 INFO torch_npu.op_plugin: EXEC_NPU_CMD aclnnAdd
  #4 INFO torch_npu.op_plugin: EXEC_NPU_CMD aclnnAdd
  #5 INFO torch_npu.op_plugin: EXEC_NPU_CMD aclnnAdd
  #6 INFO torch_npu.op_plugin: EXEC_NPU_CMD aclnnAdd
  #7 INFO torch_npu.op_plugin: EXEC_NPU_CMD aclnnAdd
  #8 INFO torch_npu.op_plugin: EXEC_NPU_CMD aclnnAdd
  #9 INFO torch_npu.op_plugin: EXEC_NPU_CMD aclnnAdd
  #10 INFO torch_npu.op_plugin: EXEC_NPU_CMD aclnnAdd
  #11 INFO torch_npu.op_plugin: EXEC_NPU_CMD aclnnAdd
  #12 INFO torch_npu.op_plugin: EXEC_NPU_CMD aclnnAdd
  #13 INFO torch_npu.op_plugin: EXEC_NPU_CMD aclnnAdd
  #14 INFO torch_npu.op_plugin: EXEC_NPU_CMD aclnnAdd
  #15 INFO torch_npu.op_plugin: EXEC_NPU_CMD aclnnAdd
  #16 INFO torch_npu.op_plugin: EXEC_NPU_CMD aclnnAdd
  #17 INFO torch_npu.op_plugin: EXEC_NPU_CMD aclnnAdd
  #18 INFO torch_npu.op_plugin: EXEC_NPU_CMD aclnnAdd
  #19 INFO torch_npu.op_plugin: EXEC_NPU_CMD aclnnAdd
  ... 99980 more lines""",
    ),
]


@pytest.mark.parametrize(("check", "text"), FAILURES)
def test_failure(check, text):
    """The first line says what is wrong, the rest where; nothing else is raised."""
    with pytest.raises(AssertionError) as caught:
        check()
    assert str(caught.value) == text


@pytest.mark.parametrize(
    "check",
    [
        lambda: assert_ops(TRACE, NAMES),
        lambda: assert_ops(TRACE, ["aten::t", ..., op("aten::mm", dtype="f16")]),
        lambda: assert_ops(
            TRACE,
            any_order("aten::gelu_backward", "aten::mm"),
            module="mlp.*",
            phase="backward",
            ignore=["aten::sum", op("aten::mm", module="mlp.fc2")],
        ),
        lambda: assert_ops(EMPTY, []),
        lambda: assert_ops(EMPTY, [..., optional("aten::t")]),
        lambda: assert_ops(HUGE, ["aten::add"] * 100_000),
        lambda: assert_ops(HUGE, [op("aten::add") * (1, None)]),
        lambda: assert_ops(CUT, ["aten::t", ...]),
        lambda: assert_ops(["aten::sum.dim_IntList"], ["aten::sum.dim_IntList"]),
        lambda: assert_launches(LOGS, ["aclnnAddmm", "aclnnGelu"]),
        lambda: assert_launches(NO_LOGS, []),
        lambda: assert_launches(HUGE_LOGS, ["aclnnAdd", ...]),
        lambda: assert_launches(["aclnnAdd"], ["aclnnAdd"]),
        lambda: assert_ops_in_order(TRACE, "aten::addmm", "aten::addmm", "aten::mm"),
        lambda: assert_ops_in_order(TRACE, "aten::gelu", ~op("aten::addmm"), "npu::*"),
        lambda: assert_ops_in_order(HUGE, *["aten::add"] * 1000),
        lambda: assert_ops_match(
            TRACE, op("aten::gelu") >> (op("aten::x") | "aten::sum")
        ),
        lambda: assert_ops_match(EMPTY, ~op("aten::t")),
        lambda: assert_ops_match(HUGE, op("aten::add") >> ~op("aten::mul")),
        lambda: assert_same_ops(
            TRACE, [*NAMES[:10], "aten::sum.dim_IntList", *NAMES[11:]]
        ),
        lambda: assert_same_ops(EMPTY, []),
        lambda: assert_same_ops(HUGE, HUGE),
        lambda: assert_has_ops(TRACE, "aten::t", VIEW_OPS, re.compile("npu::.*")),
        lambda: assert_has_ops(HUGE, "aten::add"),
        lambda: assert_has_ops(CUT, "aten::t"),
        lambda: assert_no_ops(TRACE, DETACH_OPS, "npu::npu_linear"),
        lambda: assert_no_ops(TRACE, "aten::t", phase="backward"),
        lambda: assert_no_ops(EMPTY, "*"),
        lambda: assert_no_ops(HUGE, "aten::mul"),
        lambda: assert_only_ops(TRACE, "aten::*", "npu::npu_format_cast"),
        lambda: assert_only_ops(EMPTY),
        lambda: assert_only_ops(HUGE, "aten::add"),
        lambda: assert_op_count(TRACE, "aten::mm", 2),
        lambda: assert_op_count(TRACE, at_least=13, at_most=13),
        lambda: assert_op_count(TRACE, VIEW_OPS, at_least=1),
        lambda: assert_op_count(TRACE, "aten::x", 0),
        lambda: assert_op_count(EMPTY, at_most=0),
        lambda: assert_op_count(HUGE, "aten::add", 100_000),
        lambda: assert_op_count(CUT, "aten::t", at_least=1),
        lambda: assert_ops_replaced(
            TRACE,
            ["npu::npu_linear"],
            removed=["aten::addmm"],
            added=["npu::npu_linear"],
        ),
        lambda: assert_ops_replaced(
            TRACE, TRACE[:10], removed=["aten::mm"], partly=True
        ),
        lambda: assert_ops_replaced(HUGE, EMPTY, removed=["aten::add"]),
        lambda: assert_log(LOGS, level="WARNING", message="*falls back*"),
        lambda: assert_log(LOGS, level=">=info", logger="torch_npu.*", count=4),
        lambda: assert_log(HUGE_LOGS, count=100_000),
        lambda: assert_no_logs(LOGS, level=">=ERROR"),
        lambda: assert_no_logs(LOGS, message=re.compile("aclnnMul")),
        lambda: assert_no_logs(NO_LOGS),
        lambda: assert_no_logs(HUGE_LOGS, level="WARNING"),
    ],
)
def test_pass(check):
    """What holds raises nothing and returns nothing."""
    assert check() is None


@pytest.mark.parametrize(
    ("check", "message"),
    [
        (
            lambda: assert_ops(TRACE, "aten::t"),
            "assert_ops takes a list of patterns in order, not 'aten::t'; assert_has_ops looks for single ones.",
        ),
        (
            lambda: assert_ops("aten::t", ["aten::t"]),
            "'aten::t' is no trace: give an OpTrace, a LogTrace, a captured graph, or a list of operator names.",
        ),
        (
            lambda: assert_ops(object(), ["aten::t"]),
            "object is no trace: give an OpTrace, a LogTrace, a captured graph, or a list of operator names.",
        ),
        (
            lambda: assert_ops(TRACE, [], module=3),
            "module= takes a glob over module paths as text, not 3.",
        ),
        (
            lambda: assert_same_ops(TRACE, TRACE, names=("x",)),
            "names= takes a name for each of the two traces, not ('x',).",
        ),
        (
            lambda: assert_kernel(TRACE, "aten::t"),
            "The first argument is the table of read_dispatch_table(), not OpTrace.",
        ),
        (
            lambda: assert_log(LOGS, message=b"x"),
            "message= takes text, not b'x'.",
        ),
        (
            lambda: assert_ops([1], ["aten::t"]),
            "A trace is made of records or names; item 0 is 1.",
        ),
        (
            lambda: assert_ops(TRACE, [], phase="x"),
            "phase= is one of 'forward', 'backward', 'optimizer', 'other', not 'x'.",
        ),
        (
            lambda: assert_ops(TRACE, [], ignore=[op("a") >> "b"]),
            "ignore= takes operators, such as VIEW_OPS, not a >> b.",
        ),
        (lambda: assert_has_ops(TRACE), "assert_has_ops needs at least one operator."),
        (lambda: assert_no_ops(TRACE), "assert_no_ops needs at least one operator."),
        (
            lambda: assert_no_ops(TRACE, op("a") >> "b"),
            "assert_no_ops looks at single calls, not at a >> b: use assert_ops_match for patterns of several calls.",
        ),
        (
            lambda: assert_ops_in_order(TRACE),
            "assert_ops_in_order needs at least one pattern.",
        ),
        (
            lambda: assert_op_count(TRACE, 3),
            "assert_op_count takes an operator and a number, or at_least= and at_most= for all operators, not 3 alone.",
        ),
        (
            lambda: assert_op_count(TRACE, "aten::t"),
            "How many calls? Give a number, at_least= or at_most=.",
        ),
        (
            lambda: assert_op_count(TRACE, "aten::t", -1),
            "A number of calls is a whole number from 0 up, not -1.",
        ),
        (
            lambda: assert_op_count(TRACE, "aten::t", 1, at_most=2),
            "Give a number, or at_least= and at_most=, not both.",
        ),
        (
            lambda: assert_op_count(TRACE, at_least=3, at_most=2),
            "at_least=3 is more than at_most=2.",
        ),
        (
            lambda: assert_ops_replaced(TRACE, TRACE),
            "assert_ops_replaced needs removed=[...], added=[...] or both.",
        ),
        (
            lambda: assert_ops_replaced(TRACE, TRACE, removed="aten::t"),
            "removed= takes a list of operators, not 'aten::t' alone.",
        ),
        (
            lambda: assert_log(LOGS, level="LOUD"),
            "level= is one of DEBUG, INFO, WARNING, ERROR, CRITICAL, also as '>=WARNING', not 'LOUD'.",
        ),
        (
            lambda: assert_log(["x"]),
            "list has no log lines: give a LogTrace, as from capture_logs().",
        ),
        (
            expect_ops,
            "expect_ops expects nothing: give operators, exactly=, in_order=, none_of=, only=, at_least= or at_most=.",
        ),
        (
            lambda: expect_ops(none_of="aten::t"),
            "none_of= takes a list of operators, not 'aten::t' alone.",
        ),
    ],
)
def test_mistakes(check, message):
    """A wrong call is no failed assertion: one sentence says what to write."""
    with pytest.raises(UsageError) as caught:
        check()
    assert str(caught.value) == message


def test_versions_decide_which_patterns_count():
    """The trace's own versions are compared, whatever this process runs on."""
    old = OpTrace(
        records=RECORDS[:1],
        environment=type(HERE)(tool="0", python="3", platform="x", torch="2.5.1"),
    )
    pattern = op("aten::t", torch="<2.6") | op("aten::transpose", torch=">=2.6")
    assert_ops(old, [pattern, op("aten::new", torch=">=2.6")])
    with pytest.raises(
        AssertionError, match="expected aten::transpose, traced aten::t at #0"
    ):
        assert_ops(TRACE[:1], [pattern])
    assert_ops_in_order(old, op("aten::new", torch=">=2.6"))
    assert_has_ops(TRACE, op("aten::x", torch_npu=">=2.6"), "aten::t")
    with pytest.raises(AssertionError, match="missing op: aten::x"):
        assert_has_ops(OpTrace(environment=NPU), op("aten::x", torch_npu=">=2.6"))


def test_versions_of_names_are_those_of_this_process():
    """A list of names has no environment; the installed torch decides."""
    assert_ops(["aten::t"], [op("aten::t", torch=">=2"), op("aten::x", torch="<2")])


def test_labels_name_the_sides():
    """Traces with labels are called by them."""
    one = OpTrace(records=RECORDS[:1], environment=HERE, label="eager")
    other = OpTrace(environment=HERE, label="compiled")
    with pytest.raises(AssertionError) as caught:
        assert_same_ops(one, other)
    assert str(caught.value).splitlines()[0] == (
        "op sequence differs: 1 only in eager (eager 1, compiled 0)"
    )


def test_notes_of_the_trace_are_shown():
    """What the trace could not see stands under the failure."""
    trace = OpTrace(environment=HERE, notes=("A thread was not seen.",))
    with pytest.raises(AssertionError) as caught:
        assert_has_ops(trace, "aten::t")
    assert (
        str(caught.value).splitlines()[-1]
        == "  the trace notes: A thread was not seen."
    )


def test_rows_are_limited(monkeypatch):
    """The number of rows is a setting; all of them can be had."""
    monkeypatch.setattr(SETTINGS, "rows", 4)
    with pytest.raises(AssertionError) as caught:
        assert_ops(TRACE, [])
    assert len(str(caught.value).splitlines()) == 9
    monkeypatch.setattr(SETTINGS, "rows", None)
    with pytest.raises(AssertionError) as caught:
        assert_ops(HUGE[:1000], ["aten::mul"] * 1000)
    assert len(str(caught.value).splitlines()) == 2005


def test_nothing_unstable_is_printed():
    """No addresses, absolute paths or ids in any failure."""
    for _, text in FAILURES:
        assert re.search(r"/home|\b0x[0-9a-f]", text) is None


def test_graphs_of_torch_fx():
    """A graph that a pass works on is a trace too: its operator calls are looked at."""
    import torch
    from torch.fx.experimental.proxy_tensor import make_fx

    def before(x, w):
        return torch.nn.functional.silu(x @ w)

    def after(x, w):
        return (x @ w).mul(2)

    x, w = torch.ones(2, 3), torch.ones(3, 4)
    old, new = make_fx(before)(x, w), make_fx(after)(x, w)
    assert_ops(old, ["aten::mm", "aten::silu"])
    assert_ops(old.graph, ["aten::mm", torch.ops.aten.silu.default])
    assert_ops_replaced(old, new, removed=["aten::silu"], added=["aten::mul.Tensor"])


def test_auto_functionalized_counts_as_the_operator_it_calls():
    """The wrapper that torch.compile puts around a mutating operator is not a call."""
    import torch

    graph = torch.fx.Graph()
    x = graph.placeholder("x")
    wrapper = torch.ops.higher_order.auto_functionalized
    node = graph.call_function(wrapper, (torch.ops.aten.silu_.default,), {"self": x})
    graph.output(graph.call_function(getattr, (node, "shape")))
    assert_ops(graph, ["aten::silu_", "getattr"])


def test_reports_and_chains():
    """A report stands for the calls of its chains and for its log."""
    nodes = [
        ChainNode(op=each, verdict=Verdict.UNKNOWN, why="it is not known.")
        for each in RECORDS
    ]
    outer = evolve(nodes[0], children=(nodes[1],))
    # Calls that torch_npu's logger made are in the trace and in no chain.
    logged = record(13, "aten::item")
    trace = OpTrace(records=(*RECORDS, logged), environment=HERE)
    report = DispatchReport(chains=[outer, *nodes[2:]], trace=trace, logs=LOGS)
    assert_ops(report, NAMES)
    assert_launches(report, ["aclnnAddmm", "aclnnGelu"])
    assert_log(report, level="WARNING")
    assert_ops(outer, ["aten::t", "aten::addmm"])
    assert_ops(report.find("aten::mm"), ["aten::mm", "aten::mm"])
    assert_ops(TRACE.tree()[0], ["aten::t"])
    with pytest.raises(UsageError, match="No log was captured with this report"):
        assert_launches(DispatchReport(chains=nodes, trace=TRACE), ["aclnnAdd"])


def test_frames_are_hidden_from_tracebacks():
    """Both pytest and unittest show the line of the test, not those of the assertion."""

    class Case(unittest.TestCase):
        def runTest(self):  # noqa: N802 - unittest's name
            assert_ops(TRACE, [])

    result = unittest.TestResult()
    Case().run(result)
    ((_, text),) = result.failures
    assert "assertions" not in text.split("AssertionError")[0].split("line", 2)[-1]
    try:
        assert_ops(TRACE, [])
    except AssertionError as error:
        frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)][1:]
        assert all(frame.f_locals.get("__tracebackhide__") for frame in frames)
