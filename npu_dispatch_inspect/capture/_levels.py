# SPDX-License-Identifier: BSD-3-Clause
"""Which loggers a capture wants, and switching them for all captures together."""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Mapping
from typing import Final

from npu_dispatch_inspect.errors import UsageError

__all__ = ["LevelRequest", "switch"]

Level = int | str
_LEVELS: Final = {
    "DEBUG": logging.DEBUG,
    "INFO": logging.INFO,
    "WARNING": logging.WARNING,
    "ERROR": logging.ERROR,
}


class LevelRequest:
    """The loggers of one capture.

    Args:
        names: as the user wrote them.
        level: one for all, one for each, or None for the usual ones.

    Raises:
        UsageError: a level is none.
    """

    def __init__(
        self, names: tuple[str, ...], level: Level | Mapping[str, Level] | None
    ) -> None:
        self.names = names
        given = level if isinstance(level, Mapping) else dict.fromkeys(names, level)
        strange = set(given) - set(names)
        if strange:
            msg = f"level names {sorted(strange)}, which the capture does not ask for."
            raise UsageError(msg)
        self._levels = {name: _number(name, given.get(name)) for name in names}

    def levels(self) -> dict[str, int]:
        """Levels by the full names of the loggers.

        Raises:
            UsageError: torch_npu is not there, cannot be switched, or has no
                such logger.
        """
        if "torch_npu" not in sys.modules:
            msg = (
                "There are no log lines without torch_npu: import torch_npu first, "
                "without an NPU after npu_dispatch_inspect.standin.load()."
            )
            raise UsageError(msg)
        from npu_dispatch_inspect._torch_private import npu_logging

        version = getattr(sys.modules["torch_npu"], "__version__", "this version")
        if not npu_logging.switch_exists():
            msg = (
                f"torch_npu {version} cannot be told to log while it runs: releases "
                "from 7.0.0 on can, older ones write to CANN's log files only "
                "(ASCEND_GLOBAL_LOG_LEVEL=1), which parse_logs() reads."
            )
            raise UsageError(msg)
        known = npu_logging.logger_aliases()
        levels = {}
        for name, level in self._levels.items():
            full = known.get(name, name)
            if full not in known.values():
                msg = (
                    f"torch_npu {version} has no logger {name!r}; it has "
                    f"{', '.join(sorted(known))}."
                )
                raise UsageError(msg)
            levels[full] = level
        return levels


def _number(name: str, level: Level | None) -> int:
    if level is None:
        return logging.INFO if name.endswith("op_plugin") else logging.DEBUG
    number = _LEVELS.get(level.upper()) if isinstance(level, str) else level
    if number is None or number not in _LEVELS.values():
        msg = (
            f"level must be one of {', '.join(map(str.lower, _LEVELS))}, not {level!r}."
        )
        raise UsageError(msg)
    return number


class _Switch:
    """The levels that all captures together need.

    torch's public switch, `torch._logging.set_logs`, also takes down and builds
    up the handlers of every Python logger of torch, and does nothing where
    TORCH_NPU_LOGS or TORCH_LOGS is set. So torch_npu's C++ side is told directly,
    which leaves Python's logging as it is, and what it is given back afterwards
    is what it last took over from that switch or from the environment.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._wanted: dict[object, dict[str, int]] = {}

    def add(self, owner: object, levels: dict[str, int]) -> None:
        """A capture begins."""
        with self._lock:
            self._wanted[owner] = levels
            self._apply()

    def remove(self, owner: object) -> None:
        """A capture ends."""
        with self._lock:
            self._wanted.pop(owner, None)
            self._apply()

    def _apply(self) -> None:
        from npu_dispatch_inspect._torch_private import npu_logging

        levels = npu_logging.levels_set_by_user()
        for wanted in self._wanted.values():
            for name, level in wanted.items():
                levels[name] = min(level, levels.get(name, level))
        npu_logging.set_levels(levels)


switch = _Switch()
"""The one switch of this process."""
