# SPDX-License-Identifier: BSD-3-Clause
"""HTML of a document, for a notebook: no script, no network, everything escaped.

Trees fold with ``<details>``; colours follow the notebook's theme. Where a viewer
leaves the style sheet out, as for a notebook that is not trusted, the text is still
in its order, in tables and nested parts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from html import escape
from importlib.resources import files

from npu_dispatch_inspect.display.document import (
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
    rows_in,
)

__all__ = ["html"]

MAX_SHARE = 60
"""No column of a tree asks for more room than so many characters."""
SHORT = 14
STEP = 3
"""Characters by which a row is indented below another."""
LONG = 28
"""A cell with more characters may be cut, so it tells its text when pointed at."""
OPEN_LISTING = 6
"""A list with no more entries is open from the beginning."""


def html(document: Document) -> str:
    """One element with its own style sheet."""
    body = "\n".join(piece for element in document for piece in _element(element))
    return f'<div class="ndi"><style>\n{_style()}</style>\n{body}\n</div>'


@cache
def _style() -> str:
    place = files(__name__.rpartition(".")[0]) / "static" / "notebook.css"
    return place.read_text(encoding="utf-8")


def _element(element: Element) -> Iterator[str]:
    if isinstance(element, Title):
        facts = " ".join(f"<span>{escape(fact)}</span>" for fact in element.facts)
        yield f'<div class="ndi-title"><b>{escape(element.name)}</b> {facts}</div>'
    elif isinstance(element, Line):
        if element.spans:
            style = f' style="padding-left:{element.indent}ch"' * bool(element.indent)
            yield f'<div class="ndi-line"{style}>{_spans(element.spans)}</div>'
    elif isinstance(element, Counts):
        yield from _counts(element)
    elif isinstance(element, Listing):
        yield from _listing(element)
    elif isinstance(element, Verbatim):
        text = "\n".join(_spans(each.spans) for each in element.lines)
        yield f'<div class="ndi-scroll"><pre class="ndi-pre">{text}</pre></div>'
    elif isinstance(element, Fold):
        yield f'<details class="ndi-fold"{_open(now=element.open)}>'
        yield f"<summary>{escape(element.title)}</summary>"
        yield '<div class="ndi-body">'
        for each in element.body:
            yield from _element(each)
        yield "</div></details>"
    else:
        yield from _grid(element)


def _open(*, now: bool) -> str:
    return " open" if now else ""


def _class(style: str) -> str:
    return f' class="ndi-{style}"' if style else ""


def _spans(spans: Iterable[Span]) -> str:
    return "".join(
        f"<span{_class(each.style)}>{escape(each.text)}</span>" for each in spans
    )


def _counts(counts: Counts) -> Iterator[str]:
    if counts.title:
        yield f'<div class="ndi-line ndi-total">{escape(counts.title)}</div>'
    yield '<div class="ndi-chips">'
    for name, number, style in counts.items:
        kind = f" ndi-{style}" if style else ""
        yield (
            f'<span class="ndi-chip{kind}"><b>{number}</b> '
            f"{escape(Span(name).text)}</span> "
        )
    if counts.more:
        yield f'<span class="ndi-dim">... {counts.more} more</span>'
    yield "</div>"


def _listing(listing: Listing) -> Iterator[str]:
    now = len(listing.entries) <= OPEN_LISTING
    yield f'<details class="ndi-listing"{_open(now=now)}>'
    title = f"{escape(listing.title)}: {listing.count}"
    yield f"<summary><span{_class(listing.style)}>{title}</span></summary><ul>"
    for entry in listing.entries:
        yield f"<li>{_spans(entry.spans)}</li>"
    if listing.more:
        yield f'<li class="ndi-dim">... {listing.more} more</li>'
    yield "</ul></details>"


def _grid(grid: Grid) -> Iterator[str]:
    nested = any(
        isinstance(row, Heading) or getattr(row, "below", ()) for row in grid.rows
    )
    yield from (_tree(grid) if nested else _table(grid))


def _table(grid: Grid) -> Iterator[str]:
    # A column that says nothing anywhere only takes room.
    used = _used(grid, rows_in(grid))
    yield '<div class="ndi-scroll"><table class="ndi-table">'
    if grid.header:
        names = (escape(grid.columns[place].name) for place in used)
        yield f"<thead><tr>{''.join(f'<th>{name}</th>' for name in names)}</tr></thead>"
    yield "<tbody>"
    for row in grid.rows:
        if isinstance(row, Row):
            cells = (row.cells[place] for place in used)
            yield f"<tr>{''.join(f'<td{_cell(each)}</td>' for each in cells)}</tr>"
        elif isinstance(row, More):
            more = escape(Span(row.text).text)
            yield f'<tr><td colspan="{len(used)}"><span class="ndi-dim">{more}</span></td></tr>'
    yield "</tbody></table></div>"


def _cell(span: Span) -> str:
    """The attributes and the text of a cell, from behind its tag's name on."""
    text = escape(span.text)
    title = f' title="{text}"' if len(span.text) > LONG else ""
    return f"{_class(span.style)}{title}>{text}"


