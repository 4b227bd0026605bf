# SPDX-License-Identifier: BSD-3-Clause
"""Files of every format, written by one function: the suffix decides."""

from __future__ import annotations

import gzip
import os
from collections.abc import Callable, Iterable, Iterator
from importlib import import_module
from itertools import chain
from typing import Any, BinaryIO, TypeAlias

from attrs import frozen

from npu_dispatch_inspect.display.views import knows, text_of
from npu_dispatch_inspect.errors import RecordError, UsageError
from npu_dispatch_inspect.export._replacing import replacing
from npu_dispatch_inspect.traces.logs import LogTrace

__all__ = ["FORMATS", "Format", "format_of", "save"]

Writer: TypeAlias = "Callable[[BinaryIO], None]"
_PACKED = ".gz"


@frozen(kw_only=True)
class Format:
    """One format of files."""

    name: str
    """``"chrome"``: what `save` takes as ``format``."""
    suffixes: tuple[str, ...]
    what: str
    """A few words for people."""
    begin: Callable[[Any], Writer]
    """Takes an object; raises where the format cannot hold it, before a file is
    opened. What it returns writes the bytes."""
    loads: bool = False
    """`load` reads it back."""
    packs: bool = True
    """It may be packed: ``.gz`` after the suffix."""


def save(
    thing: Any,
    path: str | os.PathLike[str] | BinaryIO,
    *,
    format: str | None = None,  # noqa: A002 - the word of every library that saves
) -> None:
    """Write a trace, report, table or graph to a file; an existing file is replaced.

    It is replaced when all is written: where something goes wrong it stays as it was.

    ``.json`` and ``.jsonl`` hold all of it and can be loaded again. The others are
    for other programs: ``.html``, ``.csv``, ``.parquet``, ``.arrow``,
    ``.trace.json`` (Chrome trace), ``.dot``, ``.mmd`` (Mermaid), ``.txt``, ``.log``
    (the lines as torch_npu wrote them). Text may be packed: ``.jsonl.gz``.

    Args:
        thing: what `load` lists; not every format can hold everything.
        path: where to; the suffix decides the format. Or an open binary file.
        format: the name of a format, where the suffix is another or there is none:
            ``"json"``, ``"jsonl"``, ``"html"``, ``"text"``, ``"csv"``,
            ``"parquet"``, ``"arrow"``, ``"chrome"``, ``"dot"``, ``"mermaid"``,
            ``"log"``.

    Raises:
        UsageError: there is no such format, it cannot hold such an object, or it
            needs a package that is not installed.
        RecordError: the file cannot be written.

    Example:
        >>> import tempfile
        >>> from npu_dispatch_inspect import Coverage, load, save
        >>> path = tempfile.mkdtemp() + "/coverage.jsonl.gz"
        >>> save(Coverage(key="PrivateUse1", source="trace", calls=()), path)
        >>> load(path).key
        'PrivateUse1'
    """
    if not isinstance(path, (str, os.PathLike)):
        chosen = _named(format)
        chosen.begin(thing)(path)
        return
    target = os.fspath(path)
    packed = target.lower().endswith(_PACKED)
    chosen = format_of(target) if format is None else _named(format)
    # Before the file is opened: the object may be in the very file it replaces.
    write = chosen.begin(thing)
    try:
        with replacing(target) as file:
            if packed and chosen.packs:
                # No name and no time: the same object gives the same bytes.
                with gzip.GzipFile("", "wb", fileobj=file, mtime=0) as packer:
                    write(packer)  # type: ignore[arg-type]
            else:
                write(file)
    except OSError as error:
        msg = f"The file cannot be written to {path}: {error.strerror or error}."
        raise RecordError(msg) from error


def format_of(path: str | os.PathLike[str]) -> Format:
    """The format that a file's name asks for.

    Raises:
        UsageError: its suffix is none of those known.
    """
    name = os.path.basename(os.fspath(path)).lower()
    packed = name.endswith(_PACKED)
    plain = name.removesuffix(_PACKED)
    fitting = [
        (len(suffix), each)
        for each in FORMATS
        for suffix in each.suffixes
        if plain.endswith(suffix) and (each.packs or not packed)
    ]
    if fitting:
        return max(fitting, key=lambda found: found[0])[1]
    known = ", ".join(suffix for each in FORMATS for suffix in each.suffixes)
    msg = (
        f"The suffix decides the format, and that of {os.fspath(path)!r} is none: use one of "
        f"{known} (text may be packed: .json.gz)."
    )
    raise UsageError(msg)


