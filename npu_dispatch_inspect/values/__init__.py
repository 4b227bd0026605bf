# SPDX-License-Identifier: BSD-3-Clause
"""Real values on the stand-in: what the CPU computes, in the NPU tensors' memory."""

from __future__ import annotations

__all__ = ["switch_on"]


def switch_on(unknown: str | None = None) -> None:
    """Compute the values of everything that torch_npu runs from now on."""
    from npu_dispatch_inspect.values import _kernels
    from npu_dispatch_inspect.values._unknown import Unknown

    _kernels.install(Unknown(unknown))
