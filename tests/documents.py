# SPDX-License-Identifier: BSD-3-Clause
"""Run the code blocks of a Markdown page, one after the other, as a reader would.

Sybil finds the blocks; what a block's language and the comments above it mean is said
here. A page is run in a folder of its own, with the virtual environment's programs
on PATH, and its blocks share one namespace.

===========================  =========================================================
``python``                   executed; what starts with ``>>>`` as a doctest
``bash``                     run by bash; stops at the first command that fails
``console``                  each ``$`` line is run and must print what stands below it
``json``, ``toml``, ``ini``  must parse
``text``                     shown only, unless it is marked as output
``<!-- file: NAME -->``      the block is written to that file and not executed
``<!-- output -->``          the block is what the one above it printed
``<!-- exit: N -->``         the exit status of the block's last command
``<!-- skip: next "why" -->``  Sybil's own: the block is not run
``<!-- own process -->``     anywhere in the page: it is run in a new interpreter
===========================  =========================================================

In output, columns may move. A line of ``...`` stands for any lines and ``…`` inside a
line for any text. ``python -m tests.documents --update docs/inspect.md`` writes what is
printed now into a page.
"""

from __future__ import annotations

import configparser
import contextlib
import doctest
import faulthandler
import io
import json
import linecache
import os
import re
import signal
import subprocess
import sys
import sysconfig
import time
from pathlib import Path
from unittest import SkipTest

from sybil import Document, Example
from sybil.example import SybilFailure
from sybil.parsers.markdown import SkipParser
from sybil.parsers.markdown.lexers import FencedCodeBlockLexer

from tests.command_line import without_exit_line

ROOT = Path(__file__).parent.parent
MARKS = re.compile(r"(?:^[ \t]*<!--[^\n]*-->[ \t]*\n)+\Z", re.MULTILINE)
OWN_PROCESS = "<!-- own process -->"
OWN_STANDIN = "\nstandin.load(values="
DOCTEST_OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
SHOWN_ONLY = {"text", "mermaid", "dot", "diff", "markdown"}
SECONDS = 300
"""A command of a page, and a page in a process of its own, must end by then."""


def pages():
    """Every page whose blocks are run, as paths below the root."""
    found = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    return sorted(
        str(each.relative_to(ROOT)) for each in found if "_build" not in each.parts
    )


def fences(document):
    """A Sybil parser: every fenced block with its language and its marks."""
    lexer = FencedCodeBlockLexer(
        r"[^\n]*", mapping={"language": "language", "source": "source"}
    )
    for lexed in lexer(document):
        marks = MARKS.search(document.text[: lexed.start])
        said = re.findall(r"<!-- ?(.*?) ?-->", marks[0]) if marks else []
        lexed.parsed = (
            lexed.lexemes["language"].strip(),
            str(lexed.lexemes["source"]),
            dict(each.partition(":")[::2] for each in said),
        )
        lexed.evaluator = evaluate
        yield lexed


def parse(path):
    """A page as a Sybil document."""
    return Document.parse(str(ROOT / path), fences, SkipParser())


def blocks(path):
    """(language, source, marks) of every fenced block of a page."""
    return [
        each.parsed
        for each in parse(path).examples()
        if each.region.evaluator is evaluate
    ]


def run(path):
    """Run a page in the current folder; the reasons of the blocks that were skipped.

    Raises:
        AssertionError: a block failed or printed something else; says page and line.
    """
    skipped = []
    for example in parse(path).examples():
        try:
            example.evaluate()
        except SkipTest as reason:
            skipped.append(str(reason))
        except Exception as error:
            msg = f"{path}, line {example.line}: {type(error).__name__}: {error}"
            raise AssertionError(msg) from error
    return skipped


