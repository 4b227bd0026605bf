# SPDX-License-Identifier: BSD-3-Clause
"""``run``: what an unmodified script or module ran, on the stand-in if asked."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from npu_dispatch_inspect.cli import _as_main, _standin
from npu_dispatch_inspect.cli._frame import StandardError
from npu_dispatch_inspect.errors import InspectError, UsageError

if TYPE_CHECKING:
    from npu_dispatch_inspect.cli._program import Inspection
    from npu_dispatch_inspect.traces.report import DispatchReport

__all__ = ["add_parser"]

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
    parser.add_argument(
        "program",
        # A word, and whatever follows: options and -- as well.
        nargs=argparse.PARSER,
        metavar="script",
        help="the script (- is standard input), or the module after -m; and its "
        "arguments",
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Run the program as Python would; its exit status passes through.

    Raises:
        KeyboardInterrupt: the program ended so, and it has been shown.
    """
    words = options.program
    script, *arguments = words[1:] if words[0] == "--" else words
    if options.max_ops < 0:
        msg = f"--max-ops must be a whole number from 0 up, not {options.max_ops}."
        raise UsageError(msg)
    _check_writable(options.save)
    _as_main.prepare(script, arguments, module=options.module)
    _as_main.check(script, module=options.module)
    from npu_dispatch_inspect.capture._follower import following

    with following():
        return _inspected(script, options)


def _inspected(script: str, options: argparse.Namespace) -> int:
    from npu_dispatch_inspect.cli._program import Inspection, show_error

    _standin.load_if_asked(options)
    stderr = StandardError()
    inspection = Inspection(max_ops=options.max_ops)
    try:
        with inspection:
            _as_main.run(script, module=options.module)
    except SystemExit:
        _tell(inspection, options, stderr)
        raise
    except BaseException as error:
        try:
            show_error(error)
        finally:  # its own hook may leave
            _tell(inspection, options, stderr)
        if isinstance(error, KeyboardInterrupt):
            raise
        return 1
    _tell(inspection, options, stderr)
    return 0


def _tell(
    inspection: Inspection, options: argparse.Namespace, stderr: StandardError
) -> None:
    """Print the report, and save it.

    To standard error: what the program prints may be meant for another program.
    """
    try:
        for sentence in _told(inspection, options, stderr):
            stderr.write(f"npu-dispatch-inspect: {sentence}")
    except Exception as error:  # noqa: BLE001 - the exit status is the program's
        reason = f"{type(error).__name__}: {error}".partition("\n")[0]
        stderr.write(f"npu-dispatch-inspect: The report could not be made: {reason}.")


def _told(
    inspection: Inspection, options: argparse.Namespace, stderr: StandardError
) -> Iterator[str]:
    """Write the report; what is to be said besides."""
    yield from inspection.problems
    report = inspection.report
    if report is None:
        yield "The program did not import torch, so there is nothing to report."
        return
    shown = report.only(options.only) if options.only else report
    if options.only and not shown.chains:
        yield f"Nothing that ran matches {options.only!r}."
    if options.save:
        # Before the report: a reader that goes away does not keep it from being saved.
        try:
            report.save(options.save)
        except InspectError as error:
            yield str(error)
    if shown.chains or options.json or not options.only:
        stderr.write(_text(shown, as_json=options.json, width=stderr.report_width()))
    from npu_dispatch_inspect.display.reports import MAX_CHAINS

    if len(shown.chains) > MAX_CHAINS and not (options.save or options.json):
        yield (
            "Not all calls are shown: --save report.html keeps them all, "
            "--only PATTERN shows a part."
        )


def _text(report: DispatchReport, *, as_json: bool, width: int) -> str:
    if as_json:
        from npu_dispatch_inspect.cli._json import FORMAT, plain
        from npu_dispatch_inspect.cli.show import content

        return json.dumps(
            plain({"command": "run", "format": FORMAT, **content(report)})
        )
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
