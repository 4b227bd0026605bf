# SPDX-License-Identifier: BSD-3-Clause
"""The words of records: values, calls, places, and where a trace was made."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath

from npu_dispatch_inspect.display.document import MAX_CELL, Span
from npu_dispatch_inspect.records import (
    Argument,
    Constant,
    Environment,
    OpRecord,
    Phase,
    SourceLocation,
    TensorSpec,
    Value,
)

__all__ = [
    "environment_line",
    "inputs_text",
    "line_text",
    "module_text",
    "op_text",
    "phase_style",
    "result_text",
    "source_text",
    "table",
    "value_text",
]

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
    text = Span(text).text
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
    return f"{record.qualified_name}({inputs_text(record)}){result_text(record)}"


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


def result_text(record: OpRecord) -> str:
    """`` -> f32[2]`` or `` raised RuntimeError``, with the space before it."""
    if record.exception is not None:
        return f" raised {record.exception.type}"
    if not record.outputs:
        return ""
    return f" -> {', '.join(value_text(each) for each in record.outputs)}"


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


def phase_style(phase: Phase) -> str:
    """The style of what belongs to a phase."""
    return f"phase-{phase.short}"


_VALUES = {
    "none": ", nothing is computed",
    "cpu": ", values computed on the CPU",
    "unknown": ", values computed on the CPU, some unknown",
}


def environment_line(environment: Environment) -> str:
    """``device: stand-in (Ascend910B1), nothing is computed · torch 2.13.0 · ...``."""
    device = environment.device or "unknown"
    if environment.soc:
        device += f" ({environment.soc})"
    if environment.stand_in:
        device += _VALUES.get(environment.values or "", "")
    parts = [f"device: {device}"]
    if environment.torch:
        parts.append(f"torch {environment.torch}")
    if environment.torch_npu:
        parts.append(f"torch_npu {environment.torch_npu}")
    if environment.jit_compile is not None:
        parts.append(f"jit_compile {'on' if environment.jit_compile else 'off'}")
    parts.extend(f"{name}={value}" for name, value in environment.switches)
    return " · ".join(parts)
