# SPDX-License-Identifier: BSD-3-Clause
"""What all commands share: help, errors, pipes, signals, a light start."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import signal
import subprocess
import sys
import termios
from pathlib import Path

import pytest

import npu_dispatch_inspect
from npu_dispatch_inspect import save
from npu_dispatch_inspect.cli import COMMANDS, main
from tests.command_line import (
    PATIENCE,
    ROOT,
    cli,
    environment,
    wait_until,
    without_torch,
)
from tests.training_trace import RECORDS, TRACE

LIGHT = """
import sys
from npu_dispatch_inspect.cli import main
try: main(['--help'])
finally: print(*sys.modules, file=sys.stderr)
"""
WITHOUT_TORCH = """
import sys
from importlib.machinery import PathFinder
find = PathFinder.find_spec
def elsewhere(name, path=None, target=None):
    return None if name.startswith("torch") else find(name, path, target)
PathFinder.find_spec = elsewhere
from npu_dispatch_inspect.cli import main
sys.exit(main(["explain", "aten::mm"]))
"""
PROGRAM = [sys.executable, "-m", "npu_dispatch_inspect"]


@pytest.fixture(scope="module")
def huge(tmp_path_factory):
    """A saved trace whose text fills any pipe."""
    path = tmp_path_factory.mktemp("huge") / "trace.jsonl"
    save(type(TRACE)(records=RECORDS * 2000, environment=TRACE.environment), path)
    return path


def test_help_lists_every_command(capsys):
    """``--help`` names the commands with a line each, and examples."""
    with pytest.raises(SystemExit) as left:
        main(["--help"])
    assert left.value.code == 0
    text = capsys.readouterr().out
    for name, summary in COMMANDS.items():
        assert re.search(rf"^    {name} +{re.escape(summary)}$", text, re.MULTILINE)
    assert "examples:\n  npu-dispatch-inspect run train.py" in text


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_with_examples(command, capsys):
    """Each command describes itself, takes --json, and gives examples."""
    with pytest.raises(SystemExit) as left:
        main([command, "--help"])
    assert left.value.code == 0
    text = capsys.readouterr().out
    assert f"usage: npu-dispatch-inspect {command}" in text
    assert "--json" in text
    if command != "demo":
        assert f"examples:\n  npu-dispatch-inspect {command}" in text


def test_start_is_light(tmp_path):
    """``--help`` imports no record, no other command, and not torch."""
    shown = subprocess.run(
        [
            sys.executable,
            "-c",
            LIGHT,
        ],
        capture_output=True,
        text=True,
        check=True,
        env=environment(**without_torch(tmp_path)),
    )
    loaded = set(shown.stderr.split())
    ours = {name for name in loaded if name.startswith("npu_dispatch_inspect")}
    assert ours == {
        "npu_dispatch_inspect",
        "npu_dispatch_inspect.cli",
        "npu_dispatch_inspect.cli._frame",
        "npu_dispatch_inspect.errors",
    }
    assert not loaded & {"torch", "attr", "cattrs", "rich", "subprocess"}


def test_version(capsys):
    """``--version`` prints name and version."""
    with pytest.raises(SystemExit) as left:
        main(["--version"])
    assert left.value.code == 0
    version = npu_dispatch_inspect.__version__
    assert capsys.readouterr().out == f"npu-dispatch-inspect {version}\n"


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ((), "npu-dispatch-inspect: the following arguments are required: COMMAND; see npu-dispatch-inspect --help"),
        (("show",), "npu-dispatch-inspect show: the following arguments are required: FILE; see npu-dispatch-inspect show --help"),
        (("show", "x", "y"), "npu-dispatch-inspect show: unrecognized arguments: y; see npu-dispatch-inspect show --help"),
        (("explain",), "npu-dispatch-inspect explain: the following arguments are required: CALL; see npu-dispatch-inspect explain --help"),
        (("run", "--", "-c"), "npu-dispatch-inspect: There is no script '-c'; use -m to run a module."),
        (("show", "x", "--limit", "-1"), "npu-dispatch-inspect show: argument --limit: '-1' is no whole number from 0 up; see npu-dispatch-inspect show --help"),
        (("show", "nowhere.json"), "npu-dispatch-inspect: nowhere.json cannot be read: no such file or directory."),
        (("show", "."), "npu-dispatch-inspect: . cannot be read: is a directory."),
        (("show", "README.md"), "npu-dispatch-inspect: README.md is neither a file of this library nor a log: no line of it is torch_npu's."),
        (("logs", "nowhere.log"), "npu-dispatch-inspect: Cannot read the log file 'nowhere.log': no such file or directory."),
        (("logs", "x", "--jobs", "0"), "npu-dispatch-inspect: --jobs must be a whole number from 1 up, not 0."),
        (("logs", "x", "--jobs", "2", "--all"), "npu-dispatch-inspect: --jobs and --all cannot be combined: the launches come from one process."),
        (("diff", "-", "-"), "npu-dispatch-inspect: Only one of the two files can be standard input."),
        (("export", "README.md", "nowhere/x.json"), "npu-dispatch-inspect: nowhere/x.json cannot be written: there is no such folder."),
        (("export", "x.json", "README.md"), "npu-dispatch-inspect: README.md exists: --force replaces it."),
        (("coverage",), "npu-dispatch-inspect: Name one thing to look at: a callable, a script, a file, or --ops."),
        (("graph", "aten::mm"), "npu-dispatch-inspect: 'aten::mm' names no callable: write module:callable, as in model.py:Net."),
        (("table", "--from", "README.md"), "npu-dispatch-inspect: README.md is neither a file of this library nor a log: no line of it is torch_npu's."),
    ],
)  # fmt: skip
def test_mistakes_are_one_line_and_status_2(arguments, sentence, capsys, monkeypatch):
    """A user's mistake gives exactly one line on standard error and status 2."""
    monkeypatch.chdir(ROOT)
    try:
        status = main(list(arguments))
    except SystemExit as left:
        status = left.code
    shown = capsys.readouterr()
    assert (status, shown.out, shown.err) == (2, "", f"{sentence}\n")


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("before", [(), ("x", "y")])
def test_unknown_option_is_an_error_of_the_command(command, before, capsys):
    """An option that a command does not know is told, with where its help is."""
    words = (*before, "--nonsense=1")
    if command == "run":
        # What follows the script is the script's own.
        words = ("--nonsense=1", *before)
    elif command in ("demo", "doctor"):
        words = ("--nonsense=1",)
    with pytest.raises(SystemExit) as left:
        main([command, *words])
    shown = capsys.readouterr()
    program = f"npu-dispatch-inspect {command}"
    assert (left.value.code, shown.out) == (2, "")
    # Of two words before it a command may not know the second either.
    assert shown.err.replace(": y -", ": -") == (
        f"{program}: unrecognized arguments: --nonsense=1; see {program} --help\n"
    )


