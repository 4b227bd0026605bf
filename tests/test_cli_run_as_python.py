# SPDX-License-Identifier: BSD-3-Clause
"""``run``: a program sees and does what it would without it."""

from __future__ import annotations

import json
import os
import py_compile
import shutil
import signal
import subprocess
import sys

import pytest

from tests.command_line import PATIENCE, environment

OURS = ["-m", "npu_dispatch_inspect", "run"]
NOTHING = (
    b"npu-dispatch-inspect: The program did not import torch, so there is nothing to "
    b"report.\n"
)
LOOK = """\
import atexit, json, os, pickle, signal, sys
import __main__
class Own: pass
def look(when):
    print(json.dumps({
        "when": when,
        "argv": sys.argv,
        "path": sys.path,
        "main": {name: str(value).partition(" object at ")[0] for name, value in vars(__main__).items()
                 if name.startswith("__") and name not in ("__loader__", "__builtins__", "__main__")
                 # Python takes these away from a script's before exit handlers run.
                 and (when == "main" or name not in ("__file__", "__cached__"))},
        "loader": [getattr(__loader__, "__name__", 0) or type(__loader__).__name__,
                   getattr(__loader__, "path", "")],
        "pickled": type(pickle.loads(pickle.dumps(Own()))) is Own,
        "code": look.__code__.co_filename,
        "future": 'annotations' in str(look.__code__.co_flags & 0x1000000),
        "signals": {int(each): str(signal.getsignal(each)) for each in signal.valid_signals()},
        "files": sorted(each for each in os.listdir("/proc/self/fd") if int(each) < 100),
        "group": os.getpgid(0) == os.getpgrp(),
    }))
look("main")
atexit.register(look, "exit")
"""


def both(folder, *words, stdin=b"", start=OURS, **more):
    """A program by itself and under `run`."""
    return [
        subprocess.run(
            [*more.pop("command", [sys.executable, *begin]), *words],
            cwd=folder,
            input=stdin,
            capture_output=True,
            check=False,
            env=environment(),
            timeout=PATIENCE,
        )
        for begin in ([], start)
    ]


@pytest.fixture(name="folder", scope="module")
def folder_of_programs(tmp_path_factory):
    """The same program in every form that Python runs."""
    folder = tmp_path_factory.mktemp("programs")
    (folder / "look.py").write_text(LOOK)
    for place in ("apart", "package"):
        (folder / place).mkdir()
        (folder / place / "__main__.py").write_text(LOOK)
    (folder / "package" / "__init__.py").write_text("")
    (folder / "package" / "part.py").write_text(f"from . import __main__ as _\n{LOOK}")
    shutil.make_archive(str(folder / "packed"), "zip", folder / "apart")
    py_compile.compile(str(folder / "look.py"), cfile=str(folder / "compiled.pyc"))
    (folder / "link.py").symlink_to(folder / "apart" / "__main__.py")
    return folder


@pytest.mark.parametrize(
    "words",
    [
        ("look.py", "--", "-m", "--save", "--json", "a"),
        ("apart/../look.py",),
        ("link.py",),
        ("compiled.pyc",),
        ("apart", "a"),
        ("packed.zip",),
        ("-m", "look", "--", "a"),
        ("-m", "package"),
        ("-m", "package.part", "-m"),
    ],
)
def test_a_program_sees_what_it_would_by_itself(folder, words):
    """Arguments, places of imports, ``__main__`` (at exit too), signals, descriptors."""
    plain, ours = both(folder, *words)
    expected = [json.loads(line) for line in plain.stdout.splitlines()]
    assert [json.loads(line) for line in ours.stdout.splitlines()] == expected
    assert expected[-1]["when"] == "exit"
    assert (ours.returncode, ours.stderr) == (plain.returncode, plain.stderr + NOTHING)


def test_a_program_on_standard_input(folder):
    """``run -`` takes the program from there, and the device file is read once."""
    plain, ours = both(folder, "-", "a", stdin=LOOK.encode())
    assert plain.stdout.count(b"\n") == 2
    assert ours.stdout == plain.stdout
    _, named = both(folder, "/dev/stdin", stdin=b"print('read')")
    assert named.stdout == b"read\n"


BEGIN = "import os, signal, sys\nos.chdir('/')\n"


@pytest.mark.parametrize(
    "end",
    [
        "raise ValueError('x')",
        "raise KeyboardInterrupt",
        "os.kill(os.getpid(), signal.SIGINT); signal.pause()",
        "sys.exit('a message')",
        "sys.exit(256 + 7)",
        "sys.stderr.close()",
        "sys.stderr = None",
        "os.close(2)",
        "os.closerange(3, 2000)",
        "sys.stdout = None",
        "os.close(1)\nprint('lost')",
        "sys.excepthook = lambda *_: sys.exit(5)\nraise ValueError('x')",
        "sys.excepthook = lambda *_: 1 / 0\nraise ValueError('x')",
        "del sys.excepthook\nraise ValueError('x')",
    ],
)
def test_a_program_ends_as_it_would_by_itself(folder, end):
    """Status and bytes are the same, with the report after what the program said."""
    (folder / "end.py").write_text(f"{BEGIN}{end}\n")
    plain, ours = both(folder, "end.py")
    assert (ours.returncode, ours.stdout) == (plain.returncode, plain.stdout)
    assert ours.stderr.replace(NOTHING, b"") == plain.stderr


def test_ctrl_c_is_the_signal(folder):
    """A shell sees a program that SIGINT ended, not a status."""
    (folder / "end.py").write_text("raise KeyboardInterrupt")
    _, ours = both(folder, "end.py")
    assert ours.returncode == -signal.SIGINT


def test_closed_descriptors(folder):
    """Standard output and error that were closed before the start stay closed."""
    (folder / "end.py").write_text("import sys; sys.exit(3 + (sys.stderr is None))")
    command = f"exec {sys.executable} {' '.join(OURS)} end.py >&- 2>&- <&-"
    done = subprocess.run(
        ["sh", "-c", command],
        cwd=folder,
        check=False,
        env=environment(),
        timeout=PATIENCE,
    )
    assert done.returncode == 4


@pytest.mark.parametrize("name", [".look", "", "no.such", "a b"])
def test_modules_that_cannot_be(folder, name):
    """One sentence and status 2."""
    _, ours = both(folder, "-m", name)
    expected = f"npu-dispatch-inspect: There is no module {name!r} on sys.path.\n"
    assert (ours.returncode, ours.stderr.decode()) == (2, expected)


def test_a_package_is_not_imported_before_the_inspection_is_ready(folder):
    """What its import raises is the program's error, without frames of ours."""
    (folder / "broken").mkdir(exist_ok=True)
    (folder / "broken" / "__init__.py").write_text("1 / 0\n")
    (folder / "broken" / "part.py").write_text("")
    _, ours = both(folder, "-m", "broken.part")
    assert ours.returncode == 1
    assert os.fsencode(os.path.dirname(__file__)) not in ours.stderr
    assert b"npu_dispatch_inspect/cli" not in ours.stderr
    assert b"ZeroDivisionError" in ours.stderr
