# SPDX-License-Identifier: BSD-3-Clause
"""What an HTML page shows, whatever it was made of, and the same as compact JSON.

A page is a summary and a table of rows. Texts are written once, in a table of
strings, and rows hold their numbers: fifty thousand calls have few different texts.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, NamedTuple

from attrs import Factory, frozen

from npu_dispatch_inspect.records import Environment

__all__ = ["Column", "Entry", "Finding", "Page", "Part", "Row", "Tag", "packed"]


class Part(NamedTuple):
    """A piece of what is told about one row when it is opened."""

    title: str
    kind: str
    """How it is shown: ``"text"``, ``"pairs"``, ``"steps"``, ``"launch"``, ``"code"``."""
    items: tuple[tuple[str, ...], ...]


class Row(NamedTuple):
    """One line of the table."""

    number: int
    """The position in its trace, by which people speak of it."""
    cells: tuple[str, ...]
    """In the order of the page's columns."""
    place: tuple[str, ...] | None = None
    """The way down the tree beside the table; None for what has no place in it."""
    depth: int = 0
    tags: tuple[str, ...] = ()
    folded: bool = False
    """The rows below it are hidden until somebody asks for them."""
    partner: int | None = None
    """The number of the row that this one belongs to: a backward call's forward call."""
    parts: tuple[Part, ...] = ()


@frozen(kw_only=True)
class Column:
    """One column of the table."""

    key: str
    """What people write in the search field: ``module:encoder``."""
    label: str
    facet: bool = False
    """Its few different values become buttons."""
    chart: str | None = None
    """Its values are counted in a chart under this heading."""
    empty: str = "none"
    """What an empty value is called there."""


@frozen(kw_only=True)
class Tag:
    """A mark that rows have or have not; a button above the table."""

    key: str
    label: str
    tone: str
    """``"bad"``, ``"warn"``, ``"info"``."""


@frozen(kw_only=True)
class Entry:
    """One line of a finding."""

    text: str
    place: str = ""
    """The user's line."""
    number: int | None = None
    """The first row that it is about."""
    times: int = 1


@frozen(kw_only=True)
class Finding:
    """Something a reader should not overlook."""

    tone: str
    """``"bad"``, ``"warn"``, ``"info"``."""
    title: str
    text: tuple[str, ...] = ()
    """A paragraph each."""
    code: str = ""
    entries: tuple[Entry, ...] = ()
    tag: str | None = None
    """The button that shows all of its rows."""


@frozen(kw_only=True)
class Page:
    """Everything a page shows."""

    title: str
    what: str
    """What the rows are: ``"calls"``."""
    headline: str
    """The verdict in one sentence."""
    tone: str
    """``"good"``, ``"warn"``, ``"bad"``, ``"info"``."""
    below: str = ""
    """A second sentence, in smaller letters."""
    figures: tuple[tuple[str, int, str | None, str], ...] = ()
    """Label, number, tag, tone."""
    findings: tuple[Finding, ...] = ()
    environment: Environment | None = None
    columns: tuple[Column, ...]
    tags: tuple[Tag, ...] = ()
    tree: str
    """Heading of the tree: ``"Modules"``."""
    outside: str
    """Heading of the rows without a place: ``"no module"``."""
    kinds: dict[tuple[str, ...], str] = Factory(dict)
    """The class of a place in the tree, where it is known."""
    partners: tuple[str, str] = ("", "")
    """What a row's partner is called, and what the row is to its partner."""
    rows: tuple[Row, ...]
    hidden: int = 0
    """Rows that were left out because there are too many."""


class _Strings:
    """A number for each text, counted from 0 as they come."""

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}

    def __call__(self, text: str) -> int:
        return self.numbers.setdefault(text, len(self.numbers))


class _Parts:
    """Parts of rows as numbers; equal ones are written once."""

    def __init__(self, strings: _Strings) -> None:
        self.strings = strings
        self.numbers: dict[Part, int] = {}
        self.made: list[Any] = []

    def __call__(self, part: Part) -> int:
        known = self.numbers.get(part)
        if known is None:
            known = self.numbers[part] = len(self.made)
            self.made.append(
                [
                    self.strings(part.title),
                    part.kind,
                    [[self.strings(text) for text in item] for item in part.items],
                ]
            )
        return known


def packed(page: Page) -> str:
    """The table of a page as JSON that may stand inside a script element.

    Only ASCII, and none of the characters that end a script element or begin
    another: whatever an operator is called, it stays a text.
    """
    strings = _Strings()
    parts = _Parts(strings)
    tags = {tag.key: 1 << place for place, tag in enumerate(page.tags)}
    tree, places = _tree(page, strings)
    data = {
        "what": page.what,
        "tree": {"heading": page.tree, **tree},
        "partners": page.partners,
        "hidden": page.hidden,
        "columns": [
            {
                "key": column.key,
                "label": column.label,
                "facet": column.facet,
                "chart": column.chart,
                "empty": column.empty,
                "ids": [strings(row.cells[place]) for row in page.rows],
            }
            for place, column in enumerate(page.columns)
        ],
        "tags": [
            {"key": tag.key, "label": tag.label, "tone": tag.tone} for tag in page.tags
        ],
        "number": [row.number for row in page.rows],
        "depth": [row.depth for row in page.rows],
        "marks": [sum(tags[tag] for tag in row.tags) for row in page.rows],
        "folded": [row.folded * 1 for row in page.rows],
        "place": [places[row.place] for row in page.rows],
        "partner": {
            place: row.partner
            for place, row in enumerate(page.rows)
            if row.partner is not None
        },
        "details": [[parts(part) for part in row.parts] for row in page.rows],
        "parts": parts.made,
    }
    # Last: everything above has put its texts into the table.
    data["strings"] = list(strings.numbers)
    text = json.dumps(data, ensure_ascii=True, separators=(",", ":"))
    for character in "<>&":
        # Outside of strings JSON has none of them.
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def _tree(
    page: Page, strings: _Strings
) -> tuple[dict[str, Any], dict[tuple[str, ...] | None, int]]:
    """The places of all rows as a tree, parents before children."""
    seen = dict.fromkeys(row.place for row in page.rows)
    below: dict[tuple[str, ...], dict[tuple[str, ...], None]] = {}
    for place in _with_parents(seen):
        if place:
            below.setdefault(place[:-1], {})[place] = None
    order: list[tuple[str, ...]] = []
    pending = list(reversed(below.get((), {})))
    while pending:
        place = pending.pop()
        order.append(place)
        pending.extend(reversed(below.get(place, {})))
    numbers: dict[tuple[str, ...] | None, int] = {
        place: number for number, place in enumerate(order)
    }
    names = [strings(place[-1]) for place in order]
    kinds = [strings(page.kinds.get(place, "")) for place in order]
    depths = [len(place) - 1 for place in order]
    if None in seen:
        numbers[None] = len(order)
        names.append(strings(page.outside))
        kinds.append(strings(""))
        depths.append(0)
    return {"names": names, "kinds": kinds, "depths": depths}, numbers


def _with_parents(
    places: Iterable[tuple[str, ...] | None],
) -> Iterable[tuple[str, ...]]:
    for place in places:
        for length in range(len(place or ())):
            yield (place or ())[: length + 1]
