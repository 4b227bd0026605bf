# SPDX-License-Identifier: BSD-3-Clause
"""From the contents of a file to its object; the one place that words what is wrong."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Any, BinaryIO

import cattrs
import cattrs.v

from npu_dispatch_inspect.errors import RecordError
from npu_dispatch_inspect.serialization._contents import (
    Contents,
    CutOffError,
    NotTextError,
)
from npu_dispatch_inspect.serialization._converter import reader
from npu_dispatch_inspect.serialization._kinds import Content, Kind
from npu_dispatch_inspect.serialization._writing import TAG

__all__ = ["read", "read_file"]

DAMAGE = (
    ValueError,
    KeyError,
    IndexError,
    TypeError,
    AttributeError,
    cattrs.BaseValidationError,
    RecursionError,
)
"""What reading raises where the contents are not what was written."""


def read_file(
    kinds: Mapping[str, Kind[Any]], path: str | os.PathLike[str], *, partial: bool
) -> Any:
    """The object in a file; see `load`."""
    try:
        with open(path, "rb") as file:
            return read(kinds, file, str(path), partial=partial)
    except OSError as error:
        msg = f"{path} cannot be read: {error.strerror or error}."
        raise RecordError(msg) from error


def read(
    kinds: Mapping[str, Kind[Any]], file: BinaryIO, name: str, *, partial: bool
) -> Any:
    """The object that the bytes of a file make; ``name`` is for messages."""
    contents = Contents(file)
    with contextlib.closing(iter(contents)) as parts:
        return _built(kinds, contents, parts, name, partial=partial)


def _built(
    kinds: Mapping[str, Kind[Any]],
    contents: Contents,
    raw: Iterator[Content],
    name: str,
    *,
    partial: bool,
) -> Any:
    kind, exact, parts = _opened(kinds, raw, name)
    found = _Found()
    try:
        _take(kind, exact, parts, found)
        return kind.build(found.head, found.records, found.end)
    except CutOffError as error:
        if found.head is None or not (partial and kind.in_part):
            raise RecordError(_cut_off(kind, name, len(found.records))) from error
        return kind.build(found.head, found.records, None)
    except NotTextError as error:
        raise RecordError(_foreign(name)) from error
    except DAMAGE as error:
        msg = f"{name} is damaged in {contents.place}: {_reason(error)}."
        raise RecordError(msg) from error


class _Found:
    """What has been read so far."""

    def __init__(self) -> None:
        self.head: Any = None
        self.records: list[Any] = []
        self.end: Any = None


def _opened(
    kinds: Mapping[str, Kind[Any]], parts: Iterator[Content], name: str
) -> tuple[Kind[Any], bool, Iterator[Content]]:
    """The kind of a file, whether all of its fields are known, and its parts."""
    try:
        head = next(parts, None)
    except (CutOffError, NotTextError, ValueError, RecursionError) as error:
        raise RecordError(_foreign(name)) from error
    # The first tables were written with other dashes, and versions of one number.
    schema = str((head or {}).get("schema")).replace("-", "_")
    kind = kinds.get(schema)
    if head is None or kind is None:
        raise RecordError(_foreign(name))
    major, _, minor = str(head.get("version")).partition(".")
    if not (major.isdecimal() and (minor or "0").isdecimal()):
        msg = f"{name} is damaged in line 1: version {head.get('version')!r}."
        raise RecordError(msg)
    version = int(major), int(minor or "0")
    if version[0] > kind.major:
        msg = (
            f"{name} was written by a newer release ({kind.noun} format {major}.{minor}, "
            f"this one reads {kind.major}); upgrade npu-dispatch-inspect to read it."
        )
        raise RecordError(msg)
    parts = chain([head], parts)
    for number in range(version[0], kind.major):
        parts = kind.migrations[number](parts)
    return kind, version <= (kind.major, kind.minor), parts


def _take(
    kind: Kind[Any],
    exact: bool,  # noqa: FBT001 - as the converter's
    parts: Iterator[Content],
    found: _Found,
) -> None:
    """Fill ``found``, which keeps what there is where an error ends the reading."""
    converter = reader(exact)
    classes = {each.__name__: each for each in kind.records}
    head = dict(next(parts))
    del head["schema"], head["version"]
    found.head = converter.structure(head, kind.head)
    for content in parts:
        if found.end is not None:
            msg = "something follows its end"
            raise ValueError(msg)
        if "end" not in content:
            # Not in place: what a migration yields may be used again.
            fields = dict(content)
            record = classes.get(str(fields.pop(TAG, None)))
            if record is None:
                msg = f"there is no record {content.get(TAG)!r}"
                raise ValueError(msg)
            found.records.append(converter.structure(fields, record))
            continue
        end = dict(content["end"])
        count = end.pop("records")
        if count != len(found.records):
            msg = f"{count} records were written, {len(found.records)} are there"
            raise ValueError(msg)
        found.end = converter.structure(end, kind.end)
    if found.end is None:
        raise CutOffError


def _foreign(name: str) -> str:
    return (
        f"{name} is no file that can be loaded: it does not begin as a .json or .jsonl "
        "file that this library has saved (other formats are for other programs; "
        "read_logs reads torch_npu's logs)."
    )


def _cut_off(kind: Kind[Any], name: str, count: int) -> str:
    hint = "; load(path, partial=True) takes what is there" if kind.in_part else ""
    return f"{name} is cut off after {count} records: its end is missing{hint}."


def _reason(error: BaseException) -> str:
    if isinstance(error, cattrs.BaseValidationError):
        return cattrs.transform_error(error, format_exception=_in_words)[0]
    if isinstance(error, KeyError):
        return f"{error} is missing"
    return str(error)


def _in_words(error: BaseException, kind: type | None) -> str:
    if type(error) in (ValueError, TypeError):
        return str(error)
    return cattrs.v.format_exception(error, kind)
