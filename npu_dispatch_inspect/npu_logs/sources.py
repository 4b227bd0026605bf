# SPDX-License-Identifier: BSD-3-Clause
"""Where log text comes from: files, compressed files, descriptors, lines."""

from __future__ import annotations

import contextlib
import functools
import gzip
import io
import os
import sys
import zlib
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, BinaryIO, Final, TypeAlias

from npu_dispatch_inspect.errors import RecordError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = ["CHUNK_SIZE", "Chunks", "LogSource", "decoded", "open_chunks"]

CHUNK_SIZE: Final = 1 << 16
"""Bytes that are read and matched at a time.

Small, so that what a piece becomes stays in the processor's cache.
"""

LONG_FILE: Final = 64 << 20
"""From this size on a terminal shows how far the reading is."""

LogSource: TypeAlias = (
    "str | os.PathLike[str] | int | bytes | IO[bytes] | IO[str] | Iterable[bytes | str]"
)
"""A path, a file descriptor, bytes, an open file, or lines."""

_GZIP_MAGIC: Final = b"\x1f\x8b"
_OTHER: Final = {
    b"\xfd7zXZ\0": "packed with xz",
    b"BZh": "packed with bzip2",
    b"\x28\xb5\x2f\xfd": "packed with zstd",
    b"PK\x03\x04": "a zip archive",
    b"\xff\xfe": "UTF-16 text",
    b"\xfe\xff": "UTF-16 text",
}
"""What would be read as a log without a single line of torch_npu's."""
_HEAD: Final = 8


@contextlib.contextmanager
def open_chunks(source: LogSource, *, progress: bool | None = None) -> Iterator[Chunks]:
    """Open a source as an iterator over pieces of it.

    Args:
        source: a path (``.gz`` is recognised by its first bytes), a file
            descriptor, bytes, an open file, or an iterable of lines.
        progress: show how far the reading of a file is; None shows it for long
            files when stderr is a terminal and rich is installed.

    Raises:
        RecordError: the file cannot be read.
        UsageError: the source is none of the kinds above.
    """
    if isinstance(source, (bytes, bytearray, memoryview)):
        yield Chunks(_read(io.BytesIO(source)))
    elif isinstance(source, (str, os.PathLike)):
        with contextlib.ExitStack() as stack:
            yield Chunks(_read(_open_path(os.fspath(source), progress, stack)))
    elif isinstance(source, int):
        with open(source, "rb", buffering=0, closefd=False) as stream:
            yield Chunks(_read(stream))
    elif hasattr(source, "read"):
        yield Chunks(_read(source))
    elif hasattr(source, "__iter__"):
        yield Chunks(_gathered(source))
    else:
        msg = (
            f"Cannot read log lines from {type(source).__name__!r}: give a path, a "
            "file descriptor, bytes, an open file or an iterable of lines."
        )
        raise UsageError(msg)


def _open_path(
    path: str,
    progress: bool | None,  # noqa: FBT001 - handed on, never written at a call
    stack: contextlib.ExitStack,
) -> BinaryIO | gzip.GzipFile:
    try:
        opened = Path(path).open("rb")  # noqa: SIM115 - the stack closes it
        raw: BinaryIO = stack.enter_context(opened)
        size = os.fstat(raw.fileno()).st_size
        head = raw.read(_HEAD)
        compressed = head.startswith(_GZIP_MAGIC)
        raw.seek(0)
    except OSError as error:
        reason = error.strerror or str(error)
        msg = f"Cannot read the log file {path!r}: {reason.lower()}."
        raise RecordError(msg) from None
    for begin, name in _OTHER.items():
        if head.startswith(begin):
            msg = (
                f"The log file {path!r} is {name}: make UTF-8 text of it first, which "
                "may be packed with gzip."
            )
            raise RecordError(msg)
    if progress or (progress is None and size >= LONG_FILE and sys.stderr.isatty()):
        raw = _with_progress(raw, size, Path(path).name, stack)
    if compressed:
        unpacked = gzip.GzipFile(fileobj=raw)
        stack.callback(unpacked.close)
        return unpacked
    return raw


def _with_progress(
    raw: BinaryIO, size: int, name: str, stack: contextlib.ExitStack
) -> BinaryIO:
    try:
        import rich.console
        import rich.progress
    except ImportError:
        return raw
    shown = rich.progress.Progress(
        *rich.progress.Progress.get_default_columns(),
        rich.progress.DownloadColumn(),
        console=rich.console.Console(stderr=True),
        transient=True,
        # Else rich would send what is printed meanwhile to standard error.
        redirect_stdout=False,
    )
    stack.enter_context(shown)
    return shown.wrap_file(raw, total=size, description=name)


class Chunks:
    """The pieces of a source, and what went wrong while they were read."""

    def __init__(self, pieces: Iterable[bytes]) -> None:
        """Take over an iterable of pieces."""
        self._pieces = pieces
        self.problem: str | None = None
        """Why the source ended early, None where it did not."""

    def __iter__(self) -> Iterator[bytes]:
        """The pieces; an unreadable rest ends them instead of raising."""
        try:
            yield from self._pieces
        except EOFError:
            self.problem = "the compressed file ends in the middle"
        except (OSError, zlib.error) as error:
            self.problem = f"the source could not be read to its end: {error}"


def _read(stream: Any) -> Iterator[bytes]:
    if isinstance(stream, gzip.GzipFile):
        # Small reads: what was unpacked before a damaged place is not lost.
        read = functools.partial(stream.read1, 1 << 16)
    else:
        read = functools.partial(stream.read, CHUNK_SIZE)
    while chunk := read():
        yield _bytes(chunk)


def _gathered(lines: Iterable[bytes | str]) -> Iterator[bytes]:
    pieces: list[bytes] = []
    size = 0
    for line in lines:
        piece = _bytes(line)
        if not piece.endswith(b"\n"):
            piece += b"\n"
        pieces.append(piece)
        size += len(piece)
        if size >= CHUNK_SIZE:
            yield b"".join(pieces)
            pieces.clear()
            size = 0
    if pieces:
        yield b"".join(pieces)


def _bytes(piece: bytes | str) -> bytes:
    if isinstance(piece, str):
        return piece.encode("utf-8", "surrogateescape")
    return piece


def decoded(text: str) -> str:
    """UTF-8 text that was read as Latin-1, what is not UTF-8 as surrogates."""
    if text.isascii():
        return text
    return text.encode("latin-1").decode("utf-8", "surrogateescape")
