# SPDX-License-Identifier: BSD-3-Clause
"""Traces, reports, tables and graphs as rows: CSV, Parquet, Arrow and data frames."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterator
from importlib import import_module
from itertools import islice
from typing import TYPE_CHECKING, Any, BinaryIO

from npu_dispatch_inspect.errors import UsageError
from npu_dispatch_inspect.export._columns import Table, table_of
from npu_dispatch_inspect.serialization import kind_of, plain

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    import pyarrow as pa

__all__ = [
    "arrow_file",
    "csv_text",
    "parquet_file",
    "to_arrow",
    "to_pandas",
    "to_polars",
    "to_rows",
]

BATCH = 8192
"""Rows of a batch of Arrow and Parquet files: as many are in memory at once."""
_LINES = 256
"""Rows of a piece of a CSV file."""
_SEPARATOR = "; "
"""Between the items of a list in CSV, which has no lists."""


def to_rows(thing: Any, table: str | None = None) -> Iterator[dict[str, Any]]:
    """The rows of an object as plain dictionaries, one at a time.

    Values are int, str, bool, a list of str, or None. The columns have the same
    names and order in every format; the guide on files lists them.

    Args:
        thing: an `OpTrace`, `DispatchReport`, `LogTrace`, `DispatchTable`,
            `RegistrationTrace`, `GraphSet`, `CapturedGraph`, `Coverage`,
            `Explanation` or `LogSummary`.
        table: which of its tables: ``"calls"`` or ``"launches"`` of a report,
            ``"lines"``, ``"launches"`` or ``"tasks"`` of a log, ``"kernels"``,
            ``"registrations"`` or ``"operators"`` of a dispatch table. None takes
            the first.

    Returns:
        One dictionary for each call, line, kernel or node; names as keys, plain values.

    Raises:
        UsageError: it has no such table.

    Example:
        >>> from npu_dispatch_inspect import Environment, OpRecord, OpTrace, to_rows
        >>> where = Environment(tool="0", python="3.11", platform="linux-x86_64")
        >>> trace = OpTrace(records=[OpRecord(index=0, name="aten::t")], environment=where)
        >>> [row["name"] for row in to_rows(trace)]
        ['aten::t']
    """
    chosen = table_of(thing, table)
    columns = [(each.name, each.get) for each in chosen.columns]
    return (
        {name: _clean(get(item)) for name, get in columns}
        for item in chosen.items(thing)
    )


def to_pandas(thing: Any, table: str | None = None) -> pd.DataFrame:
    """The rows as a pandas data frame, with types that can be missing.

    Args:
        thing: as of `to_rows`.
        table: as of `to_rows`.

    Returns:
        A data frame with the columns of `to_rows`.

    Raises:
        UsageError: it has no such table, or pandas is not installed.

    Example:
        >>> import torch
        >>> from npu_dispatch_inspect import to_pandas, trace_ops
        >>> with trace_ops() as trace:
        ...     y = torch.ones(2).exp()
        >>> list(to_pandas(trace)["name"])
        ['aten::ones', 'aten::exp']
    """
    chosen = table_of(thing, table)
    pandas = _extra("pandas", "Data frames of pandas", "pandas")
    types = {"int": "Int64", "str": "string", "bool": "boolean", "list": "object"}
    values = _by_column(thing, chosen)
    frame: pd.DataFrame = pandas.DataFrame(
        {
            each.name: pandas.Series(values[each.name], dtype=types[each.type])
            for each in chosen.columns
        }
    )
    return frame


def to_polars(thing: Any, table: str | None = None) -> pl.DataFrame:
    """The rows as a polars data frame.

    Args:
        thing: as of `to_rows`.
        table: as of `to_rows`.

    Returns:
        A data frame with the columns of `to_rows`; lists stay lists.

    Raises:
        UsageError: it has no such table, or polars is not installed.

    Example:
        >>> import torch
        >>> from npu_dispatch_inspect import to_polars, trace_ops
        >>> with trace_ops() as trace:
        ...     y = torch.ones(2).exp()
        >>> to_polars(trace)["name"].to_list()
        ['aten::ones', 'aten::exp']
    """
    chosen = table_of(thing, table)
    polars = _extra("polars", "Data frames of polars", "polars")
    types = {
        "int": polars.Int64,
        "str": polars.String,
        "bool": polars.Boolean,
        "list": polars.List(polars.String),
    }
    schema = {each.name: types[each.type] for each in chosen.columns}
    frame: pl.DataFrame = polars.DataFrame(_by_column(thing, chosen), schema=schema)
    return frame


def to_arrow(thing: Any, table: str | None = None) -> pa.Table:
    """The rows as an Arrow table.

    Args:
        thing: as of `to_rows`.
        table: as of `to_rows`.

    Returns:
        A table with the columns of `to_rows`; lists stay lists.

    Raises:
        UsageError: it has no such table, or pyarrow is not installed.

    Example:
        >>> import torch
        >>> from npu_dispatch_inspect import to_arrow, trace_ops
        >>> with trace_ops() as trace:
        ...     y = torch.ones(2).exp()
        >>> to_arrow(trace).column("name").to_pylist()
        ['aten::ones', 'aten::exp']
    """
    chosen = table_of(thing, table)
    arrow = _extra("pyarrow", "Arrow tables", "arrow")
    schema = _schema(arrow, thing, chosen)
    made: pa.Table = arrow.Table.from_batches(
        _batches(arrow, thing, chosen, schema), schema
    )
    return made


def csv_text(thing: Any) -> Iterator[str]:
    """The pieces of a CSV file: names first; lists are joined by semicolons."""
    chosen = table_of(thing)

    def pieces() -> Iterator[str]:
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(each.name for each in chosen.columns)
        rows = to_rows(thing, chosen.name)
        while True:
            yield text.getvalue()
            text.seek(0)
            text.truncate()
            batch = list(islice(rows, _LINES))
            if not batch:
                return
            writer.writerows(map(_cell, row.values()) for row in batch)

    return pieces()


def parquet_file(thing: Any) -> Callable[[BinaryIO], None]:
    """What writes a Parquet file."""
    chosen = table_of(thing)
    arrow = _extra("pyarrow", "Parquet files", "arrow")
    parquet = import_module("pyarrow.parquet")
    schema = _schema(arrow, thing, chosen)
    return _streamed(
        arrow, thing, chosen, schema, lambda file: parquet.ParquetWriter(file, schema)
    )


def arrow_file(thing: Any) -> Callable[[BinaryIO], None]:
    """What writes an Arrow file (IPC, also called Feather version 2)."""
    chosen = table_of(thing)
    arrow = _extra("pyarrow", "Arrow files", "arrow")
    schema = _schema(arrow, thing, chosen)
    return _streamed(
        arrow, thing, chosen, schema, lambda file: arrow.ipc.new_file(file, schema)
    )


def _streamed(
    arrow: Any,
    thing: Any,
    table: Table[Any],
    schema: Any,
    open_writer: Callable[[BinaryIO], Any],
) -> Callable[[BinaryIO], None]:
    def write(file: BinaryIO) -> None:
        with open_writer(file) as writer:
            for batch in _batches(arrow, thing, table, schema):
                writer.write_batch(batch)

    return write


def _batches(arrow: Any, thing: Any, table: Table[Any], schema: Any) -> Iterator[Any]:
    rows = to_rows(thing, table.name)
    while batch := list(islice(rows, BATCH)):
        yield arrow.RecordBatch.from_pylist(batch, schema=schema)


def _schema(arrow: Any, thing: Any, table: Table[Any]) -> Any:
    """Columns with types, and in the metadata what the rows are of and where made."""
    types = {
        "int": arrow.int64(),
        "str": arrow.string(),
        "bool": arrow.bool_(),
        "list": arrow.list_(arrow.string()),
    }
    environment = getattr(thing, "environment", None)
    told = {"kind": kind_of(thing).name, "table": table.name}
    if environment is not None:
        told["environment"] = plain(environment)
    return arrow.schema(
        [(each.name, types[each.type]) for each in table.columns],
        metadata={"npu_dispatch_inspect": json.dumps(told)},
    )


def _by_column(thing: Any, table: Table[Any]) -> dict[str, list[Any]]:
    values: dict[str, list[Any]] = {each.name: [] for each in table.columns}
    for row in to_rows(thing, table.name):
        for name, value in row.items():
            values[name].append(value)
    return values


def _clean(value: Any) -> Any:
    """Bytes that are no text are marked: a data frame holds nothing but text."""
    if isinstance(value, str) and not value.isascii():
        return value.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    return value


def _cell(value: Any) -> Any:
    if isinstance(value, bool):
        return "true" if value else "false"
    return _SEPARATOR.join(value) if isinstance(value, list) else value


def _extra(module: str, what: str, extra: str) -> Any:
    try:
        return import_module(module)
    except ImportError as error:
        msg = (
            f"{what} need {module}, which is not installed: "
            f"pip install 'npu-dispatch-inspect[{extra}]'."
        )
        raise UsageError(msg) from error
