# SPDX-License-Identifier: BSD-3-Clause
"""The records: one fact each, plain values only.

Every record is a frozen, slotted, keyword-only attrs class. No tensor, module,
frame or torch object is ever inside one, so a record can be pickled, hashed,
compared, stored, and read where torch is not installed.
"""

from npu_dispatch_inspect.records.coverage import (
    Coverage,
    CoveredCall,
)
from npu_dispatch_inspect.records.dispatch_keys import KernelMap, KeyNames
from npu_dispatch_inspect.records.environment import (
    Environment,
)
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
from npu_dispatch_inspect.records.paths import (
    BackendChoice,
    DtypeProbe,
    Explanation,
    PathStep,
    PredictedCall,
    StepAction,
)
from npu_dispatch_inspect.records.registrations import (
    BackendFallback,
    ComputedKernel,
    Definition,
    KernelRegistration,
    KernelState,
    OperatorEntry,
    OperatorKind,
    OverloadGroup,
    PythonKernel,
)
from npu_dispatch_inspect.records.table_changes import (
    TableChange,
    TableFact,
)
from npu_dispatch_inspect.records.traced_registrations import (
    RegisteredCall,
    RegistrationTrace,
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
    "BackendChoice",
    "BackendFallback",
    "ComputedKernel",
    "Constant",
    "Coverage",
    "CoveredCall",
    "Definition",
    "DetailRecord",
    "DroppedRecord",
    "DtypeProbe",
    "Environment",
    "ExceptionRecord",
    "ExecutionRecord",
    "Explanation",
    "FallbackWarning",
    "KernelChoice",
    "KernelMap",
    "KernelRegistration",
    "KernelState",
    "KeyNames",
    "LogOrigin",
    "LogRecord",
    "LogStyle",
    "LoggedArgument",
    "MissingReason",
    "OpPluginCall",
    "OpRecord",
    "OperatorEntry",
    "OperatorKind",
    "OverloadGroup",
    "PathStep",
    "Phase",
    "PredictedCall",
    "PythonKernel",
    "QueueAction",
    "QueueRecord",
    "QueueState",
    "QueueTask",
    "RegisteredCall",
    "RegistrationTrace",
    "SourceLocation",
    "StepAction",
    "TableChange",
    "TableFact",
    "TaskKind",
    "TaskRecord",
    "TaskRun",
    "TensorSpec",
    "Value",
    "tensors_in",
]
