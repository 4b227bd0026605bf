# SPDX-License-Identifier: BSD-3-Clause
"""What computed values cost: a training step of an encoder layer, on the CPU and not.

Ratios to the step on the CPU, measured in one run; medians of steps in turn. The
stand-in without values is measured in a process of its own.
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

RUNS = 15
SIZES = ((32, 4, 8), (128, 8, 32), (256, 16, 64))
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


def main():
    """Print the table."""
    for size in SIZES:
        steps = {device: stepper(device, *size) for device in ("cpu", "npu:0")}
        took = {device: [] for device in steps}
        for run in range(RUNS + 3):
            for device, step in steps.items():
                start = time.perf_counter()
                step()
                torch.npu.synchronize()
                if run >= 3:  # the first ones set things up
                    took[device].append(time.perf_counter() - start)
        cpu, npu = (statistics.median(took[device]) for device in steps)
        print(
            f"values={MODE:5} width {size[0]:4} batch {size[1]:3} length {size[2]:3}: "
            f"cpu {1000 * cpu:7.2f} ms, stand-in {1000 * npu:7.2f} ms, {npu / cpu:5.2f} x"
        )


if __name__ == "__main__":
    main()
    if MODE == "cpu":
        sys.stdout.flush()
        subprocess.run([sys.executable, __file__, "none"], check=True)
