# SPDX-License-Identifier: BSD-3-Clause
"""Files that are foreign, newer, damaged or cut off are refused with the reason."""

from __future__ import annotations

import gzip
import json

import pytest

from npu_dispatch_inspect import (
    OpRecord,
    OpTrace,
    RecordError,
    UsageError,
    load,
    save,
)
from npu_dispatch_inspect.records.dispatch_keys import KeyNames
from npu_dispatch_inspect.records.registrations import ComputedKernel, OperatorEntry
from npu_dispatch_inspect.traces.tables import DispatchTable, EntrySource
from tests.report_examples import training_step
from tests.serialization.examples import ENVIRONMENT


@pytest.fixture
def lines(tmp_path):
    """The lines of a good file with two records, and where to write others."""
    path = tmp_path / "trace.jsonl"
    found = tuple(OpRecord(index=index, name=f"aten::op{index}") for index in range(2))
    save(OpTrace(records=found, environment=ENVIRONMENT), path)
    return path.read_text().splitlines(keepends=True), path


def changed(line, **fields):
    """A line with other fields."""
    return json.dumps({**json.loads(line), **fields}) + "\n"


def with_first(fields):
    """A change of the head."""
    return lambda lines: [changed(lines[0], **fields), *lines[1:]]


def with_second(line):
    """Another line in place of the first record."""
    return lambda lines: [
        lines[0],
        line if isinstance(line, str) else changed(lines[1], **line),
        *lines[2:],
    ]


