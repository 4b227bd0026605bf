# SPDX-License-Identifier: BSD-3-Clause
"""The examples of the page about logs hold."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.mark.npu
def test_examples_run():
    """One after the other, as a reader would type them."""
    page = (ROOT / "docs" / "logs.md").read_text()
    examples = re.findall(r"^```python\n(.+?)^```", page, re.DOTALL | re.MULTILINE)
    assert len(examples) == 3

    subprocess.run(
        [sys.executable, "-c", "\n".join(examples)], check=True, cwd=ROOT, timeout=120
    )
