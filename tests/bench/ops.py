# SPDX-License-Identifier: BSD-3-Clause
"""Cost of tracing: ratios against a bare TorchDispatchMode and DebugMode.

Run: ``python tests/bench/ops.py``. Each figure is the median of 7 rounds; in a
round every configuration runs once, so that a busy machine hits all alike. The
time is the time inside the block.
"""

from __future__ import annotations

import contextlib
import gc
import os
import statistics
import time

os.environ.setdefault("TORCH_DEVICE_BACKEND_AUTOLOAD", "0")

import torch
from torch.utils._debug_mode import DebugMode
from torch.utils._python_dispatch import TorchDispatchMode

from npu_dispatch_inspect import trace_ops
from npu_dispatch_inspect._torch_private.modes import storage_address

ROUNDS = 7
CHAIN = 20_000


class Bare(TorchDispatchMode):
    """The cheapest mode there is."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        """Call on."""
        return func(*args, **(kwargs or {}))


class Reading(Bare):
    """Reads once what a description has to tell of each result, and keeps nothing."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        """Call on, and read."""
        result = func(*args, **(kwargs or {}))
        if isinstance(result, torch.Tensor):
            storage_address(result)
            _ = (
                result.shape,
                result.stride(),
                result.storage_offset(),
                result.dtype,
                result.device,
                result.requires_grad,
            )
        return result


def chain():
    """20,000 in-place additions on four elements."""
    x = torch.zeros(4)
    with torch.no_grad():
        for _ in range(CHAIN):
            x.add_(1)


LAYERS = torch.nn.TransformerEncoder(
    torch.nn.TransformerEncoderLayer(64, 4, 128, batch_first=True), 2
)
WORDS = torch.randn(4, 16, 64)


def encoder():
    """Forward and backward of a 2-layer encoder, 20 times."""
    for _ in range(20):
        LAYERS(WORDS).sum().backward()


CONFIGURATIONS = {
    "no mode": contextlib.nullcontext,
    "bare mode": Bare,
    "reading": Reading,
    "full": trace_ops,
    "names": lambda: trace_ops(detail="names"),
    "DebugMode": DebugMode,
}


def measure(program):
    """Median seconds per configuration."""
    taken = {name: [] for name in CONFIGURATIONS}
    for _ in range(ROUNDS):
        for name, make in CONFIGURATIONS.items():
            gc.collect()  # nobody pays for what another has left
            with make():
                started = time.thread_time()
                program()
                taken[name].append(time.thread_time() - started)
    return {name: statistics.median(times) for name, times in taken.items()}


def main():
    """Print one table per program."""
    torch.set_num_threads(1)
    for program in (chain, encoder):
        with trace_ops(detail="names") as trace:
            program()
        calls = len(trace)
        times = measure(program)
        bare, debug = times["bare mode"], times["DebugMode"]
        print(f"{program.__name__}: {calls} calls")
        for name, seconds in times.items():
            print(
                f"  {name:10} {seconds / calls * 1e6:7.2f} us/call"
                f"  {seconds / bare:5.2f} x bare  {seconds / debug:5.2f} x DebugMode"
            )


if __name__ == "__main__":
    main()
