# SPDX-License-Identifier: BSD-3-Clause
"""How long failure texts are; the pytest plugin sets it from the verbosity."""

from __future__ import annotations

from attrs import define

__all__ = ["SETTINGS", "Settings"]


@define
class Settings:
    """What every assertion looks at when it fails."""

    rows: int | None = 20
    """Rows of a comparison or list at most; None for all."""
    more: str = "print(trace) shows the trace"
    """How to see what was left out."""


SETTINGS = Settings()