def test_without_torch_a_command_that_needs_it_says_so(tmp_path):
    """Where torch is not installed, that and what to do is said."""
    shown = subprocess.run(
        [sys.executable, "-c", WITHOUT_TORCH],
        capture_output=True,
        text=True,
        check=False,
        env=environment(),
    )
    sentence = (
        "npu-dispatch-inspect: This command needs torch, which is not installed: pip "
        "install torch.\n"
    )
    assert (shown.returncode, shown.stdout, shown.stderr) == (2, "", sentence)


def test_a_reader_that_goes_away(huge, tmp_path):
    """``show ... | head`` ends without a word, with the status of a broken pipe."""
    blocked = environment(**without_torch(tmp_path))
    with subprocess.Popen(
        [*PROGRAM, "show", str(huge), "--all"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=blocked,
    ) as process:
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait() == 141


def test_closed_standard_error(tmp_path):
    """An error that nobody can read still gives its status."""
    shown = subprocess.run(
        ["sh", "-c", '"$@" 2>&-', "sh", *PROGRAM, "show", "nowhere.json"],
        check=False,
        env=environment(**without_torch(tmp_path)),
    )
    assert shown.returncode == 2


def test_ctrl_c_ends_quietly(tmp_path):
    """Ctrl-C while a command waits for its input: status 130 and not a word."""
    with subprocess.Popen(
        [*PROGRAM, "logs", "-"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(**without_torch(tmp_path)),
    ) as process:
        # Half a line: it reads on, so it is past its start.
        process.stdin.write(b"half")
        process.stdin.flush()
        assert wait_until(lambda: _waits_for_input(process.pid))
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=PATIENCE)
    assert (process.returncode, out, err) == (130, b"", b"")


def _waits_for_input(pid):
    """Whether a process has taken all of its input and sleeps."""
    state = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0]
    with open(f"/proc/{pid}/fd/0", "rb") as pipe:
        waiting = fcntl.ioctl(pipe, termios.FIONREAD, b"\0" * 4)
    return state == "S" and int.from_bytes(waiting, sys.byteorder) == 0


