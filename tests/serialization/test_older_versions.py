# SPDX-License-Identifier: BSD-3-Clause
"""Files of older versions are read: recorded ones lie in tests/data/files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from npu_dispatch_inspect import RecordError, load
from npu_dispatch_inspect.serialization import KINDS
from tests.report_examples import training_step

FILES = Path(__file__).parents[1] / "data" / "files"


def test_every_step_from_the_first_version_is_there():
    """A kind whose format changed can be read from version 1 on."""
    assert {kind.name: set(kind.migrations) for kind in KINDS} == {
        kind.name: set(range(1, kind.major)) for kind in KINDS
    }


def test_traces_of_version_1_are_read():
    """Their records had no name, and their end was flat."""
    assert load(FILES / "op_trace-1.0.jsonl") == training_step().trace


def test_reports_of_version_1_are_read():
    """They had no chains: those are joined again."""
    assert load(FILES / "dispatch_report-1.0.jsonl") == training_step()


def test_tables_of_version_1_are_read():
    """They were one object, under a name with other dashes."""
    table = load(FILES / "dispatch_table-1.json")
    assert table.names == ("aten::relu", "aten::relu.out", "aten::add.Tensor")
    relu = table["aten::relu.default"]
    assert relu.computed["CPU"].state.value == "own kernel"
    assert relu.registered["CPU"].unboxed
    assert table.environment is not None
    assert "PrivateUse1" in table.keys.names


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("op_trace-1.0.jsonl", lambda lines: lines[:-1]),
        ("dispatch_report-1.0.jsonl", lambda lines: lines[:-1]),
        ("dispatch_report-1.0.jsonl", lambda lines: lines[:5]),
        ("dispatch_report-1.0.jsonl", lambda lines: [*lines[:3], *lines[4:]]),
        ("dispatch_table-1.json", lambda lines: ["".join(lines)[:-40]]),
        (
            "dispatch_table-1.json",
            lambda lines: [json.dumps({**json.loads("".join(lines)), "operators": 3})],
        ),
    ],
)
def test_older_files_that_are_damaged_are_refused(name, change, tmp_path):
    """As those of this version: a sentence, not a traceback."""
    lines = (FILES / name).read_text().splitlines(keepends=True)
    (tmp_path / name).write_text("".join(change(lines)))
    with pytest.raises(RecordError) as caught:
        load(tmp_path / name)
    assert "\n" not in str(caught.value)
