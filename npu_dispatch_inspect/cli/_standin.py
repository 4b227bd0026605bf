# SPDX-License-Identifier: BSD-3-Clause
"""The options that choose the stand-in, shared by the commands that run code."""

from __future__ import annotations

import argparse

__all__ = ["add_options", "load_if_asked"]


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add ``--stand-in``, ``--device-name``, ``--device-count`` and ``--values``."""
    parser.add_argument(
        "--stand-in",
        action="store_true",
        help="run the real torch_npu on the host stand-in for CANN; nothing is "
        "computed on it, unless --values says so",
    )
    parser.add_argument(
        "--device-name",
        default="Ascend910B1",
        help="the chip the stand-in gives itself out for (default: %(default)s)",
    )
    parser.add_argument(
        "--device-count",
        type=int,
        default=1,
        help="how many of them there are (default: %(default)s)",
    )
    parser.add_argument(
        "--values",
        choices=("none", "cpu"),
        default="none",
        help="on the stand-in: leave results as their memory was, or put what the CPU "
        "computes into them (default: %(default)s)",
    )


def load_if_asked(options: argparse.Namespace) -> None:
    """Load the stand-in where ``--stand-in`` was given."""
    if options.stand_in:
        from npu_dispatch_inspect import standin

        standin.load(options.device_name, options.device_count, values=options.values)
