# SPDX-License-Identifier: BSD-3-Clause
"""The records: one fact each, plain values only.

Every record is a frozen, slotted, keyword-only attrs class. No tensor, module,
frame or torch object is ever inside one, so a record can be pickled, hashed,
compared, stored, and read where torch is not installed.
"""

from npu_dispatch_inspect.records.environment import Environment
from npu_dispatch_inspect.records.logs import (
    AclnnRecord,
    AsyncErrorRecord,
    DetailRecord,
    DroppedRecord,
    ExecutionRecord,
    FallbackWarning,
    LoggedArgument,
    LogOrigin,
    LogRecord,
    LogStyle,
    MissingReason,
    OpPluginCall,
    QueueAction,
    QueueRecord,
    QueueState,
    QueueTask,
    TaskKind,
    TaskRecord,
    TaskRun,
)
from npu_dispatch_inspect.records.ops import (
    ExceptionRecord,
    KernelChoice,
    OpRecord,
    Phase,
    tensors_in,
)
from npu_dispatch_inspect.records.values import (
    Argument,
    Constant,
    SourceLocation,
    TensorSpec,
    Value,
)

__all__ = [
    "AclnnRecord",
    "Argument",
    "AsyncErrorRecord",
    "Constant",
    "DetailRecord",
    "DroppedRecord",
    "Environment",
    "ExceptionRecord",
    "ExecutionRecord",
    "FallbackWarning",
    "KernelChoice",
    "LogOrigin",
    "LogRecord",
    "LogStyle",
    "LoggedArgument",
    "MissingReason",
    "OpPluginCall",
    "OpRecord",
    "Phase",
    "QueueAction",
    "QueueRecord",
    "QueueState",
    "QueueTask",
    "SourceLocation",
    "TaskKind",
    "TaskRecord",
    "TaskRun",
    "TensorSpec",
    "Value",
    "tensors_in",
]
