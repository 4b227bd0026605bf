# SPDX-License-Identifier: BSD-3-Clause
"""Predicted ways through the dispatcher, and what a program's calls have on a device."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from npu_dispatch_inspect.display.document import (
    MAX_LISTED,
    Column,
    Counts,
    Document,
    Element,
    Fold,
    Grid,
    Heading,
    More,
    Row,
    Title,
    counted,
    head_and_tail,
    line,
    listing,
    span,
    without_empty,
)
from npu_dispatch_inspect.display.tables import STATE_STYLES, entry_document
from npu_dispatch_inspect.records.coverage import Coverage, CoveredCall
from npu_dispatch_inspect.records.paths import (
    BackendChoice,
    DtypeProbe,
    Explanation,
    PredictedCall,
    StepAction,
)
from npu_dispatch_inspect.records.registrations import KernelState
from npu_dispatch_inspect.records.traced_registrations import (
    RegisteredCall,
    RegistrationTrace,
)
from npu_dispatch_inspect.records.values import TensorSpec

__all__ = [
    "coverage_document",
    "explanation_document",
    "predicted_document",
    "registration_trace_document",
]

MAX_CALLS = 300
"""So many predicted calls are shown."""
MAX_NAMED = 4
MAX_TEXT = 200
ACTION_STYLES = {
    StepAction.RUNS: "good",
    StepAction.FALLS_BACK: "bad",
    StepAction.RAISES: "bad",
    StepAction.OPAQUE: "unknown",
    StepAction.DECOMPOSES: "dim",
    StepAction.CALLS_OTHERS: "dim",
}
WAY_COLUMNS = (
    Column(name="call"),
    Column(name="way", cut=100, rank=1, least=20),
    Column(name="kernel", rank=2, least=12, middle=True),
    Column(name="module", rank=3, least=8),
)


def explanation_document(explanation: Explanation, *, html: bool = False) -> Document:
    """The calls with their ways, then the backend's choices and the dtypes."""
    parts: list[Element] = []
    if html:
        calls = counted(sum(1 for _ in explanation.walk()), "predicted call")
        facts = (calls,) if explanation.complete else (calls, "not complete")
        parts.append(Title(name="Explanation", facts=facts))
    parts += _calls(explanation.calls)
    if explanation.unknown:
        parts.append(line(f"not followed further: {explanation.unknown}", "unknown"))
    if explanation.backend:
        chosen = (_backend(explanation.backend), *_unobserved(explanation.backend))
        parts += _part("the backend's choice", *chosen, html=html)
    if explanation.dtypes:
        parts += _part("dtypes, tried", _dtypes(explanation.dtypes), html=html)
    return tuple(parts)


def predicted_document(call: PredictedCall, *, html: bool = False) -> Document:
    """One predicted call and those inside it."""
    parts = tuple(_calls((call,)))
    if html:
        return (Title(name=call.qualified_name, facts=("predicted",)), *parts)
    return parts


def _part(title: str, *body: Element, html: bool) -> tuple[Element, ...]:
    if html:
        return (Fold(title=title, body=body, open=True),)
    return (line(), line(title, "title"), *body)


def _calls(calls: Sequence[PredictedCall]) -> list[Element]:
    order = [each for call in calls for each in call.walk()]
    shown = {id(each) for each in order[:MAX_CALLS]}
    made: dict[int, Row] = {}

    def rows_of(below: Sequence[PredictedCall]) -> list[Row | More]:
        rows: list[Row | More] = [made[id(each)] for each in below if id(each) in shown]
        if len(rows) < len(below):
            rows.append(More(f"... {len(below) - len(rows)} more"))
        return rows

    for each in reversed(order[:MAX_CALLS]):
        inside = rows_of(each.calls or ())
        if each.unknown:
            inside.append(More(f"inside unknown: {each.unknown}"))
        made[id(each)] = _way(each, tuple(inside))
    grid = without_empty(
        Grid(columns=WAY_COLUMNS, rows=tuple(rows_of(calls)), branches=True)
    )
    notes = dict.fromkeys(note for each in order for note in each.notes)
    return [grid, *(line(f"note: {note}", "note") for note in notes)]


