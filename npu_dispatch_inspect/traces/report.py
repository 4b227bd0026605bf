# SPDX-License-Identifier: BSD-3-Clause
"""The joined answer: chains from the module down to the queue task, with queries."""

from __future__ import annotations

import difflib
import fnmatch
from collections import Counter
from collections.abc import Iterator
from typing import Protocol

from attrs import frozen

from npu_dispatch_inspect.errors import UsageError
from npu_dispatch_inspect.records import (
    Environment,
    ExceptionRecord,
    SourceLocation,
    TensorSpec,
)
from npu_dispatch_inspect.records.chains import ChainNode, Launch, Verdict
from npu_dispatch_inspect.records.logs import AclnnRecord, MissingReason
from npu_dispatch_inspect.traces.logs import LogTrace
from npu_dispatch_inspect.traces.ops import OpTrace

__all__ = ["Copy", "DispatchReport", "Failure", "ModuleShare", "ReportSource"]

LAST_LAUNCHES = 8
"""So many launches before an error are shown: any of them may be the cause."""


@frozen(kw_only=True)
class Copy:
    """A cast or copy, and what asked for it."""

    kind: str
    """``"dtype cast"``, ``"format cast"``, ``"contiguous copy"``, ``"copy"`` (into a
    tensor that was there), ``"host to device"``, ``"device to host"``."""
    node: ChainNode
    copied: TensorSpec
    """What was copied or cast."""
    result: TensorSpec | None
    """What it became; None where it became a Python number."""
    cause: str | None
    """The call it was made in, and why where that is known: ``"autocast of
    aten::linear"``; None where the program asked for it itself."""
    source: SourceLocation | None
    """The user's line."""

    def __str__(self) -> str:
        change = str(self.copied)
        if self.result is not None and str(self.result) != change:
            change += f" -> {self.result}"
        cause = f", {self.cause}" if self.cause else ""
        return f"{self.kind}: {change}{cause}"


@frozen(kw_only=True)
class ModuleShare:
    """What one module did itself, the modules inside it left out."""

    module: str | None
    """None for calls outside any module."""
    calls: int
    launches: Counter[str]
    verdicts: Counter[Verdict]


@frozen(kw_only=True)
class Failure:
    """The error the block died of, and the launches before it.

    The device works behind the host: an error surfaces at a later call, so the
    operator that is named need not be the one at fault.
    """

    exception: ExceptionRecord
    reported: str | None
    """The aclnn or aclop operator that the error names."""
    asynchronous: bool
    """The error came from the device, so an earlier launch may be its cause."""
    before: tuple[tuple[Launch, SourceLocation | None], ...]
    """The last launches before it, oldest first, with the user's lines."""


class ReportSource(Protocol):
    """A block that is being inspected, or whose report is not built yet."""

    finished: bool

    def snapshot(self) -> DispatchReport:
        """What has been seen so far, as a report of its own."""


