# SPDX-License-Identifier: BSD-3-Clause
"""Graphviz files: trees of calls, chains, captured graphs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from npu_dispatch_inspect.display.document import printable
from npu_dispatch_inspect.export._drawings import (
    COLOURS,
    Arrow,
    Drawing,
    Part,
    drawing_of,
)

__all__ = ["dot_text"]

_TOP = "top"


def dot_text(thing: Any) -> Iterator[str]:
    """The pieces of a DOT file.

    Args:
        thing: an `OpTrace`, `DispatchReport`, `Explanation`, `CapturedGraph` or
            `GraphSet`.

    Raises:
        UsageError: it is nothing that can be drawn.
    """
    return _lines(drawing_of(thing))


def _lines(drawing: Drawing) -> Iterator[str]:
    yield "digraph {\n"
    yield f"  rankdir={'LR' if drawing.across else 'TB'}\n"
    yield '  node [shape=box, style="rounded,filled", fontname="sans-serif"]\n'
    if drawing.across:
        yield f'  {_TOP} [style=invis, label="", width=0]\n'
    for number, group in enumerate(drawing.groups):
        if group.title is not None:
            yield f"  subgraph cluster_{number} {{\n  label={_quoted(group.title)}\n"
        yield from map(_part, group.parts)
        if group.title is not None:
            yield "  }\n"
    yield "}\n"


def _part(part: Part) -> str:
    if isinstance(part, Arrow):
        return f"  {_quoted(part.start)} -> {_quoted(part.end)}\n"
    colour = COLOURS[part.kind]
    name, label = _quoted(part.name), _quoted(*part.lines)
    line = f'  {name} [label={label}, fillcolor="{colour}"]\n'
    # Trees that nothing ties together are laid out in any order.
    return line + f"  {_TOP} -> {name} [style=invis]\n" if part.top else line


def _quoted(*lines: str) -> str:
    """Text in quotes; a backslash of the program's is no escape of Graphviz's."""
    told = (printable(each).replace("\\", "\\\\").replace('"', '\\"') for each in lines)
    return '"' + "\\n".join(told) + '"'
