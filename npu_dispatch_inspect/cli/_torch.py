# SPDX-License-Identifier: BSD-3-Clause
"""torch for the commands that need it, on the stand-in where there is no CANN."""

from __future__ import annotations

import argparse
import sys
from importlib.util import find_spec
from typing import Any

from npu_dispatch_inspect.cli import _standin
from npu_dispatch_inspect.errors import StandInError, UsageError

__all__ = ["default_device", "import_torch", "load_what_is_needed"]


def import_torch(options: argparse.Namespace) -> Any:
    """Import torch, and with it torch_npu where that is installed.

    Raises:
        UsageError: torch is not there or does not import.
    """
    if "torch" not in sys.modules and find_spec("torch") is None:
        msg = "This command needs torch, which is not installed: pip install torch."
        raise UsageError(msg)
    load_what_is_needed(options)
    try:
        import torch
    except Exception as error:
        reason = str(error).strip().partition("\n")[0].rstrip(".")
        msg = (
            f"torch cannot be imported ({reason}): 'npu-dispatch-inspect doctor' tells "
            "what to do."
        )
        raise UsageError(msg) from error
    return torch


def default_device(torch: Any) -> str:
    """``"npu"`` where there is one, else ``"cpu"``."""
    npu = getattr(torch, "npu", None)
    return "npu" if npu is not None and npu.is_available() else "cpu"


def load_what_is_needed(options: argparse.Namespace) -> None:
    """Load the stand-in where it was asked for, or torch would not import without."""
    if options.stand_in:
        _standin.load_if_asked(options)
        return
    if "torch" in sys.modules or find_spec("torch_npu") is None:
        return
    from npu_dispatch_inspect import standin
    from npu_dispatch_inspect.standin.checks import check_no_cann

    try:
        check_no_cann()
    except StandInError:
        return  # a real CANN is here, and with it perhaps a real device
    standin.load(options.device_name, options.device_count, values=options.values)
