# SPDX-License-Identifier: BSD-3-Clause
"""What a PyTorch call really ran, and why, as records.

The names below load when they are first used, so importing this package imports
neither torch nor torch_npu.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from npu_dispatch_inspect.assertions.blocks import expect_ops
    from npu_dispatch_inspect.assertions.counts import (
        assert_has_ops,
        assert_no_ops,
        assert_only_ops,
        assert_op_count,
        assert_ops_replaced,
    )
    from npu_dispatch_inspect.assertions.logs import assert_log, assert_no_logs
    from npu_dispatch_inspect.assertions.sequences import (
        assert_launches,
        assert_ops,
        assert_ops_in_order,
        assert_ops_match,
        assert_same_ops,
    )
    from npu_dispatch_inspect.assertions.tables import assert_kernel, assert_no_fallback
    from npu_dispatch_inspect.capture.graphs import AOTGraphCapture, capture_graphs
    from npu_dispatch_inspect.capture.inspector import (
        DispatchInspector,
        inspect_dispatch,
    )
    from npu_dispatch_inspect.capture.logs import LogCapture, capture_logs
    from npu_dispatch_inspect.capture.ops import OpTracer, region, trace_ops
    from npu_dispatch_inspect.comparison import Comparison, compare
    from npu_dispatch_inspect.dispatch_table.compare import compare_tables
    from npu_dispatch_inspect.dispatch_table.coverage import coverage
    from npu_dispatch_inspect.dispatch_table.dtypes import probe_dtypes
    from npu_dispatch_inspect.dispatch_table.explain import calls_operator, explain
    from npu_dispatch_inspect.dispatch_table.reader import (
        DispatchTableReader,
        read_dispatch_table,
    )
    from npu_dispatch_inspect.dispatch_table.registrations import trace_registrations
    from npu_dispatch_inspect.display.richview import show
    from npu_dispatch_inspect.environment import read_environment
    from npu_dispatch_inspect.errors import (
        InspectError,
        RecordError,
        StandInError,
        UnknownNameError,
        UsageError,
        ValuesError,
    )
    from npu_dispatch_inspect.export.saving import save
    from npu_dispatch_inspect.export.tables import (
        to_arrow,
        to_pandas,
        to_polars,
        to_rows,
    )
    from npu_dispatch_inspect.npu_logs import (
        LogIndex,
        index_logs,
        join_records,
        map_logs,
        parse_arguments,
        parse_logs,
        read_logs,
        summarize_logs,
    )
    from npu_dispatch_inspect.opsets import DETACH_OPS, VIEW_OPS
    from npu_dispatch_inspect.patterns import Pattern, any_order, op, optional
    from npu_dispatch_inspect.records import (
        Argument,
        Constant,
        Environment,
        ExceptionRecord,
        KernelChoice,
        OpRecord,
        Phase,
        SourceLocation,
        TensorSpec,
    )
    from npu_dispatch_inspect.records.chains import (
        ChainNode,
        Failure,
        Launch,
        NativeCall,
        Verdict,
    )
    from npu_dispatch_inspect.records.comparisons import Difference
    from npu_dispatch_inspect.records.coverage import Coverage
    from npu_dispatch_inspect.records.graphs import (
        CapturedGraph,
        GraphBreak,
        GraphFailure,
        GraphInput,
        GraphNode,
        GraphOutput,
        GraphStage,
        SavedTensor,
    )
    from npu_dispatch_inspect.records.paths import (
        BackendChoice,
        DtypeProbe,
        Explanation,
        PredictedCall,
    )
    from npu_dispatch_inspect.records.registrations import (
        ComputedKernel,
        KernelRegistration,
        KernelState,
        OperatorEntry,
    )
    from npu_dispatch_inspect.records.table_changes import TableChange, TableChanges
    from npu_dispatch_inspect.records.traced_registrations import RegistrationTrace
    from npu_dispatch_inspect.serialization import load
    from npu_dispatch_inspect.traces.graphs import GraphSet
    from npu_dispatch_inspect.traces.log_summary import LogSummary
    from npu_dispatch_inspect.traces.logs import LogTrace
    from npu_dispatch_inspect.traces.ops import CallNode, CallTree, Flow, OpTrace
    from npu_dispatch_inspect.traces.report import (
        Copy,
        DispatchReport,
        ModuleShare,
    )
    from npu_dispatch_inspect.traces.tables import DispatchTable

_HOMES = {
    "AOTGraphCapture": "capture.graphs",
    "Argument": "records",
    "BackendChoice": "records.paths",
    "CallNode": "traces.ops",
    "CallTree": "traces.ops",
    "CapturedGraph": "records.graphs",
    "ChainNode": "records.chains",
    "Comparison": "comparison",
    "ComputedKernel": "records.registrations",
    "Constant": "records",
    "Copy": "traces.report",
    "Coverage": "records.coverage",
    "DETACH_OPS": "opsets",
    "Difference": "records.comparisons",
    "DispatchInspector": "capture.inspector",
    "DispatchReport": "traces.report",
    "DispatchTable": "traces.tables",
    "DispatchTableReader": "dispatch_table.reader",
    "DtypeProbe": "records.paths",
    "Environment": "records",
    "ExceptionRecord": "records",
    "Explanation": "records.paths",
    "Failure": "records.chains",
    "Flow": "traces.ops",
    "GraphBreak": "records.graphs",
    "GraphFailure": "records.graphs",
    "GraphInput": "records.graphs",
    "GraphNode": "records.graphs",
    "GraphOutput": "records.graphs",
    "GraphSet": "traces.graphs",
    "GraphStage": "records.graphs",
    "InspectError": "errors",
    "KernelChoice": "records",
    "KernelRegistration": "records.registrations",
    "KernelState": "records.registrations",
    "Launch": "records.chains",
    "LogCapture": "capture.logs",
    "LogIndex": "npu_logs",
    "LogSummary": "traces.log_summary",
    "LogTrace": "traces.logs",
    "ModuleShare": "traces.report",
    "NativeCall": "records.chains",
    "OpRecord": "records",
    "OpTrace": "traces.ops",
    "OpTracer": "capture.ops",
    "OperatorEntry": "records.registrations",
    "Pattern": "patterns",
    "Phase": "records",
    "PredictedCall": "records.paths",
    "RecordError": "errors",
    "RegistrationTrace": "records.traced_registrations",
    "SavedTensor": "records.graphs",
    "SourceLocation": "records",
    "StandInError": "errors",
    "TableChange": "records.table_changes",
    "TableChanges": "records.table_changes",
    "TensorSpec": "records",
    "UnknownNameError": "errors",
    "UsageError": "errors",
    "VIEW_OPS": "opsets",
    "ValuesError": "errors",
    "Verdict": "records.chains",
    "any_order": "patterns",
    "assert_has_ops": "assertions.counts",
    "assert_kernel": "assertions.tables",
    "assert_launches": "assertions.sequences",
    "assert_log": "assertions.logs",
    "assert_no_fallback": "assertions.tables",
    "assert_no_logs": "assertions.logs",
    "assert_no_ops": "assertions.counts",
    "assert_only_ops": "assertions.counts",
    "assert_op_count": "assertions.counts",
    "assert_ops": "assertions.sequences",
    "assert_ops_in_order": "assertions.sequences",
    "assert_ops_match": "assertions.sequences",
    "assert_ops_replaced": "assertions.counts",
    "assert_same_ops": "assertions.sequences",
    "calls_operator": "dispatch_table.explain",
    "capture_graphs": "capture.graphs",
    "capture_logs": "capture.logs",
    "compare": "comparison",
    "compare_tables": "dispatch_table.compare",
    "coverage": "dispatch_table.coverage",
    "expect_ops": "assertions.blocks",
    "explain": "dispatch_table.explain",
    "index_logs": "npu_logs",
    "inspect_dispatch": "capture.inspector",
    "join_records": "npu_logs",
    "load": "serialization",
    "map_logs": "npu_logs",
    "op": "patterns",
    "optional": "patterns",
    "parse_arguments": "npu_logs",
    "parse_logs": "npu_logs",
    "probe_dtypes": "dispatch_table.dtypes",
    "read_dispatch_table": "dispatch_table.reader",
    "read_environment": "environment",
    "read_logs": "npu_logs",
    "region": "capture.ops",
    "save": "export.saving",
    "show": "display.richview",
    "summarize_logs": "npu_logs",
    "to_arrow": "export.tables",
    "to_pandas": "export.tables",
    "to_polars": "export.tables",
    "to_rows": "export.tables",
    "trace_ops": "capture.ops",
    "trace_registrations": "dispatch_table.registrations",
}

__all__ = [
    "DETACH_OPS",
    "VIEW_OPS",
    "AOTGraphCapture",
    "Argument",
    "BackendChoice",
    "CallNode",
    "CallTree",
    "CapturedGraph",
    "ChainNode",
    "Comparison",
    "ComputedKernel",
    "Constant",
    "Copy",
    "Coverage",
    "Difference",
    "DispatchInspector",
    "DispatchReport",
    "DispatchTable",
    "DispatchTableReader",
    "DtypeProbe",
    "Environment",
    "ExceptionRecord",
    "Explanation",
    "Failure",
    "Flow",
    "GraphBreak",
    "GraphFailure",
    "GraphInput",
    "GraphNode",
    "GraphOutput",
    "GraphSet",
    "GraphStage",
    "InspectError",
    "KernelChoice",
    "KernelRegistration",
    "KernelState",
    "Launch",
    "LogCapture",
    "LogIndex",
    "LogSummary",
    "LogTrace",
    "ModuleShare",
    "NativeCall",
    "OpRecord",
    "OpTrace",
    "OpTracer",
    "OperatorEntry",
    "Pattern",
    "Phase",
    "PredictedCall",
    "RecordError",
    "RegistrationTrace",
    "SavedTensor",
    "SourceLocation",
    "StandInError",
    "TableChange",
    "TableChanges",
    "TensorSpec",
    "UnknownNameError",
    "UsageError",
    "ValuesError",
    "Verdict",
    "any_order",
    "assert_has_ops",
    "assert_kernel",
    "assert_launches",
    "assert_log",
    "assert_no_fallback",
    "assert_no_logs",
    "assert_no_ops",
    "assert_only_ops",
    "assert_op_count",
    "assert_ops",
    "assert_ops_in_order",
    "assert_ops_match",
    "assert_ops_replaced",
    "assert_same_ops",
    "calls_operator",
    "capture_graphs",
    "capture_logs",
    "compare",
    "compare_tables",
    "coverage",
    "expect_ops",
    "explain",
    "index_logs",
    "inspect_dispatch",
    "join_records",
    "load",
    "map_logs",
    "op",
    "optional",
    "parse_arguments",
    "parse_logs",
    "probe_dtypes",
    "read_dispatch_table",
    "read_environment",
    "read_logs",
    "region",
    "save",
    "show",
    "summarize_logs",
    "to_arrow",
    "to_pandas",
    "to_polars",
    "to_rows",
    "trace_ops",
    "trace_registrations",
]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("npu-dispatch-inspect")
    home = _HOMES.get(name)
    if home is None:
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)
    value = getattr(import_module(f"{__name__}.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__, "__version__"])


def load_ipython_extension(ipython: Any) -> None:
    """Add the magics to IPython: ``%load_ext npu_dispatch_inspect``."""
    from npu_dispatch_inspect.ipython import load_ipython_extension as load

    load(ipython)
