# SPDX-License-Identifier: BSD-3-Clause
"""What is to be shown, before anybody knows where: the parts of a text.

A trace is described once, as a few of the parts below. `layout` makes lines of them,
for files and terminals, `notebook` makes HTML. Both show the same words.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias, TypeVar

from attrs import evolve, field, frozen

__all__ = [
    "HEAD_ROWS",
    "MAX_CELL",
    "MAX_LISTED",
    "TAIL_ROWS",
    "Column",
    "Counts",
    "Document",
    "Element",
    "Fold",
    "Grid",
    "Heading",
    "Line",
    "Listing",
    "More",
    "Row",
    "Span",
    "Title",
    "Verbatim",
    "counted",
    "head_and_tail",
    "line",
    "listing",
    "printable",
    "rows_in",
    "span",
    "without_empty",
]

HEAD_ROWS = 150
TAIL_ROWS = 30
"""Something longer shows so many rows from its beginning and its end."""
MAX_CELL = 64
MAX_LISTED = 12
"""So many different entries of a list are shown."""

T = TypeVar("T")

_UNSEEN = re.compile(
    "[\x00-\x1f\x7f-\x9f\u200b\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]"
)
"""Control characters, marks that turn the direction of writing, lone surrogates."""


def printable(text: str) -> str:
    """The text with everything visible that a terminal would obey instead of show.

    Names and log lines come from the user's program; an escape code in one must not
    reach the terminal, and a line break must not break a table.
    """
    return _UNSEEN.sub(_seen, text)


def _seen(found: re.Match[str]) -> str:
    character = found[0]
    if character in "\n\r\t":
        return " "
    number = ord(character)
    return f"\\x{number:02x}" if number < 256 else f"\\u{number:04x}"  # noqa: PLR2004


@frozen
class Span:
    """A piece of text with the reason why it may be coloured."""

    text: str = field(converter=printable)
    style: str = ""
    """A word of `richview.STYLES` and of the style sheet; empty for plain text."""


@frozen(kw_only=True)
class Column:
    """A column of a grid, and how it gives way where the lines are short."""

    name: str
    rank: int = 0
    """The column with the highest rank gives way first; 0 never does."""
    least: int | None = None
    """It may be cut to so many columns; None: it is shown whole or not at all."""
    cut: int | None = MAX_CELL
    """Longer cells are cut in text; None where they never are."""
    pad: int | None = None
    """It is no wider than this; longer cells push what follows aside."""
    middle: bool = False
    """What is too long loses its middle: a file's name ends in the line's number."""


@frozen(kw_only=True)
class Row:
    """One row; in a grid with branches those below it hang from it."""

    cells: tuple[Span, ...]
    below: tuple[Row | More, ...] = ()
    depth: int = 0
    """Where there are no branches: how far the first operator is indented."""
    open: bool = True
    """In a notebook: what is below is shown from the beginning."""


@frozen(kw_only=True)
class Heading:
    """A line above the rows that follow it."""

    text: str = field(converter=printable)
    note: str = ""
    """Why no rows follow."""


@frozen
class More:
    """How much is left out at this place."""

    text: str


@frozen(kw_only=True)
class Grid:
    """Rows in columns, with headings between them, flat or as a tree."""

    columns: tuple[Column, ...]
    rows: tuple[Row | Heading | More, ...]
    header: bool = True
    branches: bool = False
    indented: int = 0
    """The column whose cells are indented by the depth of their row."""
    aligned: int | None = None
    """The width of the first columns, to align several grids; None: as wide as needed."""


@frozen(kw_only=True)
class Line:
    """A sentence or a few facts; long ones are wrapped where a width is given."""

    spans: tuple[Span, ...] = ()
    indent: int = 0


@frozen(kw_only=True)
class Counts:
    """Names with numbers, the most frequent first."""

    title: str = ""
    items: tuple[tuple[str, int, str], ...]
    """Name, number, style."""
    more: int = 0
    """So many names are left out."""


@frozen(kw_only=True)
class Listing:
    """A heading with the number of entries, and the entries."""

    title: str
    count: int
    entries: tuple[Line, ...]
    more: int = 0
    """So many different entries are left out."""
    style: str = ""


@frozen(kw_only=True)
class Title:
    """What this is, and the most important facts of it."""

    name: str = field(converter=printable)
    facts: tuple[str, ...] = ()


@frozen(kw_only=True)
class Verbatim:
    """Lines that are aligned already; they are cut, never wrapped."""

    lines: tuple[Line, ...]


@frozen(kw_only=True)
class Fold:
    """A part that can be closed in a notebook; in text, its body."""

    title: str = field(converter=printable)
    body: tuple[Element, ...]
    open: bool = False


Element: TypeAlias = "Counts | Fold | Grid | Line | Listing | Title | Verbatim"
Document: TypeAlias = "tuple[Element, ...]"


def span(text: object, style: str = "") -> Span:
    """A piece of text; None is nothing."""
    return Span("" if text is None else str(text), style)


def line(text: str = "", style: str = "", *, indent: int = 0) -> Line:
    """A line of one piece."""
    return Line(spans=(Span(text, style),) if text else (), indent=indent)


def counted(number: int, what: str) -> str:
    """``1 call``, ``2 launches``."""
    if number == 1:
        return f"{number} {what}"
    ending = "es" if what.endswith(("ch", "s")) else "s"
    if what.endswith("y"):
        what, ending = what[:-1], "ies"
    return f"{number} {what}{ending}"


def head_and_tail(
    items: Sequence[T], *, head: int = HEAD_ROWS, tail: int = TAIL_ROWS
) -> tuple[Sequence[T], int, Sequence[T]]:
    """The first items, how many are left out, and the last ones."""
    hidden = len(items) - head - tail
    if hidden <= 0:
        return items, 0, ()
    return items[:head], hidden, items[len(items) - tail :]


def listing(
    title: str, entries: Iterable[str], *, style: str = "", limit: int = MAX_LISTED
) -> tuple[Listing, ...]:
    """Equal entries become one line with a number; nothing where there is none."""
    found: dict[str, int] = {}
    for entry in entries:
        found[entry] = found.get(entry, 0) + 1
    if not found:
        return ()
    lines = tuple(
        line(f"{entry}{f'  {times} times' if times > 1 else ''}", style)
        for entry, times in list(found.items())[:limit]
    )
    more = len(found) - len(lines)
    return (
        Listing(
            title=title,
            count=sum(found.values()),
            entries=lines,
            more=more,
            style=style,
        ),
    )


def rows_in(grid: Grid) -> list[tuple[Row, int]]:
    """Every row, those below others too, with how deep it lies."""
    found: list[tuple[Row, int]] = []
    # Without recursion: calls can be nested deeper than Python allows.
    pending = [(each, 0) for each in reversed(grid.rows)]
    while pending:
        row, depth = pending.pop()
        if isinstance(row, Row):
            found.append((row, depth))
            pending += [(each, depth + 1) for each in reversed(row.below)]
    return found


def without_empty(grid: Grid) -> Grid:
    """The grid without the columns that may give way and say nothing anywhere."""
    rows = [row for row, _ in rows_in(grid)]
    kept = [
        place
        for place, column in enumerate(grid.columns)
        if not column.rank or any(row.cells[place].text for row in rows)
    ]
    if len(kept) == len(grid.columns):
        return grid
    made: dict[int, Row] = {}

    def renewed(row: Row | Heading | More) -> Any:
        return made[id(row)] if isinstance(row, Row) else row

    for row in reversed(rows):
        made[id(row)] = evolve(
            row,
            cells=tuple(row.cells[place] for place in kept),
            below=tuple(map(renewed, row.below)),
        )
    return evolve(
        grid,
        columns=tuple(grid.columns[place] for place in kept),
        rows=tuple(map(renewed, grid.rows)),
        indented=kept.index(grid.indented),
    )
