# SPDX-License-Identifier: BSD-3-Clause
"""A comparison's own text, with the two sides in two colours."""

from __future__ import annotations

from typing import Any

from npu_dispatch_inspect.display.document import (
    Document,
    Element,
    Line,
    Title,
    Verbatim,
    line,
)

__all__ = ["comparison_document"]

SIDES = {"- ": "bad", "+ ": "good"}
HTML_ROWS = 200
"""A notebook scrolls, so it shows more rows than text."""


def comparison_document(comparison: Any, *, html: bool = False) -> Document:
    """The lines of the text; what is on one side only is coloured."""
    text = comparison.to_text(max_rows=HTML_ROWS) if html else comparison.to_text()
    verdict, *rest = text.split("\n")
    style = "good" if comparison.same else "bad"
    lines = Verbatim(lines=tuple(map(_side, rest)))
    if not html:
        return (line(verdict, style), *((lines,) if rest else ()))
    parts: list[Element] = [Title(name="Comparison"), line(verdict, style)]
    if rest:
        parts.append(lines)
    return tuple(parts)


def _side(text: str) -> Line:
    return line(text, SIDES.get(text.lstrip()[:2], ""))
