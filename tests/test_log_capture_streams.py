# SPDX-License-Identifier: BSD-3-Clause
"""Standard error comes out as it went in, whoever wrote it and however it ended."""

from __future__ import annotations

import ctypes
import os
import random
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from npu_dispatch_inspect.capture import _streams
from npu_dispatch_inspect.capture._streams import Reading, position
from npu_dispatch_inspect.npu_logs.passing import split_foreign
from tests.command_line import PATIENCE

LAUNCH = b"""\
I1129 19:01:40.046838 666] aclnnX EXEC_NPU_CMD with task_queue = 1
beta: Scalar: 1, type: Long

"""
QUEUE = b"""\
V1129 19:01:40.047346 666 ../torch_npu/csrc/core/npu/NPUQueue.cpp:572] Enqueue: start, \
device = 0, write_idx = 0, read_idx = 0, status = 0
"""
ENTRY = b"""\
[81] [2026-01-15 11:20:31:045] torch_npu.op_plugin: [INFO] [81] add exec aten with
alpha: Scalar: 1, type: Long

"""
CUT = b"""\
I1129 19:01:40.046838 666] aclnnMm EXEC_NPU_CMD with task_queue = 1
cube_math_type: int8_t: \n"""
LOGS = (LAUNCH, QUEUE, ENTRY, CUT)
"""Records as torch_npu writes them, each in one write."""


class Captured:
    """Run something with standard error on a file, and what came to it."""

    def __init__(self, path):
        self._path = path

    def __enter__(self):
        sys.stderr.flush()
        self._saved = os.dup(2)
        file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
        os.dup2(file, 2)
        os.close(file)
        return self

    def __exit__(self, *_):
        os.dup2(self._saved, 2)
        os.close(self._saved)
        self.bytes = self._path.read_bytes()


@pytest.fixture(name="stderr")
def _stderr(tmp_path):
    """Standard error as a file of the test's own."""
    return Captured(tmp_path / "stderr")


def write_by_python(data):
    """As `print(..., file=sys.stderr)`, on descriptor 2."""
    with open(2, "wb", closefd=False) as stream:
        stream.write(data)


def write_by_c(data):
    """Through C's own stream."""
    libc = ctypes.CDLL(None)
    stream = ctypes.c_void_p.in_dll(libc, "stderr")
    libc.fwrite(data, 1, len(data), stream)


WRITERS = [lambda data: os.write(2, data), write_by_python, write_by_c]


@settings(max_examples=200, deadline=None)
@given(
    pieces=st.lists(
        st.one_of(
            st.binary(max_size=50), st.sampled_from(LOGS), st.text().map(str.encode)
        ),
        max_size=30,
    ),
    writers=st.lists(st.sampled_from(WRITERS), min_size=1, max_size=5),
)
def test_every_byte_that_is_not_a_log_line_comes_out(tmp_path_factory, pieces, writers):
    """Random bytes among log lines, written in several ways."""
    path = tmp_path_factory.mktemp("stderr") / "stderr"
    with Captured(path) as stderr:
        reading = Reading()
        reading.begin()
        for number, piece in enumerate(pieces):
            writers[number % len(writers)](piece)
        reading.end()

    assert b"".join(each for each in pieces if each not in LOGS) == stderr.bytes
    assert b"".join(pieces) == reading.read()


