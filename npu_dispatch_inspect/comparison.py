# SPDX-License-Identifier: BSD-3-Clause
"""Two traces, reports, logs, graphs, tables or lists of names side by side."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from itertools import chain
from typing import Any

from attrs import evolve, field, frozen

from npu_dispatch_inspect._call_patterns import CallPattern, overload_of
from npu_dispatch_inspect._comparison_details import CHOICES, STANDARD, changes_between
from npu_dispatch_inspect._comparison_graphs import device_of, graph_pairs, unpaired
from npu_dispatch_inspect._comparison_sides import Side, calls_of, in_common
from npu_dispatch_inspect._comparison_tables import table_differences, table_notes
from npu_dispatch_inspect._comparison_text import comparison_text
from npu_dispatch_inspect.display.layout import cut
from npu_dispatch_inspect.display.places import Words, call_line
from npu_dispatch_inspect.errors import UsageError
from npu_dispatch_inspect.matching import Alignment, align
from npu_dispatch_inspect.patterns import Call
from npu_dispatch_inspect.records.comparisons import Difference, Place
from npu_dispatch_inspect.records.printed import Printed
from npu_dispatch_inspect.traces.graphs import GraphSet
from npu_dispatch_inspect.traces.logs import LogTrace
from npu_dispatch_inspect.traces.report import DispatchReport
from npu_dispatch_inspect.traces.tables import DispatchTable

__all__ = ["Comparison", "compare"]

REGISTRATIONS = Words(noun="registration", plural="registrations")
GRAPHS = Words(noun="graph", plural="graphs")


@frozen(kw_only=True)
class Comparison(Printed):
    """What two sides have in common and what they have not; `print` shows it.

    Example:
        >>> from npu_dispatch_inspect import compare
        >>> found = compare(["aten::mm"], ["aten::mm", "aten::add"], names=("old", "new"))
        >>> found.same, len(found), found.names
        (False, 1, ('old', 'new'))
    """

    words: Words
    """What is compared, and what the sides are called."""
    sizes: tuple[int, int]
    """How many calls (or operators of a table) each side has."""
    differences: tuple[Difference, ...]
    """In the order of the two sides."""
    notes: tuple[str, ...] = ()
    """What makes the answer less certain, a sentence each."""
    alignment: Alignment | None = field(default=None, repr=False)
    """Both sequences side by side; None for tables and for sets of graphs."""
    calls: tuple[Any, ...] = field(default=(), repr=False)
    """The records of the left side, for the text."""
    parts: tuple[tuple[str, Comparison], ...] = field(default=(), repr=False)
    """Of sets of graphs: each two graphs that were compared, with a title such as
    ``"forward graph"``. Their differences are among those of the whole."""

    @property
    def same(self) -> bool:
        """No difference was found."""
        return not self.differences

    @property
    def what(self) -> str:
        """``"ops"``, ``"launches"``, ``"tasks"``, ``"registrations"``."""
        return self.words.plural

    @property
    def names(self) -> tuple[str, str]:
        """What the two sides are called."""
        return self.words.expected, self.words.traced

    def __len__(self) -> int:
        """How many differences there are."""
        return len(self.differences)

    def to_text(self, *, width: int | None = None, max_rows: int | None = 20) -> str:
        """The verdict, the first difference, and the rows around all of them.

        Args:
            width: columns at most; the end of a longer line becomes ``...``.
            max_rows: rows at most; None for all.
        """
        text = comparison_text(self, max_rows=max_rows)
        if width is None:
            return text
        return "\n".join(cut(line, width) for line in text.split("\n"))


def compare(
    left: object,
    right: object,
    *,
    names: tuple[str, str] | None = None,
    details: Collection[str] = STANDARD,
    where: Callable[[Any], bool] | None = None,
) -> Comparison:
    """Put two traces, reports, logs, graphs, tables or lists side by side.

    Calls are compared by operator and overload, in order; the alignment has as
    few differences as there can be. Where both sides made the same call, its
    details are compared. A trace and a report have the trace in common, a log
    and a report the log. Of two sets of graphs each two of one stage are compared,
    forward with forward, and what could not be captured on one side is a
    difference. Registration tables are compared as `compare_tables` does.

    Args:
        left: An `OpTrace`, `DispatchReport`, `LogTrace`, `DispatchTable`,
            `GraphSet` or `CapturedGraph`, or a list of operator names.
        right: The other one.
        names: What to call the two; by default their labels or devices.
        details: What of the same call is compared: ``"tensors"`` (dtypes and
            shapes), ``"arguments"`` (all others), ``"phase"``, ``"module"``,
            ``"kernel"``, and of reports ``"verdict"`` and ``"launches"``. Where a
            side does not have one of them, nothing is compared.
        where: A function of a call: only those for which it holds are compared.

    Returns:
        The differences in the order of the two sides, and both sequences side by
        side; `same` is True where there are none.

    Raises:
        UsageError: the two have nothing in common, or there is no such detail.

    Example:
        >>> from npu_dispatch_inspect import compare
        >>> found = compare(["aten::mm", "aten::add.Tensor"], ["aten::addmm"])
        >>> found.same, [each.kind for each in found.differences]
        (False, ['only left', 'only left', 'only right'])
    """
    unknown = sorted(set(details) - set(CHOICES))
    if unknown:
        msg = f"There is no detail {unknown[0]!r}: choose from {', '.join(CHOICES)}."
        raise UsageError(msg)
    if names is not None and (isinstance(names, str) or len(names) != 2):  # noqa: PLR2004
        msg = f"names= takes a name for each of the two sides, not {names!r}."
        raise UsageError(msg)
    tables = [isinstance(each, DispatchTable) for each in (left, right)]
    if isinstance(left, DispatchTable) and isinstance(right, DispatchTable):
        return _tables(left, right, names or _names(left, right))
    if any(tables):
        other = type(left if tables[1] else right).__name__
        msg = (
            f"A dispatch table can be compared with a dispatch table, not with {other}."
        )
        raise UsageError(msg)
    if isinstance(left, GraphSet) and isinstance(right, GraphSet):
        return _graphs(left, right, names or _names(left, right), details, where)
    left, right = in_common(left, right)
    words, one, other_side = calls_of(left, right)
    found = _calls(words, one, other_side, names or _names(left, right), details, where)
    return evolve(found, notes=(*_notes(left, right), *found.notes))


def _calls(
    words: Words,
    left: Side,
    right: Side,
    names: tuple[str, str],
    details: Collection[str],
    where: Callable[[Any], bool] | None,
) -> Comparison:
    if where is not None:
        left, right = (
            evolve(each, calls=[call for call in each.calls if where(call)])
            for each in (left, right)
        )
    alignment = align(right.calls, _wanted(left.calls))
    notes: tuple[str, ...] = ()
    if left.nodes and right.nodes and left.launched != right.launched:
        # On a device without launches every verdict is another one.
        details = [each for each in details if each not in ("verdict", "launches")]
        notes = ("Only one side launched anything, so verdicts are not compared.",)
    return Comparison(
        words=evolve(words, expected=names[0], traced=names[1], compared=True),
        sizes=(len(left.calls), len(right.calls)),
        differences=tuple(_differences(alignment, left, right, details)),
        notes=notes,
        alignment=alignment,
        calls=tuple(left.calls),
    )


def _wanted(calls: Iterable[Any]) -> list[Call]:
    known: dict[tuple[str, str], Call] = {}
    for call in calls:
        key = (call.name, overload_of(call))
        if key not in known:
            known[key] = Call(call=CallPattern(name=key[0], overload=key[1]))
    return [known[call.name, overload_of(call)] for call in calls]


def _differences(
    alignment: Alignment, left: Side, right: Side, details: Collection[str]
) -> Iterable[Difference]:
    sources = iter(left.calls)
    for row in alignment.rows:
        if row.kind == "unexpected":
            yield Difference(kind="only right", left=None, right=_place(row.call))
            continue
        source = next(sources)
        if row.kind == "missing":
            yield Difference(kind="only left", left=_place(source), right=None)
        else:
            changes = tuple(
                changes_between(
                    (source, left.nodes.get(source.index)),
                    (row.call, right.nodes.get(row.call.index)),
                    details,
                )
            )
            if changes:
                yield Difference(
                    kind="changed",
                    left=_place(source),
                    right=_place(row.call),
                    changes=changes,
                )


def _place(call: Any) -> Place:
    phase = getattr(call, "phase", None)
    module = getattr(call, "module", None)
    return Place(
        name=getattr(call, "qualified_name", call.name),
        index=call.index,
        phase=getattr(phase, "value", None),
        module=module or (getattr(call, "root", None) if module == "" else None),
        line=call_line(call) or None,
    )


def _tables(
    left: DispatchTable, right: DispatchTable, names: tuple[str, str]
) -> Comparison:
    return Comparison(
        words=evolve(REGISTRATIONS, expected=names[0], traced=names[1], compared=True),
        sizes=(len(left), len(right)),
        differences=table_differences(left, right),
        notes=table_notes(left, right, names),
    )


def _graphs(
    left: GraphSet,
    right: GraphSet,
    names: tuple[str, str],
    details: Collection[str],
    where: Callable[[Any], bool] | None,
) -> Comparison:
    parts = []
    for pair in graph_pairs(left, right):
        words, one, other = calls_of(pair.left, pair.right)
        found = _calls(words, one, other, names, details, where)
        parts.append((pair.title, found))
    here = [
        evolve(each, graph=title) for title, part in parts for each in part.differences
    ]
    return Comparison(
        words=evolve(GRAPHS, expected=names[0], traced=names[1], compared=True),
        sizes=(len(left), len(right)),
        differences=(*here, *unpaired(left, right)),
        parts=tuple(parts),
    )


_TELLING: tuple[Callable[[Any], str | None], ...] = (
    lambda side: getattr(_trace_of(side), "label", None),
    device_of,
    lambda side: getattr(getattr(side, "environment", None), "device", None),
)


def _names(left: object, right: object) -> tuple[str, str]:
    for tell in _TELLING:
        one, other = tell(left), tell(right)
        if one and other and one != other:
            return one, other
    return "left", "right"


def _notes(left: Any, right: Any) -> tuple[str, ...]:
    notes = []
    engines = [getattr(_trace_of(each), "engine", None) for each in (left, right)]
    if None not in engines and engines[0] != engines[1]:
        notes.append(
            f"The traces were made by two engines, {engines[0]} and {engines[1]}: one "
            "sees calls that the other does not."
        )
    incomplete = chain(_incomplete(left, "left"), _incomplete(right, "right"))
    return (*notes, *incomplete)


def _trace_of(side: Any) -> Any:
    return side.trace if isinstance(side, DispatchReport) else side


def _incomplete(side: Any, name: str) -> list[str]:
    trace = _trace_of(side)
    found = []
    if getattr(trace, "truncated", False):
        found.append(f"The {name} side ends at its limit of calls.")
    if isinstance(trace, LogTrace):
        found += [f"The {name} side: {each}" for each in trace.incomplete]
    return found
