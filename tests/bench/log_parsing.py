# SPDX-License-Identifier: BSD-3-Clause
"""Cost of reading logs: ratios against a loop over the lines.

Run: ``python tests/bench/log_parsing.py [--large]``. The loop matches each line
with one regular expression for the text in front of a message. Each figure is the
median of 7 rounds; in a round every configuration runs once, so that a busy
machine hits all alike. ``--large`` adds two processes on a large file and the
memory that a stream of 2 GB takes.

The text is a recording, repeated with other times and other addresses in every
repetition: nothing that is remembered of whole lines helps in the next one.
"""

from __future__ import annotations

import argparse
import collections
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from npu_dispatch_inspect import index_logs, map_logs, parse_logs

DATA = Path(__file__).parents[1] / "data" / "logs"
RECORDINGS = ("v2.13.0-encoder_train.log", "v2.1.0-encoder_train.log")
ROUNDS = 7
PREFIX = re.compile(
    rb"(?:([VIWEF])(\d{4} \d\d:\d\d:\d\d\.\d{6}) +(\d+)(?: ([^\s\]]+):(\d+))?\] "
    rb"(?:\[rank:(\d+)\] )?"
    rb"|(?:\[rank:(\d+)\]:)?(?:\[(\d+)\] )?\[(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d:\d{3})\] "
    rb"([\w.]+): \[([A-Z]+)\] (?:\[(\d+)\] )?)"
)


def repetitions(name: str) -> Iterator[bytes]:
    """The recording again and again, with other times and addresses."""
    text = (DATA / name).read_bytes()
    number = 0
    while True:
        page = b"%05x" % (number % 0xFFFFF)
        second = b"%02d" % (number % 60)
        again = re.sub(rb"data_ptr: 0x7f\w{4}", b"data_ptr: 0x7f" + page[1:], text)
        yield re.sub(rb"( \d\d:\d\d:)\d\d", rb"\g<1>" + second, again)
        number += 1


def write(name: str, size: int, path: Path) -> None:
    """A file of about so many bytes."""
    with path.open("wb") as file:
        for piece in repetitions(name):
            file.write(piece)
            if file.tell() >= size:
                return


def loop(path: Path) -> int:
    """What everything is compared with."""
    match = PREFIX.match
    count = 0
    with path.open("rb") as file:
        for line in file:
            if match(line):
                count += 1
    return count


def count(records) -> int:
    """Every record, with every argument parsed."""
    return sum(1 for _ in records)


def costed(records) -> tuple[int, float]:
    """The same, and the processor time that this process has taken so far."""
    return count(records), time.process_time()


def timed(function, clock=time.process_time) -> float:
    """Seconds of one run, of the processor unless another clock is given."""
    start = clock()
    function()
    return clock() - start


def medians(configurations) -> dict[str, float]:
    """Median seconds of each configuration."""
    rounds = collections.defaultdict(list)
    for _ in range(ROUNDS):
        for name, function in configurations.items():
            rounds[name].append(timed(function))
    return {name: statistics.median(seconds) for name, seconds in rounds.items()}


def single(folder: Path) -> None:
    """One core."""
    print(f"{'one core, share of the loop':44} {'loop':>9} {'records':>9} {'index':>9}")
    for name in RECORDINGS:
        path = folder / name
        write(name, 20_000_000, path)
        seconds = medians(
            {
                "loop": lambda path=path: loop(path),
                "records": lambda path=path: count(parse_logs(path)),
                "index": lambda path=path: index_logs(path),
            }
        )
        base = seconds["loop"]
        speed = path.stat().st_size / base / 1e6
        print(
            f"{name:44} {speed:5.0f}MB/s {'1/%.2f' % (seconds['records'] / base):>9} "
            f"{base / seconds['index']:9.2f}"
        )


def parallel(folder: Path) -> None:
    """Two processes on a large file."""
    path = folder / "large.log"
    write(RECORDINGS[0], 300_000_000, path)
    clocks, processors = [], []
    for _ in range(3):
        before = time.process_time()
        one = timed(lambda: map_logs(path, count), time.perf_counter)
        spent = time.process_time() - before
        start = time.perf_counter()
        parts = map_logs(path, costed, workers=2)
        clocks.append(one / (time.perf_counter() - start))
        processors.append(spent / max(seconds for _, seconds in parts))
    # The second figure is what two idle cores would give: the work of the busier
    # process, its start included.
    print(
        f"two processes: {statistics.median(clocks):.2f} x one by the clock, "
        f"{statistics.median(processors):.2f} x by the time of the processors"
    )
    path.unlink()


STREAM = """
import itertools, resource, sys
sys.path[:0] = [{root!r}, {here!r}]
from log_parsing import RECORDINGS, repetitions
from npu_dispatch_inspect import parse_logs

class Stream:
    def __init__(self, size):
        self.left, self.source, self.rest = size, repetitions(RECORDINGS[0]), b""
    def read(self, size):
        while len(self.rest) < size and self.left > 0:
            piece = next(self.source)
            self.rest += piece
            self.left -= len(piece)
        piece, self.rest = self.rest[:size], self.rest[size:]
        return piece

print(sum(1 for _ in parse_logs(Stream({size}))))
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def memory() -> None:
    """The largest size of a process that reads a stream of 2 GB."""
    here = Path(__file__).parent
    program = STREAM.format(
        root=str(here.parents[1]), here=str(here), size=2_000_000_000
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, check=True, text=True
    )
    records, kilobytes = map(int, done.stdout.split())
    print(f"stream of 2 GB: {records} records, at most {kilobytes / 1000:.0f} MB")


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--large", action="store_true", help="large files as well")
    large = parser.parse_args().large
    with tempfile.TemporaryDirectory() as folder:
        single(Path(folder))
        if large:
            parallel(Path(folder))
    if large:
        memory()


if __name__ == "__main__":
    main()
