# SPDX-License-Identifier: BSD-3-Clause
"""Values that are asked of a running block, and built when somebody looks.

A context manager gives its value when it is entered, long before anything is
known. Inside the block the value answers with what has been seen so far; once the
block has ended it is built once and never changes again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeVar

from npu_dispatch_inspect.traces._saving import Saved

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["Deferred", "Source"]

V_co = TypeVar("V_co", covariant=True)


class Source(Protocol[V_co]):
    """A block that is still running, or whose value is not built yet."""

    finished: bool
    """True once the block has ended: its value will not change again."""

    def snapshot(self) -> V_co:
        """What has been seen so far, as a value of its own."""


class Deferred(Saved):
    """A value that may still be in the making; equality, hash, pickle are by value."""

    __slots__ = ("_source",)

    _fields: ClassVar[tuple[str, ...]]
    """The slots that make up the value."""

    _source: Source[Any] | None

    @classmethod
    def of_source(cls, source: Source[Self]) -> Self:
        """A value that asks ``source`` when somebody looks."""
        made = cls.__new__(cls)
        made._source = source
        return made

    def _now(self) -> Self:
        """Self once the value is here for good, else a snapshot."""
        source: Source[Self] | None = self._source
        if source is None:
            return self
        finished = source.finished
        snapshot = source.snapshot()
        if not finished:
            return snapshot
        for name in self._fields:
            setattr(self, name, getattr(snapshot, name))
        # Last: another thread may be looking as well.
        self._source = None
        return self

    def _key(self) -> tuple[object, ...]:
        now = self._now()
        return tuple(getattr(now, name) for name in self._fields)

    def __eq__(self, other: object) -> bool:
        """Equal in every field, never equal to a list of names."""
        if type(other) is not type(self):
            return NotImplemented
        return self._key() == other._key()

    def __hash__(self) -> int:
        """By value, as equality."""
        return hash(self._key())

    def __reduce__(self) -> tuple[object, ...]:
        """Pickled and copied as the plain value that it is by now."""
        return (_rebuild, (type(self), self._key()))


def _rebuild(kind: type[Deferred], values: tuple[object, ...]) -> Deferred:
    made = kind.__new__(kind)
    made._source = None
    for name, value in zip(kind._fields, values, strict=True):
        setattr(made, name, value)
    return made
