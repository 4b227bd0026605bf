# SPDX-License-Identifier: BSD-3-Clause
"""Reference formulas for operators that the CPU has no kernel for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["find_formula"]

_FORMULAS: dict[str, Callable[..., Any]] = {}


def find_formula(name: str) -> Callable[..., Any] | None:
    return _FORMULAS.get(name)
