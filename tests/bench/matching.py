# SPDX-License-Identifier: BSD-3-Clause
"""Cost of matching: a trace of 100,000 operators against patterns of 1,000 items.

Run: ``python -m tests.bench.matching``. Each figure is the median of 7 rounds as a
ratio to the plain Python loop over the same trace that looks for every name in a
set, measured in the same round; the seconds are processor time on this machine.
"""

from __future__ import annotations

import random
import statistics
import time

from npu_dispatch_inspect import OpRecord, op, optional
from npu_dispatch_inspect.matching import align, search
from npu_dispatch_inspect.patterns import then

ROUNDS = 7
CALLS = 100_000
ITEMS = 1_000

SOURCE = random.Random(0)
NAMES = [f"aten::op{each}" for each in range(60)]
TRACE = [
    OpRecord(index=each, name=SOURCE.choice(NAMES), module=f"layer.{each % 7}")
    for each in range(CALLS)
]
EVERY = [TRACE[each].name for each in range(0, CALLS, CALLS // ITEMS)]
CHAIN = [SOURCE.choice(NAMES) for _ in range(ITEMS)]


def with_gaps(names):
    """A list with any calls between its names."""
    return [part for name in names for part in (name, ...)]


def loop():
    """The measure: one look-up for each call."""
    wanted = set(CHAIN)
    return sum(call.name in wanted for call in TRACE)


CASES = {
    "exact list, too short": lambda: align(
        TRACE, [call.name for call in TRACE[:ITEMS]]
    ),
    "exact list, all different": lambda: align(TRACE, ["x"] * ITEMS),
    "exact list, random": lambda: align(TRACE, CHAIN),
    "list with gaps, fits": lambda: align(TRACE, with_gaps(EVERY)),
    "list with gaps, one missing": lambda: align(
        TRACE, with_gaps([*EVERY[:500], "x", *EVERY[500:]])
    ),
    "list with gaps, five missing": lambda: align(
        TRACE, with_gaps([*EVERY[:500], *["x"] * 5, *EVERY[500:]])
    ),
    "list with gaps, nothing fits": lambda: align(TRACE, with_gaps(["x"] * ITEMS)),
    "optional items": lambda: align(TRACE, [*map(optional, CHAIN), ...]),
    "alternatives of chains": lambda: align(
        TRACE, with_gaps([(op(name) >> "x") | op(name) | "y" for name in EVERY])
    ),
    "conditions": lambda: align(
        TRACE, with_gaps([op(name, module="layer.*") for name in EVERY])
    ),
    "chain, found": lambda: search(TRACE, then(*CHAIN)),
    "chain, not found": lambda: search(TRACE, then(*CHAIN, "x")),
    "chain without, found": lambda: search(
        TRACE, then(*(part for name in CHAIN for part in (name, ~op("x"))))
    ),
    "100,000 names, 1,000 differ": lambda: align(TRACE, DIFFERENT),
}
DIFFERENT = [call.name for call in TRACE]
for _ in range(ITEMS):
    DIFFERENT[SOURCE.randrange(CALLS)] = "x"


def seconds(function):
    """Processor time of one call: others may use the machine."""
    start = time.process_time()
    function()
    return time.process_time() - start


def main():
    """Measure everything in turn and print the medians."""
    taken = {name: [] for name in CASES}
    ratios = {name: [] for name in CASES}
    for _ in range(ROUNDS):
        base = seconds(loop)
        for name, case in CASES.items():
            now = seconds(case)
            taken[name].append(now)
            ratios[name].append(now / base)
    print(f"{'case':<32}{'ratio to a loop':>16}{'seconds':>10}")
    for name in CASES:
        ratio, median = statistics.median(ratios[name]), statistics.median(taken[name])
        print(f"{name:<32}{ratio:>16.0f}{median:>10.2f}")


if __name__ == "__main__":
    main()