def evaluate(example: Example) -> str | None:
    """Sybil's evaluator: do with a block what its language and marks say."""
    language, source, marks = example.parsed
    names = example.namespace
    if "file" in marks:
        Path(marks["file"].partition(",")[0].strip()).write_text(source, "utf-8")
    elif "output" in marks:
        return difference(source, names["__printed__"])
    elif language in ("python", "pycon"):
        if source.lstrip().startswith(">>>"):
            return _doctest(source, example)
        names["__printed__"] = _execute(source, names)
    elif language == "bash":
        names["__printed__"] = _shell(source, int(marks.get("exit", 0)))
    elif language == "console":
        return _console(source, int(marks.get("exit", 0)))
    elif language == "json":
        json.loads(source)
    elif language == "ini":
        configparser.ConfigParser().read_string(source)
    elif language == "toml":
        if sys.version_info >= (3, 11):
            import tomllib

            tomllib.loads(source)
    elif language not in SHOWN_ONLY and not language.startswith("{"):
        return f"nothing is known about blocks of the language {language!r}"
    return None


def difference(shown: str, printed: str) -> str | None:
    """None where a page shows what was printed, else both."""
    wanted = [line.split() for line in shown.strip().splitlines()]
    got = [line.split() for line in printed.strip().splitlines()]
    if _fits(wanted, got):
        return None
    return f"the page shows\n{shown}\nbut this was printed\n{printed}"


def _fits(wanted: list[list[str]], got: list[list[str]]) -> bool:
    """Lines against lines; a line of three dots takes any number of them."""
    # reachable[n]: the lines so far can be the first n that were printed.
    reachable = [True] + [False] * len(got)
    for line in wanted:
        if line == ["..."]:
            first = reachable.index(True) if True in reachable else len(reachable)
            reachable = [n >= first for n in range(len(got) + 1)]
        else:
            reachable = [
                n > 0 and reachable[n - 1] and _line_fits(line, got[n - 1])
                for n in range(len(got) + 1)
            ]
    return reachable[-1]


def _line_fits(wanted: list[str], got: list[str]) -> bool:
    parts = map(re.escape, " ".join(wanted).split("…"))
    return re.fullmatch(".*".join(parts), " ".join(got)) is not None


def _execute(source: str, namespace: dict) -> str:
    """Execute Python as a file of its own, whose lines traces can show."""
    linecache.cache["example.py"] = (
        len(source),
        None,
        source.splitlines(keepends=True),
        "example.py",
    )
    written = io.StringIO()
    with contextlib.redirect_stdout(written):
        exec(compile(source, "example.py", "exec", dont_inherit=True), namespace)
    return written.getvalue()


def _doctest(source: str, example: Example) -> str | None:
    test = doctest.DocTestParser().get_doctest(
        source, example.namespace, example.path, example.path, example.line
    )
    told: list[str] = []
    runner = doctest.DocTestRunner(verbose=False, optionflags=DOCTEST_OPTIONS)
    runner.run(test, out=told.append, clear_globs=False)
    example.namespace.update(test.globs)
    return "".join(told) or None


def _console(source: str, status: int) -> str | None:
    """Run each command and compare what it prints with what the page shows."""
    commands: list[list[str]] = []
    for line in source.splitlines(keepends=True):
        if line.startswith("$ "):
            commands.append([line[2:], ""])
        elif line.startswith("> ") and not commands[-1][1]:
            commands[-1][0] += line[2:]
        else:
            commands[-1][1] += line
    for number, (command, shown) in enumerate(commands, 1):
        printed = _shell(command, status if number == len(commands) else 0)
        if shown.strip() and (differs := difference(shown, printed)):
            return f"{command}{differs}"
    return None


def _shell(source: str, status: int) -> str:
    """What a command prints, on both streams, in a shell as a reader has it."""
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("ASCEND", "LD_LIBRARY", "PYTEST"))
        and (not name.startswith("NPU_DISPATCH") or name.endswith("_CACHE"))
    }
    environment["PATH"] = os.pathsep.join(
        [sysconfig.get_path("scripts"), environment["PATH"]]
    )
    # No line of a page is wider: what a reader sees is not cut.
    environment["COLUMNS"] = "200"
    # A checkout in front of what is installed, where there is one.
    environment["PYTHONPATH"] = os.pathsep.join(each for each in sys.path if each)
    if not re.search("stand-?in", source, re.IGNORECASE):
        # A reader without an NPU has no torch_npu, or the stand-in under it.
        environment["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", source],
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    if done.returncode != status:
        msg = f"{source.strip()} ended with status {done.returncode}:\n{done.stdout}"
        raise AssertionError(msg)
    return without_exit_line(done.stdout)


