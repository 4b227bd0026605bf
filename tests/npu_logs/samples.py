# SPDX-License-Identifier: BSD-3-Clause
"""Log text that tests of several modules use."""

from __future__ import annotations

from pathlib import Path

DATA = Path(__file__).parents[1] / "data" / "logs"
RECORDINGS = sorted(DATA.glob("*.log"))

ARGUMENTS = (
    b"self: Tensor size: [64], stride: [1], offset: 0, dtype: float, device ID: 0, "
    b"data_ptr: 0x7f00\n"
    b"beta: Scalar: 1, type: Long\n"
)
GLOG = b"I1129 19:01:40.046838 666] "
GLOG_RANK = b"I1129 19:01:40.046838 666] [rank:1] "
THREADED = (
    b"[rank:3]:[81234] [2026-01-15 11:20:31:045] torch_npu.op_plugin: [INFO] [81290] "
)
PLAIN = b"[rank:3]:[2025-06-02 11:20:31:045] torch_npu.op_plugin: [INFO] "


def launch(prefix=GLOG, name=b"aclnnAddmm", arguments=ARGUMENTS, end=b"\n"):
    """One launch as torch_npu prints it behind a prefix."""
    tail = (
        b" EXEC_NPU_CMD stream_id=0, aic_num=24 aiv_num=48 with task_queue = 1\n"
        if prefix.startswith(b"I")
        else b" EXEC_NPU_CMD with task_queue = 1\n"
    )
    return prefix + name + tail + arguments + end


def wrapped(mark, text):
    """The text with a launcher's mark in front of every line."""
    return b"".join(mark + line for line in text.splitlines(keepends=True))
