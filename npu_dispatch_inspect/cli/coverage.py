# SPDX-License-Identifier: BSD-3-Clause
"""``coverage``: which operators of a program a device has kernels for."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Any

from npu_dispatch_inspect.cli import _inputs, _standin
from npu_dispatch_inspect.cli._frame import add_json, say, show
from npu_dispatch_inspect.errors import UsageError

if TYPE_CHECKING:
    from npu_dispatch_inspect.records.coverage import Coverage
    from npu_dispatch_inspect.traces.ops import OpTrace
    from npu_dispatch_inspect.traces.tables import DispatchTable

__all__ = ["add_parser"]

EXAMPLES = """\
examples:
  %(prog)s model.py:Net 'f32[1,3,32,32]'    a model, without running it
  %(prog)s train.py                         a script, by running it
  %(prog)s trace.json                       a saved trace or report
  %(prog)s --ops aten::lgamma aten::mm      operators by name
  %(prog)s train.py --table npu.json.gz     against a table of another machine
  grep -o 'aten::[a-z_.]*' notes.txt | %(prog)s --ops -
"""


def add_parser(commands: Any, summary: str) -> None:
    """Add the command to the parser's ``commands``."""
    parser = commands.add_parser(
        "coverage",
        help=summary,
        description="Tell for every operator of a program what a device has for it: a "
        "kernel of its own, parts it is taken apart into, the CPU fallback, or "
        f"nothing. {_inputs.WORDS}",
        epilog=EXAMPLES,
    )
    parser.add_argument(
        "target",
        nargs="?",
        metavar="TARGET",
        help="module:callable, a script, or a saved trace or report; - is a saved one "
        "on standard input",
    )
    parser.add_argument(
        "arguments",
        nargs="*",
        default=(),
        metavar="ARGUMENT",
        help="what a callable is given",
    )
    parser.add_argument(
        "--ops",
        nargs="+",
        metavar="OP",
        help="look at these operators; - reads names from standard input",
    )
    parser.add_argument(
        "--key",
        default="PrivateUse1",
        metavar="NAME",
        help="the device or dispatch key that is meant: npu, cpu, cuda (default: npu)",
    )
    parser.add_argument(
        "--table",
        metavar="FILE",
        help="a table of another machine, as table --save writes it",
    )
    _inputs.add_options(parser)
    add_json(parser)
    _standin.add_options(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Print what the device has."""
    if (options.target is None) == (options.ops is None):
        msg = "Name one thing to look at: a callable, a script, a file, or --ops."
        raise UsageError(msg)
    from npu_dispatch_inspect.cli._torch import import_torch

    torch = import_torch(options)
    from npu_dispatch_inspect.dispatch_table.coverage import coverage

    table = _table(options)
    key = table.keys.canonical(options.key)
    if key == "PrivateUse1" and not table.keys.private_backend:
        say(
            "No library has taken the key PrivateUse1 here, so everything is missing: "
            "import torch_npu, or give --table or --key."
        )
    if options.ops is not None:
        found = coverage(_named(options.ops, table), key=key, table=table)
    else:
        found = _target(options, torch, key, table)
    if options.json:
        _write_json(options, found)
    else:
        show(found)
    return 0


def _table(options: argparse.Namespace) -> DispatchTable:
    if options.table:
        from npu_dispatch_inspect.cli._files import read_table

        return read_table(options.table)
    from npu_dispatch_inspect.cli._progress import counted
    from npu_dispatch_inspect.dispatch_table.reader import DispatchTableReader

    with counted("reading registrations") as progress:
        return DispatchTableReader(progress=progress).read()


def _target(
    options: argparse.Namespace, torch: Any, key: str, table: DispatchTable
) -> Coverage:
    from npu_dispatch_inspect.cli import _targets
    from npu_dispatch_inspect.dispatch_table.coverage import coverage

    target = options.target
    if _targets.is_callable_name(target):
        device = _inputs.device_of(options, torch)
        function = _targets.find_callable(target, device)
        positional, named = _inputs.call_arguments(options.arguments, options, torch)
        with _targets.quiet():
            return coverage(function, *positional, key=key, table=table, **named)
    if options.arguments:
        msg = f"{target} takes no arguments here: a callable is named as file.py:name."
        raise UsageError(msg)
    if target.endswith(".py"):
        from npu_dispatch_inspect.capture.ops import trace_ops

        with trace_ops() as trace:
            _targets.run_script(target)
    else:
        trace = _saved(target)
    return coverage(trace, key=key, table=table)


def _saved(path: str) -> OpTrace:
    from npu_dispatch_inspect.cli._files import read_file
    from npu_dispatch_inspect.traces.ops import OpTrace
    from npu_dispatch_inspect.traces.report import DispatchReport

    found = read_file(path)
    if isinstance(found, DispatchReport):
        found = found.trace
    if not isinstance(found, OpTrace):
        msg = f"{path} holds no operator calls but {type(found).__name__}."
        raise UsageError(msg)
    return found


def _named(words: list[str], table: DispatchTable) -> OpTrace:
    """Operators by name as if each had been called once."""
    from npu_dispatch_inspect.environment import read_environment
    from npu_dispatch_inspect.records import OpRecord
    from npu_dispatch_inspect.traces.ops import OpTrace

    names: list[str] = []
    for word in words:
        if word == "-":
            names += sys.stdin.read().split()
        else:
            names.append(word)
    found: dict[str, None] = {}
    for name in names:
        chosen = table.select(name)
        # What TorchScript alone knows reaches no device.
        found.update(
            dict.fromkeys(chosen.operators(kind="dispatcher").names or chosen.names)
        )
    records = []
    for index, name in enumerate(found):
        operator, _, overload = name.partition(".")
        records.append(
            OpRecord(index=index, name=operator, overload=overload or "default")
        )
    return OpTrace(records=records, environment=read_environment())


def _write_json(options: argparse.Namespace, found: Coverage) -> None:
    from npu_dispatch_inspect.cli._json import write_json

    write_json(
        "coverage",
        {
            "target": options.target,
            "key": found.key,
            "source": found.source,
            "complete": found.complete,
            "counts": found.counts,
            "calls": found.calls,
        },
    )