def _way(call: PredictedCall, below: tuple[Row | More, ...]) -> Row:
    tensors = ", ".join(
        str(each.value) for each in call.inputs if isinstance(each.value, TensorSpec)
    )
    steps = [step for step in call.steps if step.action is not StepAction.FALLTHROUGH]
    way = " -> ".join(f"{step.key} {step.action.value}" for step in steps)
    last = call.last
    kernel = last.kernel if last is not None else None
    style = ACTION_STYLES.get(last.action, "") if last is not None else ""
    return Row(
        cells=(
            span(f"{call.qualified_name}({tensors})", "name"),
            span(way, style),
            span(kernel.site if kernel is not None else "", "place"),
            span(call.module, "module"),
        ),
        below=below,
    )


def _backend(choices: Sequence[BackendChoice]) -> Grid:
    head, hidden, tail = head_and_tail(choices)
    rows: list[Row | Heading | More] = list(map(_choice, head))
    if hidden:
        rows.append(More(f"... {hidden} more"))
        rows += map(_choice, tail)
    columns = (
        Column(name="operator"),
        Column(name="backend"),
        Column(name="route"),
        Column(name="because", cut=MAX_TEXT, rank=1, least=16),
    )
    return without_empty(Grid(columns=columns, rows=tuple(rows)))


def _unobserved(choices: Sequence[BackendChoice]) -> tuple[Element, ...]:
    """A line for each fact: of a column of sentences little would be left."""
    concerned: dict[str, dict[str, None]] = {}
    for each in choices:
        for fact in each.unobserved:
            concerned.setdefault(fact, {})[each.operator] = None
    operators = {each.operator for each in choices}
    return listing(
        "not visible from outside",
        (
            fact if len(names) == len(operators) else f"{fact} ({_named(list(names))})"
            for fact, names in concerned.items()
        ),
    )


def _named(names: list[str]) -> str:
    more = len(names) - MAX_NAMED
    return ", ".join([*names[:MAX_NAMED], *([f"{more} more"] if more > 0 else [])])


def _choice(each: BackendChoice) -> Row:
    style = {"aclnn": "good", "cpu fallback": "bad", "unknown": "unknown"}
    return Row(
        cells=(
            span(each.operator, "name"),
            span(each.backend),
            span(each.route, style.get(each.route, "")),
            span("; ".join(each.reasons) or "no reason can be observed"),
        )
    )


def _dtypes(probes: Sequence[DtypeProbe]) -> Grid:
    style = {"supported": "good", "refused": "bad", "promoted": "warn"}
    rows = [
        Row(
            cells=(
                span(each.dtype, "name"),
                span(each.outcome, style.get(each.outcome, "")),
                span(", ".join(each.results)),
                span(_certainty(each), "dim"),
            )
        )
        for each in probes
    ]
    columns = (
        Column(name="dtype"),
        Column(name="outcome"),
        Column(name="result", rank=2),
        Column(name="remark", cut=MAX_TEXT, rank=1, least=12),
    )
    return without_empty(Grid(columns=columns, rows=tuple(rows)))


def _certainty(probe: DtypeProbe) -> str:
    doubt = "" if probe.certain else "stand-in: CANN's own checks were not made"
    return "; ".join(filter(None, (probe.message, doubt)))


