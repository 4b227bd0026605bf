# SPDX-License-Identifier: BSD-3-Clause
"""What inspection costs: a training step bare, traced, captured, and inspected.

Ratios to the bare step, measured in one run on the stand-in; medians of 7.
"""

from __future__ import annotations

import statistics
import sys
import time

from npu_dispatch_inspect import standin

standin.load()

import torch  # noqa: E402 - the stand-in comes first
from torch import nn  # noqa: E402

from npu_dispatch_inspect import capture_logs, inspect_dispatch, trace_ops  # noqa: E402

RUNS = 7


def seconds(block, work):
    """Median time of a step inside a block, and of looking at what was seen."""
    inside, looking = [], []
    for _ in range(RUNS):
        with block() as seen:
            start = time.perf_counter()
            work()
            torch.npu.synchronize()
            inside.append(time.perf_counter() - start)
        start = time.perf_counter()
        str(seen)
        looking.append(time.perf_counter() - start)
    return statistics.median(inside), statistics.median(looking)


class Nothing:
    """A block that does nothing."""

    def __enter__(self):
        """Give nothing."""

    def __exit__(self, *error):
        """Pass errors on."""


def main():
    """Print the table."""
    layer = nn.TransformerEncoderLayer(32, 4, batch_first=True).npu()
    optimizer = torch.optim.AdamW(layer.parameters())
    x = torch.randn(4, 8, 32).npu()

    def step():
        layer(x).sum().backward()
        optimizer.step()
        optimizer.zero_grad()

    step()
    with inspect_dispatch() as seen:
        step()
    calls = sum(1 for _ in seen.nodes())
    bare, _ = seconds(Nothing, step)
    print(
        f"one step: {calls} calls, {len(seen.launches)} launches, {bare * 1e3:.1f} ms bare"
    )
    print(f"{'':34}{'in the block':>14}{'looking':>10}")
    for name, block in (
        ("trace_ops()", trace_ops),
        ('trace_ops(engine="dispatcher")', lambda: trace_ops(engine="dispatcher")),
        ("capture_logs()", capture_logs),
        ("inspect_dispatch()", inspect_dispatch),
        ("inspect_dispatch(profiler=True)", lambda: inspect_dispatch(profiler=True)),
    ):
        inside, looking = seconds(block, step)
        print(f"{name:34}{inside / bare:14.1f}{looking / bare:10.1f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
