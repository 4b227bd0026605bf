# SPDX-License-Identifier: BSD-3-Clause
"""The records: one fact each, plain values only."""

from npu_dispatch_inspect.records.environment import Environment
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
    "Argument",
    "Constant",
    "Environment",
    "ExceptionRecord",
    "KernelChoice",
    "OpRecord",
    "Phase",
    "SourceLocation",
    "TensorSpec",
    "Value",
    "tensors_in",
]
