# SPDX-License-Identifier: BSD-3-Clause
"""Traces as files: JSON, one record a line, that reads back to an equal trace.

The first line names the schema and its version, the last one says that the file
is whole. A file of a newer major version, of something else, or one that was cut
off is refused with a sentence that says so.

Values that JSON has no word for are objects with one key: ``{"complex": [1, 2]}``,
``{"float": "nan"}``, ``{"tensor": {...}}``, ``{"constant": {...}}``.
"""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import attrs
import cattrs
from cattrs.gen import make_dict_structure_fn, make_dict_unstructure_fn

from npu_dispatch_inspect import records
from npu_dispatch_inspect.errors import RecordError
from npu_dispatch_inspect.records import (
    Argument,
    Constant,
    Environment,
    ExceptionRecord,
    KernelChoice,
    OpRecord,
    SourceLocation,
    TensorSpec,
    Value,
)
from npu_dispatch_inspect.traces.ops import OpTrace

__all__ = ["MAJOR", "MINOR", "SCHEMA", "load", "save", "trace_lines"]

SCHEMA = "npu_dispatch_inspect/op_trace"
MAJOR = 1
"""Raised when a reader of before would misunderstand the file."""
MINOR = 0
"""Raised when fields are added, which a reader of before leaves out."""

_CLASSES = (
    Argument,
    Constant,
    Environment,
    ExceptionRecord,
    KernelChoice,
    OpRecord,
    SourceLocation,
    TensorSpec,
)


def save(trace: OpTrace, path: str | os.PathLike[str]) -> None:
    """Write a trace to a file; an existing file is replaced.

    Raises:
        RecordError: the file cannot be written.
    """
    try:
        with Path(path).open("w", encoding="ascii", newline="\n") as file:
            file.writelines(trace_lines(trace))
    except OSError as error:
        msg = f"The trace cannot be written to {path}: {error.strerror}."
        raise RecordError(msg) from error


def load(path: str | os.PathLike[str], *, partial: bool = False) -> OpTrace:
    """Read a trace from a file that `save` or ``sink=`` has written.

    Args:
        path: the file.
        partial: take what is there of a file that was cut off, as when the
            program was killed; the trace then has a note that says so.

    Raises:
        RecordError: the file is not such a file, is of a newer major version, or
            is cut off or damaged.
    """
    try:
        with Path(path).open(encoding="utf-8") as file:
            return read_lines(file, str(path), partial=partial)
    except OSError as error:
        msg = f"{path} cannot be read: {error.strerror}."
        raise RecordError(msg) from error
    except UnicodeDecodeError as error:
        msg = f"{path} is not a trace: it is not a text file."
        raise RecordError(msg) from error


def trace_lines(trace: OpTrace) -> Iterator[str]:
    """The lines of a trace's file."""
    yield header_line(
        engine=trace.engine, label=trace.label, environment=trace.environment
    )
    count = 0
    for record in trace.records:
        yield record_line(record)
        count += 1
    yield end_line(
        count=count,
        environment=trace.environment,
        truncated=trace.truncated,
        notes=trace.notes,
    )


def header_line(*, engine: str, label: str | None, environment: Environment) -> str:
    """The first line."""
    return _line(
        {
            "schema": SCHEMA,
            "version": f"{MAJOR}.{MINOR}",
            "engine": engine,
            "label": label,
            "environment": writer().unstructure(environment),
        }
    )


def record_line(record: OpRecord) -> str:
    """One record."""
    return _line(writer().unstructure(record))


def end_line(
    *,
    count: int,
    environment: Environment,
    truncated: bool,
    notes: tuple[str, ...],
) -> str:
    """The last line: the file is whole if it has ``count`` records.

    The environment once more, as a device may have come up meanwhile.
    """
    return _line(
        {
            "end": count,
            "environment": writer().unstructure(environment),
            "truncated": truncated,
            "notes": list(notes),
        }
    )


def _read_header(line: str, path: str) -> dict[str, Any]:
    try:
        header = json.loads(line)
    except ValueError:
        header = None
    if not isinstance(header, dict) or header.get("schema") != SCHEMA:
        msg = f"{path} is not a trace: its first line does not name {SCHEMA}."
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


