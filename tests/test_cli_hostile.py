# SPDX-License-Identifier: BSD-3-Clause
"""The command line with files, outputs and programs that are not as they should be."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import random
import subprocess
import sys

import pytest

from npu_dispatch_inspect.cli import main
from tests.command_line import PATIENCE, ROOT, cli, environment

LOG = (ROOT / "tests/data/logs/v2.13.0-linear.log").read_bytes()


def spoiled(packed):
    """Packed bytes with others in the middle."""
    noise = random.Random(1).randbytes(100)
    return packed[:200] + noise + packed[300:]


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (lzma.compress(LOG), "packed with xz"),
        (bz2.compress(LOG), "packed with bzip2"),
        (b"\x28\xb5\x2f\xfd" + LOG, "packed with zstd"),
        (b"PK\x03\x04" + LOG, "a zip archive"),
        (LOG.decode().encode("utf-16"), "UTF-16 text"),
    ],
)
def test_logs_that_would_be_read_as_nothing_are_refused(
    tmp_path, capsys, content, what
):
    """A file of which no line could be understood is no log without launches."""
    path = tmp_path / "x.log"
    path.write_bytes(content)
    assert main(["logs", str(path)]) == 2
    expected = (
        f"npu-dispatch-inspect: The log file {str(path)!r} is {what}: make UTF-8 text "
        "of it first, which may be packed with gzip.\n"
    )
    assert capsys.readouterr().err == expected


@pytest.mark.parametrize("jobs", ["1", "2"])
@pytest.mark.parametrize(
    ("content", "note"),
    [
        (gzip.compress(LOG, mtime=0)[:300], "the compressed file ends in the middle."),
        (
            spoiled(gzip.compress(LOG, mtime=0)),
            "the source could not be read to its end: ",
        ),
    ],
)
def test_logs_say_that_lines_are_missing(tmp_path, capsys, content, note, jobs):
    """A file that ends early is not taken for a short one."""
    path = tmp_path / "x.log.gz"
    path.write_bytes(content)
    assert main(["logs", "--jobs", jobs, str(path)]) == 0
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.startswith(f"note: {path}: {note}")
    assert main(["logs", "--jobs", jobs, "--json", str(path)]) == 0
    (told,) = json.loads(capsys.readouterr().out)["notes"]
    assert f"note: {told}" == last


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("x.json.gz", spoiled(gzip.compress(bytes(range(256)) * 9, mtime=0))),
        ("x.json", b'{"a":' * 100_000),
        ("x.json", b'{"schema": "npu_dispatch_inspect/op_trace", "version": "9.0"}'),
    ],
)
def test_saved_files_that_are_damaged(tmp_path, capsys, name, content):
    """One sentence and status 2, whatever is in them."""
    path = tmp_path / name
    path.write_bytes(content)
    assert main(["show", str(path)]) == 2
    told = capsys.readouterr().err
    assert told.startswith(f"npu-dispatch-inspect: {path} ")
    assert told.count("\n") == 1


@pytest.mark.parametrize(
    "words", [["doctor", "--quick"], ["logs", "LOG"], ["--version"]]
)
def test_an_output_without_room(tmp_path, words):
    """A full disk is one sentence and status 2; a closed output is no error."""
    path = tmp_path / "x.log"
    path.write_bytes(LOG)
    given = " ".join(str(path) if each == "LOG" else each for each in words)
    found = cli_shell(f"{given} > /dev/full")
    expected = "npu-dispatch-inspect: Standard output: no space left on device.\n"
    assert found == (2, expected)
    assert cli_shell(f"{given} >&-") == (cli(*given.split()).returncode, "")


def cli_shell(words):
    """Run the command line in a shell; its status and standard error."""
    done = subprocess.run(
        f"{sys.executable} -m npu_dispatch_inspect {words}",
        shell=True,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
        env=environment(),
        timeout=PATIENCE,
    )
    return done.returncode, done.stderr


PROGRAM = """\
import sys, torch
class Breaks(torch.nn.Module):
    def __init__(self): raise RuntimeError("one\\ntwo")
class Leaves(torch.nn.Module):
    def forward(self, x): sys.exit(9)
"""


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["graph", "P:Breaks"], "P:Breaks could not be made: RuntimeError: one."),
        (
            ["graph", "P:Leaves", "f32[2]"],
            "The program that was looked at ended itself: sys.exit(9).",
        ),
        (
            ["explain", "exit(7)"],
            "The program that was looked at ended itself: sys.exit(7).",
        ),
        (["explain", "aten::relu", "f()"], "The argument 'f()' cannot be understood"),
        (["explain", "aten::relu", "_tensor(5)"], "The argument '_tensor(5)' cannot"),
        (["explain", "aten::relu", "f32[9" + "0" * 30 + "]"], "The argument 'f32[9"),
    ],
)
def test_programs_and_arguments_that_break(
    tmp_path, capsys, monkeypatch, words, sentence
):
    """What the user's code raises is one sentence and status 2."""
    pytest.importorskip("torch")
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.delitem(sys.modules, "hostile_program", raising=False)
    program = tmp_path / "hostile_program.py"
    program.write_text(PROGRAM)
    given = [each.replace("P:", f"{program}:") for each in words]
    assert main([*given, "--device", "cpu"]) == 2
    told = capsys.readouterr().err
    expected = f"npu-dispatch-inspect: {sentence.replace('P:', f'{program}:')}"
    assert (told[: len(expected)], told.count("\n")) == (expected, 1)