@pytest.mark.parametrize(
    ("change", "part"),
    [
        (lambda lines: [], "is no file that can be loaded"),
        (lambda lines: ["hello\n"], "is no file that can be loaded"),
        (lambda lines: ["[1]\n"], "is no file that can be loaded"),
        (lambda lines: ["{}\n"], "is no file that can be loaded"),
        (lambda lines: ['{"traceEvents": []}\n'], "is no file that can be loaded"),
        (lambda lines: lines[1:], "is no file that can be loaded"),
        (with_first({"schema": "other"}), "is no file that can be loaded"),
        (with_first({"version": "3.0"}), r"newer release \(trace format 3\.0, this one reads 2\)"),
        (with_first({"version": "x"}), "damaged in line 1: version 'x'"),
        (with_first({"version": None}), "damaged in line 1: version None"),
        (with_first({"label": 3}), "damaged in line 1"),
        (with_first({"colour": "red"}), "damaged in line 1"),
        (with_first({"environment": None}), "damaged in line 1"),
        (lambda lines: lines[:-1], "cut off after 2 records"),
        (lambda lines: lines[:1], "cut off after 0 records"),
        (lambda lines: [*lines[:2], lines[2][:9]], "cut off after 1 records"),
        (lambda lines: [*lines[:3], lines[3][:-4]], "cut off after 2 records"),
        (lambda lines: [lines[0], lines[1], lines[3]], "2 records were written, 1 are there"),
        (lambda lines: [*lines, lines[1]], "damaged in line 5: something follows its end"),
        (with_second("{]\n"), "damaged in line 2: it is no JSON"),
        (with_second("3\n"), "damaged in line 2: it is no object"),
        (with_second('{"index": 0}\n'), "damaged in line 2: there is no record None"),
        (with_second({"record": "Nothing"}), "damaged in line 2: there is no record 'Nothing'"),
        (with_second({"index": "0"}), "damaged in line 2: '0' is not of type int"),
        (with_second({"index": True}), "damaged in line 2: True is not of type int"),
        (with_second({"colour": "red"}), "damaged in line 2"),
        (with_second({"phase": "odd"}), "damaged in line 2"),
        (with_second({"outputs": [{"nothing": 1}]}), "damaged in line 2"),
        (with_second({"outputs": [{"float": "1"}]}), "damaged in line 2"),
        (with_second({"outputs": [{"complex": [1]}]}), "damaged in line 2"),
        (lambda lines: [*lines[:3], '{"end": {}}\n'], "damaged in line 4: 'records' is missing"),
        (lambda lines: [*lines[:3], '{"end": 2}\n'], "damaged in line 4"),
    ],
)  # fmt: skip
def test_a_bad_file_is_refused_with_the_reason(lines, change, part):
    """One sentence says what is wrong, and in which line."""
    good, path = lines
    path.write_text("".join(change(good)))
    with pytest.raises(RecordError, match=part) as caught:
        load(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.fixture
def document(tmp_path):
    """A good document, and where to write others."""
    path = tmp_path / "report.json"
    save(training_step(), path)
    return json.loads(path.read_text()), path


@pytest.mark.parametrize(
    ("change", "part"),
    [
        ({"version": "9.0"}, "newer release"),
        ({"logs": None, "records": 3}, "it is no JSON"),
        ({"records": [3]}, "damaged in record 1: it is no object"),
        ({"records": [{"record": "OpRecord"}]}, "damaged in record 1: "),
        ({"end": {"records": 2}}, "damaged in its end: 2 records were written, 30 are there"),
        ({"more": 1}, "damaged in record 30: 'more' comes after the records"),
    ],
)  # fmt: skip
def test_a_bad_document_is_refused_with_the_reason(document, change, part):
    """As for lines, with the number of the record."""
    content, path = document
    path.write_text(json.dumps({**content, **change}))
    with pytest.raises(RecordError, match=part):
        load(path)


def test_every_cut_of_a_document_is_noticed(document):
    """Wherever a document ends early, it is refused and never read as less."""
    _, path = document
    whole = path.read_text().rstrip()
    for length in range(0, len(whole), 97):
        path.write_text(whole[:length])
        with pytest.raises(RecordError, match=r"cut off|no file that can be loaded"):
            load(path)
    path.write_text(whole[:-1])
    with pytest.raises(RecordError, match="cut off after 30 records"):
        load(path)


def test_every_cut_between_lines_is_noticed(tmp_path):
    """A report that was cut off is refused wherever it ends."""
    path = tmp_path / "report.jsonl"
    save(training_step(), path)
    lines = path.read_text().splitlines(keepends=True)
    for count in range(1, len(lines)):
        path.write_text("".join(lines[:count]))
        with pytest.raises(RecordError, match=f"cut off after {count - 1} records"):
            load(path)


@pytest.mark.parametrize(
    ("row", "change", "part"),
    [
        (0, {"depth": 1}, "goes on at depth 1 that did not begin"),
        (0, {"op": 99}, "99 is missing"),
        (0, {"op": None}, "one of an index and a record"),
        (1, {"launches": [{"line": 99}]}, "99 is missing"),
        (0, {"verdict": "good"}, "'good' is not a valid Verdict"),
    ],
)
def test_chains_that_refer_to_nothing_are_refused(document, row, change, part):
    """A chain needs its call and its lines."""
    content, path = document
    rows = [each for each in content["records"] if each["record"] == "ChainRow"]
    rows[row].update(change)
    path.write_text(json.dumps(content))
    with pytest.raises(RecordError, match=part):
        load(path)


@pytest.mark.parametrize(
    "numbers", [[0], [0, 7], [-1, 0], [9, 0]], ids=["odd", "kernel", "minus", "key"]
)
def test_numbers_that_refer_to_nothing_are_refused(numbers, tmp_path):
    """A table's rows refer to lists in its head; winners are pairs."""
    keys = KeyNames(names=("CPU",))
    kernel = ComputedKernel(kind="kernel", file="a.cpp", line=1)
    entry = OperatorEntry(name="aten::x", kernels=(("CPU", kernel),), keys=keys)
    path = tmp_path / "table.json"
    DispatchTable(EntrySource([entry]), keys=keys).save(path)
    content = json.loads(path.read_text())
    content["records"][0]["kernels"] = numbers
    path.write_text(json.dumps(content))
    with pytest.raises(RecordError, match="is damaged"):
        load(path)


def test_a_newer_minor_version_is_read(lines):
    """Fields that this release does not know are left out."""
    good, path = lines
    head = changed(good[0], version="2.7", colour="red")
    end = json.dumps({"end": {"records": 2, "colour": "red"}}) + "\n"
    path.write_text("".join([head, changed(good[1], colour="red"), good[2], end]))
    assert load(path).names == ("aten::op0", "aten::op1")


@pytest.mark.parametrize("cut", [0, 9])
def test_a_trace_that_was_cut_off_can_be_read_in_part(lines, cut):
    """What is there is taken, and the trace says that it is not all."""
    good, path = lines
    path.write_text("".join([*good[:2], good[2][:cut]]))
    trace = load(path, partial=True)
    assert trace.names == ("aten::op0",)
    assert trace.notes == ("The file was cut off after 1 records.",)


def test_a_log_that_was_cut_off_can_be_read_in_part(tmp_path):
    """Packed as well: what was unpacked until the end is taken."""
    logs = training_step().logs
    logs.save(tmp_path / "logs.jsonl")
    lines = (tmp_path / "logs.jsonl").read_text().splitlines(keepends=True)
    (tmp_path / "cut.gz").write_bytes(gzip.compress("".join(lines[:3]).encode()))
    part = load(tmp_path / "cut.gz", partial=True)
    assert part.records == logs.records[:2]
    assert part.incomplete == ("The file was cut off after 2 records.",)


def test_a_report_that_was_cut_off_is_refused_in_part_as_well(tmp_path):
    """Chains of half a report would tell something else."""
    save(training_step(), tmp_path / "r.jsonl")
    lines = (tmp_path / "r.jsonl").read_text().splitlines(keepends=True)
    (tmp_path / "r.jsonl").write_text("".join(lines[:-1]))
    with pytest.raises(RecordError, match=r"its end is missing\.$"):
        load(tmp_path / "r.jsonl", partial=True)


@pytest.mark.parametrize(
    ("content", "part"),
    [
        (b"\xff\xfe\x00", "no file that can be loaded"),
        (b"PAR1\x15\x04\x15", "no file that can be loaded"),
        (b"", "no file that can be loaded"),
        (gzip.compress(b"hello", mtime=0), "no file that can be loaded"),
        (b"\x1f\x8bxx", "no file that can be loaded"),
    ],
)
def test_files_of_other_programs_are_refused(content, part, tmp_path):
    """Whatever their bytes are."""
    (tmp_path / "file").write_bytes(content)
    with pytest.raises(RecordError, match=part):
        load(tmp_path / "file")


def test_packed_files_that_are_cut_or_damaged_are_refused(tmp_path):
    """Bytes that cannot be unpacked are told from a file that ends early."""
    save(training_step(), tmp_path / "r.jsonl.gz")
    packed = (tmp_path / "r.jsonl.gz").read_bytes()
    (tmp_path / "cut").write_bytes(packed[:-20])
    with pytest.raises(RecordError, match="is cut off"):
        load(tmp_path / "cut")
    damaged = packed[:-8] + bytes(8)
    (tmp_path / "damaged").write_bytes(damaged)
    with pytest.raises(RecordError, match="it cannot be unpacked"):
        load(tmp_path / "damaged")


def test_places_that_do_not_work_are_told_of(tmp_path):
    """Missing folders and files, and suffixes that say nothing."""
    trace = training_step().trace
    with pytest.raises(RecordError, match="cannot be read: No such file"):
        load(tmp_path / "nothing.jsonl")
    with pytest.raises(RecordError, match=r"cannot be written to .*: No such file"):
        trace.save(tmp_path / "no" / "trace.jsonl")
    with pytest.raises(RecordError, match="cannot be read: Is a directory"):
        load(tmp_path)
    for name in ("trace", "trace.yaml", "trace.parquet.gz"):
        with pytest.raises(UsageError, match=r"use one of \.json, \.jsonl"):
            trace.save(tmp_path / name)
    with pytest.raises(UsageError, match="format must be one of 'json', 'jsonl'"):
        trace.save(tmp_path / "trace", format="yaml")
    trace.save(tmp_path / "trace", format="jsonl")
    assert load(tmp_path / "trace") == trace