def read_lines(lines: Iterable[str], path: str, *, partial: bool = False) -> OpTrace:
    """The trace of the lines that `trace_lines` has made; ``path`` is for messages."""
    reading = iter(lines)
    header = _read_header(next(reading, ""), path)
    converter = reader(header["exact"])
    read: list[OpRecord] = []
    ended = False
    number, line = 1, "\n"
    try:
        engine = converter.structure(header["engine"], str)
        label = header["label"] and converter.structure(header["label"], str)
        environment = converter.structure(header["environment"], Environment)
        truncated = False
        notes: tuple[str, ...] = ()
        for line in reading:
            number += 1
            if ended:
                msg = "something follows its end"
                raise ValueError(msg)  # noqa: TRY301 - one place words all damage
            content = json.loads(line)
            if not (isinstance(content, dict) and "end" in content):
                read.append(converter.structure(content, OpRecord))
                continue
            environment = converter.structure(content["environment"], Environment)
            truncated = converter.structure(content["truncated"], bool)
            notes = converter.structure(content["notes"], tuple[str, ...])
            if content["end"] != len(read):
                msg = f"{content['end']} records were written, {len(read)} are there"
                raise ValueError(msg)  # noqa: TRY301
            ended = True
    except (ValueError, KeyError, TypeError, cattrs.BaseValidationError) as error:
        # Only what is written last can be cut off in the middle of a line.
        if line.endswith("\n"):
            msg = f"{path} is damaged in line {number}: {_reason(error)}."
            raise RecordError(msg) from error
    if not ended:
        if not partial:
            msg = (
                f"{path} is cut off after {len(read)} records: its last line is "
                "missing; load(path, partial=True) takes what is there."
            )
            raise RecordError(msg)
        notes = (f"The file was cut off after {len(read)} records.",)
    read.sort(key=lambda record: record.index)
    return OpTrace(
        records=read,
        environment=environment,
        engine=engine,
        label=label,
        truncated=truncated,
        notes=notes,
    )


def _reason(error: BaseException) -> str:
    if isinstance(error, json.JSONDecodeError):
        return "it is no JSON"
    if isinstance(error, cattrs.BaseValidationError):
        return "; ".join(cattrs.transform_error(error)[:1])
    if isinstance(error, KeyError):
        return f"{error} is missing"
    return str(error)


def _line(content: dict[str, Any]) -> str:
    text = json.dumps(content, allow_nan=False, separators=(",", ":"))
    return text + "\n"


def _write_value(value: Value) -> Any:
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {"float": repr(value)}
    if isinstance(value, complex):
        return {"complex": [_write_value(value.real), _write_value(value.imag)]}
    if isinstance(value, tuple):
        return [_write_value(each) for each in value]
    return {
        "tensor" if isinstance(value, TensorSpec) else "constant": (
            writer().unstructure(value)
        )
    }


@cache
def _value_type() -> Any:
    """`Value` as attrs sees it in the fields, once their annotations are resolved."""
    for kind in _CLASSES:
        names = {**vars(sys.modules[kind.__module__]), **vars(records)}
        attrs.resolve_types(kind, globalns=names)
    return attrs.fields(Argument).value.type


@cache
def writer() -> cattrs.Converter:
    """The converter from records to JSON's types."""
    converter = cattrs.Converter(unstruct_collection_overrides={tuple: list})
    converter.register_unstructure_hook_func(
        lambda kind: kind == _value_type(), _write_value
    )
    for kind in _CLASSES:
        converter.register_unstructure_hook(
            kind,
            make_dict_unstructure_fn(kind, converter, _cattrs_omit_if_default=True),
        )
    return converter


def _exactly(*kinds: type) -> Callable[[Any, Any], Any]:
    """A hook that takes a value as it is or not at all: ``"5"`` is no number."""

    def structure(value: Any, _: Any) -> Any:
        if type(value) not in kinds:
            msg = f"{value!r} is not of type {kinds[0].__name__}"
            raise TypeError(msg)
        return value

    return structure


@cache
def reader(exact: bool) -> cattrs.Converter:  # noqa: FBT001 - a cache key
    """The converter back; ``exact`` refuses fields it does not know."""
    converter = cattrs.Converter(forbid_extra_keys=exact)
    for plain in (bool, int, str):
        converter.register_structure_hook(plain, _exactly(plain))
    converter.register_structure_hook_func(
        lambda kind: kind == int | str, _exactly(int, str)
    )
    converter.register_structure_hook_func(
        lambda kind: kind == int | str | None, _exactly(int, str, type(None))
    )

    def read_value(value: Any, _: Any = None) -> Value:
        if value is None or isinstance(value, (bool, int, float, str)):
            return value
        if isinstance(value, list):
            return tuple(read_value(each) for each in value)
        if isinstance(value, dict) and len(value) == 1:
            ((key, inner),) = value.items()
            if key == "tensor":
                return converter.structure(inner, TensorSpec)
            if key == "constant":
                return converter.structure(inner, Constant)
            if key == "float" and inner in {"nan", "inf", "-inf"}:
                return float(inner)
            if key == "complex" and isinstance(inner, list) and len(inner) == 2:  # noqa: PLR2004 - real and imaginary
                real, imaginary = (read_value(each) for each in inner)
                if isinstance(real, float) and isinstance(imaginary, float):
                    return complex(real, imaginary)
        msg = f"{value!r} is no value"
        raise ValueError(msg)

    converter.register_structure_hook_func(
        lambda kind: kind == _value_type(), read_value
    )
    for kind in _CLASSES:
        converter.register_structure_hook(
            kind,
            make_dict_structure_fn(kind, converter, _cattrs_forbid_extra_keys=exact),
        )
    return converter
