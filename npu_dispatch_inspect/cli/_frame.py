# SPDX-License-Identifier: BSD-3-Clause
"""What all commands share: how they take options, speak, and end."""

from __future__ import annotations

import argparse
import codecs
import contextlib
import io
import itertools
import os
import select
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

__all__ = [
    "BROKEN_PIPE",
    "INTERRUPTED",
    "WIDTH",
    "Parser",
    "ShowVersion",
    "StandardError",
    "add_json",
    "add_limit",
    "close_output",
    "forgiving_output",
    "report_width",
    "row_limit",
    "say",
    "show",
    "write",
]

INTERRUPTED = 130
"""What a shell makes of a program that Ctrl-C ended."""
BROKEN_PIPE = 141
"""What a shell makes of a program whose reader went away."""
NARROW = 80
"""A report takes no terminal for narrower than this."""
WIDTH = 140
"""So many columns has a report that goes to a file or a pipe."""
ROWS = 60
"""So many rows are shown where nobody says how many."""


class _Help(argparse.HelpFormatter):
    """Fills descriptions, and leaves examples as they are."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        if text.startswith("examples:"):
            return "\n".join(indent + line for line in text.splitlines())
        return super()._fill_text(text, width, indent)


class Parser(argparse.ArgumentParser):
    """A parser whose errors are one line."""

    def __init__(self, **options: Any) -> None:
        options.setdefault("formatter_class", _Help)
        # A shortened option would stop working when another one comes.
        options.setdefault("allow_abbrev", False)
        super().__init__(**options)
        self._unknown: list[str] = []

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: Any = None
    ) -> tuple[Any, list[str]]:
        """As argparse does; a word that nobody takes is an error of this command.

        argparse would leave it to the parser of all commands, whose help says nothing
        about it.
        """
        words = sys.argv[1:] if args is None else args
        self._unknown = [
            each
            for each in itertools.takewhile(lambda word: word != "--", words)
            if each.startswith("--")
            and each.partition("=")[0] not in self._option_string_actions
        ]
        options, left = super().parse_known_args(args, namespace)
        if left:
            self.error(f"unrecognized arguments: {' '.join(left)}")
        return options, left

    def error(self, message: str) -> NoReturn:
        """Say what is wrong in one line; status 2."""
        # A misspelt option has to be mended before what is missing can be told.
        if self._unknown and message.startswith("the following arguments are required"):
            message = f"unrecognized arguments: {' '.join(self._unknown)}"
        self.exit(2, f"{self.prog}: {message}; see {self.prog} --help\n")


class ShowVersion(argparse.Action):
    """Looks the version up when somebody asks: reading metadata takes time."""

    def __init__(self, **options: Any) -> None:
        super().__init__(nargs=0, **options)

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        """Print the version and end."""
        from importlib.metadata import version

        print(f"npu-dispatch-inspect {version('npu-dispatch-inspect')}")
        parser.exit()


def add_json(parser: argparse.ArgumentParser) -> None:
    """Add ``--json``."""
    parser.add_argument(
        "--json", action="store_true", help="write the answer as JSON, for programs"
    )


def add_limit(
    parser: argparse.ArgumentParser, what: str = "rows", default: int | None = ROWS
) -> None:
    """Add ``--limit`` and ``--all``."""
    parser.add_argument(
        "--limit",
        type=_whole,
        default=default,
        metavar="N",
        help=f"show so many {what}"
        + ("" if default is None else " (default: %(default)s)"),
    )
    parser.add_argument(
        "--all", action="store_true", help=f"show all {what}, however many there are"
    )


def row_limit(options: argparse.Namespace) -> int | None:
    """How many rows to show; None for all."""
    limit: int | None = None if options.all else options.limit
    return limit


def _whole(text: str) -> int:
    if not text.isdecimal():
        msg = f"{text!r} is no whole number from 0 up"
        raise argparse.ArgumentTypeError(msg)
    return int(text)


def write(text: str) -> None:
    """Print to standard output."""
    sys.stdout.write(text if text.endswith("\n") else f"{text}\n")


def show(value: object, otherwise: int | None = None) -> None:
    """Print an object of this package to standard output, in colours on a terminal.

    Args:
        value: what to print.
        otherwise: columns where there is no terminal and COLUMNS is not set; None is
            as wide as `print` makes it.
    """
    from npu_dispatch_inspect.display import richview

    at_terminal = sys.stdout.isatty()
    richview.show(value, width=None if at_terminal else _asked_width() or otherwise)


def report_width() -> int:
    """How wide a report on standard output may be."""
    return _asked_width() or _terminal_width(_descriptor(sys.stdout)) or WIDTH


def _asked_width() -> int | None:
    asked = os.environ.get("COLUMNS", "")
    return int(asked) if asked.isdecimal() else None


def _terminal_width(number: int | None) -> int | None:
    if number is None or not os.isatty(number):
        return None
    return max(NARROW, os.get_terminal_size(number).columns)


def _descriptor(stream: Any) -> int | None:
    try:
        return int(stream.fileno())
    except (AttributeError, OSError, ValueError):
        return None


def say(sentence: str) -> None:
    """Print a sentence to standard error, as from this program."""
    StandardError().write(f"npu-dispatch-inspect: {sentence}")


class StandardError:
    """Standard error as it is now, whatever a program does to `sys.stderr` later.

    Nothing that is written stays in a buffer, which Python would try to write at its
    end, with another exit status where it cannot.
    """

    def __init__(self) -> None:
        self._stream = sys.stderr
        self._number = _descriptor(sys.stderr)

    def write(self, text: str) -> None:
        """Write lines; whoever closed standard error does not want them."""
        if self._stream is None:
            return
        if self._number is None:
            with contextlib.suppress(OSError, ValueError):
                print(text, file=self._stream, flush=True)
            return
        with contextlib.suppress(Exception):  # the program's own class, or closed
            sys.stderr.flush()
        encoding = getattr(self._stream, "encoding", None) or "utf-8"
        left = memoryview(f"{text}\n".encode(encoding, "backslashreplace"))
        with contextlib.suppress(OSError):
            while left:
                try:
                    left = left[os.write(self._number, left) :]
                except BlockingIOError:
                    select.select([], [self._number], [])

    def report_width(self) -> int:
        """How wide a report here may be."""
        return _asked_width() or _terminal_width(self._number) or WIDTH


def forgiving_output() -> None:
    """Let standard output take any text.

    File names and log lines need not be UTF-8, and a terminal need not know every
    character: bytes come out as they went in, others as their number.
    """
    codecs.register_error("npu_dispatch_inspect", _in_any_case)
    if sys.stdout is None:  # it was closed: nobody reads
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    raw = getattr(sys.stdout, "buffer", None)
    if isinstance(raw, io.RawIOBase):
        # PYTHONUNBUFFERED: what a pipe does not take at once would be lost.
        sys.stdout = io.TextIOWrapper(
            io.BufferedWriter(raw), sys.stdout.encoding, line_buffering=True
        )
    reconfigure = getattr(sys.stdout, "reconfigure", None)
    if reconfigure is not None:
        reconfigure(errors="npu_dispatch_inspect")


def _in_any_case(error: UnicodeError) -> tuple[str | bytes, int]:
    assert isinstance(error, UnicodeEncodeError)
    text = error.object[error.start : error.end]
    try:
        return text.encode("ascii", "surrogateescape"), error.end
    except UnicodeEncodeError:
        return text.encode("ascii", "backslashreplace"), error.end


def close_output() -> None:
    """Write what is still to come to nowhere: nobody reads it.

    Python flushes standard output at its end and would complain.
    """
    nowhere = os.open(os.devnull, os.O_WRONLY)
    with contextlib.suppress(OSError, ValueError):
        os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)
