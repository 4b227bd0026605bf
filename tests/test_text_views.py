# SPDX-License-Identifier: BSD-3-Clause
"""The whole text of everything that prints itself, at full width and in 60 columns.

The texts are in ``data/texts``. ``python -m tests.test_text_views`` writes them anew,
for reading what a change does to them.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from npu_dispatch_inspect import Environment, LogTrace, OpRecord, OpTrace
from npu_dispatch_inspect.display.document import Column, Grid, Row, span
from npu_dispatch_inspect.display.layout import (
    columns,
    cut,
    cut_middle,
    plain_text,
)
from npu_dispatch_inspect.records import LogRecord
from tests.view_examples import HERE, examples, long_trace

TEXTS = Path(__file__).parent / "data" / "texts"
NARROW = 60
EXAMPLES = examples()


def text_at(name, width):
    """The text of an example."""
    shown = EXAMPLES[name]
    return shown.to_text() if width is None else shown.to_text(width=width)


def file_of(name, width):
    """Where it is kept."""
    return TEXTS / (f"{name}.txt" if width is None else f"{name}.{width}.txt")


@pytest.mark.parametrize("width", [None, NARROW])
@pytest.mark.parametrize("name", EXAMPLES)
def test_whole_text(name, width):
    """The text is the one that was read and found good."""
    expected = file_of(name, width).read_text(encoding="utf-8")
    assert expected == text_at(name, width) + "\n"


@pytest.mark.parametrize("name", EXAMPLES)
def test_print_shows_the_stable_text(name):
    """str() is to_text() with its defaults: no escape codes, no trailing spaces."""
    text = str(EXAMPLES[name])
    assert text == EXAMPLES[name].to_text()
    assert "\x1b" not in text
    assert [line for line in text.split("\n") if line != line.rstrip()] == []


@pytest.mark.parametrize("width", [30, 47, NARROW, 80, 100])
@pytest.mark.parametrize("name", EXAMPLES)
def test_rows_keep_to_the_width(name, width):
    """No aligned row is wider than asked for; what was cut says so, or is named below."""
    whole = set(text_at(name, None).split("\n"))
    for line in text_at(name, width).split("\n"):
        # Sentences are wrapped by `show` and left alone here.
        if columns(line) > width and not line.startswith("not shown in"):
            assert line in whole


def test_columns_give_way_by_importance():
    """First text gets shorter, then whole columns go, the least important ones first."""
    trace = EXAMPLES["trace"]
    headers = {
        width: re.split(r"  +", trace.to_text(width=width).split("\n")[0])
        for width in (200, 100, 70, 50)
    }
    assert headers[200][-2:] == ["module", "line"]
    assert headers[100] == headers[200]
    assert headers[70] == ["#", "operator", "inputs -> outputs", "line"]
    assert headers[50] == ["#", "operator", "inputs -> outputs"]
    assert "not shown in 50 columns: phase, module, line" in trace.to_text(width=50)


def test_empty_columns_go_unsaid():
    """A column without a single entry is dropped first, and is no loss to speak of."""
    trace = OpTrace(records=[OpRecord(index=0, name="aten::t")], environment=HERE)
    assert trace.to_text(width=20) == (
        "#  phase  operator\n0  fwd    aten::t\n1 operator call"
    )


def test_long_trace_shows_head_tail_and_counts():
    """A thousand calls take as many lines as a hundred and eighty, whatever the kind."""
    lines = str(long_trace()).split("\n")
    assert lines[151] == "... 820 more"
    assert lines[-1] == "1000 operator calls"
    deep = long_trace().tree()
    assert str(deep).split("\n")[-2:] == [
        "... 500 more",
        "1000 operator calls, 500 of them shown",
    ]


def test_control_characters_are_shown_not_obeyed():
    """Escape codes, line breaks and marks of direction in names cannot do anything."""
    name = "aten::\x1b[31mred\nline\u202e\x07"
    text = str(OpTrace(records=[OpRecord(index=0, name=name)], environment=HERE))
    assert r"aten::\x1b[31mred line\u202e\x07" in text
    assert len(text.split("\n")) == 3


def test_foreign_log_lines_are_counted():
    """Lines of the program itself are not shown, and not forgotten."""
    lines = [LogRecord(index=0, offset=0, text="\x1b[2Jmine\n")]
    assert str(LogTrace(records=lines)) == (
        "#  launch\n0 aclnn launches, 0 tasks, 1 line\n1 line not written by torch_npu"
    )


def test_wide_characters_are_two_columns():
    """Chinese names stay aligned, and are cut at whole characters."""
    assert columns("模型.py") == 7
    assert cut("模型模型", 7) == "模型..."
    assert cut_middle("模型模型", 7) == "模...型"
    grid = Grid(
        columns=(Column(name="a"), Column(name="b")),
        rows=(Row(cells=(span("模型"), span("x"))), Row(cells=(span("ab"), span("y")))),
    )
    assert plain_text((grid,)).split("\n") == ["a     b", "模型  x", "ab    y"]


def test_environment_is_no_part_of_a_trace():
    """Two machines print the same calls alike."""
    one = OpTrace(records=[OpRecord(index=0, name="aten::t")], environment=HERE)
    other = Environment(tool="9", python="3.13", platform="darwin", device="cuda")
    assert str(one) == str(OpTrace(records=one.records, environment=other))


if __name__ == "__main__":
    TEXTS.mkdir(exist_ok=True)
    for each in EXAMPLES:
        for columns_at in (None, NARROW):
            path = file_of(each, columns_at)
            path.write_text(text_at(each, columns_at) + "\n", encoding="utf-8")
