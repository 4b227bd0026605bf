# SPDX-License-Identifier: BSD-3-Clause
"""``diff``: two saved files or logs side by side; the status is that of diff(1)."""

from __future__ import annotations

import argparse
from typing import Any

from npu_dispatch_inspect.cli._frame import add_json, add_limit, row_limit, show, write
from npu_dispatch_inspect.errors import UsageError

__all__ = ["add_parser"]

DETAILS = ("tensors", "arguments", "phase", "module", "kernel", "verdict", "launches")
EXAMPLES = """\
examples:
  %(prog)s cpu.json npu.json                   two traces or reports
  %(prog)s rank0.log rank1.log                 two logs: their launches
  %(prog)s before.json.gz after.json.gz        two registration tables
  %(prog)s a.json b.json --names-only --quiet && echo same
  %(prog)s a.json b.json --phase backward --ignore 'aten::detach*'
"""


def add_parser(commands: Any, summary: str) -> None:
    """Add the command to the parser's ``commands``."""
    parser = commands.add_parser(
        "diff",
        help=summary,
        description="Compare two traces, reports, graphs, logs or registration tables. "
        "The exit status is 0 where they are the same, 1 where they differ, and 2 "
        "where something is wrong.",
        epilog=EXAMPLES,
    )
    parser.add_argument("left", metavar="A", help="a file; - is standard input")
    parser.add_argument("right", metavar="B", help="another one")
    what = parser.add_mutually_exclusive_group()
    what.add_argument(
        "--details",
        metavar="LIST",
        help="what of the same call is compared as well, by commas: "
        f"{', '.join(DETAILS)} (default: tensors,verdict,launches)",
    )
    what.add_argument(
        "--names-only", action="store_true", help="compare operators alone"
    )
    parser.add_argument("--op", metavar="GLOB", help="only calls of these operators")
    parser.add_argument(
        "--ignore",
        metavar="GLOB",
        action="append",
        default=[],
        help="leave out calls of these operators; may be given several times",
    )
    parser.add_argument("--module", metavar="GLOB", help="only calls in these modules")
    parser.add_argument(
        "--phase",
        choices=("forward", "backward", "optimizer", "other"),
        help="only calls of this phase",
    )
    parser.add_argument(
        "--rank", type=int, metavar="N", help="of logs: only lines of this rank"
    )
    parser.add_argument(
        "-q", "--quiet", action="store_true", help="say nothing, only end with a status"
    )
    add_limit(parser, default=None)
    add_json(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Compare; 0 where nothing differs, 1 where something does."""
    if options.left == options.right == "-":
        msg = "Only one of the two files can be standard input."
        raise UsageError(msg)
    from npu_dispatch_inspect.cli._files import read_file
    from npu_dispatch_inspect.cli._filters import Filters
    from npu_dispatch_inspect.comparison import compare
    from npu_dispatch_inspect.traces.logs import LogTrace
    from npu_dispatch_inspect.traces.tables import DispatchTable

    filters = Filters(
        op=options.op,
        ignore=tuple(options.ignore),
        module=options.module,
        phase=options.phase,
        rank=options.rank,
    )
    given: dict[str, Any] = {}
    sides = []
    for path in (options.left, options.right):
        value = read_file(path)
        if filters.check(value, path) and isinstance(value, (LogTrace, DispatchTable)):
            value = filters.apply(value, path)
        elif filters.check(value, path):
            given["where"] = filters.keeps
        sides.append(value)
    if options.names_only:
        given["details"] = ()
    elif options.details is not None:
        given["details"] = tuple(filter(None, options.details.split(",")))
    names = _names(options.left, options.right)
    found = compare(*sides, names=names, **given)
    if options.json:
        from npu_dispatch_inspect.cli._json import write_json

        write_json(
            "diff",
            {
                "same": found.same,
                "what": found.what,
                "left": {"name": found.names[0], "count": found.sizes[0]},
                "right": {"name": found.names[1], "count": found.sizes[1]},
                "differences": found.differences,
                "notes": found.notes,
            },
        )
    elif options.quiet:
        pass
    elif options.limit is None and not options.all:
        show(found)
    else:
        write(found.to_text(max_rows=row_limit(options)))
    return 0 if found.same else 1


def _names(left: str, right: str) -> tuple[str, str]:
    """The files' names, without the folders where that tells them apart."""
    from pathlib import PurePath

    short = PurePath(left).name, PurePath(right).name
    return short if short[0] != short[1] else (left, right)
