# SPDX-License-Identifier: BSD-3-Clause
"""``doctor``: what is installed, what works, and what to do."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from npu_dispatch_inspect.cli._frame import add_json, write

if TYPE_CHECKING:
    from npu_dispatch_inspect.cli._findings import Finding

__all__ = ["add_parser"]

EXAMPLES = """\
examples:
  %(prog)s
  %(prog)s --quick        without importing torch
  %(prog)s --json
"""


def add_parser(commands: Any, summary: str) -> None:
    """Add the command to the parser's ``commands``."""
    parser = commands.add_parser(
        "doctor",
        help=summary,
        description="Look at the packages, import torch and torch_npu, build the "
        "stand-in, try the engines and loggers, each in a process of its own, and list "
        "the switches that are set. A line each: ok; note, where nothing needs doing; "
        "do, where something does. The exit status is 0 where nothing needs doing, "
        "else 1.",
        epilog=EXAMPLES,
    )
    parser.add_argument(
        "--quick",
        action="store_true",
        help="look at packages and switches alone, import and build nothing",
    )
    add_json(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Print finding after finding, as they come."""
    found = []
    for finding in _findings(quick=options.quick):
        found.append(finding)
        if not options.json:
            write(str(finding))
            sys.stdout.flush()
    todo = sum(finding.level == "do" for finding in found)
    if options.json:
        from npu_dispatch_inspect.cli._json import write_json

        write_json("doctor", {"fine": not todo, "to_do": todo, "findings": found})
    elif todo:
        write(f"\n{todo} {'thing needs' if todo == 1 else 'things need'} doing")
    else:
        write("\nnothing needs doing")
    return 1 if todo else 0


def _findings(*, quick: bool) -> Iterator[Finding]:
    from npu_dispatch_inspect.cli import _findings, _probes

    yield from _findings.packages()
    yield from _findings.switches()
    yield from _findings.folders()
    if quick:
        return
    real = built = False
    for finding in _probes.imports():
        real |= finding.what == "import torch_npu" and finding.level == "ok"
        yield finding
    for finding in _probes.stand_in():
        built |= finding.level == "ok"
        yield finding
    yield from _probes.engines(npu=real or built, stand_in=built and not real)