class DispatchReport:
    """What a block ran, from the module down to the queue task.

    Inside the block the report shows what has been seen so far; afterwards it is
    an immutable value, built when somebody looks.
    """

    __slots__ = ("_chains", "_failure", "_logs", "_notes", "_source", "_trace")

    def __init__(
        self,
        *,
        chains: tuple[ChainNode, ...],
        trace: OpTrace,
        logs: LogTrace | None = None,
        failure: Failure | None = None,
        notes: tuple[str, ...] = (),
    ) -> None:
        self._chains = chains
        self._trace = trace
        self._logs = logs
        self._failure = failure
        self._notes = notes
        self._source: ReportSource | None = None

    @classmethod
    def of_source(cls, source: ReportSource) -> DispatchReport:
        """A report that asks ``source`` when somebody looks."""
        report = cls.__new__(cls)
        report._source = source
        return report

    def _now(self) -> DispatchReport:
        source = self._source
        if source is None:
            return self
        finished = source.finished
        snapshot = source.snapshot()
        if not finished:
            return snapshot
        for name in self.__slots__:
            setattr(self, name, getattr(snapshot, name))
        return self

    @property
    def chains(self) -> tuple[ChainNode, ...]:
        """The calls the program made itself, each with everything below it."""
        return self._now()._chains

    @property
    def trace(self) -> OpTrace:
        """The operator calls."""
        return self._now()._trace

    @property
    def logs(self) -> LogTrace | None:
        """torch_npu's log lines; None where they were not captured."""
        return self._now()._logs

    @property
    def environment(self) -> Environment:
        """Where the block ran."""
        return self.trace.environment

    @property
    def failure(self) -> Failure | None:
        """What the block died of, if it did."""
        return self._now()._failure

    @property
    def notes(self) -> tuple[str, ...]:
        """What this report could not see, a sentence each."""
        return self._now()._notes

    @property
    def missing(self) -> tuple[MissingReason, ...]:
        """Kinds of log lines that did not come, with reasons and remedies."""
        logs = self.logs
        return () if logs is None else logs.missing

    @property
    def complete(self) -> bool:
        """False where something is known to be missing."""
        now = self._now()
        return (
            not now._notes
            and now._trace.complete
            and (now._logs is None or (now._logs.complete and not now._logs.missing))
        )

    def nodes(self) -> Iterator[ChainNode]:
        """Every call, in the order of the calls."""
        for chain in self.chains:
            yield from chain.walk()

    def find(self, name: str) -> tuple[ChainNode, ...]:
        """Calls whose operator matches a glob, with or without its overload."""
        return tuple(
            node
            for node in self.nodes()
            if fnmatch.fnmatchcase(node.op.name, name)
            or fnmatch.fnmatchcase(f"{node.op.name}.{node.op.overload}", name)
        )

    @property
    def launches(self) -> tuple[Launch, ...]:
        """Every launch that a call was seen to make, in order."""
        found = [launch for node in self.nodes() for launch in node.launches]
        return tuple(sorted(found, key=lambda launch: launch.record.index))

    @property
    def unattributed(self) -> tuple[AclnnRecord, ...]:
        """Launches of which the call is not known."""
        logs = self.logs
        return () if logs is None else logs.unattributed

    def path(self, name: str, *, to: str) -> tuple[str, ...]:
        """The way from an operator to something it reached, as names.

        Args:
            name: the operator to start from, a glob: ``"aten::linear"``.
            to: an aclnn operator, an operator or a kernel's site, a glob.

        Returns:
            ``("aten::linear", "aten::addmm", "RegisterNPU.cpp:34325", "aclnnAddmm",
            "task 0")``: operators, the last one's kernel, the launch, the task.

        Raises:
            UsageError: there is no such operator, or no way from it to ``to``; the
                message names what comes nearest.
        """
        starts = self.find(name)
        if not starts:
            seen = sorted({node.op.name for node in self.nodes()})
            msg = f"{name} was not called{_near(name, seen)}."
            raise UsageError(msg)
        for start in starts:
            found = _way(start, to)
            if found is not None:
                return found
        reached = sorted(
            {launch.name for start in starts for launch in start.all_launches()}
            | {node.op.name for start in starts for node in start.walk()}
        )
        msg = f"{name} was called and did not reach {to}{_near(to, reached)}."
        raise UsageError(msg)

    @property
    def fallbacks(self) -> tuple[ChainNode, ...]:
        """Calls that the tables send to the CPU, and kernels that computed there."""
        wanted = (Verdict.CPU_FALLBACK, Verdict.HIDDEN_CPU)
        return tuple(node for node in self.nodes() if node.verdict in wanted)

    @property
    def copies_and_casts(self) -> tuple[Copy, ...]:
        """Casts and copies, each with the call and the line that caused it."""
        found: list[Copy] = []
        for chain in self.chains:
            _collect_copies(chain, found)
        return tuple(found)

    def by_module(self) -> dict[str | None, ModuleShare]:
        """Calls, launches and verdicts per module; together they are the whole."""
        shares: dict[str | None, ModuleShare] = {}
        for node in self.nodes():
            module = node.op.module
            if module is not None:
                module = module or node.op.root or ""
            share = shares.get(module)
            before = share.calls if share else 0
            launches = share.launches if share else Counter[str]()
            verdicts = share.verdicts if share else Counter[Verdict]()
            launches.update(launch.name for launch in node.launches)
            verdicts[node.verdict] += 1
            shares[module] = ModuleShare(
                module=module, calls=before + 1, launches=launches, verdicts=verdicts
            )
        return shares

    def verdicts(self) -> dict[Verdict, int]:
        """Calls per verdict, the most frequent first."""
        return dict(Counter(node.verdict for node in self.nodes()).most_common())

    def summary(self) -> str:
        """A few lines: where it ran, how many calls, launches and verdicts."""
        from npu_dispatch_inspect.display.reports import report_summary

        return report_summary(self)

    def __str__(self) -> str:
        from npu_dispatch_inspect.display.reports import report_text

        return report_text(self)

    def __repr__(self) -> str:
        return f"DispatchReport({len(self.trace)} calls, {len(self.launches)} launches)"


