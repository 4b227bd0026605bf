# SPDX-License-Identifier: BSD-3-Clause
"""``export``: a saved file in another format, by its suffix."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from npu_dispatch_inspect.cli._frame import add_json, say
from npu_dispatch_inspect.errors import UsageError

__all__ = ["add_parser"]

EXAMPLES = """\
examples:
  %(prog)s report.json report.html     to look at in a browser
  %(prog)s trace.json trace.csv        for a spreadsheet
  gunzip -c table.jsonl.gz | %(prog)s - table.csv
"""


def add_parser(commands: Any, summary: str) -> None:
    """Add the command to the parser's ``commands``."""
    parser = commands.add_parser(
        "export",
        help=summary,
        description="Read a saved trace, report, table or graphs, or a log, and write "
        "it in the format that the suffix of the second file names.",
        epilog=EXAMPLES,
    )
    parser.add_argument("source", metavar="IN", help="the file; - is standard input")
    parser.add_argument(
        "target", metavar="OUT", help="the file to write; its suffix decides"
    )
    parser.add_argument(
        "--force", action="store_true", help="replace the second file where it exists"
    )
    add_json(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Convert one file."""
    target = Path(options.target)
    if target.is_file() and not options.force:
        msg = f"{options.target} exists: --force replaces it."
        raise UsageError(msg)
    if not target.absolute().parent.is_dir():
        msg = f"{options.target} cannot be written: there is no such folder."
        raise UsageError(msg)
    from npu_dispatch_inspect.cli._files import read_file

    value = read_file(options.source)
    from npu_dispatch_inspect.export.saving import save

    save(value, options.target)
    if options.json:
        from npu_dispatch_inspect.cli._json import write_json

        write_json(
            "export",
            {
                "read": options.source,
                "kind": type(value).__name__,
                "written": options.target,
                "bytes": target.stat().st_size,
            },
        )
    else:
        say(f"{options.target} is written.")
    return 0
