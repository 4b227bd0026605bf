# SPDX-License-Identifier: BSD-3-Clause
"""Registration tables as files, so that processes and versions can be compared.

A whole registry is some 6 MB as ``.jsonl``, a sixth of that packed
(``.json.gz``, ``.jsonl.gz``).
"""

from __future__ import annotations

from collections.abc import Iterator

from attrs import frozen

from npu_dispatch_inspect.records import Environment
from npu_dispatch_inspect.records.dispatch_keys import KeyNames
from npu_dispatch_inspect.records.traced_registrations import (
    RegisteredCall,
    RegistrationTrace,
)
from npu_dispatch_inspect.serialization._kinds import Content, Kind, NoEnd, Parts
from npu_dispatch_inspect.serialization._packing import (
    OperatorRow,
    Packer,
    Pools,
    unpack,
)
from npu_dispatch_inspect.serialization._writing import TAG
from npu_dispatch_inspect.traces.tables import DispatchTable, EntrySource

__all__ = ["REGISTRATIONS", "TABLE", "DispatchTableHead", "RegistrationTraceHead"]


@frozen(kw_only=True)
class DispatchTableHead:
    """What a table has besides its operators."""

    environment: Environment | None = None
    """Versions and switches of the process the table was read in."""
    complete: bool = False
    """The table has the whole registry."""
    keys: KeyNames
    pools: Pools
    """What the operators refer to by number."""


@frozen(kw_only=True)
class RegistrationTraceHead:
    """What a trace of registrations has besides its calls."""

    route: str
    """``"jit.trace"`` or ``"make_fx"``."""
    reason: str
    """Why that route was taken."""
    keys: KeyNames
    pools: Pools
    """What the operators refer to by number."""
    operators: tuple[OperatorRow, ...] = ()
    """Each operator that is called, once."""


@frozen(kw_only=True)
class CallRow:
    """One call in a traced graph."""

    operator: str
    """Qualified: ``"aten::linear"``."""
    module: str | None
    """``"encoder.linear1"``; empty text for the root, None where there is no module."""
    entry: int
    """Position in `operators`."""


def _table_apart(table: DispatchTable) -> Parts:
    packer = Packer()
    rows = [packer.row(entry) for entry in table]
    head = DispatchTableHead(
        environment=table.environment,
        complete=table.complete,
        keys=table.keys,
        pools=packer.pools(),
    )
    return Parts(head, rows, NoEnd())


def _table(
    head: DispatchTableHead, rows: list[OperatorRow], _: NoEnd | None
) -> DispatchTable:
    return DispatchTable(
        EntrySource(unpack(rows, head.pools, head.keys)),
        keys=head.keys,
        environment=head.environment,
        complete=head.complete,
    )


def _table_from_1(contents: Iterator[Content]) -> Iterator[Content]:
    """Version 1 had everything in one object, and no defaults left out."""
    head = dict(next(contents))
    operators = head.pop("operators")
    pools = ("files", "signatures", "used_keys", "kernels")
    head["pools"] = {name: head.pop(name) for name in pools}
    yield head
    for each in operators:
        yield {TAG: "OperatorRow", **each}
    yield {"end": {"records": len(operators)}}


def _trace_apart(trace: RegistrationTrace) -> Parts:
    packer = Packer()
    entries = list(dict.fromkeys(call.entry for call in trace.calls))
    numbers = {entry: number for number, entry in enumerate(entries)}
    rows = tuple(map(packer.row, entries))
    head = RegistrationTraceHead(
        route=trace.route,
        reason=trace.reason,
        keys=entries[0].keys if entries else KeyNames(names=()),
        pools=packer.pools(),
        operators=rows,
    )
    calls = (
        CallRow(operator=call.operator, module=call.module, entry=numbers[call.entry])
        for call in trace.calls
    )
    return Parts(head, calls, NoEnd())


def _trace(
    head: RegistrationTraceHead, rows: list[CallRow], _: NoEnd | None
) -> RegistrationTrace:
    entries = dict(enumerate(unpack(list(head.operators), head.pools, head.keys)))
    calls = tuple(
        RegisteredCall(
            operator=row.operator, module=row.module, entry=entries[row.entry]
        )
        for row in rows
    )
    return RegistrationTrace(route=head.route, reason=head.reason, calls=calls)


TABLE = Kind(
    name="dispatch_table",
    noun="dispatch table",
    major=2,
    holds=DispatchTable,
    head=DispatchTableHead,
    records=(OperatorRow,),
    take_apart=_table_apart,
    build=_table,
    migrations={1: _table_from_1},
)
REGISTRATIONS = Kind(
    name="registration_trace",
    noun="trace of registrations",
    holds=RegistrationTrace,
    head=RegistrationTraceHead,
    records=(CallRow,),
    take_apart=_trace_apart,
    build=_trace,
)