def _used(grid: Grid, rows: Sequence[tuple[Row, int]]) -> list[int]:
    places = range(len(grid.columns))
    used = [place for place in places if any(row.cells[place].text for row, _ in rows)]
    return used or list(places)


def _tree(grid: Grid) -> Iterator[str]:
    rows = rows_in(grid)
    used = _used(grid, rows)
    # The operator comes first: it carries the branches.
    used.sort(key=lambda place: place != grid.indented)
    shares = [_share(grid, rows, place) for place in used]
    # Short columns keep their width; long ones share what is left.
    template = " ".join(
        f"{share}ch" if share <= SHORT else f"minmax(0,{share}fr)" for share in shares
    )
    # Two characters for each gap.
    columns = (
        f"grid-template-columns:{template};max-width:{sum(shares) + 2 * len(shares)}ch"
    )
    yield '<div class="ndi-scroll"><div class="ndi-tree">'
    if grid.header:
        names = "".join(f"<span>{escape(grid.columns[p].name)}</span> " for p in used)
        yield f'<div class="ndi-row ndi-head" style="--d:0;{columns}">{names}</div>'
    inside = False
    for row in grid.rows:
        if isinstance(row, Heading):
            if inside:
                yield "</details>"
            inside = not row.note
            yield from _heading(row)
        elif isinstance(row, More):
            yield _more(row, 0)
        else:
            yield from _branch(row, used, columns)
    if inside:
        yield "</details>"
    yield "</div></div>"


def _share(grid: Grid, rows: Iterable[tuple[Row, int]], place: int) -> int:
    """The characters that a column has room for."""
    indent = STEP if place == grid.indented else 0
    widest = max(
        (len(row.cells[place].text) + indent * (depth + 1) for row, depth in rows),
        default=0,
    )
    return min(MAX_SHARE, max(widest, len(grid.columns[place].name)))


def _heading(heading: Heading) -> Iterator[str]:
    text = escape(heading.text)
    if heading.note:
        note = escape(Span(heading.note).text)
        yield (
            f'<div class="ndi-heading">{text}: '
            f'<span class="ndi-note-dim">{note}</span></div>'
        )
        return
    yield f'<details open><summary class="ndi-heading">{text}</summary>'


def _more(more: More, depth: int) -> str:
    return f'<div class="ndi-more" style="--d:{depth}">{escape(Span(more.text).text)}</div>'


def _branch(row: Row, used: Sequence[int], columns: str) -> Iterator[str]:
    """A row and all below it, without recursion: calls can be nested deeply."""
    pending: list[tuple[Row | More | None, int]] = [(row, 0)]
    while pending:
        each, depth = pending.pop()
        if each is None:
            yield "</details>"
            continue
        if isinstance(each, More):
            yield _more(each, depth)
            continue
        style = f'style="--d:{depth};{columns}"'
        cells = " ".join(f"<span{_cell(each.cells[p])}</span>" for p in used)
        if not each.below:
            yield f'<div class="ndi-row" {style}>{cells}</div>'
            continue
        yield f"<details{_open(now=each.open)}>"
        yield f'<summary class="ndi-row" {style}>{cells}</summary>'
        pending.append((None, depth))
        pending += [(inner, depth + 1) for inner in reversed(each.below)]
