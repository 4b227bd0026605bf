# SPDX-License-Identifier: BSD-3-Clause
"""A host stand-in for CANN: run the real torch_npu without an NPU."""

from __future__ import annotations

from npu_dispatch_inspect.standin.loader import StandIn, info, is_loaded, load

__all__ = ["StandIn", "info", "is_loaded", "load"]
