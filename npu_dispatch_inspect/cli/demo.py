# SPDX-License-Identifier: BSD-3-Clause
"""``demo``: trace `nn.Linear` and a transformer training step."""

from __future__ import annotations

import argparse
from typing import Any

from npu_dispatch_inspect.cli import _standin
from npu_dispatch_inspect.cli._frame import add_json
from npu_dispatch_inspect.cli._torch import default_device, import_torch

__all__ = ["add_parser"]


def add_parser(commands: Any, summary: str) -> None:
    """Add the command to the parser's ``commands``."""
    parser = commands.add_parser(
        "demo",
        help=summary,
        description="Trace nn.Linear(128, 64), forward and backward, and a training "
        "step of a small transformer layer, on npu:0 where torch_npu is installed "
        "(on the stand-in where CANN is not) and else on the CPU.",
    )
    add_json(parser)
    _standin.add_options(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Print the trace of both programs."""
    torch = import_torch(options)
    from torch import nn

    from npu_dispatch_inspect.capture.ops import trace_ops
    from npu_dispatch_inspect.display.text import environment_line

    device = "npu:0" if default_device(torch) == "npu" else "cpu"
    linear = nn.Linear(128, 64).to(device)
    inputs = torch.randn(32, 128, device=device)
    with trace_ops() as trace:
        linear(inputs).sum().backward()
    layer = nn.TransformerEncoderLayer(64, 4, 128, batch_first=True).to(device)
    optimizer = torch.optim.AdamW(layer.parameters())
    words = torch.randn(2, 16, 64, device=device)
    with trace_ops() as step:
        layer(words).pow(2).mean().backward()
        optimizer.step()
    if options.json:
        from npu_dispatch_inspect.cli._json import write_json
        from npu_dispatch_inspect.cli.show import content

        write_json(
            "demo", {"device": device, "linear": content(trace), "step": content(step)}
        )
        return 0
    print(f"nn.Linear(128, 64) on {device}, forward and backward\n")
    print(trace)
    print(
        f"\nOne training step of nn.TransformerEncoderLayer(64, 4, 128) on {device}\n"
    )
    for name, part in (
        ("forward", step.forward),
        ("backward", step.backward),
        ("optimizer", step.optimizer),
    ):
        counts = ", ".join(
            f"{op} {count}" if count > 1 else op
            for op, count in list(part.counts().items())[:8]
        )
        print(f"{name:9}  {len(part):3} calls: {counts}, ...")
    print(f"\n{environment_line(step.environment)}")
    return 0
