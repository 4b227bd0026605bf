# SPDX-License-Identifier: BSD-3-Clause
"""Reports as files: what is written reads back, what is damaged is refused."""

from __future__ import annotations

import json

import pytest

from npu_dispatch_inspect import RecordError, load_report, save_report
from npu_dispatch_inspect.records.chains import NativeCall
from npu_dispatch_inspect.report_file import MAJOR, MINOR, SCHEMA
from npu_dispatch_inspect.traces.report import DispatchReport
from tests.report_examples import failed, training_step


@pytest.fixture
def path(tmp_path):
    """A file with a report."""
    path = tmp_path / "report.json"
    save_report(training_step(), path)
    return path


def test_reads_back(path):
    """The report that is read is equal to the one that was written."""
    assert load_report(path) == training_step()


def test_reads_back_without_lines_and_with_the_profiler(tmp_path):
    """The parts that a report may lack, or have besides."""
    step = training_step()
    report = DispatchReport(
        chains=(),
        trace=step.trace[:0],
        native_calls=(NativeCall(name="aclnnMm"),),
        notes=("n",),
    )
    save_report(report, tmp_path / "report.json")
    assert load_report(tmp_path / "report.json") == report


def test_reads_back_with_an_error(tmp_path):
    """What the block died of, and the launches before it."""
    step = training_step()
    report = DispatchReport(
        chains=step.chains, trace=step.trace, logs=step.logs, failure=failed().failure
    )
    save_report(report, tmp_path / "report.json")
    assert load_report(tmp_path / "report.json") == report


def test_file_names_its_schema(path):
    """The first line says what the file is and of which version."""
    header = json.loads(path.read_text().splitlines()[0])
    assert header["schema"] == SCHEMA == "npu_dispatch_inspect/dispatch_report"
    assert header["version"] == f"{MAJOR}.{MINOR}"


def test_every_cut_is_noticed(path):
    """A file that ends early is refused wherever it ends."""
    lines = path.read_text().splitlines(keepends=True)
    for count in range(1, len(lines)):
        path.write_text("".join(lines[:count]))
        with pytest.raises(RecordError, match=r"is cut off"):
            load_report(path)
    path.write_text("".join(lines)[:-10])
    with pytest.raises(RecordError, match=r"cut off: its last line is missing"):
        load_report(path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda lines: [], "is not a report: its first line does not name"),
        (lambda lines: ["hello\n"], "is not a report"),
        (lambda lines: lines[1:], "is not a report"),
        (lambda lines: [lines[0].replace('"1.0"', '"9.0"'), *lines[1:]], "by a newer release"),
        (lambda lines: [lines[0].replace('"1.0"', '"x"'), *lines[1:]], "damaged in line 1"),
        (lambda lines: [*lines[:3], *lines[4:]], "damaged"),
        (lambda lines: [*lines, lines[-1]], "is damaged"),
        (lambda lines: [each.replace("AclnnRecord", "Nothing") for each in lines], "is damaged"),
        (lambda lines: [each.replace('"offset":2', '"offset":"2"') for each in lines], "is damaged"),
    ],
)  # fmt: skip
def test_other_files_are_refused(path, change, message):
    """Foreign, newer and damaged files each get their sentence."""
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(change(lines)))
    with pytest.raises(RecordError, match=message):
        load_report(path)


def test_newer_minor_version_is_read(path):
    """Fields that a later release adds are left out."""
    lines = path.read_text().splitlines()
    header = {**json.loads(lines[0]), "version": f"{MAJOR}.{MINOR + 1}", "more": 1}
    end = {**json.loads(lines[-1]), "more": 2}
    path.write_text(
        "\n".join([json.dumps(header), *lines[1:-1], json.dumps(end)]) + "\n"
    )
    assert load_report(path) == training_step()


def test_places_that_do_not_work(tmp_path):
    """A file that is not there, or cannot be written, is said in a sentence."""
    with pytest.raises(RecordError, match=r"cannot be read: No such file"):
        load_report(tmp_path / "nothing")
    with pytest.raises(RecordError, match=r"cannot be written to"):
        save_report(training_step(), tmp_path / "nowhere" / "report.json")
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(RecordError, match=r"is not a text file"):
        load_report(tmp_path / "binary")
