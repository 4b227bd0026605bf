# SPDX-License-Identifier: BSD-3-Clause
"""Tables: the same rows in every format, read back with what people use."""

from __future__ import annotations

import csv
import json
import re
import sys
from pathlib import Path

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from npu_dispatch_inspect import (
    UsageError,
    save,
    to_arrow,
    to_pandas,
    to_polars,
    to_rows,
)
from npu_dispatch_inspect.export._columns import TABLES, table_of
from npu_dispatch_inspect.records import LogRecord
from npu_dispatch_inspect.serialization import KINDS
from npu_dispatch_inspect.traces.logs import LogTrace
from tests.report_examples import failed, training_step
from tests.serialization.examples import THINGS

GUIDE = Path(__file__).parents[2] / "docs" / "files.md"
TYPES = {"int": int, "str": str, "bool": bool, "list": list}


def test_every_kind_has_a_table():
    """What can be saved at all can be had as rows."""
    assert {table.holds for table in TABLES} == {kind.holds for kind in KINDS}


def test_the_guide_lists_every_column():
    """Names and order are promised there."""
    told = re.findall(
        r"^\| `(\w+)` \| `(\w+)` \| (.*) \|$", GUIDE.read_text(), re.MULTILINE
    )
    assert told == [
        (
            table.holds.__name__,
            table.name,
            ", ".join(f"`{c.name}`" for c in table.columns),
        )
        for table in TABLES
    ]


