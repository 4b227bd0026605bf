# SPDX-License-Identifier: BSD-3-Clause
"""What every trace, table and report can do with a file."""

from __future__ import annotations

import os

__all__ = ["Saved"]


class Saved:
    """Has a method that writes the object to a file."""

    __slots__ = ()

    def save(
        self,
        path: str | os.PathLike[str],
        *,
        format: str | None = None,  # noqa: A002 - as the function `save`
    ) -> None:
        """Write to a file; the suffix decides the format.

        ``.json`` and ``.jsonl`` can be loaded again; see `npu_dispatch_inspect.save`
        for all formats and errors.
        """
        from npu_dispatch_inspect.export.saving import save

        save(self, path, format=format)