def test_standard_input_from_a_terminal_is_refused(tmp_path):
    """``-`` with nothing piped in says so, instead of waiting."""
    theirs, ours = pty.openpty()
    try:
        shown = subprocess.run(
            [*PROGRAM, "show", "-"],
            stdin=ours,
            capture_output=True,
            text=True,
            check=False,
            env=environment(**without_torch(tmp_path)),
        )
    finally:
        os.close(theirs)
        os.close(ours)
    assert (shown.returncode, shown.stdout) == (2, "")
    assert shown.stderr == (
        "npu-dispatch-inspect: '-' reads standard input, and that is the terminal: "
        "pipe a file into it.\n"
    )


def test_names_that_are_not_utf8(tmp_path):
    """A file may have any name; it comes out as it went in."""
    name = os.fsencode(tmp_path) + b"/tr\xe4ce.json"
    save(TRACE, os.fsdecode(name))
    blocked = without_torch(tmp_path / "none")
    shown = cli("diff", os.fsdecode(name), os.fsdecode(name), binary=True, **blocked)
    assert (shown.returncode, shown.stderr) == (0, b"")
    missing = cli("show", os.fsdecode(name + b".gz"), binary=True, **blocked)
    assert missing.returncode == 2
    assert missing.stderr.endswith(b"cannot be read: no such file or directory.\n")
    renamed = tmp_path / "other.jsonl"
    save(TRACE[1:], renamed)
    differ = cli("diff", os.fsdecode(name), str(renamed), binary=True, **blocked)
    assert differ.returncode == 1
    assert b"only in tr\xe4ce.json" in differ.stdout


def test_an_output_that_knows_ascii_alone(tmp_path):
    """A terminal without Unicode gets other characters, not a traceback."""
    path = tmp_path / "trace.json"
    save(type(TRACE)(records=RECORDS, environment=TRACE.environment, label="√"), path)
    shown = cli(
        "diff", str(path), str(path), "--json",
        PYTHONIOENCODING="ascii", **without_torch(tmp_path / "none"),
    )  # fmt: skip
    assert shown.returncode == 0, shown.stderr
    assert json.loads(shown.stdout)["same"] is True


PROGRESS = """
from npu_dispatch_inspect.cli._progress import counted
with counted("reading registrations") as progress:
    print("seen" if progress else "unseen")
    if progress:
        progress(1, 2)
"""


def test_progress_is_for_terminals_alone():
    """Long work shows how far it is where standard error is a terminal."""
    code = [sys.executable, "-c", PROGRESS]
    piped = subprocess.run(code, capture_output=True, check=True, env=environment())
    assert (piped.stdout, piped.stderr) == (b"unseen\n", b"")
    pytest.importorskip("rich")
    theirs, ours = pty.openpty()
    try:
        shown = subprocess.run(
            code,
            stdout=subprocess.PIPE,
            stderr=ours,
            check=True,
            env=environment(TERM="xterm"),
        )
        assert shown.stdout == b"seen\n"
        assert b"reading registrations" in os.read(theirs, 1 << 16)
    finally:
        os.close(theirs)
        os.close(ours)
