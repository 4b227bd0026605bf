# SPDX-License-Identifier: BSD-3-Clause
"""Reports as files: JSON, one record a line, that reads back to an equal report.

The trace is written as `serialization` writes it, torch_npu's lines follow, one
record each under the name of its class. Chains are not written: they are joined
again, from the same facts, when the file is read.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

import attrs
import cattrs
from cattrs.gen import make_dict_structure_fn, make_dict_unstructure_fn

from npu_dispatch_inspect import records, serialization
from npu_dispatch_inspect.chains import join
from npu_dispatch_inspect.errors import RecordError
from npu_dispatch_inspect.records import MissingReason, TaskRecord
from npu_dispatch_inspect.records import chains as chain_records
from npu_dispatch_inspect.records import logs as log_records
from npu_dispatch_inspect.records.chains import Failure, Launch, NativeCall
from npu_dispatch_inspect.records.logs import LogRecord, QueueState
from npu_dispatch_inspect.traces.logs import LogTrace
from npu_dispatch_inspect.traces.report import DispatchReport

__all__ = ["MAJOR", "MINOR", "SCHEMA", "load_report", "save_report"]

SCHEMA = "npu_dispatch_inspect/dispatch_report"
MAJOR = 1
"""Raised when a reader of before would misunderstand the file."""
MINOR = 0
"""Raised when fields are added, which a reader of before leaves out."""

_LINES = {
    kind.__name__: kind
    for kind in vars(log_records).values()
    if isinstance(kind, type) and issubclass(kind, LogRecord)
}
"""Classes of log records, by the name under which they are written."""

_CLASSES: tuple[type, ...] = (
    log_records.LoggedArgument,
    log_records.LogOrigin,
    log_records.QueueTask,
    log_records.TaskRun,
    TaskRecord,
    MissingReason,
    *_LINES.values(),
    Launch,
    Failure,
    NativeCall,
)


def save_report(report: DispatchReport, path: str | os.PathLike[str]) -> None:
    """Write a report to a file; an existing file is replaced.

    Of a part (`DispatchReport.only`) the whole is written.

    Raises:
        RecordError: the file cannot be written.
    """
    try:
        with Path(path).open("w", encoding="ascii", newline="\n") as file:
            file.writelines(_lines(report))
    except OSError as error:
        msg = f"The report cannot be written to {path}: {error.strerror}."
        raise RecordError(msg) from error


def load_report(path: str | os.PathLike[str]) -> DispatchReport:
    """Read a report from a file that `save_report` or ``run --save`` has written.

    Raises:
        RecordError: the file is not such a file, is of a newer major version, or
            is cut off or damaged.
    """
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines(keepends=True)
    except OSError as error:
        msg = f"{path} cannot be read: {error.strerror}."
        raise RecordError(msg) from error
    except UnicodeDecodeError as error:
        msg = f"{path} is not a report: it is not a text file."
        raise RecordError(msg) from error
    header = _header(lines[0] if lines else "", str(path))
    if not _ended(lines):
        msg = f"{path} is cut off: its last line is missing."
        raise RecordError(msg)
    try:
        return _read(header, lines[1:], str(path))
    except (
        ValueError,
        KeyError,
        IndexError,
        TypeError,
        cattrs.BaseValidationError,
    ) as error:
        msg = f"{path} is damaged: a record in it is not as it was written."
        raise RecordError(msg) from error


def _lines(report: DispatchReport) -> Iterator[str]:
    writer = _writer()
    trace, logs = report.trace, report.logs
    told = None
    if logs is not None:
        # As it was given: the property `incomplete` adds what the records tell.
        plain: Any = logs._key()
        log_lines, environment, label, incomplete, missing = plain
        told = {
            "records": len(log_lines),
            "environment": writer.unstructure(environment),
            "label": label,
            "incomplete": list(incomplete),
            "missing": writer.unstructure(missing, tuple[MissingReason, ...]),
        }
    yield _line(
        {
            "schema": SCHEMA,
            "version": f"{MAJOR}.{MINOR}",
            "calls": len(trace),
            "logs": told,
        }
    )
    yield from serialization.trace_lines(trace)
    for record in logs.records if logs is not None else ():
        yield _line({type(record).__name__: writer.unstructure(record)})
    native = report.native_calls
    yield _line(
        {
            "failure": report.failure and writer.unstructure(report.failure),
            "native_calls": None
            if native is None
            else writer.unstructure(native, tuple[NativeCall, ...]),
            "notes": list(report.notes),
        }
    )


def _header(line: str, path: str) -> dict[str, Any]:
    try:
        header = json.loads(line)
    except ValueError:
        header = None
    if not isinstance(header, dict) or header.get("schema") != SCHEMA:
        msg = f"{path} is not a report: its first line does not name {SCHEMA}."
        raise RecordError(msg)
    major, _, minor = str(header.get("version")).partition(".")
    if not (major.isdecimal() and minor.isdecimal()):
        msg = f"{path} is damaged in line 1: version {header.get('version')!r}."
        raise RecordError(msg)
    if int(major) > MAJOR:
        msg = (
            f"{path} was written by a newer release (format {major}.{minor}, this one "
            f"reads {MAJOR}); upgrade npu-dispatch-inspect to read it."
        )
        raise RecordError(msg)
    header["exact"] = (int(major), int(minor)) <= (MAJOR, MINOR)
    return header


def _read(header: dict[str, Any], lines: list[str], path: str) -> DispatchReport:
    # Any: a union of types is a type to cattrs, not to a type checker.
    reader: Any = _reader(header["exact"])
    reading = iter(lines)
    # A head, the calls, an end: as in a file of their own.
    trace = serialization.read_lines(islice(reading, header["calls"] + 2), path)
    told = header["logs"]
    logs = None
    if told is not None:
        found = [
            _log_record(json.loads(line), reader)
            for line in islice(reading, told["records"])
        ]
        logs = LogTrace(
            records=found,
            environment=reader.structure(
                told["environment"], records.Environment | None
            ),
            label=reader.structure(told["label"], str | None),
            incomplete=reader.structure(told["incomplete"], tuple[str, ...]),
            missing=reader.structure(told["missing"], tuple[MissingReason, ...]),
        )
    end = json.loads(next(reading, ""))
    if next(reading, None) is not None:
        msg = "the end is not where it should be"
        raise ValueError(msg)
    native = reader.structure(end["native_calls"], tuple[NativeCall, ...] | None)
    joined = join(trace, logs, native)
    return DispatchReport(
        chains=joined.chains,
        trace=trace,
        logs=logs,
        failure=reader.structure(end["failure"], Failure | None),
        logger_calls=joined.logger_calls,
        native_calls=native,
        notes=reader.structure(end["notes"], tuple[str, ...]),
    )


def _log_record(content: dict[str, Any], reader: cattrs.Converter) -> LogRecord:
    ((name, fields),) = content.items()
    record: LogRecord = reader.structure(fields, _LINES[name])
    return record


def _ended(lines: list[str]) -> bool:
    """The last line is that of a report: the trace inside it has an end as well."""
    try:
        end = json.loads(lines[-1])
    except ValueError:
        return False
    return isinstance(end, dict) and "failure" in end


def _line(content: dict[str, Any]) -> str:
    return json.dumps(content, allow_nan=False, separators=(",", ":")) + "\n"


@cache
def _resolved() -> tuple[type, ...]:
    """The classes, once the annotations of their fields are types."""
    for kind in _CLASSES:
        names = {**vars(records), **vars(log_records), **vars(chain_records)}
        attrs.resolve_types(kind, globalns=names)
    return _CLASSES


@cache
def _writer() -> cattrs.Converter:
    converter = serialization.writer().copy()
    converter.register_unstructure_hook(QueueState, list)
    for kind in _resolved():
        converter.register_unstructure_hook(
            kind,
            make_dict_unstructure_fn(kind, converter, _cattrs_omit_if_default=True),
        )
    return converter


@cache
def _reader(exact: bool) -> cattrs.Converter:  # noqa: FBT001 - a cache key
    converter = serialization.reader(exact).copy()
    converter.register_structure_hook(QueueState, lambda value, _: QueueState(*value))
    for kind in _resolved():
        converter.register_structure_hook(
            kind,
            make_dict_structure_fn(kind, converter, _cattrs_forbid_extra_keys=exact),
        )
    return converter