def run_in_new_processes(paths, folder):
    """As `run`, each page in a process that has loaded the stand-in and torch.

    The interpreter starts once and forks for every page.

    Returns:
        For each page the reasons of the blocks that were skipped, or what failed.
    """
    done = subprocess.run(
        [sys.executable, "-m", "tests.documents", *paths],
        cwd=folder,
        env={
            **{
                name: value
                for name, value in os.environ.items()
                if not name.startswith(("ASCEND", "LD_LIBRARY", "NPU_DISPATCH"))
                or name.endswith("_CACHE")
            },
            "PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, sys.path)]),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    # Shown with a failure: where pages stood that did not end.
    sys.stderr.write(done.stderr)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return dict(json.loads(line) for line in done.stdout.splitlines())


def prepare(folder):
    """Make a folder look like a clone of the repository to read files from."""
    for each in ("tests", "docs"):
        (folder / each).symlink_to(ROOT / each)


def _start():
    """Load the stand-in, and torch, but let no device begin: children will fork."""
    from importlib.util import find_spec

    from npu_dispatch_inspect import standin

    if find_spec("torch_npu") is not None:
        standin.load()
    import torch  # noqa: F401


def _run_in_child(path):
    """Run a page in a child; tell its name and what came of it."""
    folder = Path(path.replace("/", "-")).absolute()
    folder.mkdir()
    prepare(folder)
    child = os.fork()
    if child == 0:
        faulthandler.dump_traceback_later(SECONDS)
        os.chdir(folder)
        try:
            told = run(path)
        except AssertionError as error:
            told = str(error)
        print(json.dumps([path, told]), flush=True)
        sys.exit()
    status = _ended(child)
    if status:
        print(json.dumps([path, status]))


def _ended(child):
    """Wait for a child, and say what was wrong with its end."""
    end = time.monotonic() + SECONDS + 10
    while time.monotonic() < end:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return "the process did not end well" if status else None
        time.sleep(0.05)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return f"the process had not ended after {SECONDS} seconds"


def update(path):
    """Run a page and write into it what it prints now, where that is something else."""
    text = (ROOT / path).read_text(encoding="utf-8")
    document = parse(path)
    pieces, written = [], 0
    for example in document.examples():
        try:
            example.evaluate()
        except SybilFailure:
            _, shown, marks = example.parsed
            if "output" not in marks:
                raise
            lines = document.namespace["__printed__"].strip("\n").splitlines()
            begin = text.index("\n", example.region.start) + 1
            pieces += [text[written:begin], *(f"{line.rstrip()}\n" for line in lines)]
            written = begin + len(shown)
        except SkipTest:
            pass
    (ROOT / path).write_text("".join([*pieces, text[written:]]), encoding="utf-8")


if __name__ == "__main__":
    if sys.argv[1] == "--update":
        import tempfile

        if OWN_STANDIN not in (ROOT / sys.argv[2]).read_text(encoding="utf-8"):
            _start()
        with tempfile.TemporaryDirectory() as scratch:
            prepare(Path(scratch))
            os.chdir(scratch)
            update(sys.argv[2])
            os.chdir(ROOT)
    else:
        # The stand-in is loaded once in a process: those that load another one first.
        named = sys.argv[1:]
        early = [
            each
            for each in named
            if OWN_STANDIN in (ROOT / each).read_text(encoding="utf-8")
        ]
        for each in early:
            _run_in_child(each)
        _start()
        for each in (each for each in named if each not in early):
            _run_in_child(each)
