# SPDX-License-Identifier: BSD-3-Clause
"""What a device has for a program's operators."""

from __future__ import annotations

import pytest
import torch

from npu_dispatch_inspect import (
    KernelState,
    UsageError,
    coverage,
    load,
    read_dispatch_table,
    save,
    trace_ops,
)


def model():
    """A model with named parts."""
    return torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU())


def test_every_call_has_a_state_and_a_module():
    """A model is followed without running it."""
    found = coverage(model(), torch.ones(2, 4), key="CPU")
    assert (found.key, found.source, found.complete) == ("CPU", "prediction", True)
    rows = [(each.operator, each.module, each.state.value) for each in found]
    assert ("aten::linear", "0", "composite") in rows
    assert ("aten::addmm", "0", "own kernel") in rows
    assert ("aten::relu", "1", "own kernel") in rows
    assert found.by_module()["1"] == {KernelState.OWN_KERNEL: 1}
    assert sum(found.counts.values()) == len(found)
    assert found.missing == ()


def test_a_trace_is_judged_call_by_call():
    """What was recorded, with the modules it was recorded in."""
    made, x = model(), torch.ones(2, 4)
    with trace_ops() as trace:
        made(x)
    found = coverage(trace, key="CPU")
    assert found.source == "trace"
    assert [each.operator for each in found] == [r.qualified_name for r in trace]
    assert {each.module for each in found} == {"0", "1"}


def test_another_processs_table_can_be_asked(tmp_path):
    """A saved table of another build answers for a trace made here."""
    save(read_dispatch_table("aten::addmm"), tmp_path / "t.json")
    other = load(tmp_path / "t.json")
    found = coverage(model(), torch.ones(2, 4), key="CPU", table=other)
    states = {each.operator: each.state for each in found}
    assert states["aten::addmm"] is KernelState.OWN_KERNEL
    assert states["aten::relu"] is KernelState.MISSING


def test_the_work_of_a_structured_operator_is_judged():
    """Where a generated kernel hands on to the out variant, that one counts."""
    (found,) = coverage(torch.sin, torch.ones(2), key="CPU").calls
    assert (found.through, found.state) == (None, KernelState.OWN_KERNEL)
    (found,) = [
        each
        for each in coverage(torch.sin, torch.ones(2), key="XLA")
        if each.operator == "aten::sin"
    ]
    assert (found.through, found.state) == (None, KernelState.MISSING)


@pytest.mark.npu
def test_a_hidden_fallback_is_found():
    """`digamma` has a default kernel; its out variant goes to the CPU."""
    with trace_ops() as trace:
        torch.digamma(torch.ones(2, device="npu:0"))
    (found,) = coverage(trace, key="NPU").fallbacks
    assert (found.operator, found.through) == ("aten::digamma", "aten::digamma.out")
    assert found.site.startswith("VariableFallbackKernel.cpp")


@pytest.mark.npu
def test_known_cpu_use_is_a_risk_not_a_fact():
    """A kernel known to use the CPU in some cases keeps its state and gets a warning."""
    x = torch.ones(3, device="npu:0")
    found = coverage(torch.std, x, key="NPU")
    (risk,) = found.risks
    assert risk.operator == "aten::std.correction"
    assert risk.state is KernelState.OWN_KERNEL
    assert risk.risk == "with a correction that is no integer"
    assert coverage(torch.std, torch.ones(3), key="CPU").risks == ()


def test_what_cannot_be_judged_is_refused():
    """Neither a trace nor something callable, or a trace with arguments."""
    with trace_ops() as trace:
        pass
    with pytest.raises(
        UsageError, match="takes a trace, a function or a module, not int"
    ):
        coverage(3)
    with pytest.raises(UsageError, match="give coverage\\(\\) no arguments"):
        coverage(trace, torch.ones(1))
