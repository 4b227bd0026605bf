# SPDX-License-Identifier: BSD-3-Clause
"""Inspection where the environment decides what can be seen: processes of their own."""

from __future__ import annotations

import json

import pytest

STAND_IN = """
import json, sys
{before}
from npu_dispatch_inspect import standin
standin.load({device!r})
import torch
from npu_dispatch_inspect import inspect_dispatch
"""

STEP = """
layer = torch.nn.Linear(8, 8).npu()
x = torch.ones(2, 8).npu()
with inspect_dispatch() as report:
    layer(x).sum().backward()
    x.nonzero()
    x.cpu()
print(json.dumps({
    "launches": [launch.name for launch in report.launches],
    "unattributed": len(report.unattributed),
    "tasks": [launch.task is not None and launch.task.ret == 0 for launch in report.launches],
    "unknown": [node.op.name for node in report.nodes() if node.verdict.value == "unknown"],
    "missing": [(each.what, each.reason) for each in report.missing],
    "complete": report.complete,
    "text": str(report),
}))
"""

LAUNCHES = [
    "aclnnAddmm", "aclnnReduceSum", "aclnnInplaceFillScalar", "aclnnMm", "aclnnReduceSum",
    "aclnnNonzero",
]  # fmt: skip


@pytest.fixture
def npu_python(python):
    """Run code on the stand-in in a new interpreter; returns what it printed as JSON."""

    def run(code, *, device="Ascend910B1", before="", **variables):
        done = python(
            STAND_IN.format(device=device, before=before) + code,
            TORCH_DEVICE_BACKEND_AUTOLOAD="1",
            **variables,
        )
        assert done.stdout, done.stderr
        return json.loads(done.stdout.splitlines()[-1])

    return run


@pytest.mark.npu
@pytest.mark.parametrize(
    ("variables", "before", "reason"),
    [
        ({"TASK_QUEUE_ENABLE": "0"}, "", "TASK_QUEUE_ENABLE is 0"),
        ({"ASCEND_LAUNCH_BLOCKING": "1"}, "", "ASCEND_LAUNCH_BLOCKING is set"),
        ({}, "sys.ps1 = '>>> '", "an interactive Python"),
        ({"TASK_QUEUE_ENABLE": "2"}, "", None),
    ],
    ids=["queue off", "blocking", "notebook", "queue 2"],
)
def test_report_without_and_with_another_queue(npu_python, variables, before, reason):
    """Every launch is there in every mode; tasks are, or the report says why not."""
    seen = npu_python(STEP, before=before, **variables)
    assert seen["launches"] == LAUNCHES
    assert (seen["unattributed"], seen["unknown"]) == (0, [])
    assert seen["tasks"] == [reason is None] * len(LAUNCHES)
    if reason is None:
        assert seen["missing"] == []
        assert "TASK_QUEUE_ENABLE=2" in seen["text"].splitlines()[0]
        return
    ((what, told),) = seen["missing"]
    assert what == "dispatch"
    assert reason in told
    assert not seen["complete"]
    assert f"missing: dispatch lines. {told}" in seen["text"]


@pytest.mark.npu
def test_error_of_the_device(npu_python):
    """The error surfaces late: the report names it, and the launches before it."""
    seen = npu_python(
        """
import os
x = torch.ones(1, 4, 8).npu()
try:
    with inspect_dispatch() as report:
        y = torch.nn.functional.interpolate(x, scale_factor=2.0, mode="linear")
        z = torch.rand(3, device="npu:0")
        torch.npu.synchronize()
        torch.npu.synchronize()
except RuntimeError:
    pass
failure = report.failure
print(json.dumps({
    "reported": failure.reported,
    "code": failure.code,
    "asynchronous": failure.asynchronous,
    "before": [(launch.name, source.line) for launch, source in failure.before],
    "failed": [launch.name for launch in report.launches if launch.task and launch.task.ret],
    "summary": report.summary(),
}), flush=True)
os._exit(0)
""",
        NPU_DISPATCH_INSPECT_STANDIN_FAIL="aclnnInplaceUniform",
    )
    assert seen["reported"] == "aclnnInplaceUniform"
    assert seen["code"] == 507015
    assert seen["asynchronous"]
    (first, line), (second, next_line) = seen["before"]
    assert (first, second) == ("aclnnUpsampleLinear1d", "aclnnInplaceUniform")
    assert next_line == line + 1
    assert seen["failed"] == ["aclnnInplaceUniform"]
    summary = seen["summary"]
    assert "reported operator: aclnnInplaceUniform, error 507015" in summary
    assert "the cause may be an earlier launch" in summary
    assert "    aclnnUpsampleLinear1d  <string>:" in summary


