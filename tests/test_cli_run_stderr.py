# SPDX-License-Identifier: BSD-3-Clause
"""``run``: what the program writes to standard error comes as it is written."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from npu_dispatch_inspect.capture._follower import Follower, following
from npu_dispatch_inspect.capture._passing_on import PassingOn
from tests.command_line import PATIENCE, environment, wait_until

HEAD = b"I0715 11:20:31.045123 81234 ../torch_npu/csrc/core/npu/NPUQueue.cpp:383] "
RECORD = HEAD + b"WriteQueue: write success, device = 0\n"
PROGRAM = """
import os, signal, sys, threading
import torch
def shout(name):
    for number in range(2000):
        os.write(2, f"{name} {number}\\n".encode())
threads = [threading.Thread(target=shout, args=(name,)) for name in "ab"]
for each in threads: each.start()
for each in threads: each.join()
sys.stderr.write(" 10%|#  | 1/10 [00:01<00:09]")
sys.stderr.flush()
print("out", flush=True)
sys.stdin.readline()
END
"""


def started(tmp_path, end):
    """A program under inspection, at the place where it waits for a line."""
    script = tmp_path / "script.py"
    script.write_text(PROGRAM.replace("END", end))
    return subprocess.Popen(
        [sys.executable, "-m", "npu_dispatch_inspect", "run", str(script)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(TORCH_DEVICE_BACKEND_AUTOLOAD="0"),
    )


def shouted(text):
    """The lines of each thread, in the order in which they came."""
    lines = text.split(b"\n")[:-1]
    return {
        name: [int(line.split()[1]) for line in lines if line.startswith(name)]
        for name in (b"a ", b"b ")
    }


BAR = b" 10%|#  | 1/10 [00:01<00:09]"
EVERYTHING = {b"a ": list(range(2000)), b"b ": list(range(2000))}


@pytest.mark.parametrize(
    ("end", "status"),
    [
        ("os.kill(os.getpid(), signal.SIGKILL)", -signal.SIGKILL),
        ("os._exit(3)", 3),
    ],
)
def test_a_program_that_is_killed_loses_nothing(tmp_path, end, status):
    """All that it wrote comes out, in order, and came before it was killed."""
    with started(tmp_path, end) as process:
        # Not one line of it waits for the end: the bar has no end of line at all.
        early = b""
        while not early.endswith(BAR):
            piece = os.read(process.stderr.fileno(), 1 << 16)
            assert piece, early[-200:]
            early += piece
        assert shouted(early) == EVERYTHING
        assert process.stdout.readline() == b"out\n"
        process.stdin.write(b"\n")
        process.stdin.close()
        assert process.wait() == status
        assert process.stderr.read() == b""


def test_a_program_that_becomes_another_one(tmp_path):
    """What the program that took its place writes is passed on too."""
    shell = (
        "os.execv('/bin/sh', ['sh', '-c', 'echo other >&2; sleep 0.3; echo late >&2'])"
    )
    with started(tmp_path, shell) as process:
        _, error = process.communicate(b"\n", timeout=PATIENCE)
    assert process.returncode == 0
    assert error.partition(BAR)[2] == b"other\nlate\n"


def test_the_report_follows_what_the_program_wrote(tmp_path):
    """At a usual end the report is the last, and the exit status is the program's."""
    with started(tmp_path, "sys.exit(7)") as process:
        _, error = process.communicate(b"\n", timeout=PATIENCE)
    assert process.returncode == 7
    before, _, report = error.partition(BAR)
    assert shouted(before) == EVERYTHING
    assert report.startswith(b"device: cpu")


def test_the_process_ends_with_the_program(tmp_path):
    """No process is left behind, and none is the program's child."""
    script = (
        "import os\n"
        "try: print(os.wait())\n"
        "except ChildProcessError: print('none', os.getsid(0))\n"
    )
    path = tmp_path / "script.py"
    path.write_text(script)
    marked = {**environment(), "FOLLOWED_BY": str(tmp_path)}
    shown = subprocess.run(
        [sys.executable, "-m", "npu_dispatch_inspect", "run", str(path)],
        capture_output=True,
        text=True,
        check=True,
        env=marked,
    )
    assert shown.stdout.startswith("none ")
    assert wait_until(lambda: not _with_variable(f"FOLLOWED_BY={tmp_path}"))


def _with_variable(text):
    """Processes that were started with a variable."""
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            if text.encode() in path.read_bytes().split(b"\0"):
                found.append(path.parent.name)
        except OSError:
            continue
    return found


def holders(name):
    """Processes that have a file open."""
    found = []
    for path in Path("/proc").glob("[0-9]*/fd/*"):
        try:
            if os.readlink(path) == name:
                found.append(path)
        except OSError:
            continue
    return found


