# SPDX-License-Identifier: BSD-3-Clause
"""Colours and the terminal's width: `show`, and what rich asks for."""

from __future__ import annotations

import io
import os
import pty
import re
import sys

import pytest

import npu_dispatch_inspect
from npu_dispatch_inspect import show
from npu_dispatch_inspect.display.layout import columns
from tests.view_examples import examples

rich_console = pytest.importorskip("rich.console")
ESCAPE = re.compile(r"\x1b\[[0-9;]*m")
EXAMPLES = examples()
SWITCHES = ("NO_COLOR", "FORCE_COLOR", "TERM", "COLUMNS", "LINES")


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def __init__(self, encoding="utf-8"):
        super().__init__()
        self._encoding = encoding

    @property
    def encoding(self):
        return self._encoding

    def isatty(self):
        return True


@pytest.fixture(name="variables")
def _variables(monkeypatch):
    """Set the variables that decide, all others of them unset."""
    for name in SWITCHES:
        monkeypatch.delenv(name, raising=False)

    def put(**values):
        for name, value in values.items():
            monkeypatch.setenv(name, value)

    return put


def shown(example, stream, **options):
    """What `show` writes."""
    show(EXAMPLES[example], file=stream, **options)
    return stream.getvalue()


@pytest.mark.parametrize("name", EXAMPLES)
def test_colours_change_no_character(variables, name):
    """Without its escape codes the coloured text is the plain one."""
    variables(FORCE_COLOR="1")
    coloured = shown(name, io.StringIO(), width=100)
    variables(FORCE_COLOR="")
    assert ESCAPE.sub("", coloured) == shown(name, io.StringIO(), width=100)


@pytest.mark.parametrize("name", EXAMPLES)
def test_rich_prints_the_same(variables, name):
    """A rich console asks the object itself, and gives it its own width."""
    stream = io.StringIO()
    rich_console.Console(file=stream, width=100).print(EXAMPLES[name])
    assert stream.getvalue() == shown(name, io.StringIO(), width=100)


@pytest.mark.parametrize(
    ("stream", "values", "coloured"),
    [
        (Terminal, {}, True),
        (Terminal, {"NO_COLOR": "1"}, False),
        (Terminal, {"NO_COLOR": ""}, True),
        (Terminal, {"TERM": "dumb"}, False),
        (Terminal, {"NO_COLOR": "1", "FORCE_COLOR": "1"}, False),
        (io.StringIO, {}, False),
        (io.StringIO, {"FORCE_COLOR": "1"}, True),
        (io.StringIO, {"FORCE_COLOR": ""}, False),
    ],
)
def test_when_there_are_colours(variables, stream, values, coloured):
    """On a terminal, unless NO_COLOR says no; elsewhere where FORCE_COLOR says yes."""
    variables(**values)
    assert ("\x1b[" in shown("report", stream())) is coloured


def test_no_rich_no_colours(variables, monkeypatch):
    """Without rich a terminal shows the same lines without colours."""
    monkeypatch.setitem(sys.modules, "rich", None)
    variables(COLUMNS="100", FORCE_COLOR="1")
    text = shown("report", Terminal())
    assert "\x1b[" not in text
    assert "aten::digamma.out" in text


def test_not_on_a_terminal_it_is_print(variables):
    """A file gets what print() writes, to the byte."""
    for name, each in EXAMPLES.items():
        assert shown(name, io.StringIO()) == f"{each}\n"


def test_sentences_are_wrapped_at_the_terminals_width(variables):
    """No line is wider than the terminal, long words excepted; no word is lost."""
    variables(COLUMNS="50")
    text = ESCAPE.sub("", shown("report", Terminal()))
    words = str(EXAMPLES["report"]).partition("\n\n12 calls")[2].split()
    assert text.partition("\n\n12 calls")[2].split() == words
    too_wide = [line for line in text.splitlines() if columns(line) > 50]
    assert too_wide == []


def test_a_real_terminal(variables):
    """On a pseudo-terminal with a size of its own, colours and width are right."""
    import fcntl
    import struct
    import termios

    variables(TERM="xterm")
    leader, follower = pty.openpty()
    fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 72, 0, 0))
    try:
        with os.fdopen(follower, "w", encoding="utf-8") as stream:
            show(EXAMPLES["logs"], file=stream)
            stream.flush()
            text = os.read(leader, 100_000).decode()
    finally:
        os.close(leader)
    lines = ESCAPE.sub("", text).replace("\r\n", "\n").splitlines()
    assert "\x1b[32maclnnAddmm" in text
    assert max(map(columns, lines)) == 72


def test_a_stream_without_box_characters(variables):
    """Where the encoding has no lines to draw with, plain characters stand for them."""
    text = shown("chain", Terminal(encoding="ascii"), width=100)
    assert text.isascii()
    assert "|- aten::_to_copy" in ESCAPE.sub("", text)


def test_other_objects_are_printed():
    """What is nothing of ours is printed as print does."""
    stream = io.StringIO()
    show({"a": 1}, file=stream)
    assert stream.getvalue() == "{'a': 1}\n"


def test_standard_output_is_the_default(capsys):
    """show(x) writes where print(x) writes."""
    show(EXAMPLES["no_changes"])
    assert capsys.readouterr().out == "no change\n"


def test_markup_in_a_name_is_text(variables):
    """Rich's own markup in a name is shown as it is."""
    variables(FORCE_COLOR="1")
    record = npu_dispatch_inspect.OpRecord(index=0, name="aten::[red]x[/red] :smile:")
    trace = npu_dispatch_inspect.OpTrace(
        records=[record], environment=EXAMPLES["trace"].environment
    )
    stream = io.StringIO()
    show(trace, file=stream)
    assert "aten::[red]x[/red] :smile:" in ESCAPE.sub("", stream.getvalue())
    plain = io.StringIO()
    rich_console.Console(file=plain, width=100).print(trace)
    assert "aten::[red]x[/red] :smile:" in plain.getvalue()
