# SPDX-License-Identifier: BSD-3-Clause
"""Registration tables: many operators, one operator, the changes between two."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from npu_dispatch_inspect.display.document import (
    HEAD_ROWS,
    TAIL_ROWS,
    Column,
    Counts,
    Document,
    Element,
    Fold,
    Grid,
    Heading,
    More,
    Row,
    Span,
    Title,
    counted,
    head_and_tail,
    line,
    span,
    without_empty,
)
from npu_dispatch_inspect.display.text import environment_line
from npu_dispatch_inspect.records.registrations import (
    ComputedKernel,
    KernelRegistration,
    KernelState,
    OperatorEntry,
    OverloadGroup,
)

if TYPE_CHECKING:
    from npu_dispatch_inspect.records.table_changes import TableChange
    from npu_dispatch_inspect.traces.tables import DispatchTable

__all__ = [
    "STATE_STYLES",
    "changes_document",
    "entry_document",
    "overloads_document",
    "table_document",
]

BACKEND = "PrivateUse1"
STATE_STYLES = {
    KernelState.OWN_KERNEL: "good",
    KernelState.COMPOSITE: "dim",
    KernelState.DEFAULT: "",
    KernelState.FALLBACK: "bad",
    KernelState.FALLTHROUGH: "dim",
    KernelState.OTHER: "dim",
    KernelState.MISSING: "unknown",
}
MAX_KEYS = 4
"""So many keys of a kernel are named in text."""
STATE_COLUMNS = (
    Column(name="CPU", rank=3),
    Column(name=BACKEND),
    Column(name="kernel", rank=1, least=12, middle=True),
)


def table_document(table: DispatchTable, *, html: bool = False) -> Document:
    """Operators with what they have on the CPU and on the NPU's key."""
    # In torch's order, which is that of a hash map, a beginning and an end say nothing.
    whole = len(table) <= HEAD_ROWS + TAIL_ROWS
    names, hidden, last = head_and_tail(table.names if whole else sorted(table.names))
    rows: list[Row | Heading | More] = [_operator(table, each) for each in names]
    if hidden:
        rows.append(More(f"... {hidden} more"))
        rows += [_operator(table, each) for each in last]
    grid = Grid(columns=(Column(name="operator"), *STATE_COLUMNS), rows=tuple(rows))
    total = counted(len(table), "operator")
    counts = Counts(
        title="" if html else f"{total}, on {BACKEND}:",
        items=tuple(
            (state.value, number, STATE_STYLES[state])
            for state, number in table.counts(BACKEND).items()
        ),
    )
    if not html:
        return (grid, counts)
    where = table.environment
    parts: list[Element] = [
        Title(name="DispatchTable", facts=(total, f"on {BACKEND}:")),
        counts,
        Fold(title="operators", body=(grid,), open=True),
    ]
    if where is not None:
        parts.append(line(environment_line(where), "dim"))
    return tuple(parts)


def _operator(table: DispatchTable, name: str) -> Row:
    cpu, own = table.kernel(name, "CPU"), table.kernel(name, BACKEND)
    return Row(cells=(span(name, "name"), *_states(cpu, own)))


def _states(
    cpu: ComputedKernel | None, own: ComputedKernel | None
) -> tuple[Span, Span, Span]:
    return (_state(cpu), _state(own), span(own.site if own else "", "place"))


def _state(kernel: ComputedKernel | None) -> Span:
    state = KernelState.MISSING if kernel is None else kernel.state
    return span(state.value, STATE_STYLES[state])


def entry_document(entry: OperatorEntry, *, html: bool = False) -> Document:
    """Schema, what was registered, and the kernel that wins on every key."""
    parts: list[Element] = []
    name = entry.qualified_name
    facts = [] if entry.kind.value == "dispatcher" else [entry.kind.value]
    parts.append(
        Title(name=name, facts=tuple(facts))
        if html
        else line(", ".join((name, *facts)), "name")
    )
    if entry.definition is not None:
        parts.append(line(f"schema: {entry.definition.schema}"))
        parts.append(line(f"defined: {entry.definition.site}", "place"))
    backend = entry.keys.private_backend
    for key in ("CPU", BACKEND):
        kernel = dict(entry.kernels).get(key)
        state = _state(kernel)
        named = f"{key} ({backend})" if backend and key == BACKEND else key
        site = f", {kernel.site}" if kernel is not None and kernel.site else ""
        parts.append(line(f"on {named}: {state.text}{site}", state.style))
    for title, grid, beginning in (
        ("kernels that win", _winners(entry, html=html), True),
        ("registered", _registered(entry), True),
        ("Python kernels", _python_kernels(entry), False),
    ):
        if not grid.rows:
            continue
        if html:
            parts.append(
                Fold(title=f"{title}: {len(grid.rows)}", body=(grid,), open=beginning)
            )
        else:
            parts += [line(), line(title, "title"), grid]
    return tuple(parts)


