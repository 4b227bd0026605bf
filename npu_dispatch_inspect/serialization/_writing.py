# SPDX-License-Identifier: BSD-3-Clause
"""The grammar of a file, written: a head, records, an end.

In ``.jsonl`` each of them is a line. In ``.json`` they are one object: the head's
fields, then ``"records": [...]``, then ``"end": {...}``. The end says how many
records there are, so a file that was cut off can be told.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from npu_dispatch_inspect.serialization._converter import plain
from npu_dispatch_inspect.serialization._kinds import Content, Kind

__all__ = [
    "TAG",
    "document",
    "end_content",
    "head_content",
    "line",
    "lines",
    "record_content",
]

TAG = "record"
"""The key under which a record names its class."""
WIDTH = 100
"""What fits into so many columns stays on one line of a document."""


def head_content(kind: Kind[Any], head: Any) -> Content:
    """The first part: what the file is, then the head's own fields."""
    return {"schema": kind.schema, "version": kind.version, **plain(head)}


def record_content(record: Any) -> Content:
    """One record, under the name of its class."""
    return {TAG: type(record).__name__, **plain(record)}


def end_content(count: int, end: Any) -> Content:
    """The last part: the file is whole if it has ``count`` records."""
    return {"end": {"records": count, **plain(end)}}


def line(content: Content) -> str:
    """One part as a line."""
    return _compact(content) + "\n"


def lines(kind: Kind[Any], thing: Any) -> Iterator[str]:
    """The lines of an object's ``.jsonl`` file."""
    head, records, end = kind.take_apart(thing)
    yield line(head_content(kind, head))
    count = 0
    for record in records:
        yield line(record_content(record))
        count += 1
    yield line(end_content(count, end))


def document(kind: Kind[Any], thing: Any) -> Iterator[str]:
    """An object's ``.json`` file, piece by piece."""
    head, records, end = kind.take_apart(thing)
    yield "{\n"
    for key, value in head_content(kind, head).items():
        yield f"  {json.dumps(key)}: {_indented(value, 2)},\n"
    yield '  "records": ['
    count = 0
    for record in records:
        yield ",\n    " if count else "\n    "
        yield _indented(record_content(record), 4)
        count += 1
    yield "\n  ],\n" if count else "],\n"
    yield f'  "end": {_indented(end_content(count, end)["end"], 2)}\n}}\n'


def _compact(value: Any) -> str:
    return json.dumps(value, allow_nan=False, separators=(",", ":"))


def _indented(value: Any, indent: int) -> str:
    """JSON for people: what fits is on one line, numbers and names fill lines."""
    text = json.dumps(value, allow_nan=False)
    if len(text) + indent <= WIDTH or not isinstance(value, (dict, list)) or not value:
        return text
    inner = "\n" + " " * (indent + 2)
    if isinstance(value, dict):
        items = [
            f"{json.dumps(key)}: {_indented(each, indent + 2)}"
            for key, each in value.items()
        ]
        return "{" + inner + f",{inner}".join(items) + "\n" + " " * indent + "}"
    if any(isinstance(each, (dict, list)) for each in value):
        body = f",{inner}".join(_indented(each, indent + 2) for each in value)
    else:
        body = inner.join(_filled(value, WIDTH - indent - 2))
    return "[" + inner + body + "\n" + " " * indent + "]"


def _filled(values: list[Any], width: int) -> Iterator[str]:
    row = ""
    for number, each in enumerate(values):
        text = json.dumps(each, allow_nan=False) + (
            "," if number < len(values) - 1 else ""
        )
        if row and len(row) + 1 + len(text) > width:
            yield row
            row = text
        else:
            row = f"{row} {text}" if row else text
    yield row