def test_bytes_of_threads(stderr):
    """Four threads write; each one's bytes come out whole and in its order."""
    chance = random.Random(1)
    written = {
        name: [b"%c%d\n" % (name, number) for number in range(500)] for name in b"abcd"
    }

    def write(lines):
        for line in lines:
            os.write(2, line)
            if chance.random() < 0.3:
                os.write(2, chance.choice(LOGS))

    with stderr:
        reading = Reading()
        reading.begin()
        threads = [
            threading.Thread(target=write, args=(each,)) for each in written.values()
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        reading.end()

    lines = stderr.bytes.splitlines(keepends=True)
    for name, expected in written.items():
        assert expected == [line for line in lines if line[0] == name]
    assert 2000 == len(lines)


def test_megabytes(stderr):
    """A block may print more than fits into any buffer."""
    data = random.Random(1).randbytes(1_000_000)

    with stderr:
        reading = Reading()
        reading.begin()
        for _ in range(8):
            os.write(2, data)
            os.write(2, LOGS[0])
        reading.end()

    assert data * 8 == stderr.bytes


def test_child_process(stderr):
    """A process that is started inside the block writes to the same place."""
    with stderr:
        reading = Reading()
        reading.begin()
        os.write(2, b"one\n")
        subprocess.run(["sh", "-c", "echo two >&2"], check=True)
        os.write(2, b"three\n")
        reading.end()

    assert b"one\ntwo\nthree\n" == stderr.bytes


def test_child_process_that_lives_longer(stderr):
    """What it writes after the block comes out with the next capture."""
    with stderr:
        reading = Reading()
        reading.begin()
        child = subprocess.Popen(
            ["sh", "-c", "read line; echo late >&2"], stdin=subprocess.PIPE
        )
        reading.end()
        os.write(2, b"after\n")
        child.communicate(b"go\n")
        again = Reading()
        again.begin()
        again.end()

    assert b"after\nlate\n" == stderr.bytes


def test_buffered_text_of_python_comes_first(stderr):
    """What was printed before the block is not taken into it."""
    with stderr:
        stream = os.fdopen(2, "w", closefd=False)
        old, sys.stderr = sys.stderr, stream
        try:
            stream.write("before ")
            reading = Reading()
            reading.begin()
            stream.write("inside ")
            reading.end()
            stream.write("after")
        finally:
            sys.stderr = old
            stream.close()

    assert b"before inside after" == stderr.bytes
    assert b"inside " == reading.read()


class TestNesting:
    def test_inner_and_outer(self, stderr):
        """Both see the inner lines, and each byte comes out once."""
        with stderr:
            outer, inner = Reading(), Reading()
            outer.begin()
            os.write(2, b"1")
            inner.begin()
            os.write(2, b"2" + LOGS[0])
            inner.end()
            os.write(2, b"3")
            outer.end()

        assert (b"1" + b"2" + LOGS[0] + b"3", b"2" + LOGS[0]) == (
            outer.read(),
            inner.read(),
        )
        assert b"123" == stderr.bytes

    def test_outer_ends_first(self, stderr):
        """The last one that reads gives standard error back."""
        with stderr:
            first, second = Reading(), Reading()
            first.begin()
            second.begin()
            os.write(2, b"1")
            first.end()
            os.write(2, b"2")
            second.end()
            os.write(2, b"3")

        assert (b"1", b"12") == (first.read(), second.read())
        assert b"123" == stderr.bytes

    def test_log_lines_are_kept_for_one_part(self, stderr):
        """`keep` lets through what was written in its own block."""
        with stderr:
            outer, inner = Reading(), Reading(keep=True)
            outer.begin()
            os.write(2, LOGS[0] + b"a")
            inner.begin()
            os.write(2, LOGS[1] + b"b")
            inner.end()
            os.write(2, LOGS[3] + b"c")
            outer.end()

        assert b"a" + LOGS[1] + b"bc" == stderr.bytes


class TestPosition:
    def test_nothing_is_captured(self):
        """There is none."""
        assert position() is None

    def test_grows_with_what_is_written(self, stderr):
        """It counts bytes of the stream."""
        with stderr:
            reading = Reading()
            reading.begin()
            first = position()
            os.write(2, b"12345")
            second = position()
            reading.end()

        assert (reading.base, 5) == (first, second - first)

    def test_streams_do_not_meet(self, stderr):
        """A position of one stream is none of the next."""
        with stderr:
            bases = []
            for _ in range(2):
                reading = Reading()
                reading.begin()
                bases.append(reading.base)
                os.write(2, b"x" * 100)
                reading.end()

        assert bases[1] > bases[0] + 100


class TestTrouble:
    def test_redirected_inside(self, stderr, tmp_path):
        """Descriptor 2 is not taken from somebody who has it."""
        other = os.open(tmp_path / "other", os.O_RDWR | os.O_CREAT)
        with stderr:
            reading = Reading()
            reading.begin()
            ours = os.dup(2)
            os.write(2, b"mine\n")
            os.dup2(other, 2)
            reading.end()
            os.write(2, b"theirs\n")
            os.dup2(ours, 2)
            os.close(ours)
        os.close(other)

        assert b"mine\n" == stderr.bytes
        assert b"theirs\n" == (tmp_path / "other").read_bytes()
        assert any("redirected inside the block" in each for each in reading.problems)

    def test_no_room(self, stderr, monkeypatch):
        """Where no file can be made the program goes on and the trace says so."""
        monkeypatch.setattr(_streams, "ROOM", 1 << 62)
        with stderr:
            reading = Reading()
            reading.begin()
            os.write(2, b"program\n")
            reading.end()

        assert b"program\n" == stderr.bytes
        assert b"" == reading.read()
        assert any("Nothing was captured" in each for each in reading.problems)

    def test_descriptors_are_closed(self, stderr):
        """A capture leaves no descriptor open."""
        before = list(Path("/proc/self/fd").iterdir())
        with stderr:
            for _ in range(20):
                reading = Reading()
                reading.begin()
                reading.end()

        assert len(before) == len(list(Path("/proc/self/fd").iterdir()))

    def test_descriptors_are_closed_beside_older_children(self, stderr):
        """A child that was there before a capture keeps nothing of it open."""
        child = subprocess.Popen(
            [sys.executable, "-c", "input()"], stdin=subprocess.PIPE
        )
        try:
            self.test_descriptors_are_closed(stderr)
        finally:
            child.communicate(b"\n")

    def test_descriptors_of_a_child_from_inside_are_closed_after_it(self, stderr):
        """What a child of the block may still write to stays open until it has ended."""
        before = len(list(Path("/proc/self/fd").iterdir()))
        with stderr:
            reading = Reading()
            reading.begin()
            child = subprocess.Popen(
                [sys.executable, "-c", "input()"], stdin=subprocess.PIPE
            )
            reading.end()
            kept = len(list(Path("/proc/self/fd").iterdir()))
            child.communicate(b"\n")
            later = Reading()
            later.begin()
            later.end()
        assert kept > before + 1  # one is the pipe to the child
        assert len(list(Path("/proc/self/fd").iterdir())) == before


def run(program, **environment):
    """Run a program of its own; what came to standard output and error."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        capture_output=True,
        check=True,
        cwd=Path(__file__).parents[1],
        env={**os.environ, **environment},
        timeout=PATIENCE,
    )
    return done.stdout.decode(), done.stderr


def test_closed_standard_error():
    """It is closed again afterwards."""
    out, _ = run(
        """
        import os
        from npu_dispatch_inspect.capture._streams import Reading
        os.close(2)
        reading = Reading()
        reading.begin()
        os.write(2, b"unseen")
        reading.end()
        try:
            os.fstat(2)
        except OSError:
            print(reading.read())
        """
    )

    assert "b'unseen'\n" == out


def test_forked_child():
    """The parent passes everything on, once."""
    _, err = run(
        """
        import os
        from npu_dispatch_inspect.capture._streams import Reading
        reading = Reading()
        reading.begin()
        os.write(2, b"1\\n")
        child = os.fork()
        if child:
            os.waitpid(child, 0)
        else:
            os.write(2, b"2\\n")
        reading.end()
        os.write(2, b"3 or 4\\n")
        os._exit(0)
        """
    )

    assert [b"1", b"2", b"3 or 4", b"3 or 4"] == sorted(err.splitlines())


def test_exit_with_a_child_still_writing():
    """Its last words come out when the program ends."""
    _, err = run(
        """
        import os, subprocess
        from npu_dispatch_inspect.capture._streams import Reading
        reading = Reading()
        reading.begin()
        child = subprocess.Popen(["sh", "-c", "read x; echo late >&2"],
                                 stdin=subprocess.PIPE)
        reading.end()
        os.write(2, b"after\\n")
        child.communicate(b"go\\n")
        """
    )

    assert b"after\nlate\n" == err


@pytest.mark.parametrize("size", [1, 40, 300, 5000])
def test_pieces_of_any_size(size):
    """Where the stream is cut for reading does not show."""
    text = b"".join([b"abc", *LOGS, b"\n", b"I1129 no log\n", LOGS[2], b"end"])
    foreign, rest = [], b""
    for start in range(0, len(text), size):
        rest += text[start : start + size]
        parts, done = split_foreign(rest, last=False)
        foreign += parts
        rest = rest[done:]
    foreign += split_foreign(rest, last=True)[0]

    assert b"abc\nI1129 no log\nend" == b"".join(foreign)


def test_lines_of_other_libraries_are_the_programs():
    """A glog line of another library looks alike and is passed on."""
    text = b"I1129 19:01:40.046838 666 absl/flags.cc:12] hello\n"

    assert ([text], len(text)) == split_foreign(text, last=True)