@pytest.mark.npu
def test_aclop(npu_python):
    """With jit_compile operators are aclops: known by the queue, or by the profiler."""
    seen = npu_python(
        """
x = torch.ones(4, 8).npu()
w = torch.ones(8, 8).npu()
def block(**options):
    with torch.no_grad(), inspect_dispatch(**options) as report:
        torch.mm(x, w); x + 1; x.half(); torch.softmax(x, -1); x.nonzero()
    return {
        "calls": [(node.op.name, node.verdict.value, node.why) for node in report.chains],
        "aclops": [task.name for node in report.nodes() for task in node.aclops],
        "text": str(report),
    }
print(json.dumps([block(), block(profiler=True)]))
""",
        device="Ascend310P3",
    )
    lines, profiler = seen
    calls = {name: (verdict, why) for name, verdict, why in lines["calls"]}
    assert calls["aten::mm"] == ("aclop", "It ran MatMul as aclop.")
    assert calls["aten::add"][0] == "aclop"
    assert calls["aten::softmax"] == (
        "aclop",
        "Its NPU kernel called aten::_softmax, run as aclop.",
    )
    assert calls["aten::nonzero"][0] == "unknown"
    assert "inspect_dispatch(profiler=True) would see it" in calls["aten::nonzero"][1]
    assert lines["aclops"] == ["MatMul", "Add", "Cast", "SoftmaxV2"]
    assert "0 aclnn launches, 4 aclop tasks" in lines["text"]
    assert {verdict for _, verdict, _ in profiler["calls"]} == {"aclop", "composite"}
    assert profiler["aclops"] == [*lines["aclops"], "NonZero"]


@pytest.mark.npu
def test_aclop_without_the_queue(npu_python):
    """Where the queue is off nothing is logged of an aclop; the profiler knows it."""
    seen = npu_python(
        """
x = torch.ones(4, 8).npu()
found = []
for profiler in (False, True):
    with torch.no_grad(), inspect_dispatch(profiler=profiler) as report:
        torch.mm(x, x.t())
    (node,) = report.find("aten::mm")
    found.append((node.verdict.value, node.why))
print(json.dumps(found))
""",
        device="Ascend310P3",
        TASK_QUEUE_ENABLE="0",
    )
    (unknown, why), known = seen
    assert unknown == "unknown"
    assert why.endswith("no launch was seen; dispatch lines are missing.")
    assert known == ["aclop", "It ran MatMul as aclop."]


def test_without_torch_npu(python):
    """On the CPU the chain ends in the kernel; nothing of an NPU is looked for."""
    done = python(
        """
        import sys, torch
        from npu_dispatch_inspect import inspect_dispatch
        net = torch.nn.Sequential(torch.nn.Linear(4, 2), torch.nn.ReLU())
        with inspect_dispatch() as report:
            net(torch.ones(3, 4)).sum().backward()
        assert "torch_npu" not in sys.modules
        assert report.logs is None and report.complete
        assert not any(node.verdict.value == "unknown" for node in report.nodes())
        print(report)
        """,
        TORCH_DEVICE_BACKEND_AUTOLOAD="0",
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].startswith("device: cpu · torch 2")
    assert any(
        "aten::addmm" in line and " kernel " in line and "CPU " in line
        for line in lines
    )
    assert "0 aclnn launches" in done.stdout
