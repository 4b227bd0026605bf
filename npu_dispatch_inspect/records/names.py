# SPDX-License-Identifier: BSD-3-Clause
"""How an operator with its overload is written."""

from __future__ import annotations

__all__ = ["qualified"]


def qualified(name: str, overload: str) -> str:
    """``"aten::add.Tensor"``, or ``"aten::relu"``: torch leaves ``default`` out."""
    return name if overload == "default" else f"{name}.{overload}"
