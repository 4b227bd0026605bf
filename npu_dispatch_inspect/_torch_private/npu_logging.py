# SPDX-License-Identifier: BSD-3-Clause
"""The log levels of torch_npu's C++ side."""

from __future__ import annotations

import os
import sys
from typing import Any

import torch

__all__ = ["levels_set_by_user", "logger_aliases", "set_levels", "switch_exists"]


def logger_aliases() -> dict[str, str]:
    """Names of torch_npu's loggers by their alias: ``{"op_plugin": ...}``.

    torch_npu registers them with torch's own logging. Seen in torch 2.1 to 2.13
    with torch_npu from release 7.0.0 on.
    """
    known = torch._logging._internal.log_registry.log_alias_to_log_qnames
    aliases = {}
    for alias, names in known.items():
        # A list of names since torch 2.2, one name before.
        name = names if isinstance(names, str) else names[0]
        if name.startswith("torch_npu"):
            aliases[alias] = name
    return aliases


def levels_set_by_user() -> dict[str, int]:
    """The levels that torch_npu took over last, by name of the logger.

    They come from TORCH_NPU_LOGS or from `torch._logging.set_logs`. With TORCH_LOGS
    alone torch knows levels that torch_npu was never told of. Seen in torch 2.1 to
    2.13.
    """
    if "TORCH_LOGS" in os.environ and "TORCH_NPU_LOGS" not in os.environ:
        return {}
    state: Any = torch._logging._internal.log_state
    return dict(state.log_qname_to_level)


def switch_exists() -> bool:
    """This torch_npu's levels can be set while it runs.

    Seen from release 7.0.0 on.
    """
    return _context() is not None


def set_levels(levels: dict[str, int]) -> None:
    """Give torch_npu's C++ loggers these levels and all others WARNING.

    Seen in torch_npu 2.13.0, and in the sources from release 7.0.0 on.
    """
    context = _context()
    assert context is not None
    context.setLogs(levels)


def _context() -> Any:
    torch_npu = sys.modules.get("torch_npu")
    logging = getattr(getattr(torch_npu, "_C", None), "_logging", None)
    return logging and logging._LogContext.GetInstance()
