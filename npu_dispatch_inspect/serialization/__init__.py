# SPDX-License-Identifier: BSD-3-Clause
"""Traces, reports, tables and graphs as files that read back to equal objects.

Every file has a head that names its schema and version, records, and an end that
says that it is whole. ``.json`` is one object that a person can read, ``.jsonl``
has one record a line and can be written while a program runs; both may be packed
(``.gz``). A file of a newer major version, of something else, or one that was cut
off is refused with a sentence that says so; files of older versions are read.

The fields are described by the JSON Schema files in ``npu_dispatch_inspect/schema``.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any, BinaryIO

from npu_dispatch_inspect.errors import UsageError
from npu_dispatch_inspect.serialization import (
    dispatch_report,
    dispatch_table,
    graphs,
    log_trace,
    op_trace,
    single,
)
from npu_dispatch_inspect.serialization._converter import plain
from npu_dispatch_inspect.serialization._kinds import Kind
from npu_dispatch_inspect.serialization._reading import read, read_file
from npu_dispatch_inspect.serialization._writing import document, lines

__all__ = ["KINDS", "Kind", "json_lines", "json_text", "kind_of", "load", "plain"]

KINDS: tuple[Kind[Any], ...] = (
    op_trace.KIND,
    log_trace.KIND,
    dispatch_report.KIND,
    dispatch_table.TABLE,
    dispatch_table.REGISTRATIONS,
    graphs.KIND,
    *single.KINDS,
)
"""Everything that can be in a file."""

_BY_SCHEMA = {kind.schema: kind for kind in KINDS}


def load(path: str | os.PathLike[str] | BinaryIO, *, partial: bool = False) -> Any:
    """Read what `save`, a ``save`` method or ``sink=`` has written.

    Args:
        path: a ``.json`` or ``.jsonl`` file, packed (``.gz``) or not, or an open
            binary file such as ``sys.stdin.buffer``. What is inside decides, not
            the name.
        partial: of a trace that was cut off, as when the program was killed, take
            what is there; the trace then has a note that says so.

    Returns:
        An object equal to the one that was written: an `OpTrace`, `LogTrace`,
        `DispatchReport`, `DispatchTable`, `RegistrationTrace`, `GraphSet`,
        `CapturedGraph`, `Coverage`, `Explanation` or `LogSummary`.

    Raises:
        RecordError: the file is of something else, is of a newer major version,
            or is cut off or damaged.

    Example:
        >>> import tempfile
        >>> from npu_dispatch_inspect import Coverage, load, save
        >>> path = tempfile.mkdtemp() + "/coverage.json"
        >>> save(Coverage(key="PrivateUse1", source="trace", calls=()), path)
        >>> load(path)
        Coverage(key='PrivateUse1', source='trace', calls=(), complete=True)
    """
    if isinstance(path, (str, os.PathLike)):
        return read_file(_BY_SCHEMA, path, partial=partial)
    name = str(getattr(path, "name", "the file"))
    return read(_BY_SCHEMA, path, name, partial=partial)


def kind_of(thing: object) -> Kind[Any]:
    """The kind of file that an object has.

    Raises:
        UsageError: it has none.
    """
    for kind in KINDS:
        if isinstance(thing, kind.holds):
            return kind
    known = ", ".join(sorted(kind.holds.__name__ for kind in KINDS))
    msg = f"A {type(thing).__name__} cannot be saved: these can be: {known}."
    raise UsageError(msg)


def json_text(thing: object) -> Iterable[str]:
    """The pieces of an object's ``.json`` file."""
    return document(kind_of(thing), thing)


def json_lines(thing: object) -> Iterable[str]:
    """The lines of an object's ``.jsonl`` file."""
    return lines(kind_of(thing), thing)