def coverage_document(coverage: Coverage, *, html: bool = False) -> Document:
    """Each operator of each module with what it has, and what is not on the device."""
    found = list(Counter(coverage.calls).items())
    head, hidden, tail = head_and_tail(found)
    rows: list[Row | Heading | More] = [_covered(*each) for each in head]
    if hidden:
        rows.append(More(f"... {hidden} more"))
        rows += [_covered(*each) for each in tail]
    columns = (
        Column(name="operator"),
        Column(name="calls"),
        Column(name="state"),
        Column(name="kernel", rank=1, least=12, middle=True),
        Column(name="through", rank=3, least=12),
        Column(name="module", rank=2, least=8),
    )
    grid = without_empty(Grid(columns=columns, rows=tuple(rows)))
    counts = tuple(
        (state.value, number, STATE_STYLES[state])
        for state, number in coverage.counts.items()
    )
    made = "calls that were made" if coverage.source == "trace" else "predicted calls"
    total = f"{counted(len(coverage), 'call')} on {coverage.key}, {made}"
    told: list[Element] = []
    if not coverage.complete:
        told.append(line("not complete: a part of the program was not seen", "warn"))
    for title, calls, style in (
        ("fallbacks to the CPU", coverage.fallbacks, "bad"),
        ("calls that would raise", coverage.missing, "unknown"),
    ):
        told += listing(title, map(_where, calls), style=style)
    risks = (f"{_where(each)}: {each.risk}" for each in coverage.risks)
    told += listing("calls that may use the CPU", risks, style="warn")
    if not html:
        return (grid, Counts(title=f"{total}:", items=counts), *told)
    return (
        Title(name="Coverage", facts=(total,)),
        Counts(items=counts),
        *told,
        Fold(title="operators of each module", body=(grid,), open=True),
    )


def _where(call: CoveredCall) -> str:
    return f"{call.operator} in {call.module}" if call.module else call.operator


def _covered(call: CoveredCall, times: int) -> Row:
    return Row(
        cells=(
            span(call.operator, "name"),
            span(times, "number"),
            span(call.state.value, STATE_STYLES[call.state]),
            span(call.site, "place"),
            span(call.through),
            span(call.module, "module"),
        )
    )


def registration_trace_document(
    trace: RegistrationTrace, *, html: bool = False
) -> Document:
    """The operators of a function above decomposition, with their kernels."""
    head, hidden, tail = head_and_tail(trace.calls)
    rows: list[Row | Heading | More] = list(map(_registered, head))
    if hidden:
        rows.append(More(f"... {hidden} more"))
        rows += map(_registered, tail)
    columns = (
        Column(name="operator"),
        Column(name="CPU", rank=3),
        Column(name="PrivateUse1"),
        Column(name="kernel", rank=1, least=12, middle=True),
        Column(name="module", rank=2, least=8),
    )
    grid = without_empty(Grid(columns=columns, rows=tuple(rows)))
    total = counted(len(trace.calls), "call")
    route = line(f"traced with {trace.route}: {trace.reason}", "dim")
    if not html:
        return (grid, line(total, "total"), route)
    entries = {each.entry.qualified_name: each.entry for each in trace.calls}
    folds = tuple(
        Fold(title=name, body=entry_document(entry, html=True)[1:])
        for name, entry in list(entries.items())[:MAX_LISTED]
    )
    left = len(entries) - len(folds)
    more = (line(f"... {left} more operators", "dim"),) if left > 0 else ()
    operators = counted(len(entries), "operator")
    return (
        Title(name="RegistrationTrace", facts=(total,)),
        route,
        grid,
        Fold(title=f"{operators} in full", body=(*folds, *more)),
    )


def _registered(call: RegisteredCall) -> Row:
    kernels = dict(call.entry.kernels)
    cells = []
    for key in ("CPU", "PrivateUse1"):
        kernel = kernels.get(key)
        state = KernelState.MISSING if kernel is None else kernel.state
        cells.append(span(state.value, STATE_STYLES[state]))
    own = kernels.get("PrivateUse1")
    site = span(own.site if own is not None else "", "place")
    return Row(
        cells=(
            span(call.operator, "name"),
            *cells,
            site,
            span(call.module, "module"),
        )
    )
