# SPDX-License-Identifier: BSD-3-Clause
"""How everything prints itself: in text, in a terminal with rich, in a notebook."""

from __future__ import annotations

from collections.abc import Container, Iterator
from typing import Any

__all__ = ["Printed"]


class Printed:
    """What `print`, rich and Jupyter ask an object for, all from one description.

    The one place from which records reach up to the package that makes text: the
    module is imported when somebody looks.
    """

    __slots__ = ()

    def to_text(self, *, width: int | None = None) -> str:
        """The stable text: no ids, times, addresses, escape codes or absolute paths.

        Args:
            width: columns of tables and trees at most: what matters less is cut or
                left out, and the text says so. Sentences are left whole. None: as
                wide as it is.
        """
        from npu_dispatch_inspect.display.views import text_of

        return text_of(self, width=width)

    def __str__(self) -> str:
        """`to_text` with its defaults."""
        return self.to_text()

    def __rich_console__(self, console: Any, options: Any) -> Iterator[Any]:
        """For rich: the same text in colours, as wide as the console."""
        from npu_dispatch_inspect.display.richview import rich_lines

        return rich_lines(self, options.max_width)

    def _repr_mimebundle_(
        self, include: Container[str] = (), exclude: Container[str] = ()
    ) -> dict[str, str]:
        """For Jupyter: plain text, and HTML that needs no script and no network."""
        from npu_dispatch_inspect.display.views import html_of

        wanted = {
            kind
            for kind in ("text/plain", "text/html")
            if (not include or kind in include) and kind not in (exclude or ())
        }
        return {
            kind: html_of(self) if kind == "text/html" else str(self)
            for kind in sorted(wanted)
        }
