# SPDX-License-Identifier: BSD-3-Clause
"""A trace of operator calls: an ordered, immutable set of records with queries."""

from __future__ import annotations

import fnmatch
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import overload

from npu_dispatch_inspect._call_patterns import as_phase
from npu_dispatch_inspect._globs import in_module, is_operator
from npu_dispatch_inspect.records import Environment, OpRecord, Phase
from npu_dispatch_inspect.records.printed import Printed
from npu_dispatch_inspect.traces._deferred import Deferred
from npu_dispatch_inspect.traces.call_tree import CallNode, CallTree, call_tree
from npu_dispatch_inspect.traces.flow import Flow, flow_of

__all__ = ["CallNode", "CallTree", "Flow", "OpTrace"]


class OpTrace(Printed, Deferred, Sequence[OpRecord]):
    """Operator calls in the order in which they began.

    A slice or a query gives a smaller trace whose records keep the index they
    had, so a position in a part is a position in the whole.

    Inside the traced block a trace shows what has been recorded so far; once the
    block has ended it is an immutable value. Records are built when they are
    first looked at.

    Args:
        records: the calls.
        environment: where they were made.
        engine: ``"dispatch_mode"`` sees what reaches `__torch_dispatch__`;
            ``"dispatcher"`` sees every dispatcher call, composites and calls
            inside kernels included.
        label: a name for people.
        truncated: `max_ops` was reached; calls after the last are missing.
        notes: what this trace could not see, a sentence each.

    Example:
        >>> import torch
        >>> from npu_dispatch_inspect import trace_ops
        >>> layer = torch.nn.Linear(4, 2)
        >>> with trace_ops() as trace:
        ...     layer(torch.ones(3, 4)).sum().backward()
        >>> trace.forward.names
        ('aten::ones', 'aten::t', 'aten::addmm', 'aten::sum')
        >>> trace.backward.counts()["aten::mm"]
        1
        >>> trace.in_module("").without("aten::t").forward.names
        ('aten::addmm',)
    """

    _fields = __slots__ = (
        "_records",
        "_environment",
        "_engine",
        "_label",
        "_truncated",
        "_notes",
    )

    def __init__(
        self,
        *,
        records: Iterable[OpRecord] = (),
        environment: Environment,
        engine: str = "dispatch_mode",
        label: str | None = None,
        truncated: bool = False,
        notes: tuple[str, ...] = (),
    ) -> None:
        self._records = tuple(records)
        self._environment = environment
        self._engine = engine
        self._label = label
        self._truncated = truncated
        self._notes = notes
        self._source = None

    def _with(self, records: Iterable[OpRecord]) -> OpTrace:
        now = self._now()
        return OpTrace(
            records=records,
            environment=now._environment,
            engine=now._engine,
            label=now._label,
            truncated=now._truncated,
            notes=now._notes,
        )

    @property
    def records(self) -> tuple[OpRecord, ...]:
        """The calls."""
        return self._now()._records

    @property
    def environment(self) -> Environment:
        """Where the calls were made."""
        return self._now()._environment

    @property
    def engine(self) -> str:
        """``"dispatch_mode"`` or ``"dispatcher"``."""
        return self._now()._engine

    @property
    def label(self) -> str | None:
        """The name given to the block."""
        return self._now()._label

    @property
    def truncated(self) -> bool:
        """`max_ops` was reached: calls after the last record are missing."""
        return self._now()._truncated

    @property
    def notes(self) -> tuple[str, ...]:
        """What this trace could not see, a sentence each."""
        return self._now()._notes

    @overload
    def __getitem__(self, key: int) -> OpRecord: ...

    @overload
    def __getitem__(self, key: slice) -> OpTrace: ...

    def __getitem__(self, key: int | slice) -> OpRecord | OpTrace:
        """The record at a position of this trace, or a part of it."""
        if isinstance(key, slice):
            return self._with(self.records[key])
        return self.records[key]

    def __len__(self) -> int:
        """How many calls."""
        return len(self.records)

    def __repr__(self) -> str:
        """Short and code-like; `print` shows the table."""
        label = f"{self.label!r}, " if self.label else ""
        return f"OpTrace({label}{len(self.records)} ops, engine={self.engine!r})"

    @property
    def complete(self) -> bool:
        """False where something is known to be missing."""
        return not self.truncated and not self.notes

    @property
    def ops(self) -> tuple[OpRecord, ...]:
        """The records; another name for `records`."""
        return self.records

    @property
    def names(self) -> tuple[str, ...]:
        """``("aten::t", "aten::addmm")``: operators without overloads, in order."""
        return tuple(each.name for each in self.records)

    @property
    def qualified_names(self) -> tuple[str, ...]:
        """As `names`, with the overload where it is not the default one."""
        return tuple(each.qualified_name for each in self.records)

    @property
    def forward(self) -> OpTrace:
        """The calls of the forward phase."""
        return self.filter(phase=Phase.FORWARD)

    @property
    def backward(self) -> OpTrace:
        """The calls of the backward phase."""
        return self.filter(phase=Phase.BACKWARD)

    @property
    def optimizer(self) -> OpTrace:
        """The calls inside an optimizer's step."""
        return self.filter(phase=Phase.OPTIMIZER)

    def filter(
        self,
        predicate: Callable[[OpRecord], bool] | None = None,
        *,
        name: str | None = None,
        phase: Phase | str | None = None,
        module: str | None = None,
        region: str | None = None,
    ) -> OpTrace:
        """The calls for which every given condition holds.

        Args:
            predicate: a function of the record.
            name: a glob over the operator, with or without its overload.
            phase: a `Phase` or its value.
            module: a glob over the module path; of a module with several names,
                one has to match.
            region: a glob over the names of the `region` blocks around the call.

        Raises:
            UsageError: there is no such phase.
        """
        wanted = as_phase(phase) if phase is not None else None

        def keep(record: OpRecord) -> bool:
            return (
                (predicate is None or predicate(record))
                and (wanted is None or record.phase is wanted)
                and (name is None or _matches(record, name))
                and (module is None or in_module(record.module, module))
                and (
                    region is None
                    or any(fnmatch.fnmatchcase(each, region) for each in record.regions)
                )
            )

        return self._with(filter(keep, self.records))

    def in_module(self, pattern: str) -> OpTrace:
        """The calls made in modules whose path matches a glob: ``"encoder.*"``."""
        return self.filter(module=pattern)

    def in_region(self, name: str) -> OpTrace:
        """The calls made inside `region` blocks whose name matches a glob."""
        return self.filter(region=name)

    def without(self, *names: str | Iterable[str]) -> OpTrace:
        """Leave out operators: globs, or a set of names such as `VIEW_OPS`."""
        patterns: list[str] = []
        exact: set[str] = set()
        for each in names:
            if isinstance(each, str):
                patterns.append(each)
            else:
                exact.update(each)
        return self.filter(
            lambda record: (
                record.name not in exact
                and record.qualified_name not in exact
                and not any(_matches(record, pattern) for pattern in patterns)
            )
        )

    def find(self, name: str) -> OpTrace:
        """The calls of an operator: a glob, with or without an overload."""
        return self.filter(name=name)

    def counts(self) -> dict[str, int]:
        """Calls per operator, the most frequent first, then by name."""
        counted = Counter(self.names)
        return dict(sorted(counted.items(), key=lambda item: (-item[1], item[0])))

    def tree(self) -> CallTree:
        """The calls nested as they were made.

        A call whose parent is not in this trace stands at the top.
        """
        return call_tree(self.records)

    def flow(self, record: OpRecord) -> Flow:
        """Who made the inputs of a call, and who used its results.

        Works on the identity of tensors within this trace: a tensor made before
        the block has no maker. A call that writes into a view has made every
        tensor on the same memory.
        """
        return flow_of(record, self.records)


def _matches(record: OpRecord, pattern: str) -> bool:
    return is_operator(record.name, record.overload, pattern)
