# SPDX-License-Identifier: BSD-3-Clause
"""Whatever is saved reads back equal, in every shape a file can have."""

from __future__ import annotations

import gzip
import io
import json
import subprocess
import sys

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from npu_dispatch_inspect import OpRecord, OpTrace, UsageError, load, save
from npu_dispatch_inspect.records import Argument, LogRecord
from npu_dispatch_inspect.serialization import KINDS, json_lines, json_text
from npu_dispatch_inspect.traces.log_summary import LogSummary
from npu_dispatch_inspect.traces.logs import LogTrace
from tests.report_examples import failed, training_step
from tests.serialization.examples import ENVIRONMENT, THINGS


def told(thing):
    """What is compared: the text, as not-a-number is not equal to itself."""
    if isinstance(thing, LogSummary):  # the order of counts does not matter
        return thing
    if hasattr(thing, "_key"):
        return repr(thing._key())
    if not hasattr(thing, "keys"):
        return repr(thing)
    return repr((tuple(thing), thing.keys, thing.environment, thing.complete))


def test_every_kind_is_tried():
    """A kind that is added gets a strategy."""
    assert set(THINGS) == {kind.name for kind in KINDS}


@pytest.mark.parametrize("name", THINGS)
@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_whatever_the_fields_hold_reads_back(name, data):
    """As one object and as lines; every part is strict JSON."""
    thing = data.draw(THINGS[name])
    whole = "".join(json_text(thing))
    lines = list(json_lines(thing))

    def refuse(constant):
        raise AssertionError(constant)

    document = json.loads(whole, parse_constant=refuse)
    parts = [json.loads(line, parse_constant=refuse) for line in lines]
    head = {
        key: value for key, value in document.items() if key not in ("records", "end")
    }
    assert [head, *document["records"], {"end": document["end"]}] == parts
    for text in (whole, "".join(lines), json.dumps(document, sort_keys=True)):
        assert told(load(io.BytesIO(text.encode()))) == told(thing)


@pytest.mark.parametrize(
    "suffix", [".json", ".jsonl", ".json.gz", ".jsonl.gz", ".JSON"]
)
@pytest.mark.parametrize(
    "thing",
    [
        training_step(),
        training_step().trace,
        training_step().logs,
        failed(),
        training_step().only("aten::addmm"),
    ],
    ids=["report", "trace", "logs", "failed", "part"],
)
def test_files_of_every_suffix_read_back(thing, suffix, tmp_path):
    """The object's own method writes it, whatever the shape."""
    path = tmp_path / f"file{suffix}"
    thing.save(path)
    assert load(path) == thing
    assert load(str(path)) == thing


def test_a_packed_file_is_the_same_every_time(tmp_path):
    """No name and no time are in it, so it can lie in a repository."""
    for name in ("a.json.gz", "b.json.gz"):
        save(training_step(), tmp_path / name)
    assert (tmp_path / "a.json.gz").read_bytes() == (
        tmp_path / "b.json.gz"
    ).read_bytes()
    assert gzip.decompress((tmp_path / "a.json.gz").read_bytes()) == "".join(
        json_text(training_step())
    ).encode("ascii")


def test_a_file_that_was_renamed_reads_back(tmp_path):
    """What is inside decides how it is read, not the name."""
    save(training_step(), tmp_path / "report.jsonl.gz")
    (tmp_path / "report.jsonl.gz").rename(tmp_path / "kept")
    assert load(tmp_path / "kept") == training_step()


def test_open_files_are_written_and_read():
    """As standard output and input, packed or not."""
    file = io.BytesIO()
    save(training_step(), file, format="jsonl")
    file.seek(0)
    assert load(file) == training_step()
    assert not file.closed
    assert load(io.BytesIO(gzip.compress(file.getvalue()))) == training_step()


def test_records_out_of_order_stay_so(tmp_path):
    """A query may give calls in any order; the file keeps it."""
    trace = training_step().trace
    turned = OpTrace(records=reversed(trace.records), environment=trace.environment)
    turned.save(tmp_path / "trace.jsonl")
    assert load(tmp_path / "trace.jsonl") == turned


def test_bytes_that_are_no_text_are_kept(tmp_path):
    """A log line may hold any bytes, as surrogates; so may the raw log."""
    raw = b"\xe9t\xe9 \xff\n"
    text = raw.decode("utf-8", "surrogateescape")
    trace = LogTrace(records=[LogRecord(index=0, offset=0, text=text)])
    trace.save(tmp_path / "x.json")
    trace.save(tmp_path / "x.log")
    assert load(tmp_path / "x.json") == trace
    assert (tmp_path / "x.log").read_bytes() == raw


def test_the_document_is_for_people(tmp_path):
    """Short things stay on one line, long lists of numbers fill lines."""
    numbers = tuple(range(40))
    record = OpRecord(
        index=0, name="aten::x", inputs=(Argument(name="n", value=numbers),)
    )
    OpTrace(records=[record], environment=ENVIRONMENT).save(tmp_path / "x.json")
    assert (tmp_path / "x.json").read_text() == (
        "{\n"
        '  "schema": "npu_dispatch_inspect/op_trace",\n'
        '  "version": "2.0",\n'
        '  "environment": {"tool": "0", "python": "3", "platform": "x", "switches": [["A", "1"]]},\n'
        '  "engine": "dispatch_mode",\n'
        '  "records": [\n'
        "    {\n"
        '      "record": "OpRecord",\n'
        '      "index": 0,\n'
        '      "name": "aten::x",\n'
        '      "inputs": [\n'
        "        {\n"
        '          "name": "n",\n'
        '          "value": [\n'
        "            0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23,\n"
        "            24, 25, 26, 27, 28, 29, 30, 31, 32, 33, 34, 35, 36, 37, 38, 39\n"
        "          ]\n"
        "        }\n"
        "      ]\n"
        "    }\n"
        "  ],\n"
        '  "end": {"records": 1}\n'
        "}\n"
    )


def test_a_long_document_is_read_in_pieces(tmp_path):
    """Records that lie across the pieces that are read, numbers cut in two."""
    records = tuple(
        OpRecord(
            index=index,
            name="aten::x",
            start_ns=10**15 + index,
            inputs=(Argument(name="a" * (index % 50), value=3.25e-7 * index),),
        )
        for index in range(3000)
    )
    trace = OpTrace(records=records, environment=ENVIRONMENT)
    trace.save(tmp_path / "x.json")
    assert (tmp_path / "x.json").stat().st_size > 4 << 16
    assert load(tmp_path / "x.json") == trace
    compact = json.dumps(json.loads((tmp_path / "x.json").read_text()))
    (tmp_path / "x.json").write_text(compact)
    assert load(tmp_path / "x.json") == trace


def test_files_load_where_torch_is_not(tmp_path):
    """Neither torch nor pandas and the like are imported."""
    save(training_step(), tmp_path / "report.json")
    code = (
        "import sys; from npu_dispatch_inspect import load, save; "
        f"report = load({str(tmp_path / 'report.json')!r}); "
        f"report.save({str(tmp_path / 'again.jsonl')!r}); "
        "print(len(report.trace), {'torch', 'pandas', 'pyarrow', 'polars'} & set(sys.modules))"
    )
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert run.stdout.split() == ["12", "set()"]


def test_what_has_no_file_is_said(tmp_path):
    """The sentence lists what has, and no file is left behind."""
    with pytest.raises(UsageError, match="A dict cannot be saved: these can be: Cap"):
        save({}, tmp_path / "x.json")
    assert not (tmp_path / "x.json").exists()
