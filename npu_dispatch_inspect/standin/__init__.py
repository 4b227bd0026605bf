# SPDX-License-Identifier: BSD-3-Clause
"""A host stand-in for CANN: run the real torch_npu on a machine without an NPU.

Call ``load()`` before the first import of torch.
"""

from __future__ import annotations

from npu_dispatch_inspect.standin.loader import (
    StandIn,
    info,
    is_loaded,
    load,
    missing_functions,
    unknown_values,
)

__all__ = [
    "StandIn",
    "info",
    "is_loaded",
    "load",
    "missing_functions",
    "unknown_values",
]