def _winners(entry: OperatorEntry, *, html: bool) -> Grid:
    found: dict[ComputedKernel | None, list[str]] = {}
    for key, kernel in entry.kernels:
        # Where a key is skipped, it does not matter who said so.
        found.setdefault(None if kernel.fallthrough else kernel, []).append(key)
    rows = []
    for each, keys in sorted(found.items(), key=_interest):
        style = "dim" if each is None else STATE_STYLES[each.state]
        rows.append(
            Row(
                cells=(
                    span("fallthrough" if each is None else each.kind, style),
                    span("" if each is None else each.site, "place"),
                    span(_named(keys, limit=None if html else MAX_KEYS)),
                )
            )
        )
    columns = (
        Column(name="kernel"),
        Column(name="registered at", rank=1, least=13, middle=True),
        Column(name="keys", rank=2, least=12, cut=100),
    )
    return without_empty(Grid(columns=columns, rows=tuple(rows)))


def _interest(item: tuple[ComputedKernel | None, list[str]]) -> tuple[bool, ...]:
    """The two devices first, what is for all operators alike last."""
    kernel, keys = item
    return (
        kernel is None,
        BACKEND not in keys,
        "CPU" not in keys,
        kernel is not None and kernel.state is KernelState.FALLBACK,
    )


def _named(keys: list[str], *, limit: int | None) -> str:
    ordered = sorted(keys, key=lambda key: key not in ("CPU", BACKEND))
    if limit is None or len(ordered) <= limit:
        return ", ".join(ordered)
    return f"{', '.join(ordered[:limit])}, ... {len(ordered) - limit} more"


def _registered(entry: OperatorEntry) -> Grid:
    rows = [
        Row(
            cells=(
                span(each.key, "name" if each.active else "dim"),
                span(each.site, "place"),
                span(_how(each), "" if each.active else "warn"),
            )
        )
        for each in entry.registrations
    ]
    columns = (
        Column(name="key"),
        Column(name="registered at", rank=1, least=13, middle=True),
        Column(name="how", rank=2, least=8),
    )
    return without_empty(Grid(columns=columns, rows=tuple(rows)))


def _how(each: KernelRegistration) -> str:
    told = [
        word
        for word, said in (
            ("alias key", each.alias),
            ("fallthrough", each.fallthrough),
            ("boxed only", each.boxed and not each.unboxed),
            ("overridden by the one above", not each.active),
        )
        if said
    ]
    return ", ".join(told)


def _python_kernels(entry: OperatorEntry) -> Grid:
    rows = [
        Row(
            cells=(
                span(each.key, "name"),
                span(each.function),
                span(each.site, "place"),
            )
        )
        for each in entry.python_kernels
    ]
    columns = (
        Column(name="key"),
        Column(name="function", rank=2, least=12),
        Column(name="defined at", rank=1, least=12, middle=True),
    )
    return without_empty(Grid(columns=columns, rows=tuple(rows)))


def overloads_document(group: OverloadGroup, *, html: bool = False) -> Document:
    """The overloads side by side; in a notebook each can be opened."""
    rows = []
    for each in group.entries:
        kernels = dict(each.kernels)
        states = _states(kernels.get("CPU"), kernels.get(BACKEND))
        rows.append(Row(cells=(span(each.overload, "name"), *states)))
    grid = Grid(columns=(Column(name="overload"), *STATE_COLUMNS), rows=tuple(rows))
    total = counted(len(group), "overload")
    if not html:
        schemas = (line(each.schema or "", "dim") for each in group.entries)
        return (line(f"{group.name}, {total}", "name"), grid, line(), *schemas)
    folds = (
        Fold(
            title=each.qualified_name,
            body=entry_document(each, html=True)[1:],
            open=len(group) == 1,
        )
        for each in group.entries
    )
    return (Title(name=group.name, facts=(total,)), grid, *folds)


def changes_document(changes: Iterable[TableChange], *, html: bool = False) -> Document:
    """What was added, removed and replaced between two tables."""
    changes = list(changes)
    found: dict[str, int] = {}
    for each in changes:
        found[each.change] = found.get(each.change, 0) + 1
    told = tuple(f"{number} {change}" for change, number in found.items())
    facts = (counted(len(changes), "change"), *told)
    if not changes:
        text = "no change"
        return (Title(name="TableChanges", facts=(text,)),) if html else (line(text),)
    head, hidden, tail = head_and_tail(changes, head=HEAD_ROWS, tail=TAIL_ROWS)
    rows: list[Row | Heading | More] = list(map(_change, head))
    if hidden:
        rows.append(More(f"... {hidden} more"))
        rows += map(_change, tail)
    columns = (
        Column(name="change"),
        Column(name="what", rank=2),
        Column(name="operator"),
        Column(name="key", rank=1, least=8),
        Column(name="before", rank=3, least=10, middle=True),
        Column(name="after", rank=3, least=10, middle=True),
    )
    grid = Grid(columns=columns, rows=tuple(rows))
    if html:
        return (Title(name="TableChanges", facts=facts), grid)
    return (grid, line(", ".join(facts), "total"))


def _change(each: TableChange) -> Row:
    style = {"added": "good", "removed": "bad"}.get(each.change, "warn")
    return Row(
        cells=(
            span(each.change, style),
            span(each.what),
            span(each.operator, "name"),
            span(each.key),
            span(each.before.site if each.before else "", "place"),
            span(each.after.site if each.after else "", "place"),
        )
    )
