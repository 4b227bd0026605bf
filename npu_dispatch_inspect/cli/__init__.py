# SPDX-License-Identifier: BSD-3-Clause
"""The command line: one module per command, imported when the command is given."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from importlib import import_module

from npu_dispatch_inspect.cli._frame import (
    BROKEN_PIPE,
    INTERRUPTED,
    Parser,
    ShowVersion,
    close_output,
    forgiving_output,
    say,
)
from npu_dispatch_inspect.errors import InspectError

__all__ = ["main"]

COMMANDS = {
    "run": "run a script or module and report what it ran",
    "demo": "trace nn.Linear and a transformer training step",
    "table": "show who registered what for an operator, and which kernel wins",
    "explain": "tell which kernel a call will reach, and why",
    "coverage": "tell which operators of a program a device has kernels for",
    "graph": "capture the graphs AOTAutograd makes of a function or module",
    "logs": "read log files of torch_npu",
    "show": "show a saved file as text",
    "diff": "compare two saved files or logs",
    "export": "turn a saved file into another format",
    "doctor": "check what is installed, what works, and what to do",
}
RUN_PROGRAMS = ("run", "demo")
"""Commands whose standard output belongs to the program they run."""
EXAMPLES = """\
examples:
  %(prog)s run train.py --epochs 1
  %(prog)s explain aten::addmm 'f32[4]' 'f32[2,3]' 'f32[3,4]'
  %(prog)s logs rank0.log | less
  %(prog)s doctor
  %(prog)s COMMAND --help
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; the exit status is 2 for a mistake of the caller.

    Args:
        arguments: the words after the program's name; None takes `sys.argv`.

    Raises:
        KeyboardInterrupt: Ctrl-C ended the program of ``run``.
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    chosen = None
    try:
        parser, chosen = _parser(words)
        options = _options(parser, words)
        if chosen not in RUN_PROGRAMS:
            forgiving_output()
        status = _status(options)
        if chosen not in RUN_PROGRAMS:
            sys.stdout.flush()
    except InspectError as error:
        say(str(error))
        return 2
    except KeyboardInterrupt:
        if chosen == "run":
            # Python ends by the signal, as without us; what it would say is said.
            sys.excepthook = _say_nothing
            raise
        return INTERRUPTED
    except BrokenPipeError:
        close_output()
        return BROKEN_PIPE
    except OSError as error:
        what = error.filename or "Standard output"
        say(f"{what}: {(error.strerror or str(error)).lower()}.")
        close_output()
        return 2
    return status


def _options(parser: Parser, words: Sequence[str]) -> argparse.Namespace:
    try:
        return parser.parse_args(words)
    finally:  # what --help prints may not find room
        if sys.stdout is not None:
            sys.stdout.flush()


def _status(options: argparse.Namespace) -> int:
    """Run the command. What leaves by `sys.exit` is the user's code."""
    try:
        return int(options.run(options))
    except SystemExit as error:
        if options.command == "run":
            raise
        msg = f"The program that was looked at ended itself: sys.exit({error.code!r})."
        raise InspectError(msg) from error


def _say_nothing(*_: object) -> None:
    """Stand for `sys.excepthook` where an error has been shown."""


def _parser(words: Sequence[str]) -> tuple[Parser, str | None]:
    parser = Parser(
        prog="npu-dispatch-inspect",
        description="Show what a PyTorch program really ran, and why.",
        epilog=EXAMPLES,
    )
    parser.add_argument("--version", action=ShowVersion, help="show the version")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    # Only the command that is given is imported; of the others a line is needed.
    chosen = next((word for word in words if not word.startswith("-")), None)
    for name, summary in COMMANDS.items():
        if name == chosen:
            import_module(f"{__name__}.{name}").add_parser(commands, summary)
        else:
            commands.add_parser(name, help=summary)
    return parser, chosen