def _near(name: str, seen: list[str]) -> str:
    near = difflib.get_close_matches(name, seen, n=3, cutoff=0.5)
    return f"; near it: {', '.join(near)}" if near else ""


def _way(start: ChainNode, to: str) -> tuple[str, ...] | None:
    # Depth first, so that the first way is the one the calls took first.
    pending: list[tuple[ChainNode, tuple[str, ...]]] = [(start, ())]
    while pending:
        node, above = pending.pop()
        here = (*above, node.op.name)
        site = node.op.path[-1].site if node.op.path else ""
        if node is not start and fnmatch.fnmatchcase(node.op.name, to):
            return here
        kernel = (*here, site) if site else here
        if site and fnmatch.fnmatchcase(site, to):
            return kernel
        for launch in node.launches:
            if fnmatch.fnmatchcase(launch.name, to):
                task = launch.task
                slot = () if task is None or task.slot is None else (f"task {task.slot}",)
                return (*kernel, launch.name, *slot)
        pending.extend((child, here) for child in reversed(node.children))
    return None


_COPY_NAMES = {
    "aten::_copy_from_and_resize": ("self", "dst"),
    "aten::_local_scalar_dense": ("self", None),
    "aten::_to_copy": ("self", None),
    "aten::clone": ("self", None),
    "aten::copy_": ("src", "self"),
    "npu::_npu_dtype_cast": ("self", None),
    "npu::npu_dtype_cast": ("self", None),
    "npu::npu_format_cast": ("self", None),
}
"""Which argument is copied, and which is written; None where a new one is made."""

_ASKED_BY_PROGRAM = frozenset(
    {"aten::to", "aten::contiguous", "aten::_to_cpu", "aten::item", "aten::cpu"}
)
"""Calls whose whole purpose is the copy inside them."""


def _collect_copies(chain: ChainNode, found: list[Copy]) -> None:
    pending: list[tuple[ChainNode, tuple[ChainNode, ...]]] = [(chain, ())]
    while pending:
        node, above = pending.pop()
        if node.op.name in _COPY_NAMES:
            copy = _copy(node, above)
            if copy is not None:
                found.append(copy)
        elif node.verdict is not Verdict.KERNEL and not node.by_logger:
            # What a copy does inside is that copy; what a CPU kernel does inside
            # is no business of the device.
            pending.extend((child, (*above, node)) for child in reversed(node.children))


def _copy(node: ChainNode, above: tuple[ChainNode, ...]) -> Copy | None:
    op = node.op
    source_name, target_name = _COPY_NAMES[op.name]
    named = {argument.name: argument.value for argument in op.inputs}
    copied = named.get(source_name)
    result = named.get(target_name) if target_name else None
    if result is None and op.output_tensors:
        result = op.output_tensors[0]
    if not isinstance(copied, TensorSpec) or node.by_logger:
        return None
    result = result if isinstance(result, TensorSpec) else None
    kind = _copy_kind(op.name, copied, result)
    if kind is None:
        return None
    source = op.source or next(
        (outer.op.source for outer in reversed(above) if outer.op.source), None
    )
    return Copy(
        kind=kind,
        node=node,
        copied=copied,
        result=result,
        cause=_cause(above),
        source=source,
    )


def _copy_kind(name: str, copied: TensorSpec, result: TensorSpec | None) -> str | None:
    host = copied.device == "cpu"
    if result is None:
        return None if host else "device to host"
    if host != (result.device == "cpu"):
        return "host to device" if host else "device to host"
    if name == "npu::npu_format_cast":
        return "format cast"
    if copied.dtype != result.dtype:
        return "dtype cast"
    if name in ("aten::copy_", "aten::_copy_from_and_resize"):
        return "copy"
    return "contiguous copy"


def _cause(above: tuple[ChainNode, ...]) -> str | None:
    for outer in reversed(above):
        if outer.verdict is Verdict.CPU_FALLBACK:
            return f"CPU fallback of {outer.op.qualified_name}"
        if outer.verdict is Verdict.HIDDEN_CPU:
            return f"CPU work inside {outer.op.qualified_name}"
        if outer.op.path and outer.op.path[0].key.startswith("Autocast"):
            return f"autocast of {outer.op.name}"
    for outer in reversed(above):
        if outer.op.name not in _ASKED_BY_PROGRAM:
            return f"in {outer.op.name}"
    return None
