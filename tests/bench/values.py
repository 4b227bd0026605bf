# SPDX-License-Identifier: BSD-3-Clause
"""What computed values cost: a training step of an encoder layer, on the CPU and not.

Ratios to the step on the CPU, measured in one run: the median of steps in turn, in
several rounds. The stand-in without values is measured in a process of its own.

``values.py [cpu|none] [THREADS]``; without a number, as many as torch takes.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time

from npu_dispatch_inspect import standin

MODE = sys.argv[1] if len(sys.argv) > 1 else "cpu"
standin.load(values=MODE)

import torch  # noqa: E402 - the stand-in comes first
from torch import nn  # noqa: E402

THREADS = sys.argv[2:]
ROUNDS, RUNS = 5, 15
SIZES = ((32, 4, 8), (64, 4, 16), (128, 8, 32), (256, 16, 64))
"""Width of the layer, batch, length."""


def stepper(device, width, batch, length):
    """One training step on a device, as a function."""
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(width, 4, 4 * width, 0.0, batch_first=True)
    layer.to(device)
    optimizer = torch.optim.AdamW(layer.parameters())
    x = torch.randn(batch, length, width).to(device)

    def step():
        layer(x).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


def medians(steps, runs):
    """The median time of each step, in milliseconds, measured in turn."""
    took = [[] for _ in steps]
    for _ in range(runs):
        for times, step in zip(took, steps, strict=True):
            start = time.perf_counter()
            step()
            torch.npu.synchronize()
            times.append(1000 * (time.perf_counter() - start))
    return [statistics.median(times) for times in took]


def main():
    """Print the table."""
    for size in SIZES:
        steps = [stepper(device, *size) for device in ("cpu", "npu:0")]
        medians(steps, 3)  # the first ones set things up
        rounds = [medians(steps, RUNS) for _ in range(ROUNDS)]
        cpu, npu = (statistics.median(column) for column in zip(*rounds, strict=True))
        ratios = sorted(npu / cpu for cpu, npu in rounds)
        print(
            f"values={MODE:5} threads {torch.get_num_threads()} width {size[0]:4} "
            f"batch {size[1]:3} length {size[2]:3}: cpu {cpu:7.2f} ms, "
            f"stand-in {npu:7.2f} ms, {statistics.median(ratios):5.2f} x "
            f"({ratios[0]:.2f} to {ratios[-1]:.2f})",
            flush=True,
        )


if __name__ == "__main__":
    if THREADS:
        torch.set_num_threads(int(THREADS[0]))
    main()
    if MODE == "cpu":
        subprocess.run([sys.executable, __file__, "none", *THREADS], check=True)
