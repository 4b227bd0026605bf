# SPDX-License-Identifier: BSD-3-Clause
"""What a kind of file is: its classes, its version, and the way there and back."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar

from attrs import Factory, frozen

__all__ = ["Content", "Kind", "Migration", "NoEnd", "Parts"]

T = TypeVar("T")

Content: TypeAlias = "dict[str, Any]"
"""One part of a file as JSON has it: the head, a record, or ``{"end": {...}}``."""

Migration: TypeAlias = "Callable[[Iterator[Content]], Iterator[Content]]"
"""Turns the contents of a file, head first, into those of the next major version."""


class Parts(NamedTuple):
    """An object taken apart for its file."""

    head: Any
    records: Iterable[Any]
    """Taken one at a time, so that they need not all be there at once."""
    end: Any


@frozen(kw_only=True)
class NoEnd:
    """The end of a file whose head says everything."""


@frozen(kw_only=True)
class Kind(Generic[T]):
    """One kind of object that has a file of its own.

    The head, the records and the end are attrs classes: the converter and the
    published JSON Schema are made of them.
    """

    name: str
    """``"op_trace"``; with the library's name before it, it is the file's schema."""
    noun: str
    """For messages: ``"trace"``."""
    major: int = 1
    """Raised when a reader of before would misunderstand the file."""
    minor: int = 0
    """Raised when fields are added, which a reader of before leaves out."""
    holds: type[T]
    head: type
    records: tuple[type, ...] = ()
    """Classes of the records; a record names its own."""
    end: type = NoEnd
    take_apart: Callable[[T], Parts]
    build: Callable[[Any, list[Any], Any], T]
    """Head, records and end to the object; the end is None where the file was cut
    off and the caller takes what is there."""
    in_part: bool = False
    """`build` knows what to do without an end."""
    migrations: Mapping[int, Migration] = Factory(dict)
    """By the major version they start from."""

    @property
    def schema(self) -> str:
        """``"npu_dispatch_inspect/op_trace"``."""
        return f"npu_dispatch_inspect/{self.name}"

    @property
    def version(self) -> str:
        """``"1.0"``."""
        return f"{self.major}.{self.minor}"
