# SPDX-License-Identifier: BSD-3-Clause
"""``graph``: the graphs AOTAutograd makes of a function or module."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from npu_dispatch_inspect.cli import _inputs, _standin
from npu_dispatch_inspect.cli._frame import add_json, say, show, write
from npu_dispatch_inspect.errors import UsageError

if TYPE_CHECKING:
    from npu_dispatch_inspect.traces.graphs import GraphSet

__all__ = ["add_parser"]

EXAMPLES = """\
examples:
  %(prog)s model.py:Net 'f32[4,8]' --grad
  %(prog)s torch.nn.functional:gelu 'f32[4]' --grad --stage backward
  %(prog)s model.py:Net 'f32[4,8]' --decompose core_aten --code
  %(prog)s model.py:Net 'f32[4,8]' --save graph.json --device cpu
"""


def add_parser(commands: Any, summary: str) -> None:
    """Add the command to the parser's ``commands``."""
    parser = commands.add_parser(
        "graph",
        help=summary,
        description="Capture the joint, forward and backward graphs of a call before "
        f"anything runs on the device. {_inputs.WORDS}",
        epilog=EXAMPLES,
    )
    parser.add_argument(
        "target", metavar="TARGET", help="module:callable or script.py:callable"
    )
    parser.add_argument(
        "arguments", nargs="*", default=(), metavar="ARGUMENT", help="see above"
    )
    _inputs.add_options(parser)
    parser.add_argument(
        "--stage",
        choices=("joint", "forward", "backward", "inference"),
        help="show this graph alone",
    )
    parser.add_argument(
        "--partition",
        choices=("default", "min_cut"),
        default="default",
        help="how the joint graph is cut: min_cut computes some of it again, to keep "
        "less (default: %(default)s)",
    )
    parser.add_argument(
        "--decompose",
        metavar="WHAT",
        help="take operators apart: core_aten, or operators by commas",
    )
    parser.add_argument(
        "--dynamic", action="store_true", help="leave sizes open, as symbols"
    )
    parser.add_argument(
        "--code", action="store_true", help="show the graphs as Python code"
    )
    parser.add_argument(
        "--save",
        metavar="FILE",
        help="write the graphs to this file as well; the suffix decides the format",
    )
    add_json(parser)
    _standin.add_options(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Capture, save and show."""
    from npu_dispatch_inspect.cli._targets import is_callable_name

    if not is_callable_name(options.target):
        msg = (
            f"{options.target!r} names no callable: write module:callable, as in "
            "model.py:Net."
        )
        raise UsageError(msg)
    if options.save:
        from npu_dispatch_inspect.export.saving import format_of

        format_of(options.save)
        if not Path(options.save).absolute().parent.is_dir():
            msg = f"{options.save} cannot be written: there is no such folder."
            raise UsageError(msg)
    captured = _captured(options)
    if options.save:
        captured.save(options.save)
    graphs = tuple(captured)
    if options.stage:
        graphs = captured.stage(options.stage)
        if not graphs:
            there = ", ".join(graph.stage.value for graph in captured) or "none at all"
            msg = f"There is no {options.stage} graph here: there is {there}."
            raise UsageError(msg)
    if options.json:
        from npu_dispatch_inspect.cli._json import write_json

        write_json(
            "graph",
            {
                "target": options.target,
                "environment": captured.environment,
                "graphs": graphs,
                "failures": captured.failures,
                "notes": captured.notes,
            },
        )
    else:
        from npu_dispatch_inspect.display.text import source_text

        _show(graphs, code=options.code)
        for failure in captured.failures:
            place = source_text(failure.source)
            say(f"{place}: {failure.message}" if place else failure.message)
    return 0 if graphs else 2


def _captured(options: argparse.Namespace) -> GraphSet:
    from npu_dispatch_inspect.cli._targets import find_callable, quiet
    from npu_dispatch_inspect.cli._torch import import_torch

    torch = import_torch(options)
    from npu_dispatch_inspect.capture.graphs import capture_graphs

    device = _inputs.device_of(options, torch)
    target = find_callable(options.target, device)
    positional, named = _inputs.call_arguments(options.arguments, options, torch)
    decompositions: Any = options.decompose
    if decompositions and "::" in decompositions:
        decompositions = decompositions.split(",")
    with (
        quiet(),
        capture_graphs(
            partition=options.partition,
            decompositions=decompositions,
            dynamic=options.dynamic,
        ) as graphs,
    ):
        captured: GraphSet = graphs.capture(target, *positional, **named)
    return captured


def _show(graphs: tuple[Any, ...], *, code: bool) -> None:
    for number, graph in enumerate(graphs):
        if number:
            write("")
        if code:
            write(f"# {graph.stage.value}")
            write(graph.code)
        else:
            show(graph)
