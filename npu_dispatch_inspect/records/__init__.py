# SPDX-License-Identifier: BSD-3-Clause
"""The records: one fact each, plain values only.

Every record is a frozen, slotted, keyword-only attrs class. No tensor, module,
frame or torch object is ever inside one, so a record can be pickled, hashed,
compared, stored, and read where torch is not installed.
"""

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
