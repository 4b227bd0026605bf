# SPDX-License-Identifier: BSD-3-Clause
"""Cost of reading registration tables: ratios against torch's own dump calls.

Run: ``python tests/bench/dispatch_table.py``, with ``--npu`` for torch_npu on the
stand-in. Each figure is the median of 7 rounds; in a round every configuration
runs once, so that a busy machine hits all alike. One operator is measured on
every operator of ``aten`` in turn, read on its own each time.
"""

from __future__ import annotations

import gc
import os
import statistics
import sys
import time

NPU = "--npu" in sys.argv
if NPU:
    from npu_dispatch_inspect import standin

    standin.load()
else:
    os.environ.setdefault("TORCH_DEVICE_BACKEND_AUTOLOAD", "0")

import torch  # noqa: E402 - the stand-in comes first

from npu_dispatch_inspect import explain, read_dispatch_table  # noqa: E402

ROUNDS = 7


def dump_calls():
    """What torch itself takes to give both texts of every operator."""
    return [
        (torch._C._dispatch_dump(name), torch._C._dispatch_dump_table(name))
        for name in torch._C._dispatch_get_all_op_names()
    ]


def own_kernel():
    """A query over the whole registry."""
    return len(read_dispatch_table().own_kernel("NPU"))


def every_record():
    """The whole registry with every registered and every winning kernel."""
    table = read_dispatch_table()
    for _ in table:
        pass
    return table


CONFIGURATIONS = {
    "dump calls": dump_calls,
    'query "own NPU kernel"': own_kernel,
    "every record": every_record,
}


def seconds(function):
    """Time of one run; what it made is gone before the next."""
    gc.collect()
    start = time.perf_counter()
    result = function()
    taken = time.perf_counter() - start
    del result
    return taken


def one_operator():
    """Median time to read one operator in full, over all of aten."""
    names = read_dispatch_table().operators(namespace="aten", kind="dispatcher").names
    names = [name if "." in name else f"{name}.default" for name in names]
    taken = []
    for name in names:
        start = time.perf_counter()
        read_dispatch_table(name).entry(name)
        taken.append(time.perf_counter() - start)
    return statistics.median(taken)


def main():
    """Measure and print."""
    rounds = [
        {name: seconds(function) for name, function in CONFIGURATIONS.items()}
        for _ in range(ROUNDS)
    ]
    print(f"torch {torch.__version__}{', torch_npu' if NPU else ''}")
    print(f"{'whole registry':28}{'ms':>9}{'ratio':>8}")
    for name in CONFIGURATIONS:
        ms = statistics.median(each[name] for each in rounds) * 1e3
        ratio = statistics.median(each[name] / each["dump calls"] for each in rounds)
        print(f"{name:28}{ms:9.0f}{ratio:8.2f}")
    single = statistics.median(one_operator() for _ in range(ROUNDS))
    x, w, b = torch.ones(2, 3), torch.ones(4, 3), torch.ones(4)
    explain("aten::linear", x, w, b)
    explained = statistics.median(
        seconds(lambda: explain("aten::linear", x, w, b)) for _ in range(ROUNDS)
    )
    print(f"{'one operator':28}{single * 1e6:9.0f} us")
    print(f"{'explain aten::linear':28}{explained * 1e3:9.1f} ms")


if __name__ == "__main__":
    main()
