# SPDX-License-Identifier: BSD-3-Clause
"""The same text in colours, for a terminal.

`print(x)` writes plain text: its text is the same on every machine and is what
files, logs and tests compare. `show(x)` writes the same lines in colours and as
wide as the terminal, where there is one.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any, TextIO

from npu_dispatch_inspect.display.layout import Styled
from npu_dispatch_inspect.display.views import knows, styled_lines

__all__ = ["STYLES", "rich_lines", "show"]

STYLES = {
    "title": "bold",
    "total": "bold",
    "header": "bold",
    "heading": "bold cyan",
    "name": "",
    "launch": "green",
    "good": "green",
    "bad": "red",
    "warn": "yellow",
    "copy": "yellow",
    "unknown": "magenta",
    "note": "yellow",
    "dim": "dim",
    "place": "cyan",
    "module": "",
    "number": "dim",
    "values": "",
    "phase-fwd": "green",
    "phase-bwd": "magenta",
    "phase-opt": "yellow",
    "phase-oth": "",
}
"""rich's names; the terminal's own palette decides how they look. Blue and bright black
are left out: in common palettes they cannot be read."""

NARROW = 40
"""No terminal is taken for narrower than this."""
PLAINER = str.maketrans(
    {"├": "|", "└": "`", "│": "|", "─": "-", "·": "-", "×": "x", "→": ">", "…": "."}
)
"""For a stream whose encoding has no lines to draw with."""


def show(shown: object, file: TextIO | None = None, width: int | None = None) -> None:
    """Print an object in colours, as wide as the terminal.

    Colours need rich (``pip install 'npu-dispatch-inspect[rich]'``) and a terminal;
    the variable ``NO_COLOR`` turns them off, ``FORCE_COLOR`` turns them on
    everywhere. Without them the text is plain. What is no trace, report or table of
    this package is printed as `print` does.

    Args:
        shown: what to print.
        file: a text stream; None is standard output.
        width: columns at most; None is the terminal's width, and without a terminal
            the width that `print` uses.

    Example:
        >>> from npu_dispatch_inspect import Environment, OpRecord, OpTrace, show
        >>> here = Environment(tool="0.1", python="3.11", platform="linux")
        >>> show(OpTrace(records=[OpRecord(index=0, name="aten::t")], environment=here))
        #  phase  operator  inputs -> outputs  module  line
        0  fwd    aten::t
        1 operator call
    """
    stream = sys.stdout if file is None else file
    if not knows(shown):
        print(shown, file=stream)
        return
    if width is None and _is_terminal(stream):
        width = max(NARROW, _columns(stream))
    if width is None:
        # As wide as `print` makes it, which may be less than as wide as it is.
        text = str(shown)
        width = max(map(len, text.split("\n")))
        if not _coloured(stream):
            print(_for(stream, text), file=stream)
            return
    if _coloured(stream):
        _print_colours(shown, stream, width)
        return
    for each in styled_lines(shown, width):
        print(_for(stream, "".join(piece.text for piece in each)), file=stream)


def rich_lines(shown: Any, width: int) -> Iterator[Any]:
    """The lines as rich's `Text`, for rich's own consoles."""
    for each in styled_lines(shown, width):
        yield _rich_text(each)


def _rich_text(pieces: Styled) -> Any:
    from rich.text import Text

    made = Text(no_wrap=True, overflow="ignore", end="\n")
    for piece in pieces:
        made.append(piece.text, STYLES.get(piece.style, "") or None)
    return made


def _print_colours(shown: object, stream: TextIO, width: int) -> None:
    from rich.console import Console

    console = Console(
        file=stream,
        width=width,
        force_terminal=True,
        # rich's own reading of these variables differs between its versions.
        no_color=False,
        color_system="standard",
        legacy_windows=False,
        highlight=False,
        markup=False,
        emoji=False,
    )
    for each in styled_lines(shown, width):
        text = _rich_text(each)
        text.plain = _for(stream, text.plain)
        console.print(text, crop=False, soft_wrap=True)


def _coloured(stream: TextIO) -> bool:
    """NO_COLOR (https://no-color.org) goes before FORCE_COLOR, a set one is not empty."""
    if os.environ.get("NO_COLOR") or find_spec("rich") is None:
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    return _is_terminal(stream) and os.environ.get("TERM") != "dumb"


def _is_terminal(stream: TextIO) -> bool:
    try:
        return stream.isatty()
    except (AttributeError, ValueError):  # not a real file, or a closed one
        return False


def _columns(stream: TextIO) -> int:
    """The columns of the terminal that a stream writes to; COLUMNS overrules it."""
    try:
        size = os.get_terminal_size(stream.fileno()).columns
    except (AttributeError, OSError, ValueError):  # no file, or none with a size
        size = 0
    asked = os.environ.get("COLUMNS", "")
    # What is neither known here nor set is looked for as others do it.
    return size if size and not asked else shutil.get_terminal_size().columns


def _for(stream: TextIO, text: str) -> str:
    """The text with what the stream's encoding cannot say replaced."""
    encoding = getattr(stream, "encoding", None) or "utf-8"
    try:
        # A stream may have its own way with what is left: bytes of file names.
        text.encode(encoding, getattr(stream, "errors", None) or "strict")
    except UnicodeEncodeError:
        plainer = text.translate(PLAINER)
        return plainer.encode(encoding, "replace").decode(encoding)
    return text