@pytest.mark.parametrize("name", THINGS)
@settings(max_examples=10, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_rows_have_the_types_of_their_columns(name, data):
    """And every data frame has the same rows."""
    thing = data.draw(THINGS[name])
    for table in (each for each in TABLES if isinstance(thing, each.holds)):
        rows = list(to_rows(thing, table.name))
        for row in rows:
            assert list(row) == [column.name for column in table.columns]
            for column in table.columns:
                value = row[column.name]
                assert value is None or type(value) is TYPES[column.type]
        assert to_arrow(thing, table.name).to_pylist() == rows
        assert to_polars(thing, table.name).to_dicts() == rows
        frame = to_pandas(thing, table.name)
        back = frame.astype(object).where(frame.notna(), None).to_dict("records")
        assert back == rows


def test_calls_of_a_report():
    """The call with its kernel, what it came to, and what it launched."""
    rows = list(to_rows(training_step()))
    assert len(rows) == 12
    picked = ("index", "name", "module", "kernel_key", "last_kernel_site", "verdict")
    assert [tuple(row[key] for key in picked) for row in rows[2:4]] == [
        (
            2,
            "aten::linear",
            "fc1",
            "AutogradPrivateUse1",
            "RegisterCompositeImplicitAutograd_0.cpp:5218",
            "composite",
        ),
        (
            3,
            "aten::addmm",
            "fc1",
            "AutogradPrivateUse1",
            "RegisterNPU.cpp:34325",
            "aclnn",
        ),
    ]
    assert rows[3]["launches"] == ["aclnnAddmm"]
    assert rows[3]["input_dtypes"] == ["float16", "float32"]
    assert (rows[3]["source_line"], rows[3]["source_function"]) == (5, "step")


def test_launches_of_a_report():
    """One row a launch, in order, with the call that made it."""
    rows = list(to_rows(training_step(), "launches"))
    assert [(row["name"], row["call"], row["module"]) for row in rows] == [
        ("aclnnInplaceCopy", "aten::_to_copy", "fc1"),
        ("aclnnAddmm", "aten::addmm", "fc1"),
        ("aclnnInplaceCopy", "aten::_to_copy", "fc2"),
        ("aclnnAddmm", "aten::addmm", "fc2"),
        ("aclnnMm", "aten::mm", "fc2"),
    ]
    assert rows[1]["arguments"] == "a0=f16[2, 8], a1=f32[8, 8], a2=f32[2, 8]"


def test_csv_reads_back(tmp_path):
    """Names first, nothing for what is missing, lists joined, quotes where needed."""
    report = failed()
    save(report, tmp_path / "x.csv")
    with (tmp_path / "x.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))

    def cell(value):
        if value is None:
            return ""
        if isinstance(value, bool):
            return str(value).lower()
        return "; ".join(value) if isinstance(value, list) else str(value)

    assert rows == [
        {key: cell(value) for key, value in row.items()} for row in to_rows(report)
    ]


@pytest.mark.parametrize("suffix", [".parquet", ".arrow", ".feather"])
def test_polars_reads_the_files_back(suffix, tmp_path):
    """Typed columns, lists among them, equal to the data frame made directly."""
    path = tmp_path / f"x{suffix}"
    save(training_step(), path)
    read = pl.read_parquet if suffix == ".parquet" else pl.read_ipc
    frame = read(path.read_bytes())
    assert frame.equals(to_polars(training_step()))
    assert frame.schema == to_polars(training_step()).schema


def test_duckdb_reads_parquet_and_csv_back(tmp_path):
    """And answers questions about them in SQL."""
    save(training_step(), tmp_path / "x.parquet")
    save(training_step(), tmp_path / "x.csv")
    for suffix in ("parquet", "csv"):
        counts = duckdb.sql(
            f"select verdict, count(*) from '{tmp_path}/x.{suffix}' "
            "group by verdict order by verdict"
        ).fetchall()
        assert counts == [
            ("CPU fallback", 1),
            ("aclnn", 5),
            ("composite", 4),
            ("copy", 1),
            ("unknown", 1),
        ]
    launches = duckdb.sql(
        f"select unnest(launches) as launch from '{tmp_path}/x.parquet'"
    ).fetchall()
    assert [each for (each,) in launches] == [
        "aclnnInplaceCopy",
        "aclnnAddmm",
        "aclnnInplaceCopy",
        "aclnnAddmm",
        "aclnnMm",
    ]
    rows = duckdb.sql(f"from '{tmp_path}/x.parquet'").fetchall()
    assert rows == [tuple(row.values()) for row in to_rows(training_step())]


def test_jsonl_is_read_by_duckdb_as_well(tmp_path):
    """One record a line, each with the name of its class."""
    save(training_step(), tmp_path / "x.jsonl")
    names = duckdb.sql(
        f"select name from read_json('{tmp_path}/x.jsonl', format='newline_delimited') "
        "where record = 'AclnnRecord' order by index"
    ).fetchall()
    assert [name for (name,) in names] == list(training_step().logs.names)


def test_parquet_says_where_its_rows_are_from(tmp_path):
    """Kind, table and environment are in the file's metadata."""
    save(training_step().trace, tmp_path / "x.parquet")
    metadata = pq.read_schema(tmp_path / "x.parquet").metadata
    told = json.loads(metadata[b"npu_dispatch_inspect"])
    assert (told["kind"], told["table"]) == ("op_trace", "calls")
    assert told["environment"]["device"] == "stand-in"


def test_long_tables_are_written_in_batches(tmp_path):
    """More rows than one batch has, all of them there."""
    lines = [LogRecord(index=n, offset=n, text=f"line {n}\n") for n in range(20_000)]
    logs = LogTrace(records=lines)
    for suffix in (".parquet", ".csv", ".arrow"):
        save(logs, tmp_path / f"x{suffix}")
    assert pq.ParquetFile(tmp_path / "x.parquet").num_row_groups == 3
    frame = pl.read_parquet(tmp_path / "x.parquet")
    assert frame["message"].to_list() == [f"line {n}" for n in range(20_000)]
    assert len(pl.read_csv(tmp_path / "x.csv")) == 20_000
    assert pa.ipc.open_file(tmp_path / "x.arrow").num_record_batches == 3


def test_bytes_that_are_no_text_are_marked(tmp_path):
    """A data frame holds nothing but text."""
    text = b"\xe9t\xe9\n".decode("utf-8", "surrogateescape")
    logs = LogTrace(records=[LogRecord(index=0, offset=0, text=text)])
    assert next(to_rows(logs))["message"] == "\ufffdt\ufffd"
    assert to_polars(logs)["message"].to_list() == ["\ufffdt\ufffd"]


@pytest.mark.parametrize(
    ("make", "package", "sentence"),
    [
        (to_arrow, "pyarrow", r"Arrow tables need pyarrow, .*\[arrow\]'\.$"),
        (to_pandas, "pandas", r"Data frames of pandas need pandas, .*\[pandas\]'\.$"),
        (to_polars, "polars", r"Data frames of polars need polars, .*\[polars\]'\.$"),
        (
            lambda thing: save(thing, "x.parquet"),
            "pyarrow",
            (
                r"Parquet files need pyarrow, which is not installed: pip install "
                r"'npu-dispatch-inspect\[arrow\]'\.$"
            ),
        ),
        (lambda thing: save(thing, "x.arrow"), "pyarrow", r"Arrow files need pyarrow"),
    ],
)
def test_a_missing_extra_is_named(make, package, sentence, monkeypatch, tmp_path):
    """One sentence with the command, and no file left behind."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(UsageError, match=sentence):
        make(training_step())
    assert not list(tmp_path.iterdir())


def test_a_table_that_is_not_there_is_told_of():
    """The sentence names those that are."""
    with pytest.raises(
        UsageError, match="no table 'x': choose one of 'calls', 'launches'"
    ):
        to_rows(training_step(), "x")
    with pytest.raises(UsageError, match="A dict has no rows"):
        table_of({})
