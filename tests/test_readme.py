# SPDX-License-Identifier: BSD-3-Clause
"""The README's example runs, and what it points to is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()


def test_example_runs():
    """The example in the README holds as it stands there."""
    pytest.importorskip("torch")
    (example,) = re.findall(r"^```python\n(.+?)^```", README, re.DOTALL | re.MULTILINE)
    exec(compile(example, "README.md", "exec"), {})


def test_links_lead_somewhere():
    """Every file that the README links to exists."""
    links = re.findall(r"\]\((?!https?:)([^)#]+)\)", README)
    assert links
    assert [link for link in links if not (ROOT / link).exists()] == []


def test_both_commands_are_marked():
    """The two commands that CI takes from the README are there, one line each."""
    commands = re.findall(
        r"<!-- command: (\w+) -->\n```bash\n(.+?)\n```", README, re.DOTALL
    )
    assert [name for name, _ in commands] == ["demo", "tests"]
    assert all("\n" not in command for _, command in commands)
