# SPDX-License-Identifier: BSD-3-Clause
"""Why lines that a capture asked for were not printed."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterable

from npu_dispatch_inspect.records import (
    AclnnRecord,
    Environment,
    LogRecord,
    MissingReason,
    OpPluginCall,
    QueueAction,
    QueueRecord,
)

__all__ = ["explain_missing"]

OP_PLUGIN = "torch_npu.op_plugin"
DISPATCH = "torch_npu.dispatch"


def explain_missing(
    records: Iterable[LogRecord],
    levels: dict[str, int],
    environment: Environment,
    *,
    lost: bool,
) -> tuple[MissingReason, ...]:
    """Reasons for what is not among the records, most specific first.

    Args:
        records: what came.
        levels: what was asked for, by full name of the logger.
        environment: that of the block.
        lost: lines may have been printed that did not come.
    """
    launched = tasks = False
    for each in records:
        launched = launched or isinstance(each, (AclnnRecord, OpPluginCall))
        tasks = tasks or (
            isinstance(each, QueueRecord)
            and each.action in (QueueAction.WRITE, QueueAction.READ)
        )
    reasons: list[MissingReason] = []
    if not launched:
        reasons += _no_launches(levels)
    if not tasks:
        reasons += _no_tasks(levels, environment)
    if not (launched and tasks):
        reasons += _filtered(environment)
    if "torch_npu.acl" in levels and environment.switch("TORCH_NPU_LOGS") is None:
        reasons.append(
            MissingReason(
                what="acl",
                reason="torch_npu decides when it starts whether it ever logs ACL calls.",
                remedy="Set TORCH_NPU_LOGS=acl before torch_npu is imported.",
            )
        )
    if not (launched or tasks or reasons or lost):
        reasons.append(
            MissingReason(
                what="everything",
                reason="No operator ran on an NPU in the block.",
                remedy="Put the tensors on the NPU: what runs on the CPU is not logged.",
            )
        )
    return tuple(reasons)


def _no_launches(levels: dict[str, int]) -> list[MissingReason]:
    level = levels.get(OP_PLUGIN)
    if level is None and DISPATCH in levels:
        return [
            MissingReason(
                what="op_plugin",
                reason="The capture does not ask for the logger op_plugin.",
                remedy='Name it: capture_logs("op_plugin").',
            )
        ]
    if level is not None and level > logging.INFO:
        return [
            MissingReason(
                what="op_plugin",
                reason="Launches are printed at the levels INFO and DEBUG only.",
                remedy='Leave `level` out, or pass level="info".',
            )
        ]
    return []


def _no_tasks(levels: dict[str, int], environment: Environment) -> list[MissingReason]:
    level = levels.get(DISPATCH)
    if level is None:
        return []
    reasons = []
    if environment.switch("ASCEND_LAUNCH_BLOCKING") not in (None, "0"):
        reasons.append(
            MissingReason(
                what="dispatch",
                reason="ASCEND_LAUNCH_BLOCKING is set: operators run without the queue.",
                remedy="Start the program without ASCEND_LAUNCH_BLOCKING.",
            )
        )
    if environment.switch("TASK_QUEUE_ENABLE") == "0":
        interactive = hasattr(sys, "ps1")
        reasons.append(
            MissingReason(
                what="dispatch",
                reason=(
                    "torch_npu turns the task queue off in an interactive Python "
                    "(TASK_QUEUE_ENABLE=0)."
                    if interactive
                    else "TASK_QUEUE_ENABLE is 0: operators run without the queue."
                ),
                remedy=(
                    "Run the code as a script, where the queue is on."
                    if interactive
                    else "Start the program with TASK_QUEUE_ENABLE=1, or without it."
                ),
            )
        )
    if level > logging.DEBUG:
        reasons.append(
            MissingReason(
                what="dispatch",
                reason="Above the level DEBUG only waits for the queue are printed.",
                remedy='Leave `level` out, or pass level={"dispatch": "debug"}.',
            )
        )
    return reasons


def _filtered(environment: Environment) -> list[MissingReason]:
    keywords = environment.switch("TORCH_NPU_LOGS_FILTER")
    if not keywords:
        return []
    return [
        MissingReason(
            what="everything",
            reason=f"TORCH_NPU_LOGS_FILTER={keywords} keeps some lines from being printed.",
            remedy="Start the program without TORCH_NPU_LOGS_FILTER.",
        )
    ]
