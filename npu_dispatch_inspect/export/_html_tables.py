# SPDX-License-Identifier: BSD-3-Clause
"""The dispatcher's tables as the rows of a page: one row for each operator overload."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import PurePath

from npu_dispatch_inspect.export._html_findings import counted
from npu_dispatch_inspect.export._html_model import (
    Column,
    Finding,
    Page,
    Part,
    Row,
    Tag,
)
from npu_dispatch_inspect.export._html_ops import MAX_ROWS
from npu_dispatch_inspect.records.registrations import (
    ComputedKernel,
    KernelState,
    OperatorEntry,
)
from npu_dispatch_inspect.traces.tables import DispatchTable

__all__ = ["page_of_table"]

BACKEND = "PrivateUse1"
SHOWN = (BACKEND, "CPU", "Autograd" + BACKEND)
"""Dispatch keys with a column of their own."""
TAGS = (
    Tag(key="fallback", label="backend fallback", tone="bad"),
    Tag(key="missing", label="no kernel", tone="warn"),
    Tag(key="python", label="Python kernels", tone="info"),
    Tag(key="overridden", label="overridden", tone="warn"),
)


def page_of_table(table: DispatchTable) -> Page:
    """A page about what is registered."""
    entries = list(table)
    backend = _label(BACKEND, table)
    states = Counter(entry.state(BACKEND) for entry in entries)
    rows = tuple(_row(number, entry) for number, entry in enumerate(entries[:MAX_ROWS]))
    told = ", ".join(f"{state.value} {many:,}" for state, many in states.most_common())
    notes = () if table.complete else ("This is a part of the registry.",)
    return Page(
        title="Dispatch table",
        what="operators",
        headline=f"{counted(len(entries), 'operator overload')} in the tables.",
        tone="info",
        below=f"On {backend}: {told}." if told else "",
        figures=(
            ("operators", len(entries), None, "info"),
            (f"own {backend} kernel", states[KernelState.OWN_KERNEL], None, "info"),
            ("backend fallback", states[KernelState.FALLBACK], "fallback", "bad"),
            (f"no {backend} kernel", states[KernelState.MISSING], "missing", "warn"),
        ),
        findings=(Finding(tone="info", title="Notes", text=notes),) if notes else (),
        environment=table.environment,
        columns=(
            Column(key="op", label="Operator"),
            Column(key="verdict", label=f"On {backend}", chart=f"On {backend}"),
            Column(key="kernel", label=f"{backend} kernel"),
            Column(key="cpu", label="CPU kernel"),
            Column(key="autograd", label=f"{_label(SHOWN[2], table)} kernel"),
            Column(
                key="file",
                label="Registered by",
                chart="Registered by",
                empty="no kernel",
            ),
            Column(key="schema", label="Schema"),
        ),
        tags=TAGS,
        tree="Namespaces",
        outside="no namespace",
        rows=rows,
        hidden=len(entries) - len(rows),
    )


def _label(key: str, table: DispatchTable) -> str:
    backend = table.keys.private_backend
    return key.replace(BACKEND, backend.upper()) if backend else key


def _row(number: int, entry: OperatorEntry) -> Row:
    kernels = dict(entry.kernels)
    state = entry.state(BACKEND)
    tags = [
        tag
        for tag, given in (
            ("fallback", state is KernelState.FALLBACK),
            ("missing", state is KernelState.MISSING),
            ("python", entry.python_kernels),
            ("overridden", any(not each.active for each in entry.registrations)),
        )
        if given
    ]
    backend = kernels.get(BACKEND)
    return Row(
        number=number,
        cells=(
            entry.qualified_name,
            state.value,
            *(kernels[key].site if key in kernels else "" for key in SHOWN),
            _file(backend),
            entry.schema or "",
        ),
        place=(entry.name.partition("::")[0],),
        tags=tuple(tags),
        parts=tuple(_parts(entry)),
    )


def _file(kernel: ComputedKernel | None) -> str:
    if kernel is None:
        return ""
    return PurePath(kernel.file).name if kernel.file else kernel.note


def _parts(entry: OperatorEntry) -> Iterator[Part]:
    definition = entry.definition
    if definition is not None:
        yield Part("Schema", "code", ((definition.schema,), (definition.site,)))
    if entry.registrations:
        yield Part(
            "Registrations",
            "pairs",
            tuple(
                (
                    each.key,
                    each.site,
                    " \u00b7 ".join(
                        word
                        for word, given in (
                            ("fallthrough", each.fallthrough),
                            ("alias key", each.alias),
                            ("overridden by a later one", not each.active),
                        )
                        if given
                    ),
                )
                for each in entry.registrations
            ),
        )
    winners: dict[tuple[str, str], list[str]] = {}
    for key, kernel in entry.kernels:
        winners.setdefault((kernel.kind, kernel.site), []).append(key)
    if winners:
        yield Part(
            "What wins, by key",
            "pairs",
            tuple(
                (kind, site, ", ".join(keys)) for (kind, site), keys in winners.items()
            ),
        )
    if entry.python_kernels:
        yield Part(
            "Python kernels",
            "pairs",
            tuple(
                (each.key, each.function, each.site) for each in entry.python_kernels
            ),
        )
