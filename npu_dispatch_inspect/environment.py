# SPDX-License-Identifier: BSD-3-Clause
"""Read where we are: versions, device, and the switches that change routes."""

from __future__ import annotations

import functools
import os
import platform
import sys
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from npu_dispatch_inspect._torch_private import npu_switches
from npu_dispatch_inspect.records import Environment

__all__ = ["SWITCHES", "read_environment"]

SWITCHES = (
    "ASCEND_GLOBAL_LOG_LEVEL",
    "ASCEND_LAUNCH_BLOCKING",
    "ASCEND_RT_VISIBLE_DEVICES",
    "ASCEND_SLOG_PRINT_TO_STDOUT",
    "PER_STREAM_QUEUE",
    "RANK",
    "TASK_QUEUE_ENABLE",
    "TORCH_LOGS",
    "TORCH_NPU_COMPACT_ERROR_OUTPUT",
    "TORCH_NPU_FALLBACK_CPU_DISABLE",
    "TORCH_NPU_LAZY_FUSION",
    "TORCH_NPU_LOGS",
    "TORCH_NPU_LOGS_FILTER",
    "TORCH_NPU_SANITIZER",
    "TORCH_NPU_USE_COMPATIBLE_IMPL",
)
"""Environment variables that decide which kernel runs or which lines are printed."""


def read_environment() -> Environment:
    """The environment of this process as it is now.

    Nothing is imported and no device is initialised for it: what torch or
    torch_npu have not set up yet stays None.

    Returns:
        Versions, device and switches; None for what is not known yet.

    Example:
        >>> import torch
        >>> from npu_dispatch_inspect import read_environment
        >>> with torch.no_grad():
        ...     environment = read_environment()
        >>> environment.grad_mode
        'no_grad'
    """
    torch = sys.modules.get("torch")
    torch_npu = sys.modules.get("torch_npu")
    stand_in = _stand_in()
    return Environment(
        tool=_installed("npu-dispatch-inspect") or "unknown",
        python=platform.python_version(),
        platform=f"{sys.platform}-{platform.machine()}",
        torch=getattr(torch, "__version__", None) and str(torch.__version__),  # type: ignore[union-attr]
        torch_npu=getattr(torch_npu, "__version__", None),
        device=_device(torch, torch_npu, stand_in),
        values=stand_in.values if stand_in else None,
        switches=tuple(
            (name, os.environ[name]) for name in SWITCHES if name in os.environ
        ),
        **_modes(torch),
        **_npu(torch, torch_npu),
    )


@functools.cache  # reading a package's metadata takes a millisecond
def _installed(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _stand_in() -> Any:
    loader = sys.modules.get("npu_dispatch_inspect.standin.loader")
    return loader.info() if loader is not None else None


def _device(torch: Any, torch_npu: Any, stand_in: Any) -> str | None:
    if stand_in is not None:
        return "stand-in"
    if torch is None:
        return None
    if torch_npu is not None and torch.npu.is_available():
        return "npu"
    if torch.cuda.is_initialized():
        return "cuda"
    return "cpu"


def _modes(torch: Any) -> dict[str, Any]:
    if torch is None:
        return {}
    if torch.is_inference_mode_enabled():
        grad = "inference"
    else:
        grad = "grad" if torch.is_grad_enabled() else "no_grad"
    autocast = []
    for kind in ("cpu", "cuda", "npu"):
        try:
            if torch.is_autocast_enabled(kind):
                dtype = str(torch.get_autocast_dtype(kind)).removeprefix("torch.")
                autocast.append(f"{kind}:{dtype}")
        except RuntimeError:  # this torch does not know the device type
            continue
    return {"grad_mode": grad, "autocast": tuple(autocast)}


def _npu(torch: Any, torch_npu: Any) -> dict[str, Any]:
    # Asking the device would initialise it, so only what is up is asked.
    if torch_npu is None or not torch.npu.is_initialized():
        return {}
    facts: dict[str, Any] = {}
    for name, read in (
        ("soc", torch.npu.get_device_name),
        ("cann", lambda: torch_npu.npu.utils.get_cann_version() or None),
        ("jit_compile", npu_switches.jit_compile),
        ("internal_format", npu_switches.internal_format_allowed),
    ):
        try:
            facts[name] = read()
        except Exception:  # noqa: BLE001 - the names differ between releases; not known is an answer
            facts[name] = None
    return facts
