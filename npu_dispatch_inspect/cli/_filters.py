# SPDX-License-Identifier: BSD-3-Clause
"""A part of a trace, report, log, table or graphs, chosen by options."""

from __future__ import annotations

from collections.abc import Callable
from fnmatch import fnmatchcase
from typing import Any

from attrs import frozen

from npu_dispatch_inspect._globs import in_module, is_operator
from npu_dispatch_inspect.errors import UsageError

__all__ = ["Filters"]


@frozen(kw_only=True)
class Filters:
    """The conditions; None and () ask for nothing."""

    op: str | None = None
    ignore: tuple[str, ...] = ()
    module: str | None = None
    phase: str | None = None
    rank: int | None = None
    fallback: bool = False

    def apply(self, value: Any, name: str) -> Any:
        """The part of a value that fits all conditions.

        Args:
            value: what a file holds.
            name: what to call the file.

        Raises:
            UsageError: a condition says nothing about such a file.
        """
        asked = self.check(value, name)
        part = _PARTS.get(type(value).__name__)
        return part(self, value) if asked and part is not None else value

    def check(self, value: Any, name: str) -> bool:
        """Whether any condition is given.

        Raises:
            UsageError: one says nothing about such a file.
        """
        kind = type(value).__name__
        asked = False
        for option, nothing in _NOTHING.items():
            if getattr(self, option) == nothing:
                continue
            asked = True
            if option not in _USABLE.get(kind, ()):
                msg = (
                    f"--{option} says nothing about {name}, which holds "
                    f"{_WHAT.get(kind, kind)}."
                )
                raise UsageError(msg)
        return asked

    def keeps(self, call: Any) -> bool:
        """Whether one operator call, or node of a graph, fits."""
        return (
            (self.op is None or _is_op(call, self.op))
            and not any(_is_op(call, each) for each in self.ignore)
            and (self.module is None or in_module(call.module, self.module))
            and (self.phase is None or call.phase.value == self.phase)
        )


def _is_op(call: Any, glob: str) -> bool:
    return is_operator(call.name, call.overload, glob)


def _of_trace(filters: Filters, trace: Any) -> Any:
    return trace.filter(filters.keeps)


def _of_report(filters: Filters, report: Any) -> Any:
    """The report below the outermost calls that fit."""
    from npu_dispatch_inspect.records.chains import Verdict

    wanted = (Verdict.CPU_FALLBACK, Verdict.HIDDEN_CPU)
    return report.filter(
        lambda node: (
            filters.keeps(node.op) and (not filters.fallback or node.verdict in wanted)
        )
    )


def _of_log(filters: Filters, log: Any) -> Any:
    def keep(record: Any) -> bool:
        name = getattr(record, "name", None) or getattr(record, "operator", None)
        return (
            (filters.rank is None or record.origin.rank == filters.rank)
            and (
                filters.op is None
                or (name is not None and fnmatchcase(name, filters.op))
            )
            and not any(name and fnmatchcase(name, each) for each in filters.ignore)
            and (not filters.fallback or hasattr(record, "operator"))
        )

    return log.filter(keep)


def _of_table(filters: Filters, table: Any) -> Any:
    if filters.op is not None:
        table = table.operators(name=filters.op)
    return table.fallback() if filters.fallback else table


_NOTHING = {
    "op": None,
    "ignore": (),
    "module": None,
    "phase": None,
    "rank": None,
    "fallback": False,
}
_USABLE = {
    "OpTrace": ("op", "ignore", "module", "phase"),
    "DispatchReport": ("op", "ignore", "module", "phase", "fallback"),
    "GraphSet": ("op", "ignore", "module", "phase"),
    "CapturedGraph": ("op", "ignore", "module", "phase"),
    "LogTrace": ("op", "ignore", "rank", "fallback"),
    "DispatchTable": ("op", "fallback"),
}
_PARTS: dict[str, Callable[[Filters, Any], Any]] = {
    "OpTrace": _of_trace,
    "DispatchReport": _of_report,
    "LogTrace": _of_log,
    "DispatchTable": _of_table,
}
_WHAT = {
    "OpTrace": "a trace of operator calls",
    "DispatchReport": "a report",
    "LogTrace": "a log",
    "DispatchTable": "a dispatch table",
    "GraphSet": "graphs",
    "CapturedGraph": "a graph",
}
