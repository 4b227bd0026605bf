# SPDX-License-Identifier: BSD-3-Clause
"""Cost of engine "dispatcher", against a bare TorchDispatchMode on the same program.

Run: ``python tests/bench/dispatcher.py``. The figure is what one recorded call
adds: (time in the block - time without a tracer) / calls recorded, a bare mode's
calls being those it is asked about. Medians of 7 rounds; in a round every
configuration runs once, so that a busy machine hits all alike.
"""

from __future__ import annotations

import contextlib
import gc
import os
import statistics
import time

os.environ.setdefault("TORCH_DEVICE_BACKEND_AUTOLOAD", "0")

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from npu_dispatch_inspect import trace_ops

ROUNDS = 7


class Bare(TorchDispatchMode):
    """The cheapest mode there is."""

    calls = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        """Call on."""
        return func(*args, **(kwargs or {}))


class Counting(Bare):
    """The same, and counts."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        """Count, and call on."""
        self.calls += 1
        return func(*args, **(kwargs or {}))


def number_chain():
    """20,000 times ``x.add_(1)`` on four elements: five calls each."""
    x = torch.zeros(4)
    with torch.no_grad():
        for _ in range(20_000):
            x.add_(1)


def tensor_chain():
    """20,000 times ``x.add_(y)`` on four elements: one call each."""
    x, y = torch.zeros(4), torch.ones(4)
    with torch.no_grad():
        for _ in range(20_000):
            x.add_(y)


LAYERS = torch.nn.TransformerEncoder(
    torch.nn.TransformerEncoderLayer(64, 4, 128, batch_first=True), 2
)
WORDS = torch.randn(4, 16, 64)


def encoder():
    """Forward and backward of a 2-layer encoder, 10 times."""
    for _ in range(10):
        LAYERS(WORDS).sum().backward()


CONFIGURATIONS = {
    "no tracer": contextlib.nullcontext,
    "bare mode": Bare,
    "names": lambda: trace_ops(engine="dispatcher", detail="names"),
    "full": lambda: trace_ops(engine="dispatcher"),
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
    for program in (number_chain, tensor_chain, encoder):
        with trace_ops(engine="dispatcher", detail="names") as trace:
            program()
        with Counting() as mode:
            program()
        calls = {"names": len(trace), "full": len(trace), "bare mode": mode.calls}
        times = measure(program)
        plain = times.pop("no tracer")
        added = {
            name: (seconds - plain) / calls[name] for name, seconds in times.items()
        }
        print(f"{program.__name__}: {len(trace)} calls, {plain * 1e3:.0f} ms without")
        for name, seconds in added.items():
            print(
                f"  {name:10} adds {seconds * 1e6:6.2f} us a call"
                f"  {seconds / added['bare mode']:5.2f} x bare"
                f"  whole program {times[name] / times['bare mode']:5.2f} x bare"
            )
    entered = []
    for _ in range(ROUNDS):
        started = time.perf_counter()
        with trace_ops(engine="dispatcher"):
            pass
        entered.append(time.perf_counter() - started)
    print(f"enter and leave: {statistics.median(entered) * 1e3:.0f} ms")


if __name__ == "__main__":
    main()
