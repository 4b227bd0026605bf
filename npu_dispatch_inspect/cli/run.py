# SPDX-License-Identifier: BSD-3-Clause
"""``run``: what an unmodified script or module ran, on the stand-in if asked."""

from __future__ import annotations

import argparse
import runpy
import shutil
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from npu_dispatch_inspect.capture._follower import following
from npu_dispatch_inspect.cli import _standin
from npu_dispatch_inspect.cli._program import Inspection, own_traceback
from npu_dispatch_inspect.errors import RecordError, UsageError
from npu_dispatch_inspect.export.saving import format_of

__all__ = ["add_parser"]

WIDTH = 140
INTERRUPTED = 130
"""What a shell makes of a program that Ctrl-C ended."""


def add_parser(commands: Any, summary: str) -> None:
    """Add the command to the parser's ``commands``."""
    parser = commands.add_parser(
        "run",
        help=summary,
        description="Run a program as Python would, then print a report of what it ran "
        "to standard error. The exit status is the program's.",
        usage="%(prog)s [--only PATTERN] [--save FILE] [--max-ops N] [--stand-in] "
        "[--device-name NAME] [--device-count N] (script.py | -m module) [arguments ...]",
    )
    parser.add_argument(
        "--only",
        metavar="PATTERN",
        help="report only calls below operators, launches or modules that match this "
        "glob, as 'aten::linear', 'aclnnMatmul*' or 'encoder.*'",
    )
    parser.add_argument(
        "--save",
        metavar="FILE",
        help="write the whole report to this file as well; the suffix decides the "
        "format: .html to read, .json or .jsonl to load again, ...",
    )
    parser.add_argument(
        "--max-ops",
        type=int,
        metavar="N",
        default=1_000_000,
        help="record so many calls, so that memory suffices (default: %(default)s)",
    )
    _standin.add_options(parser)
    parser.add_argument("-m", dest="module", action="store_true", help="run a module")
    parser.add_argument("script", help="the script, or the module after -m")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="its arguments")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Run the program as Python would; its exit status passes through."""
    if options.module:
        sys.path.insert(0, "")
    _check_exists(options.script, module=options.module)
    _check_writable(options.save)
    if options.max_ops < 0:
        msg = f"--max-ops must be a whole number from 0 up, not {options.max_ops}."
        raise UsageError(msg)
    with following():
        return _inspected(options)


def _inspected(options: argparse.Namespace) -> int:
    _standin.load_if_asked(options)
    sys.argv = [options.script, *options.arguments]
    inspection = Inspection(max_ops=options.max_ops)
    try:
        with inspection:
            _run_program(options.script, module=options.module)
    except SystemExit:
        _tell(inspection, options)
        raise
    except BaseException as error:  # noqa: BLE001 - Python ends with any of them
        sys.excepthook(type(error), error, own_traceback(error))
        _tell(inspection, options)
        return INTERRUPTED if isinstance(error, KeyboardInterrupt) else 1
    _tell(inspection, options)
    return 0


def _run_program(script: str, *, module: bool) -> None:
    if module:
        runpy.run_module(script, run_name="__main__", alter_sys=True)
    else:
        sys.path.insert(0, str(Path(script).resolve().parent))
        runpy.run_path(script, run_name="__main__")


def _tell(inspection: Inspection, options: argparse.Namespace) -> None:
    """Print the report, and save it.

    To standard error: what the program prints may be meant for another program.
    """
    for problem in inspection.problems:
        _say(problem)
    report = inspection.report
    if report is None:
        _say("The program did not import torch, so there is nothing to report.")
        return
    shown = report.only(options.only) if options.only else report
    if options.only and not shown.chains:
        _say(f"Nothing that ran matches {options.only!r}.")
    else:
        width = WIDTH
        if sys.stderr.isatty():
            width = max(80, shutil.get_terminal_size().columns)
        print(shown.to_text(width=width), file=sys.stderr)
    if options.save:
        try:
            report.save(options.save)
        except RecordError as error:
            _say(str(error))


def _say(sentence: str) -> None:
    print(f"npu-dispatch-inspect: {sentence}", file=sys.stderr)


def _check_writable(path: str | None) -> None:
    """Say so now, not after a program that took hours."""
    if path is None:
        return
    format_of(path)
    if not Path(path).resolve().parent.is_dir():
        msg = f"The report cannot be written to {path}: there is no such folder."
        raise UsageError(msg)


def _check_exists(script: str, *, module: bool) -> None:
    if not module:
        if not Path(script).exists():
            msg = f"There is no script {script!r}; use -m to run a module."
            raise UsageError(msg)
        return
    try:
        found = find_spec(script)
    except ModuleNotFoundError:  # a package on the way is missing
        found = None
    if found is None:
        msg = f"There is no module {script!r} on sys.path."
        raise UsageError(msg)
