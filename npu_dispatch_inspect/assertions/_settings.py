# SPDX-License-Identifier: BSD-3-Clause
"""How long failure texts are; the pytest plugin sets it from the verbosity."""

from __future__ import annotations

__all__ = ["SETTINGS", "Settings"]


class Settings:
    """What every assertion looks at when it fails.

    A plain class: the pytest plugin sets it in every run, and must import nothing.
    """

    def __init__(self) -> None:
        self.rows: int | None = 20
        """Rows of a comparison or list at most; None for all."""
        self.more = "print(trace) shows the trace"
        """How to see what was left out."""


SETTINGS = Settings()
