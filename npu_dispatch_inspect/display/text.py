# SPDX-License-Identifier: BSD-3-Clause
"""Plain text for people: tables and the line that says where a trace was made."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath
from typing import TYPE_CHECKING

from npu_dispatch_inspect.records import (
    Argument,
    Constant,
    Environment,
    OpRecord,
    SourceLocation,
    TensorSpec,
    Value,
)

if TYPE_CHECKING:
    from npu_dispatch_inspect.traces.ops import OpTrace

__all__ = [
    "environment_line",
    "inputs_text",
    "line_text",
    "module_text",
    "op_table",
    "op_text",
    "source_text",
    "table",
    "value_text",
]

HEAD_ROWS = 150
TAIL_ROWS = 30
"""A longer trace shows so many rows from its beginning and its end."""
MAX_CELL = 64
MAX_ITEMS = 4
"""So many elements of a list are shown."""


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns aligned to the left, two spaces apart, no trailing spaces."""
    cut = [[_cut(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(header, *cut, strict=True)]
    return "\n".join(
        "  ".join(
            cell.ljust(width) for cell, width in zip(row, widths, strict=True)
        ).rstrip()
        for row in [list(header), *cut]
    )


def _cut(text: str) -> str:
    text = text.replace("\n", " ")
    return text if len(text) <= MAX_CELL else f"{text[: MAX_CELL - 3]}..."


def value_text(value: Value) -> str:
    """One value: tensors as ``f32[2, 3]``, text in quotes, long lists cut."""
    if isinstance(value, tuple):
        shown = [value_text(each) for each in value[:MAX_ITEMS]]
        if len(value) > MAX_ITEMS:
            shown.append(f"... {len(value) - MAX_ITEMS} more")
        return f"[{', '.join(shown)}]"
    if isinstance(value, (TensorSpec, Constant)):
        return str(value)
    return repr(value)


def op_text(record: OpRecord) -> str:
    """The call on one line: ``aten::add.Tensor(f32[2], 1) -> f32[2]``."""
    return f"{record.qualified_name}({inputs_text(record)}){_result(record)}"


def inputs_text(record: OpRecord) -> str:
    """The arguments; those that were left out are not shown."""
    # Positional arguments come first in every schema; a name is only needed from
    # the first argument that was left out.
    shown = []
    named = False
    for each in record.inputs:
        if each.default:
            named = True
            continue
        shown.append(_argument(each, named=named))
    return ", ".join(shown)


def _argument(argument: Argument, *, named: bool) -> str:
    text = value_text(argument.value)
    return f"{argument.name}={text}" if named else text


def _result(record: OpRecord) -> str:
    if record.exception is not None:
        return f" raised {record.exception.type}"
    if not record.outputs:
        return ""
    return f" -> {', '.join(value_text(each) for each in record.outputs)}"


def op_table(trace: OpTrace, *, max_rows: int | None = None) -> str:
    """A trace as a table: number, phase, operator, tensors, module, user's line.

    The text is the same between runs and machines: no ids, times, addresses or
    absolute paths.

    Args:
        trace: what to show.
        max_rows: rows at most; None shows `HEAD_ROWS` and `TAIL_ROWS`.
    """
    records = trace.records
    head, tail = HEAD_ROWS, TAIL_ROWS
    if max_rows is not None:
        head, tail = max_rows, 0
    hidden = max(0, len(records) - head - tail)
    shown = (
        records if not hidden else (*records[:head], *records[len(records) - tail :])
    )
    header = ("#", "phase", "operator", "inputs -> outputs", "module", "line")
    lines = table(header, [_row(each) for each in shown]).split("\n")
    if hidden:
        lines.insert(1 + head, f"... {hidden} more")
    count = len(records)
    lines.append(f"{count} operator call{'' if count == 1 else 's'}")
    if trace.truncated:
        lines[-1] += ", truncated: max_ops was reached"
    lines.extend(f"note: {note}" for note in trace.notes)
    return "\n".join(lines)


def _row(record: OpRecord) -> tuple[str, ...]:
    return (
        str(record.index),
        record.phase.short,
        "  " * record.depth + record.qualified_name,
        f"{inputs_text(record)}{_result(record)}",
        module_text(record),
        line_text(record),
    )


def module_text(record: OpRecord) -> str:
    """``fc (Linear)``; empty outside any module."""
    if record.module is None:
        return ""
    name = record.module or record.root or ""
    if record.module_type in (None, name):
        return name
    return f"{name} ({record.module_type})"


def line_text(record: OpRecord) -> str:
    """``net.py:12``; empty where it is not known."""
    return source_text(record.source)


def source_text(source: SourceLocation | None) -> str:
    """``net.py:12``; empty where it is not known."""
    if source is None:
        return ""
    # The path's last part only: where the program lies differs by machine.
    return f"{PurePath(source.file).name}:{source.line}"


def environment_line(environment: Environment) -> str:
    """``device: stand-in (Ascend910B1), nothing is computed · torch 2.13.0 · ...``."""
    device = environment.device or "unknown"
    if environment.soc:
        device += f" ({environment.soc})"
    if environment.stand_in and environment.values == "none":
        device += ", nothing is computed"
    parts = [f"device: {device}"]
    if environment.torch:
        parts.append(f"torch {environment.torch}")
    if environment.torch_npu:
        parts.append(f"torch_npu {environment.torch_npu}")
    if environment.jit_compile is not None:
        parts.append(f"jit_compile {'on' if environment.jit_compile else 'off'}")
    parts.extend(f"{name}={value}" for name, value in environment.switches)
    return " · ".join(parts)
