# SPDX-License-Identifier: BSD-3-Clause
"""The examples about inspection run, and print what the page shows."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from npu_dispatch_inspect import Verdict

PAGE = (Path(__file__).parent.parent / "docs/inspect.md").read_text()


def _same_everywhere(text):
    """Tasks are numbered per process, and a number's width moves columns."""
    return [re.sub(r"task \d+", "task", line).split() for line in text.splitlines()]


@pytest.mark.npu
def test_examples_run_and_print_what_is_shown(capsys):
    """The code blocks run in order; the first ends in the text that follows it."""
    blocks = re.findall(r"^```python\n(.+?)^```", PAGE, re.DOTALL | re.MULTILINE)
    names = {}
    for block in blocks:
        exec(compile(block, "example.py", "exec"), names)
    (shown,) = re.findall(r"^```text\n(.+?)^```", PAGE, re.DOTALL | re.MULTILINE)
    assert _same_everywhere(capsys.readouterr().out) == _same_everywhere(shown)


def test_every_verdict_is_in_the_table():
    """The page explains each verdict by its name."""
    table = PAGE.split("## Verdicts")[1].split("##")[0]
    assert {each.name for each in Verdict} <= set(re.findall(r"`(\w+)`", table))
