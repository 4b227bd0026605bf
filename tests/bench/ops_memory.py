# SPDX-License-Identifier: BSD-3-Clause
"""Memory of tracing: bytes per recorded call, a million calls, and a file as sink.

Run: ``python tests/bench/ops_memory.py``. Each line is a process of its own; the
figure is the growth of its resident memory while the block runs, before anybody
looks at a record, less what the same program grows by without a tracer.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
from pathlib import Path

os.environ.setdefault("TORCH_DEVICE_BACKEND_AUTOLOAD", "0")


def resident():
    """Resident memory in bytes."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def chain(times):
    """In-place additions on four elements: one call each."""
    import torch

    x = torch.zeros(4)
    with torch.no_grad():
        for _ in range(times):
            x.add_(1)


def encoder(times):
    """Forward and backward of a 2-layer encoder: 374 calls each."""
    import torch

    layers = torch.nn.TransformerEncoder(
        torch.nn.TransformerEncoderLayer(64, 4, 128, batch_first=True), 2
    )
    words = torch.randn(4, 16, 64)
    for _ in range(times // 374):
        layers(words).sum().backward()


def measure(program, times, how):
    """Growth in bytes and number of calls, printed for `main`."""
    import torch

    from npu_dispatch_inspect import trace_ops

    torch.set_num_threads(1)
    run = {"chain": chain, "encoder": encoder}[program]
    with trace_ops():
        run(374)
    with tempfile.TemporaryDirectory() as folder:
        tracer = {
            "none": contextlib.nullcontext,
            "full": trace_ops,
            "names": lambda: trace_ops(detail="names"),
            "sink": lambda: trace_ops(sink=Path(folder, "trace.jsonl")),
        }[how]()
        before = resident()
        with tracer as trace:
            run(times)
            grown = resident() - before
        if how == "sink":
            with Path(folder, "trace.jsonl").open() as file:
                print(grown, sum(1 for _ in file) - 2)
        else:
            print(grown, len(trace) if trace is not None else 0)


def in_a_process(*arguments):
    """The two numbers that `measure` prints in a fresh process."""
    done = subprocess.run(
        [sys.executable, __file__, *map(str, arguments)],
        check=True,
        capture_output=True,
        text=True,
    )
    return tuple(map(int, done.stdout.split()))


def main():
    """Print the table."""
    for program, times in (("chain", 200_000), ("encoder", 100_000)):
        plain, _ = in_a_process(program, times, "none")
        for how in ("full", "names"):
            grown, calls = in_a_process(program, times, how)
            print(
                f"{program:8} {how:6} {calls:9} calls"
                f"  {(grown - plain) / calls:6.0f} bytes a call"
            )
    grown, calls = in_a_process("chain", 1_000_000, "full")
    print(f"chain    full   {calls:9} calls  {grown / 1e6:6.0f} MB in all")
    for program in ("chain", "encoder"):
        grown, calls = in_a_process(program, 200_000, "sink")
        print(f"{program:8} sink   {calls:9} calls  {grown / 1e6:6.0f} MB in all")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        measure(sys.argv[1], int(sys.argv[2]), sys.argv[3])
    else:
        main()
