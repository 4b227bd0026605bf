# SPDX-License-Identifier: BSD-3-Clause
"""Objects of every kind that has files, made by hand or by hypothesis."""

from __future__ import annotations

from hypothesis import strategies as st

from npu_dispatch_inspect.records import Environment, MissingReason, OpRecord
from npu_dispatch_inspect.records.chains import ChainNode, Failure, NativeCall
from npu_dispatch_inspect.records.coverage import Coverage
from npu_dispatch_inspect.records.dispatch_keys import KeyNames
from npu_dispatch_inspect.records.graphs import (
    CapturedGraph,
    GraphBreak,
    GraphFailure,
)
from npu_dispatch_inspect.records.paths import Explanation
from npu_dispatch_inspect.records.registrations import OperatorEntry
from npu_dispatch_inspect.records.traced_registrations import RegistrationTrace
from npu_dispatch_inspect.serialization.log_trace import LINES
from npu_dispatch_inspect.traces.graphs import GraphSet
from npu_dispatch_inspect.traces.log_summary import LogSummary
from npu_dispatch_inspect.traces.logs import LogTrace
from npu_dispatch_inspect.traces.ops import OpTrace
from npu_dispatch_inspect.traces.report import DispatchReport
from npu_dispatch_inspect.traces.tables import DispatchTable, EntrySource
from tests.strategies import of

__all__ = ["ENVIRONMENT", "THINGS"]

ENVIRONMENT = Environment(tool="0", python="3", platform="x", switches=(("A", "1"),))


def few(kind):
    """None, one or two of a record, as a tuple."""
    return st.lists(of(kind), max_size=2).map(tuple)


notes = few(str)
op_traces = st.builds(
    OpTrace,
    records=few(OpRecord),
    environment=of(Environment),
    engine=of(str),
    label=of(str | None),
    truncated=st.booleans(),
    notes=notes,
)
log_traces = st.builds(
    LogTrace,
    records=st.lists(st.one_of([of(kind) for kind in LINES]), max_size=2),
    environment=of(Environment | None),
    label=of(str | None),
    incomplete=notes,
    missing=few(MissingReason),
)
reports = st.builds(
    DispatchReport,
    chains=few(ChainNode),
    trace=op_traces,
    logs=st.none() | log_traces,
    failure=of(Failure | None),
    logger_calls=st.integers(0, 9),
    native_calls=st.none() | few(NativeCall),
    notes=notes,
)
tables = st.builds(
    lambda entries, **more: DispatchTable(EntrySource(entries), **more),
    st.lists(of(OperatorEntry), max_size=2),
    keys=of(KeyNames),
    environment=of(Environment | None),
    complete=st.booleans(),
)
graph_sets = st.builds(
    GraphSet,
    graphs=few(CapturedGraph),
    failures=few(GraphFailure),
    breaks=few(GraphBreak),
    notes=notes,
    environment=of(Environment),
)

THINGS = {
    "op_trace": op_traces,
    "log_trace": log_traces,
    "dispatch_report": reports,
    "dispatch_table": tables,
    "registration_trace": of(RegistrationTrace),
    "graph_set": graph_sets,
    "captured_graph": of(CapturedGraph),
    "coverage": of(Coverage),
    "explanation": of(Explanation),
    "log_summary": of(LogSummary),
}
"""A strategy for each kind, by its name."""
