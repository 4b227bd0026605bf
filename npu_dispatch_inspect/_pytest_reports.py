# SPDX-License-Identifier: BSD-3-Clause
"""The traces of a test: sections of its report, and files.

Sections are plain text, so that they get from xdist's workers to the terminal.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from npu_dispatch_inspect.assertions._settings import SETTINGS

__all__ = ["add_traces", "trace_choice", "traces_of"]

_TRACES = pytest.StashKey[list[Any]]()
_MAX_NAME = 120


def traces_of(item: pytest.Item) -> list[Any]:
    """The traces that a test has made so far."""
    return item.stash.setdefault(_TRACES, [])


def trace_choice(config: pytest.Config) -> str:
    """``"off"``, ``"failed"`` or ``"all"``."""
    choice: str = config.getoption("npu_inspect_trace") or config.getini(
        "npu_inspect_trace"
    )
    return choice


def add_traces(item: pytest.Item, report: pytest.TestReport) -> None:
    """Add the traces of a test to its report, and save those of a failing one."""
    traces = item.stash.get(_TRACES, [])
    if not traces:
        return
    choice = trace_choice(item.config)
    folder = item.config.getoption("npu_inspect_save") or item.config.getini(
        "npu_inspect_save"
    )
    if report.failed and folder:
        places = list(_save(traces, item, str(folder)))
        report.sections.append(("Saved op traces", "\n".join(places)))
    if (choice == "all" and report.when == "call") or (
        choice == "failed" and report.failed
    ):
        report.sections += [_section(each) for each in traces]


def _section(trace: Any) -> tuple[str, str]:
    """Title and text; a trace that cannot be shown must not hide the failure."""
    kind = _kind(trace)
    name = getattr(trace, "label", None)
    label = f" ({name})" if name else ""
    try:
        return f"Captured {kind}{label}", "\n".join(_lines(trace))
    except Exception as error:  # noqa: BLE001 - said in its place
        return f"Captured {kind}", f"cannot be shown: {type(error).__name__}: {error}"


def _kind(trace: Any) -> str:
    # By what they have: importing the classes would import torch's part.
    if hasattr(trace, "chains"):
        return "dispatch report"
    return "npu log" if hasattr(trace, "launches") else "op trace"


def _lines(trace: Any) -> Iterator[str]:
    from npu_dispatch_inspect.display.ops import op_table
    from npu_dispatch_inspect.display.text import environment_line

    kind = _kind(trace)
    if kind == "dispatch report":
        # Its first line says where it was made.
        rows = len(trace.chains) if SETTINGS.rows is None else SETTINGS.rows
        yield trace.to_text(max_chains=rows)
        return
    if kind == "npu log":
        records = trace.records
        shown = records if SETTINGS.rows is None else records[: SETTINGS.rows]
        yield from (each.text.rstrip("\r\n") for each in shown)
        if len(shown) < len(records):
            yield f"... {len(records) - len(shown)} more lines"
        yield f"{len(records)} log lines, {len(trace.launches)} launches"
    else:
        rows = len(trace.records) if SETTINGS.rows is None else SETTINGS.rows
        yield op_table(trace, max_rows=rows)
    if trace.environment is not None:
        yield environment_line(trace.environment)


def _save(traces: list[Any], item: pytest.Item, folder: str) -> Iterator[str]:
    """Write each trace; the name of the file, or why there is none."""
    from npu_dispatch_inspect.errors import InspectError

    name = re.sub(r"[^\w.\[\]-]+", "-", item.nodeid)
    if len(name) > _MAX_NAME:
        digest = hashlib.sha256(item.nodeid.encode()).hexdigest()[:12]
        name = f"{name[:_MAX_NAME]}-{digest}"
    for number, trace in enumerate(traces):
        path = Path(folder) / f"{name}{f'-{number}' if number else ''}"
        try:
            Path(folder).mkdir(parents=True, exist_ok=True)
            yield _write(trace, path)
        except (OSError, InspectError) as error:
            yield f"not saved: {error}"


def _write(trace: Any, path: Path) -> str:
    kind = _kind(trace)
    # Of a log the lines as they came: they are read back as any log is.
    suffix = {"dispatch report": ".report.jsonl", "npu log": ".log"}.get(kind, ".jsonl")
    path = path.with_name(f"{path.name}{suffix}")
    trace.save(path)
    return str(path)
