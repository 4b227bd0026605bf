# SPDX-License-Identifier: BSD-3-Clause
"""What a PyTorch call really ran, and why, as records.

The names below load when they are first used, so importing this package imports
neither torch nor torch_npu.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from npu_dispatch_inspect.capture.ops import OpTracer, region, trace_ops
    from npu_dispatch_inspect.environment import read_environment
    from npu_dispatch_inspect.errors import (
        InspectError,
        RecordError,
        StandInError,
        UsageError,
    )
    from npu_dispatch_inspect.opsets import DETACH_OPS, VIEW_OPS
    from npu_dispatch_inspect.records import (
        Argument,
        Constant,
        Environment,
        ExceptionRecord,
        KernelChoice,
        OpRecord,
        Phase,
        SourceLocation,
        TensorSpec,
    )
    from npu_dispatch_inspect.traces.ops import CallNode, Flow, OpTrace

_HOMES = {
    "Argument": "records",
    "CallNode": "traces.ops",
    "Constant": "records",
    "DETACH_OPS": "opsets",
    "Environment": "records",
    "ExceptionRecord": "records",
    "Flow": "traces.ops",
    "InspectError": "errors",
    "KernelChoice": "records",
    "OpRecord": "records",
    "OpTrace": "traces.ops",
    "OpTracer": "capture.ops",
    "Phase": "records",
    "RecordError": "errors",
    "SourceLocation": "records",
    "StandInError": "errors",
    "TensorSpec": "records",
    "UsageError": "errors",
    "VIEW_OPS": "opsets",
    "read_environment": "environment",
    "region": "capture.ops",
    "trace_ops": "capture.ops",
}

__all__ = [
    "DETACH_OPS",
    "VIEW_OPS",
    "Argument",
    "CallNode",
    "Constant",
    "Environment",
    "ExceptionRecord",
    "Flow",
    "InspectError",
    "KernelChoice",
    "OpRecord",
    "OpTrace",
    "OpTracer",
    "Phase",
    "RecordError",
    "SourceLocation",
    "StandInError",
    "TensorSpec",
    "UsageError",
    "read_environment",
    "region",
    "trace_ops",
]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("npu-dispatch-inspect")
    home = _HOMES.get(name)
    if home is None:
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)
    value = getattr(import_module(f"{__name__}.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__, "__version__"])
