# SPDX-License-Identifier: BSD-3-Clause
"""Mermaid flowcharts, as GitHub and many editors show them inside Markdown."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from npu_dispatch_inspect.display.document import printable
from npu_dispatch_inspect.export._drawings import (
    COLOURS,
    Arrow,
    Box,
    Drawing,
    drawing_of,
)

__all__ = ["mermaid_text"]

MAX_ARROWS = 480
MAX_TEXT = 45_000
"""Mermaid refuses charts of more than 500 arrows or 50,000 characters."""
_ESCAPES = {ord(each): f"#{ord(each)};" for each in '"#&;<>`\\'}


def mermaid_text(thing: Any) -> Iterator[str]:
    """The pieces of a Mermaid file; what is more than Mermaid takes is counted.

    Args:
        thing: an `OpTrace`, `DispatchReport`, `Explanation`, `CapturedGraph` or
            `GraphSet`.

    Raises:
        UsageError: it is nothing that can be drawn.
    """
    return _lines(drawing_of(thing))


def _lines(drawing: Drawing) -> Iterator[str]:
    yield f"flowchart {'LR' if drawing.across else 'TD'}\n"
    # Not the bare word: "call" is one of Mermaid's own.
    for kind, colour in COLOURS.items():
        yield f"  classDef {kind}Box fill:{colour},stroke:#888,color:#000\n"
    room = _Room()
    for number, group in enumerate(drawing.groups):
        if group.title is not None:
            yield f'  subgraph s{number}["{_escaped(group.title)}"]\n'
        for part in group.parts:
            line = room.line(part)
            if line:
                yield line
        if group.title is not None:
            yield "  end\n"
    if room.left_out:
        text = f"... {room.left_out} more boxes: a .dot file has them all"
        yield f'  more["{_escaped(text)}"]:::noteBox\n'


class _Room:
    """Gives parts their lines until Mermaid would refuse the chart."""

    def __init__(self) -> None:
        self.left_out = 0
        self._numbers: dict[str, int] = {}
        self._arrows = 0
        self._text = 0

    def line(self, part: Box | Arrow) -> str | None:
        full = self._arrows >= MAX_ARROWS or self._text >= MAX_TEXT
        if isinstance(part, Box):
            if full or self.left_out:
                self.left_out += 1
                return None
            number = self._numbers[part.name] = len(self._numbers)
            label = "<br/>".join(map(_escaped, part.lines))
            line = f'  n{number}["{label}"]:::{part.kind}Box\n'
        else:
            start = self._numbers.get(part.start)
            end = self._numbers.get(part.end)
            if full or start is None or end is None:
                return None
            self._arrows += 1
            line = f"  n{start} --> n{end}\n"
        self._text += len(line)
        return line


def _escaped(text: str) -> str:
    return printable(text).translate(_ESCAPES)
