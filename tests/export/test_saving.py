# SPDX-License-Identifier: BSD-3-Clause
"""One function for all files: the suffix decides, and says so where it cannot."""

from __future__ import annotations

import errno
import io
import os
import subprocess
import sys
from pathlib import Path

import pytest

from npu_dispatch_inspect import (
    Coverage,
    Environment,
    InspectError,
    RecordError,
    UsageError,
    load,
    save,
)
from npu_dispatch_inspect.export._replacing import replacing
from npu_dispatch_inspect.export.saving import FORMATS, format_of
from npu_dispatch_inspect.records.dispatch_keys import KeyNames
from npu_dispatch_inspect.records.graphs import CapturedGraph, GraphStage
from npu_dispatch_inspect.records.paths import Explanation
from npu_dispatch_inspect.records.registrations import OperatorEntry
from npu_dispatch_inspect.records.traced_registrations import RegistrationTrace
from npu_dispatch_inspect.traces.graphs import GraphSet
from npu_dispatch_inspect.traces.tables import DispatchTable, EntrySource
from tests.report_examples import training_step

GUIDE = Path(__file__).parents[2] / "docs" / "files.md"
WHERE = Environment(tool="0", python="3", platform="x")
GRAPH = CapturedGraph(stage=GraphStage.JOINT, environment=WHERE)
KEYS = KeyNames(names=("CPU", "PrivateUse1"))
TABLE = DispatchTable(
    EntrySource([OperatorEntry(name="aten::x", keys=KEYS)]), keys=KEYS
)
THINGS = {
    "report": training_step(),
    "trace": training_step().trace,
    "logs": training_step().logs,
    "summary": training_step().logs.summary(),
    "table": TABLE,
    "registrations": RegistrationTrace(route="make_fx", reason="", calls=()),
    "coverage": Coverage(key="CPU", source="trace", calls=()),
    "explanation": Explanation(calls=()),
    "graph": GRAPH,
    "graphs": GraphSet(graphs=[GRAPH], environment=WHERE),
}
EVERYTHING = set(THINGS)
HOLDS = {
    "json": EVERYTHING,
    "jsonl": EVERYTHING,
    "text": EVERYTHING,
    "csv": EVERYTHING,
    "parquet": EVERYTHING,
    "arrow": EVERYTHING,
    "chrome": {"report", "trace", "logs"},
    "dot": {"report", "trace", "explanation", "graph", "graphs"},
    "mermaid": {"report", "trace", "explanation", "graph", "graphs"},
    "log": {"logs"},
}
"""What each format can hold; the page for browsers has tests of its own."""


@pytest.mark.parametrize("name", THINGS)
@pytest.mark.parametrize("format_name", HOLDS)
def test_a_format_writes_what_it_can_hold(format_name, name, tmp_path):
    """And refuses the rest in one sentence, without a file."""
    (chosen,) = [each for each in FORMATS if each.name == format_name]
    path = tmp_path / f"x{chosen.suffixes[0]}"
    if name in HOLDS[format_name]:
        save(THINGS[name], path)
        assert path.stat().st_size > 0
        file = io.BytesIO()
        save(THINGS[name], file, format=format_name)
        assert file.getvalue() == path.read_bytes()
        if chosen.loads:
            assert load(path) == THINGS[name]
    else:
        with pytest.raises(UsageError) as caught:
            save(THINGS[name], path)
        assert str(caught.value).endswith(".")
        assert "\n" not in str(caught.value)
        assert not path.exists()


def test_the_formats_of_the_tests_are_all_there_are():
    """A format that is added gets a row."""
    assert {each.name for each in FORMATS} == {*HOLDS, "html"}


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("a.json", "json"),
        ("a.JSON", "json"),
        ("trace.json", "json"),
        ("a.trace.json", "chrome"),
        ("a.pt.trace.json.gz", "chrome"),
        ("a.jsonl.gz", "jsonl"),
        ("folder.html/a.csv", "csv"),
        ("a.report.html", "html"),
        ("a.htm", "html"),
        ("a.gv", "dot"),
        ("a.mermaid", "mermaid"),
        ("a.feather", "arrow"),
    ],
)
def test_the_longest_suffix_decides(name, expected):
    """Whatever comes before it."""
    assert format_of(name).name == expected


@pytest.mark.parametrize("name", ["", "json", "a", "a.yaml", "a.parquet.gz", "a.gz"])
def test_other_suffixes_are_told_of(name):
    """With those that there are."""
    with pytest.raises(UsageError, match=r"none: use one of \.json, \.jsonl, \.html"):
        format_of(name)


