# SPDX-License-Identifier: BSD-3-Clause
"""``run``: what an unmodified script or module ran, on the stand-in if asked."""

from __future__ import annotations

import argparse
import contextlib
import json
import runpy
import shutil
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from npu_dispatch_inspect.cli import _standin
from npu_dispatch_inspect.cli._frame import INTERRUPTED, say
from npu_dispatch_inspect.errors import InspectError, UsageError

if TYPE_CHECKING:
    from npu_dispatch_inspect.cli._program import Inspection
    from npu_dispatch_inspect.traces.report import DispatchReport

__all__ = ["add_parser"]

WIDTH = 140
EXAMPLES = """\
examples:
  %(prog)s train.py --epochs 1
  %(prog)s --only 'aten::linear' --save report.html train.py
  %(prog)s --stand-in -m mypackage.train
  %(prog)s --json train.py 2>&1 >/dev/null | tail -n 1
"""


def add_parser(commands: Any, summary: str) -> None:
    """Add the command to the parser's ``commands``."""
    parser = commands.add_parser(
        "run",
        help=summary,
        description="Run a program as Python would, then print a report of what it ran "
        "to standard error. The exit status is the program's.",
        epilog=EXAMPLES,
        usage="%(prog)s [--only PATTERN] [--save FILE] [--json] [--max-ops N] [--stand-in] "
        "[--device-name NAME] [--device-count N] [--values {none,cpu}] "
        "(script.py | -m module) [arguments ...]",
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
        "--json",
        action="store_true",
        help="write the report as JSON, in the last line of standard error",
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
    from npu_dispatch_inspect.capture._follower import following

    with following():
        return _inspected(options)


def _inspected(options: argparse.Namespace) -> int:
    from npu_dispatch_inspect.cli._program import Inspection, own_traceback

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
        say(problem)
    report = inspection.report
    if report is None:
        say("The program did not import torch, so there is nothing to report.")
        return
    shown = report.only(options.only) if options.only else report
    if options.only and not shown.chains:
        say(f"Nothing that ran matches {options.only!r}.")
    if shown.chains or options.json or not options.only:
        _print(_text(shown, as_json=options.json))
    if options.save:
        try:
            report.save(options.save)
        except InspectError as error:
            say(str(error))


def _print(text: str) -> None:
    # Whoever closed standard error does not want it.
    with contextlib.suppress(BrokenPipeError):
        print(text, file=sys.stderr, flush=True)


def _text(report: DispatchReport, *, as_json: bool) -> str:
    if as_json:
        from npu_dispatch_inspect.cli._json import FORMAT, plain
        from npu_dispatch_inspect.cli.show import content

        return json.dumps(
            plain({"command": "run", "format": FORMAT, **content(report)})
        )
    width = WIDTH
    if sys.stderr.isatty():
        width = max(80, shutil.get_terminal_size().columns)
    return report.to_text(width=width)


def _check_writable(path: str | None) -> None:
    """Say so now, not after a program that took hours."""
    if path is None:
        return
    from npu_dispatch_inspect.export.saving import format_of

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
