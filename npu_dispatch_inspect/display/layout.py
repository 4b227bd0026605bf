# SPDX-License-Identifier: BSD-3-Clause
"""Lines of a document: aligned, and no wider than asked for.

Every line is a tuple of styled pieces. Plain text joins them; a terminal colours
them. So both are the same to the last character.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeAlias

from attrs import frozen

from npu_dispatch_inspect.display.document import (
    Column,
    Counts,
    Document,
    Element,
    Fold,
    Grid,
    Heading,
    Line,
    Listing,
    More,
    Row,
    Span,
    Title,
    Verbatim,
)

__all__ = ["Styled", "columns", "cut", "cut_middle", "lines", "plain_text"]

GAP = "  "
INDENT = "  "
DOTS = "..."
Styled: TypeAlias = "tuple[Span, ...]"


def plain_text(document: Document, *, width: int | None = None) -> str:
    """The document as one text.

    Args:
        document: what to show.
        width: columns of the grids at most; None: as wide as they are.
    """
    made = ("".join(each.text for each in line) for line in lines(document, width))
    return "\n".join(made)


def lines(
    document: Document, width: int | None = None, *, wrap: bool = False
) -> Iterator[Styled]:
    """The lines of a document.

    Args:
        document: what to show.
        width: columns of the grids at most.
        wrap: sentences keep to the width as well.
    """
    for element in document:
        for each, hang in _lines(element, width):
            if wrap and width is not None and hang is not None:
                yield from _wrapped(each, width, hang)
            else:
                yield each


def columns(text: str) -> int:
    """How many columns a terminal uses for a text."""
    if text.isascii():
        return len(text)
    return sum(
        0
        if unicodedata.combining(each)
        else 1 + (unicodedata.east_asian_width(each) in "WF")
        for each in text
    )


def cut(text: str, width: int) -> str:
    """The text, with ``...`` for its end where it is too long."""
    if columns(text) <= width:
        return text
    return _first(text, max(0, width - len(DOTS))) + DOTS[: max(0, width)]


def cut_middle(text: str, width: int) -> str:
    """The text, with ``...`` for its middle where it is too long."""
    if columns(text) <= width:
        return text
    tail = max(0, width - len(DOTS)) // 2
    ending = text[len(text) - tail :]
    while columns(ending) > tail:
        ending = ending[1:]
    return cut(text, width - columns(ending)) + ending


def _first(text: str, width: int) -> str:
    if text.isascii():
        return text[:width]
    while columns(text) > width:
        text = text[:-1]
    return text


def _lines(element: Element, width: int | None) -> Iterator[tuple[Styled, int | None]]:
    """The lines, each with the indentation of what is wrapped; None: it never is."""
    if isinstance(element, Grid):
        yield from ((each, None) for each in _grid(element, width))
    elif isinstance(element, Line):
        indent = (Span(" " * element.indent),) if element.indent else ()
        yield (*indent, *element.spans), element.indent + 2
    elif isinstance(element, Counts):
        if element.title:
            yield (Span(element.title, "title"),), 2
        for name, number, style in element.items:
            yield (Span(f"{number:7}", "number"), Span(GAP), Span(name, style)), 11
        if element.more:
            yield (Span(f"{GAP}{DOTS} {element.more} more", "dim"),), None
    elif isinstance(element, Listing):
        yield (
            (
                Span(f"{element.title}:", "title"),
                Span(f" {element.count}", element.style),
            ),
            2,
        )
        for entry in element.entries:
            yield (Span(INDENT), *entry.spans), 4
        if element.more:
            yield (Span(f"{INDENT}{DOTS} {element.more} more", "dim"),), None
    elif isinstance(element, Title):
        yield (Span(": ".join((element.name, ", ".join(element.facts)))),), 2
    elif isinstance(element, Verbatim):
        yield from ((_cut_line(each.spans, width), None) for each in element.lines)
    elif isinstance(element, Fold):
        for each in element.body:
            yield from _lines(each, width)


@frozen
class _Item:
    """A row with what stands in front of its indented cell."""

    row: Row
    prefix: str


def _grid(grid: Grid, width: int | None) -> Iterator[Styled]:
    items = list(_items(grid))
    rows = [each for each in items if isinstance(each, _Item)]
    names = [column.name if grid.header else "" for column in grid.columns]
    natural = [
        max(
            [columns(names[place]), *(_natural(grid, each, place) for each in rows)],
            default=0,
        )
        for place in range(len(grid.columns))
    ]
    if grid.aligned is not None:
        natural[0] = max(natural[0], grid.aligned)
    said = [
        any(each.row.cells[place].text for each in rows)
        for place in range(len(grid.columns))
    ]
    widths, dropped = _fit(grid.columns, natural, said, width)
    if grid.header:
        header = [Span(name, "header") for name in names]
        yield _joined(grid.columns, header, widths, width)
    for item in items:
        if isinstance(item, _Item):
            joined = _joined(grid.columns, _cells(grid, item), widths, width)
            yield _plain_prefix(joined, item.prefix) if grid.branches else joined
        elif isinstance(item, Heading):
            note = f": {item.note}" if item.note else ""
            spans = (Span(item.text, "heading"), Span(note, "dim"))
            yield _cut_line(spans, width)
        else:
            indent = INDENT if grid.branches and not grid.header else ""
            yield _cut_line((Span(f"{indent}{item.text}", "dim"),), width)
    if dropped:
        told = f"not shown in {width} columns: {', '.join(dropped)}"
        yield (Span(told, "dim"),)


def _items(grid: Grid) -> Iterator[_Item | Heading | More]:
    """The rows in order, each with the branches of the tree in front of it."""
    start = INDENT if grid.branches and not grid.header else ""
    for each in grid.rows:
        if not isinstance(each, Row):
            yield each
            continue
        # Without recursion: calls can be nested deeper than Python allows.
        pending: list[tuple[Row | More, str, str]] = [(each, start, start)]
        while pending:
            item, first, rest = pending.pop()
            if isinstance(item, More):
                yield More(f"{first.removeprefix(start)}{item.text}")
                continue
            prefix = first if grid.branches else INDENT * item.depth
            yield _Item(item, prefix)
            for place, below in enumerate(reversed(item.below)):
                branch, stem = ("└─ ", "   ") if place == 0 else ("├─ ", "│  ")
                pending.append((below, rest + branch, rest + stem))


def _cells(grid: Grid, item: _Item) -> list[Span]:
    made = []
    for place, (cell, column) in enumerate(
        zip(item.row.cells, grid.columns, strict=True)
    ):
        text = cell.text
        if place == grid.indented:
            text = item.prefix + text
        if column.cut is not None:
            text = cut(text, column.cut)
        made.append(Span(text, cell.style))
    return made


def _natural(grid: Grid, item: _Item, place: int) -> int:
    text = item.row.cells[place].text
    found = columns(text) + (columns(item.prefix) if place == grid.indented else 0)
    limit = grid.columns[place].cut
    return found if limit is None else min(found, limit)


def _fit(
    wanted: Sequence[Column],
    natural: Sequence[int],
    said: Sequence[bool],
    width: int | None,
) -> tuple[list[int | None], list[str]]:
    """A width for each column, None for those left out, and the names of these."""
    whole = [
        size if column.pad is None else min(size, column.pad)
        for column, size in zip(wanted, natural, strict=True)
    ]
    kept = list(range(len(wanted)))
    dropped: list[int] = []
    while True:
        sizes = _squeezed(wanted, whole, kept, width)
        # An empty column says nothing, so it is the first to go, and goes unsaid.
        order = [each for each in kept if wanted[each].rank]
        if sizes is not None or not order:
            break
        gone = max(order, key=lambda each: (not said[each], wanted[each].rank))
        kept.remove(gone)
        dropped.append(gone)
    if sizes is None:
        sizes = {each: whole[each] for each in kept}
    names = [wanted[each].name for each in sorted(dropped) if said[each]]
    return [sizes.get(place) for place in range(len(wanted))], names


def _squeezed(
    wanted: Sequence[Column],
    whole: Sequence[int],
    kept: Sequence[int],
    width: int | None,
) -> dict[int, int] | None:
    """Widths that fit together; None where there are none."""
    sizes = {each: whole[each] for each in kept}
    if width is None:
        return sizes
    excess = sum(sizes.values()) + len(GAP) * (len(kept) - 1) - width
    for place in sorted(kept, key=lambda each: -wanted[each].rank):
        if excess <= 0:
            break
        least = wanted[place].least
        if least is not None and wanted[place].rank:
            taken = min(excess, max(0, sizes[place] - least))
            sizes[place] -= taken
            excess -= taken
    return sizes if excess <= 0 else None


def _joined(
    wanted: Sequence[Column],
    cells: Sequence[Span],
    widths: Sequence[int | None],
    width: int | None,
) -> Styled:
    """The cells of a line side by side, without spaces at its end."""
    made: list[Span] = []
    gap = 0
    for place, (cell, size) in enumerate(zip(cells, widths, strict=True)):
        if size is None:
            continue
        # What follows is pushed aside by a long first cell only.
        shorten = cut_middle if wanted[place].middle else cut
        text = cell.text if place == 0 else shorten(cell.text, size)
        if text:
            if gap:
                made.append(Span(" " * gap))
                gap = 0
            made.append(Span(text, cell.style))
        gap += max(0, size - columns(text)) + len(GAP)
    return _cut_line(tuple(made), width)


def _plain_prefix(spans: Styled, prefix: str) -> Styled:
    """The branches of the tree are not coloured as what hangs on them."""
    first, *rest = spans or (Span(""),)
    if not prefix or not first.text.startswith(prefix):
        return spans
    text = first.text.removeprefix(prefix)
    return (Span(prefix, "dim"), Span(text, first.style), *rest)


def _cut_line(spans: Styled, width: int | None) -> Styled:
    if width is None or sum(columns(each.text) for each in spans) <= width:
        return spans
    left = max(0, width - len(DOTS))
    made: list[Span] = []
    for each in spans:
        text = _first(each.text, left)
        made.append(Span(text, each.style))
        left -= columns(text)
        if len(text) < len(each.text):
            break
    return (*made, Span(DOTS, "dim"))


def _wrapped(spans: Styled, width: int, hang: int) -> Iterator[Styled]:
    """The pieces of a sentence on as many lines as they need."""
    made: list[Span] = []
    used = 0
    for each in spans:
        for word in _words(each.text):
            size = columns(word)
            if used + columns(word.rstrip()) > width and used > hang:
                yield _stripped(made)
                made, used = [Span(" " * hang)], hang
                word, size = word.lstrip(), columns(word.lstrip())  # noqa: PLW2901
            if made and made[-1].style == each.style:
                made[-1] = Span(made[-1].text + word, each.style)
            else:
                made.append(Span(word, each.style))
            used += size
    yield _stripped(made)


def _words(text: str) -> Iterable[str]:
    """Words with the spaces that follow them."""
    start = 0
    for place in range(1, len(text)):
        if text[place - 1] == " " and text[place] != " ":
            yield text[start:place]
            start = place
    if text:
        yield text[start:]


def _stripped(spans: list[Span]) -> Styled:
    while spans and not spans[-1].text.strip():
        spans.pop()
    if spans:
        spans[-1] = Span(spans[-1].text.rstrip(), spans[-1].style)
    return tuple(spans)