def test_the_guide_lists_every_suffix():
    """A reader finds the format there."""
    text = GUIDE.read_text()
    for each in FORMATS:
        for suffix in each.suffixes:
            assert f"`{suffix}`" in text


def test_only_json_is_loaded_back(tmp_path):
    """What is for other programs is refused by name."""
    for suffix in (".csv", ".parquet", ".trace.json", ".dot", ".txt"):
        path = tmp_path / f"x{suffix}"
        save(training_step(), path)
        with pytest.raises(RecordError, match="no file that can be loaded"):
            load(path)


def test_nothing_of_this_needs_torch(tmp_path):
    """Nor does saving import what only other formats need."""
    save(training_step(), tmp_path / "x.json")
    code = f"""
import sys
sys.modules["torch"] = None
from npu_dispatch_inspect import load
report = load({str(tmp_path / "x.json")!r})
for suffix in ("jsonl", "html", "txt", "csv", "trace.json", "dot", "mmd"):
    report.save({str(tmp_path)!r} + "/x." + suffix)
print(sorted({{"pandas", "pyarrow", "polars", "numpy", "rich"}} & set(sys.modules)))
report.save({str(tmp_path)!r} + "/x.parquet")
"""
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )
    assert (run.stdout, run.stderr) == ("[]\n", "")


def test_errors_are_those_that_the_command_line_prints(tmp_path):
    """Each is an InspectError of one sentence."""
    for thing, path in (
        (training_step(), tmp_path),
        (training_step(), tmp_path / "x"),
        (training_step(), tmp_path / "no" / "x.json"),
        (object(), tmp_path / "x.json"),
        (object(), tmp_path / "x.csv"),
        (object(), tmp_path / "x.txt"),
        (object(), tmp_path / "x.dot"),
    ):
        with pytest.raises(InspectError) as caught:
            save(thing, path)
        assert str(caught.value).endswith(".")


class TestReplacing:
    """An existing file is replaced whole or not at all."""

    def test_an_error_half_way_leaves_what_was_there(self, tmp_path):
        """Neither a part of the new file nor one beside it is left."""
        path = tmp_path / "x.json"
        path.write_text("before")

        def fail():
            with replacing(str(path)) as file:
                file.write(b"half")
                raise OSError(errno.ENOSPC, "full")

        with pytest.raises(OSError, match="full"):
            fail()
        assert path.read_text() == "before"
        assert list(tmp_path.iterdir()) == [path]
        path.unlink()
        with pytest.raises(OSError, match="full"):
            fail()
        assert list(tmp_path.iterdir()) == []

    def test_readers_and_writers_at_once(self, tmp_path):
        """Two writers leave the file of one of them, and a reader keeps the old one."""
        path = str(tmp_path / "x.json")
        with replacing(path) as first, replacing(path) as second:
            first.write(b"a" * 9)
            second.write(b"b")
        assert Path(path).read_bytes() == b"a" * 9
        with open(path, "rb") as reader:
            save(THINGS["trace"], path)
            assert reader.read() == b"a" * 9
        assert load(path) == THINGS["trace"]

    def test_rights_and_links_stay(self, tmp_path):
        """A link stays one, a file keeps its rights, a new one has the usual rights."""
        path, link = tmp_path / "x.json", tmp_path / "link.json"
        link.symlink_to(path)
        before = os.umask(0o027)
        try:
            save(THINGS["trace"], link)
            new = path.stat().st_mode & 0o777
            path.chmod(0o604)
            save(THINGS["trace"], link)
        finally:
            os.umask(before)
        assert (new, path.stat().st_mode & 0o777) == (0o640, 0o604)
        assert link.is_symlink()

    @pytest.mark.skipif(not Path("/dev/full").exists(), reason="no such device")
    def test_a_device_is_written_as_it_is(self, tmp_path):
        """What is no ordinary file stays what it is, and says what is wrong."""
        link = tmp_path / "x.json"
        link.symlink_to("/dev/full")
        with pytest.raises(RecordError, match="No space left on device"):
            save(THINGS["trace"], link)
        assert list(tmp_path.iterdir()) == [link]
        assert Path("/dev/full").is_char_device()

    def test_a_name_as_long_as_names_may_be(self, tmp_path):
        """The file beside it has a shorter one."""
        path = tmp_path / ("x" * 250 + ".json")
        save(THINGS["trace"], path)
        assert load(path) == THINGS["trace"]
