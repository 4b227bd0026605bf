# SPDX-License-Identifier: BSD-3-Clause
"""The columns of every table: stable names, one plain type each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Generic, Literal, TypeAlias, TypeVar

from attrs import frozen

from npu_dispatch_inspect.display.text import inputs_text, value_text
from npu_dispatch_inspect.errors import UsageError
from npu_dispatch_inspect.records import LogRecord, OpRecord, SourceLocation, TaskRecord
from npu_dispatch_inspect.records.chains import ChainNode, Launch
from npu_dispatch_inspect.records.coverage import Coverage
from npu_dispatch_inspect.records.graphs import CapturedGraph, GraphNode
from npu_dispatch_inspect.records.paths import Explanation, PredictedCall
from npu_dispatch_inspect.records.registrations import (
    ComputedKernel,
    KernelRegistration,
)
from npu_dispatch_inspect.records.traced_registrations import RegistrationTrace
from npu_dispatch_inspect.traces.graphs import GraphSet
from npu_dispatch_inspect.traces.log_summary import LogSummary
from npu_dispatch_inspect.traces.logs import LogTrace
from npu_dispatch_inspect.traces.ops import OpTrace
from npu_dispatch_inspect.traces.report import DispatchReport
from npu_dispatch_inspect.traces.tables import DispatchTable

__all__ = ["TABLES", "Column", "Table", "table_of"]

T = TypeVar("T")
Type: TypeAlias = "Literal['int', 'str', 'bool', 'list']"
"""A ``list`` is one of texts."""


@frozen
class Column(Generic[T]):
    """One column."""

    name: str
    type: Type
    get: Callable[[T], Any]
    """None where the row has no value."""


@frozen
class Table(Generic[T]):
    """One table of an object."""

    name: str
    holds: type[Any]
    """The class of objects that have it."""
    items: Callable[[Any], Iterable[T]]
    """What the rows are of."""
    columns: tuple[Column[T], ...]


def _same(names: str, type: Type) -> list[Column[Any]]:  # noqa: A002 - a column's
    """Columns that are called as the fields of a record are."""

    def getter(name: str) -> Callable[[Any], Any]:
        return lambda record: getattr(record, name)

    return [Column(name, type, getter(name)) for name in names.split()]


def _of(get: Callable[[T], Any], columns: Iterable[Column[Any]]) -> list[Column[T]]:
    """Columns of a part of what the rows are of; empty where there is no such part."""

    def through(column: Column[Any]) -> Callable[[T], Any]:
        def value(item: T) -> Any:
            part = get(item)
            return None if part is None else column.get(part)

        return value

    return [Column(each.name, each.type, through(each)) for each in columns]


def _source(get: Callable[[T], SourceLocation | None]) -> list[Column[T]]:
    return _of(
        get,
        [
            Column[SourceLocation]("source_file", "str", lambda s: s.file),
            Column[SourceLocation]("source_line", "int", lambda s: s.line),
            Column[SourceLocation]("source_function", "str", lambda s: s.function),
        ],
    )


def _outputs(record: OpRecord | GraphNode) -> str | None:
    if record.outputs is None:
        return None
    return ", ".join(map(value_text, record.outputs))


def _arguments(record: Any) -> str | None:
    arguments = getattr(record, "arguments", None)
    if arguments is None:
        return None
    return ", ".join(f"{each.name}={value_text(each.value)}" for each in arguments)


def _optional(name: str) -> Callable[[Any], Any]:
    return lambda record: getattr(record, name, None)


CALL: list[Column[OpRecord]] = [
    *_same("index parent depth", "int"),
    *_same("name overload", "str"),
    Column("phase", "str", lambda r: r.phase.value),
    *_same("root module module_type", "str"),
    Column("regions", "list", lambda r: list(r.regions)),
    Column("inputs", "str", inputs_text),
    Column("outputs", "str", _outputs),
    Column("input_dtypes", "list", lambda r: [t.dtype for t in r.input_tensors]),
    Column("output_dtypes", "list", lambda r: [t.dtype for t in r.output_tensors]),
    Column("kernel_key", "str", lambda r: r.kernel and r.kernel.key),
    Column("kernel_kind", "str", lambda r: r.kernel and r.kernel.kind),
    Column("kernel_site", "str", lambda r: r.kernel and r.kernel.site),
    Column("last_kernel_site", "str", lambda r: r.path[-1].site if r.path else None),
    Column("keys", "list", lambda r: None if r.keys is None else list(r.keys)),
    *_same("forward_index thread start_ns duration_ns", "int"),
    *_same("recomputed compiled", "bool"),
    *_same("autograd_node", "str"),
    *_source(lambda r: r.source),
    Column("exception_type", "str", lambda r: r.exception and r.exception.type),
    Column("exception_message", "str", lambda r: r.exception and r.exception.message),
]
LAUNCH_LINE: list[Column[Any]] = [
    *_same("index", "int"),
    *_same("name command", "str"),
    *_same("stream op", "int"),
    *_same("attribution time level logger", "str"),
    Column("arguments", "str", _arguments),
    Column("truncated", "str", _optional("truncated")),
]
TASK: list[Column[TaskRecord]] = [
    *_same("index", "int"),
    Column("kind", "str", lambda r: r.kind.value),
    *_same("name", "str"),
    *_same("device pid rank", "int"),
    *_same("source", "str"),
    *_same("slot written started finished read ret launch", "int"),
    *_same("stream event", "str"),
    *_same("queued_us", "int"),
]
NODE: list[Column[GraphNode]] = [
    *_same("index", "int"),
    *_same("variable", "str"),
    Column("kind", "str", lambda r: r.kind.value),
    *_same("name overload", "str"),
    Column("inputs", "str", lambda r: inputs_text(r.as_record())),
    Column("outputs", "str", _outputs),
    Column("takes", "list", lambda r: list(r.takes)),
    Column("phase", "str", lambda r: r.phase.value),
    *_same("recomputed", "bool"),
    *_same("module module_type", "str"),
    *_same("sequence", "int"),
    *_same("forward_node decomposed_from", "str"),
    *_source(lambda r: r.source),
]
KERNEL: list[Column[ComputedKernel]] = [
    *_same("kind", "str"),
    Column("state", "str", lambda r: r.state.value),
    *_same("file", "str"),
    *_same("line", "int"),
    *_same("note", "str"),
    *_same("fallthrough", "bool"),
]


def _counts(summary: LogSummary) -> Iterator[tuple[str, str | None, int]]:
    for what in ("records", "foreign", "bare", "truncated"):
        yield what, None, getattr(summary, what)
    for what in [
        "op_plugin",
        "launches",
        "signatures",
        "fallbacks",
        "copies",
        "copied_bytes",
        "casts",
        "waits",
        "waited_us",
    ]:
        for name, count in sorted(getattr(summary, what).items()):
            yield what, name, count


def _winners(table: DispatchTable) -> Iterator[tuple[str, str, ComputedKernel]]:
    for entry in table:
        for key, kernel in entry.kernels:
            yield entry.qualified_name, key, kernel


def _launches(report: DispatchReport) -> Iterator[tuple[ChainNode, Launch]]:
    found = [(n, launch) for n in report.nodes() for launch in n.launches]
    return iter(sorted(found, key=lambda each: each[1].record.index))


def _predicted(explanation: Explanation) -> Iterator[tuple[int, PredictedCall]]:
    pending = [(0, call) for call in reversed(explanation.calls)]
    while pending:
        depth, call = pending.pop()
        yield depth, call
        pending += [(depth + 1, each) for each in reversed(call.calls or ())]


def _nodes(graphs: GraphSet) -> Iterator[tuple[CapturedGraph, GraphNode]]:
    return ((graph, node) for graph in graphs for node in graph.nodes)


TABLES: tuple[Table[Any], ...] = (
    Table("calls", OpTrace, lambda x: x.records, tuple(CALL)),
    Table(
        "calls",
        DispatchReport,
        lambda x: x.nodes(),
        (
            *_of(lambda n: n.op, CALL),
            Column("verdict", "str", lambda n: n.verdict.value),
            Column("why", "str", lambda n: n.why),
            Column("launches", "list", lambda n: [each.name for each in n.launches]),
            Column("aclops", "list", lambda n: [t.name or "" for t in n.aclops]),
            Column("op_plugin", "list", lambda n: [each.name for each in n.op_plugin]),
        ),
    ),
    Table(
        "launches",
        DispatchReport,
        _launches,
        (
            *_of(lambda each: each[1].record, LAUNCH_LINE),
            Column("call", "str", lambda each: each[0].op.qualified_name),
            Column("module", "str", lambda each: each[0].op.module),
            *_source(lambda each: each[0].op.source),
            Column("task", "int", lambda each: each[1].task and each[1].task.index),
            Column("task_ret", "int", lambda each: each[1].task and each[1].task.ret),
            Column(
                "queued_us", "int", lambda each: each[1].task and each[1].task.queued_us
            ),
        ),
    ),
    Table[LogRecord](
        "lines",
        LogTrace,
        lambda x: x.records,
        (
            *_same("index offset", "int"),
            Column("record", "str", lambda r: type(r).__name__),
            *_same("time level logger", "str"),
            *_of(
                lambda r: r.origin,
                [*_same("pid tid rank", "int"), *_same("source", "str")],
            ),
            Column(
                "name",
                "str",
                lambda r: _optional("operator")(r) or _optional("name")(r),
            ),
            Column("op", "int", _optional("op")),
            Column("arguments", "str", _arguments),
            Column("message", "str", lambda r: r.message),
        ),
    ),
    Table("launches", LogTrace, lambda x: x.launches, tuple(LAUNCH_LINE)),
    Table("tasks", LogTrace, lambda x: x.tasks, tuple(TASK)),
    Table(
        "kernels",
        DispatchTable,
        _winners,
        (
            Column("operator", "str", lambda each: each[0]),
            Column("key", "str", lambda each: each[1]),
            *_of(lambda each: each[2], KERNEL),
        ),
    ),
    Table[KernelRegistration](
        "registrations",
        DispatchTable,
        lambda x: (each for entry in x for each in entry.registrations),
        (
            *_same("operator key file", "str"),
            *_same("line", "int"),
            *_same("note signature", "str"),
            *_same("boxed unboxed fallthrough alias active", "bool"),
        ),
    ),
    Table(
        "operators",
        DispatchTable,
        iter,
        (
            Column("operator", "str", lambda e: e.qualified_name),
            Column("kind", "str", lambda e: e.kind.value),
            Column("schema", "str", lambda e: e.schema),
            Column("defined_at", "str", lambda e: e.definition and e.definition.site),
            Column("registered_on", "list", lambda e: list(e.registered)),
        ),
    ),
    Table(
        "calls",
        RegistrationTrace,
        lambda x: x.calls,
        (
            *_same("operator module", "str"),
            Column("schema", "str", lambda c: c.entry.schema),
            Column("registered_on", "list", lambda c: list(c.entry.registered)),
        ),
    ),
    Table(
        "calls",
        Coverage,
        lambda x: x.calls,
        (
            *_same("operator module", "str"),
            Column("state", "str", lambda c: c.state.value),
            *_same("site through risk", "str"),
        ),
    ),
    Table(
        "calls",
        Explanation,
        _predicted,
        (
            Column("depth", "int", lambda each: each[0]),
            *_of(lambda each: each[1], _same("name overload module", "str")),
            Column("keys", "list", lambda each: list(each[1].keys)),
            Column(
                "action", "str", lambda each: each[1].last and each[1].last.action.value
            ),
            *_of(lambda each: each[1].last and each[1].last.kernel, KERNEL),
            Column("unknown", "str", lambda each: each[1].unknown),
        ),
    ),
    Table("nodes", CapturedGraph, lambda x: x.nodes, tuple(NODE)),
    Table(
        "nodes",
        GraphSet,
        _nodes,
        (
            Column("graph", "int", lambda each: each[0].index),
            Column("stage", "str", lambda each: each[0].stage.value),
            *_of(lambda each: each[1], NODE),
        ),
    ),
    Table(
        "counts",
        LogSummary,
        _counts,
        (
            Column("what", "str", lambda each: each[0]),
            Column("name", "str", lambda each: each[1]),
            Column("count", "int", lambda each: each[2]),
        ),
    ),
)
"""Of several for one class the first is the one that a file has."""


def table_of(thing: object, name: str | None = None) -> Table[Any]:
    """A table of an object, the first one where no name is given.

    Raises:
        UsageError: it has no table, or none of that name.
    """
    found = [each for each in TABLES if isinstance(thing, each.holds)]
    for each in found:
        if name in (None, each.name):
            return each
    kind = type(thing).__name__
    if not found:
        msg = f"A {kind} has no rows, so it makes no table."
        raise UsageError(msg)
    known = ", ".join(repr(each.name) for each in found)
    msg = f"A {kind} has no table {name!r}: choose one of {known}."
    raise UsageError(msg)
