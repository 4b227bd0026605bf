# SPDX-License-Identifier: BSD-3-Clause
"""Real values on the stand-in: what the CPU computes, in the NPU tensors' memory.

Begun by ``standin.load(values="cpu")``. In front of each kernel that torch_npu has
registered for the backend stands one of ours. It computes the call on the CPU, lets
torch_npu's kernel run as ever, and writes the results into what that returned.
"""

from __future__ import annotations

from collections.abc import Callable

from npu_dispatch_inspect._torch_private import backend_kernels
from npu_dispatch_inspect.errors import StandInError
from npu_dispatch_inspect.values._kernels import install
from npu_dispatch_inspect.values._unknown import Unknown

__all__ = ["switch_on"]


def switch_on(unknown: str | None = None) -> Callable[[], None]:
    """Compute the values of everything that torch_npu runs from now on.

    Returns what ends it.

    Args:
        unknown: see `npu_dispatch_inspect.standin.load`.

    Raises:
        StandInError: this torch lacks what is needed.
    """
    missing = backend_kernels.missing_features()
    if missing:
        message = (
            f"values='cpu' needs torch 2.9 or later, this one lacks "
            f"{', '.join(missing)}; load the stand-in without it."
        )
        raise StandInError(message)
    return install(Unknown(unknown))
