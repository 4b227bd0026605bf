# SPDX-License-Identifier: BSD-3-Clause
"""Cost of a live capture for each launch, on the stand-in.

Run: ``python tests/bench/log_capture.py``. What torch_npu itself spends on
printing is measured with the same loggers on and standard error on a plain file.
Each figure is the median of 7 rounds; in a round every configuration runs once. The
time is that of the processor, which other work on the machine disturbs least; the
queue's thread is part of it.
"""

from __future__ import annotations

import contextlib
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from npu_dispatch_inspect import standin

standin.load()

import torch  # noqa: E402 - the stand-in comes first

from npu_dispatch_inspect import capture_logs, trace_ops  # noqa: E402 - as above
from npu_dispatch_inspect._torch_private import npu_logging  # noqa: E402 - as above

ROUNDS = 7
LAUNCHES = 4000
LEVELS = {"torch_npu.op_plugin": 20, "torch_npu.dispatch": 10}


@contextlib.contextmanager
def printed():
    """The loggers on, standard error on a file."""
    saved = os.dup(2)
    with tempfile.TemporaryFile() as file:
        os.dup2(file.fileno(), 2)
        npu_logging.set_levels(LEVELS)
        try:
            yield
            torch.npu.synchronize()
        finally:
            npu_logging.set_levels({})
            os.dup2(saved, 2)
            os.close(saved)


@contextlib.contextmanager
def both():
    """A capture and a tracer."""
    with capture_logs() as logs, trace_ops():
        yield logs


CONFIGURATIONS = {
    "no log": contextlib.nullcontext,
    "printed to a file": printed,
    "captured": capture_logs,
    "traced": trace_ops,
    "captured and traced": both,
}


def main():
    """Print the table."""
    x = torch.ones(8, device="npu")
    rounds = {name: [] for name in CONFIGURATIONS}
    for _ in range(ROUNDS + 1):
        for name, make in CONFIGURATIONS.items():
            start = time.process_time()
            with make():
                for _ in range(LAUNCHES):
                    x.add_(1)
            torch.npu.synchronize()
            rounds[name].append((time.process_time() - start) / LAUNCHES * 1e6)
    cost = {name: statistics.median(each[1:]) for name, each in rounds.items()}
    for name, microseconds in cost.items():
        print(f"{name:24} {microseconds:8.1f} us a launch")
    print(
        f"a capture adds {cost['captured'] - cost['printed to a file']:.1f} us a launch"
    )
    with capture_logs() as logs:
        for _ in range(LAUNCHES):
            x.add_(1)
    start = time.process_time()
    assert len(logs.launches) == LAUNCHES
    seconds = time.process_time() - start
    print(f"looking at it adds {seconds / LAUNCHES * 1e6:.1f} us a launch")


if __name__ == "__main__":
    main()
