# SPDX-License-Identifier: BSD-3-Clause
"""``run``: an unmodified script or module, on the stand-in if asked."""

from __future__ import annotations

import argparse
import runpy
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from npu_dispatch_inspect.cli import _standin
from npu_dispatch_inspect.errors import UsageError

__all__ = ["add_parser"]


def add_parser(commands: Any) -> None:
    """Add the command to the parser's ``commands``."""
    parser = commands.add_parser(
        "run",
        help="run a script or module",
        usage="%(prog)s [--stand-in] [--device-name NAME] [--device-count N] "
        "(script.py | -m module) [arguments ...]",
    )
    _standin.add_options(parser)
    parser.add_argument("-m", dest="module", action="store_true", help="run a module")
    parser.add_argument("script", help="the script, or the module after -m")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="its arguments")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Run the program as Python would; its exit status passes through."""
    script = options.script
    if options.module:
        sys.path.insert(0, "")
    _check_exists(script, module=options.module)
    _standin.load_if_asked(options)
    sys.argv = [script, *options.arguments]
    if options.module:
        runpy.run_module(script, run_name="__main__", alter_sys=True)
    else:
        sys.path.insert(0, str(Path(script).resolve().parent))
        runpy.run_path(script, run_name="__main__")
    return 0


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
