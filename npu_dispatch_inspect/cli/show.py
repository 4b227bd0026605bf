# SPDX-License-Identifier: BSD-3-Clause
"""``show``: a saved trace, report, table or graphs, or a log, as text."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from npu_dispatch_inspect.cli._frame import (
    add_json,
    add_limit,
    report_width,
    row_limit,
    show,
    write,
)

if TYPE_CHECKING:
    from npu_dispatch_inspect.traces.logs import LogTrace
    from npu_dispatch_inspect.traces.ops import OpTrace
    from npu_dispatch_inspect.traces.report import DispatchReport
    from npu_dispatch_inspect.traces.tables import DispatchTable

__all__ = ["add_parser", "content"]

EXAMPLES = """\
examples:
  %(prog)s report.json
  %(prog)s report.json --fallback            what the CPU computed
  %(prog)s trace.json --module 'encoder.*' --phase backward --all
  %(prog)s report.json --op 'aten::*norm*' --json
  ssh node cat report.json | %(prog)s -
"""


def add_parser(commands: Any, summary: str) -> None:
    """Add the command to the parser's ``commands``."""
    parser = commands.add_parser(
        "show",
        help=summary,
        description="Show a file that --save or save() has written, or a log, as text. "
        "torch is not needed.",
        epilog=EXAMPLES,
    )
    parser.add_argument("file", metavar="FILE", help="the file; - is standard input")
    parser.add_argument("--op", metavar="GLOB", help="only calls of these operators")
    parser.add_argument("--module", metavar="GLOB", help="only calls in these modules")
    parser.add_argument(
        "--phase",
        choices=("forward", "backward", "optimizer", "other"),
        help="only calls of this phase",
    )
    parser.add_argument(
        "--fallback", action="store_true", help="only what the CPU computed"
    )
    parser.add_argument(
        "--rank", type=int, metavar="N", help="of logs: only lines of this rank"
    )
    parser.add_argument(
        "--partial",
        action="store_true",
        help="show what is there of a file that was cut off",
    )
    add_limit(parser, default=None)
    add_json(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Print one file."""
    from npu_dispatch_inspect.cli._files import read_file
    from npu_dispatch_inspect.cli._filters import Filters

    filters = Filters(
        op=options.op,
        module=options.module,
        phase=options.phase,
        rank=options.rank,
        fallback=options.fallback,
    )
    value = filters.apply(
        read_file(options.file, partial=options.partial), options.file
    )
    kind = type(value).__name__
    if options.json:
        from npu_dispatch_inspect.cli._json import write_json

        write_json("show", {"kind": kind, **content(value)})
        return 0
    limited = _LIMITED.get(kind)
    if limited is None or (options.limit is None and not options.all):
        show(value)
    else:
        write(limited(value, row_limit(options)))
    return 0


def _trace(trace: OpTrace, limit: int | None) -> str:
    from npu_dispatch_inspect.display.ops import op_table

    return op_table(trace, max_rows=len(trace) if limit is None else limit)


def _report(report: DispatchReport, limit: int | None) -> str:
    width = report_width()
    chains = len(report.chains) if limit is None else limit
    return report.to_text(width=width, max_chains=chains)


def _log(trace: LogTrace, limit: int | None) -> str:
    from npu_dispatch_inspect.cli.logs import launch_lines

    rows = launch_lines(trace.launches, limit)
    return "\n".join([str(trace.summary()), *rows])


def _table(table: DispatchTable, limit: int | None) -> str:
    from npu_dispatch_inspect.cli.table import default_key, lines

    return "\n".join(lines(table, default_key(table), limit))


_LIMITED: dict[str, Any] = {
    "OpTrace": _trace,
    "DispatchReport": _report,
    "LogTrace": _log,
    "DispatchTable": _table,
}


def content(value: Any) -> dict[str, Any]:
    """What the fields of the answer are, by what is shown."""
    environment = getattr(value, "environment", None)
    kind = type(value).__name__
    if kind == "DispatchReport":
        return {
            "environment": environment,
            "chains": value.chains,
            "verdicts": value.verdicts(),
            "failure": value.failure,
            "notes": value.notes,
        }
    if kind == "DispatchTable":
        return {"environment": environment, "operators": list(value)}
    found = {"environment": environment}
    for name in ("label", "engine", "truncated", "incomplete", "notes"):
        if hasattr(value, name):
            found[name] = getattr(value, name)
    if kind == "GraphSet":
        return {**found, "graphs": value.graphs, "failures": value.failures}
    if hasattr(value, "records"):
        found["records"] = value.records
    return found
