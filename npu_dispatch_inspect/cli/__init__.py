# SPDX-License-Identifier: BSD-3-Clause
"""The command line: one module per command."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from npu_dispatch_inspect.cli import demo, run
from npu_dispatch_inspect.errors import InspectError

__all__ = ["main"]

COMMANDS = (run, demo)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; the exit status is 2 for a mistake of the caller.

    Args:
        arguments: the words after the program's name; None takes `sys.argv`.
    """
    parser = argparse.ArgumentParser(
        prog="npu-dispatch-inspect",
        description="Show what a PyTorch program really ran, and why.",
    )
    commands = parser.add_subparsers(dest="command", required=True)
    for module in COMMANDS:
        module.add_parser(commands)
    options = parser.parse_args(arguments)
    try:
        return int(options.run(options))
    except InspectError as error:
        print(f"npu-dispatch-inspect: {error}", file=sys.stderr)
        return 2
