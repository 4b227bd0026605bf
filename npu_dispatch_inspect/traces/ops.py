# SPDX-License-Identifier: BSD-3-Clause
"""A trace of operator calls: an ordered, immutable set of records with queries."""

from __future__ import annotations

import fnmatch
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import overload

from attrs import frozen

from npu_dispatch_inspect.errors import UsageError
from npu_dispatch_inspect.records import (
    Environment,
    OpRecord,
    Phase,
    TensorSpec,
    tensors_in,
)
from npu_dispatch_inspect.records.printed import Printed
from npu_dispatch_inspect.traces._deferred import Deferred

__all__ = ["CallNode", "CallTree", "Flow", "OpTrace"]


@frozen(kw_only=True)
class CallNode(Printed):
    """One call and the calls made inside it, in order.

    Example:
        >>> import torch
        >>> from npu_dispatch_inspect import trace_ops
        >>> with trace_ops(engine="dispatcher") as trace:
        ...     y = torch.ones(2, 3).t()
        >>> (node,) = [each for each in trace.tree() if each.record.name == "aten::t"]
        >>> [each.name for each in node.walk()]
        ['aten::t', 'aten::transpose', 'aten::as_strided']
    """

    record: OpRecord
    children: tuple[CallNode, ...] = ()

    def walk(self) -> Iterator[OpRecord]:
        """This call and everything below it, in the order of the calls."""
        yield self.record
        for child in self.children:
            yield from child.walk()


class CallTree(Printed, tuple[CallNode, ...]):
    """The outermost calls of a trace: a tuple that prints itself.

    Example:
        >>> import torch
        >>> from npu_dispatch_inspect import trace_ops
        >>> with trace_ops() as trace:
        ...     y = torch.ones(2).exp()
        >>> [node.record.name for node in trace.tree()]
        ['aten::ones', 'aten::exp']
    """

    __slots__ = ()


@frozen(kw_only=True)
class Flow(Printed):
    """Where the tensors of one call came from and where its results went.

    Example:
        >>> import torch
        >>> from npu_dispatch_inspect import trace_ops
        >>> with trace_ops() as trace:
        ...     y = torch.ones(2).exp().sum()
        >>> flow = trace.flow(trace.find("aten::exp")[0])
        >>> [each.name for each in flow.makers], [each.name for each in flow.users]
        (['aten::ones'], ['aten::sum'])
    """

    record: OpRecord
    makers: tuple[OpRecord, ...]
    """The last call before it that returned or wrote each input tensor."""
    users: tuple[OpRecord, ...]
    """Later calls that took one of its results as an input, as long as no other
    call had overwritten it."""


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
        wanted = _phase(phase) if phase is not None else None

        def keep(record: OpRecord) -> bool:
            return (
                (predicate is None or predicate(record))
                and (wanted is None or record.phase is wanted)
                and (name is None or _matches(record, name))
                and (
                    module is None
                    or (
                        record.module is not None
                        and _any_matches(record.module.split("|"), module)
                    )
                )
                and (region is None or _any_matches(record.regions, region))
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
        present = {each.index for each in self.records}
        below: dict[int | None, list[OpRecord]] = {}
        for each in self.records:
            parent = each.parent if each.parent in present else None
            below.setdefault(parent, []).append(each)
        nodes: dict[int, CallNode] = {}
        # From the last to the first: children begin after their parent, so they
        # are made by the time it is reached, without recursion.
        for each in reversed(self.records):
            children = tuple(nodes[child.index] for child in below.get(each.index, ()))
            nodes[each.index] = CallNode(record=each, children=children)
        return CallTree(nodes[each.index] for each in below.get(None, ()))

    def flow(self, record: OpRecord) -> Flow:
        """Who made the inputs of a call, and who used its results.

        Works on the identity of tensors within this trace: a tensor made before
        the block has no maker. A call that writes into a view has made every
        tensor on the same memory.
        """
        inputs = record.input_tensors
        makers: dict[int, OpRecord] = {}
        after: list[OpRecord] = []
        for each in self.records:
            if each.index > record.index:
                after.append(each)
            elif each.index < record.index:
                for position, spec in enumerate(inputs):
                    if _makes(each, spec):
                        makers[position] = each
        users: list[OpRecord] = []
        results = [spec for spec in record.output_tensors if spec.id is not None]
        written = [spec for spec in _written(record) if spec.id is not None]
        made = list({spec.id: spec for spec in (*written, *results)}.values())
        for each in after:
            if not made:
                break
            taken = {spec.id for spec in each.input_tensors}
            if any(spec.id in taken for spec in made):
                users.append(each)
            # What is overwritten is the result of another call from here on.
            made = [spec for spec in made if not _makes(each, spec)]
        unique = {each.index: each for each in makers.values()}
        return Flow(
            record=record,
            makers=tuple(unique[index] for index in sorted(unique)),
            users=tuple(users),
        )


def _phase(phase: Phase | str) -> Phase:
    try:
        return Phase(phase)
    except ValueError:
        known = ", ".join(repr(each.value) for each in Phase)
        msg = f"phase must be one of {known}, not {phase!r}."
        raise UsageError(msg) from None


def _written(record: OpRecord) -> tuple[TensorSpec, ...]:
    return tensors_in(tuple(each.value for each in record.inputs if each.written))


def _makes(record: OpRecord, spec: TensorSpec) -> bool:
    """True where a call returned or wrote a tensor."""
    if spec.id is not None and any(
        each.id == spec.id for each in (*record.output_tensors, *_written(record))
    ):
        return True
    return spec.storage_id is not None and any(
        each.storage_id == spec.storage_id for each in _written(record)
    )


def _any_matches(names: Iterable[str], pattern: str) -> bool:
    return any(fnmatch.fnmatchcase(each, pattern) for each in names)


def _matches(record: OpRecord, pattern: str) -> bool:
    return fnmatch.fnmatchcase(record.name, pattern) or fnmatch.fnmatchcase(
        f"{record.name}.{record.overload}", pattern
    )