def _named(name: str | None) -> Format:
    for each in FORMATS:
        if each.name == name:
            return each
    known = ", ".join(repr(each.name) for each in FORMATS)
    msg = f"format must be one of {known}, not {name!r}."
    raise UsageError(msg)


def _text(home: str, function: str) -> Callable[[Any], Writer]:
    """A format whose function gives pieces of text; its module loads when needed."""

    def begin(thing: Any) -> Writer:
        module = import_module(f"npu_dispatch_inspect.{home}")
        made: str | Iterable[str] = getattr(module, function)(thing)
        pieces: Iterator[str] = iter((made,) if isinstance(made, str) else made)
        first = next(pieces, "")

        def write(file: BinaryIO) -> None:
            file.writelines(
                piece.encode("utf-8", "surrogateescape")
                for piece in chain((first,), pieces)
            )

        return write

    return begin


def _binary(home: str, function: str) -> Callable[[Any], Writer]:
    """A format whose function writes bytes; its module loads when needed."""

    def begin(thing: Any) -> Writer:
        module = import_module(f"npu_dispatch_inspect.{home}")
        write: Writer = getattr(module, function)(thing)
        return write

    return begin


def printed(thing: Any) -> Iterator[str]:
    """What `print` shows."""
    if not knows(thing):
        msg = f"{type(thing).__name__} has no text of its own: it has no .txt file."
        raise UsageError(msg)
    return iter((text_of(thing), "\n"))


def log_lines(trace: Any) -> Iterator[str]:
    """The lines of a log as they were written."""
    if not isinstance(trace, LogTrace):
        name = type(trace).__name__
        msg = f"A .log file has the lines of a LogTrace; {name} has none."
        raise UsageError(msg)
    return (each.text for each in trace.records)


FORMATS: tuple[Format, ...] = (
    Format(
        name="json",
        suffixes=(".json",),
        what="everything, one object that a person can read",
        begin=_text("serialization", "json_text"),
        loads=True,
    ),
    Format(
        name="jsonl",
        suffixes=(".jsonl",),
        what="everything, one record a line",
        begin=_text("serialization", "json_lines"),
        loads=True,
    ),
    Format(
        name="html",
        suffixes=(".html", ".htm"),
        what="a page to read and search, without a network",
        begin=_text("export.htmlpage", "html_report"),
    ),
    Format(
        name="text",
        suffixes=(".txt",),
        what="what print shows",
        begin=_text("export.saving", "printed"),
    ),
    Format(
        name="csv",
        suffixes=(".csv",),
        what="rows for a spreadsheet",
        begin=_text("export.tables", "csv_text"),
    ),
    Format(
        name="parquet",
        suffixes=(".parquet",),
        what="rows with types, for data frames and databases",
        begin=_binary("export.tables", "parquet_file"),
        packs=False,
    ),
    Format(
        name="arrow",
        suffixes=(".arrow", ".feather"),
        what="the same in Arrow's own format",
        begin=_binary("export.tables", "arrow_file"),
        packs=False,
    ),
    Format(
        name="chrome",
        suffixes=(".trace.json",),
        what="calls in time, for Perfetto and chrome://tracing",
        begin=_text("export.chrome", "chrome_trace"),
    ),
    Format(
        name="dot",
        suffixes=(".dot", ".gv"),
        what="boxes and arrows, for Graphviz",
        begin=_text("export.dot", "dot_text"),
    ),
    Format(
        name="mermaid",
        suffixes=(".mmd", ".mermaid"),
        what="boxes and arrows, for Markdown",
        begin=_text("export.mermaid", "mermaid_text"),
    ),
    Format(
        name="log",
        suffixes=(".log",),
        what="torch_npu's lines as they were written",
        begin=_text("export.saving", "log_lines"),
    ),
)