class TestFollower:
    """The process that follows a stream."""

    @pytest.fixture(name="stream")
    def stream_file(self, tmp_path):
        """A file that is written, and one to which it is passed on."""
        with (
            (tmp_path / "stream").open("w+b", buffering=0) as stream,
            (tmp_path / "target").open("w+b", buffering=0) as target,
        ):
            yield stream, target

    def until(self, target, expected):
        """Wait until the target holds what is expected; what it holds at last."""
        wait_until(lambda: Path(target.name).read_bytes() == expected)
        return Path(target.name).read_bytes()

    def test_lines_of_torch_npu_are_left_out(self, stream):
        """The program's own bytes come, and the answer says how far it is."""
        written, target = stream
        follower = Follower.start()
        try:
            assert follower.follow(written.fileno(), target.fileno())
            written.write(b"one\n" + RECORD + b"two\nhalf")
            assert self.until(target, b"one\ntwo\nhalf") == b"one\ntwo\nhalf"
            written.write(HEAD)
            assert follower.stop() == written.tell() - len(HEAD)
        finally:
            follower.close()

    def test_a_held_stretch_waits_and_comes_whole(self, stream):
        """What a capture wants passed on whole is, once its end is known."""
        written, target = stream
        follower = Follower.start()
        try:
            follower.follow(written.fileno(), target.fileno())
            written.write(b"one\n")
            follower.hold(4)
            written.write(RECORD + b"two\n")
            assert self.until(target, b"one\n") == b"one\n"
            follower.release(4, 4 + len(RECORD))
            whole = b"one\n" + RECORD + b"two\n"
            assert self.until(target, whole) == whole
            assert follower.stop() == len(whole)
        finally:
            follower.close()

    def test_one_stream_at_a_time(self, stream):
        """A second stream is refused until the first has stopped."""
        written, target = stream
        follower = Follower.start()
        try:
            assert follower.follow(written.fileno(), target.fileno())
            assert not follower.follow(written.fileno(), target.fileno())
            assert follower.stop() == 0
            assert follower.follow(written.fileno(), target.fileno())
        finally:
            follower.close()

    def test_it_goes_on_until_nobody_can_write(self, stream, tmp_path):
        """What a process writes that outlives the program is passed on, to its end."""
        written, target = stream
        fcntl.flock(written.fileno(), fcntl.LOCK_SH)
        follower = Follower.start()
        written.write(b"one\n")
        assert follower.follow(written.fileno(), target.fileno())
        late = subprocess.Popen(
            ["sh", "-c", "read line; echo late $line >&2"],
            stdin=subprocess.PIPE,
            stderr=written,
        )
        place = follower.stop()
        assert place == len(b"one\n")
        assert follower.go_on(written.fileno(), target.fileno(), place)
        follower.close()
        written.close()
        late.communicate(b"word\n")
        whole = b"one\nlate word\n"
        assert self.until(target, whole) == whole
        name = str(tmp_path / "stream")
        assert wait_until(lambda: not holders(name))

    def test_it_never_takes_a_number_of_the_program(self, stream):
        """A program that closes all it does not know closes nothing of its own later."""
        follower = Follower.start()
        os.closerange(700, 720)
        written, target = stream
        assert not follower.follow(written.fileno(), target.fileno())
        follower.close()
        assert written.tell() == 0

    def test_captures_without_a_follower_work_as_before(self, monkeypatch):
        """Where no process can be made, the block simply has none."""

        def refuse():
            raise OSError

        monkeypatch.setattr(os, "fork", refuse)
        with following():
            assert Follower.start() is None


@pytest.mark.parametrize(
    ("line", "ready"),
    [
        (b"50%|## | [00:01<00:09, 2.9it/s]", b"50%|## | [00:01<00:09, 2.9it/s]"),
        (b"Enter a name: ", b"Enter a name: "),
        (b"text I0715 11:2", b"text "),
        (b"text [2026-01-15 11", b"text "),
        (b"text [rank:3]:[81", b"text "),
        (b"text [", b"text "),
        (b"text W", b"text "),
    ],
)
def test_an_open_line_is_passed_on_up_to_where_a_record_may_begin(
    tmp_path, line, ready
):
    """A progress bar is seen at once; half a record of torch_npu is not."""
    stream, target = tmp_path / "stream", tmp_path / "target"
    stream.write_bytes(line)
    with stream.open("rb") as source, target.open("wb") as sink:
        passing = PassingOn(source.fileno(), sink.fileno())
        passing.pass_on(last=False, open_lines=True)
        assert target.read_bytes() == ready
        passing.pass_on(last=True)
    assert target.read_bytes() == line
