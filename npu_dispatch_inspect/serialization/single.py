# SPDX-License-Identifier: BSD-3-Clause
"""Things that are one record: their file has that record alone."""

from __future__ import annotations

from typing import Any, TypeVar

from attrs import frozen

from npu_dispatch_inspect.records.coverage import Coverage
from npu_dispatch_inspect.records.graphs import CapturedGraph
from npu_dispatch_inspect.records.paths import Explanation
from npu_dispatch_inspect.serialization._kinds import Kind, NoEnd, Parts
from npu_dispatch_inspect.traces.log_summary import LogSummary

__all__ = ["KINDS", "NoHead"]

T = TypeVar("T")


@frozen(kw_only=True)
class NoHead:
    """The head of a file whose record says everything."""


def _take_apart(record: Any) -> Parts:
    return Parts(NoHead(), (record,), NoEnd())


def _build(_: NoHead, records: list[T], __: NoEnd | None) -> T:
    if len(records) != 1:
        msg = f"there are {len(records)} records where one must be"
        raise ValueError(msg)
    return records[0]


def _single(name: str, holds: type[T]) -> Kind[T]:
    return Kind(
        name=name,
        noun=name.replace("_", " "),
        holds=holds,
        head=NoHead,
        records=(holds,),
        take_apart=_take_apart,
        build=_build,
    )


KINDS: tuple[Kind[Any], ...] = (
    _single("captured_graph", CapturedGraph),
    _single("coverage", Coverage),
    _single("explanation", Explanation),
    _single("log_summary", LogSummary),
)
