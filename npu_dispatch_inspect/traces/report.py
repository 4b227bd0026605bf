# SPDX-License-Identifier: BSD-3-Clause
"""The joined answer: chains from the module down to the queue task, with queries."""

from __future__ import annotations

import fnmatch
from collections import Counter
from collections.abc import Callable, Iterable, Iterator

from attrs import frozen

from npu_dispatch_inspect._globs import in_module
from npu_dispatch_inspect.errors import UsageError
from npu_dispatch_inspect.records import (
    AclnnRecord,
    Environment,
    MissingReason,
    OpRecord,
)
from npu_dispatch_inspect.records.chains import (
    ChainNode,
    Failure,
    Launch,
    NativeCall,
    Verdict,
)
from npu_dispatch_inspect.records.printed import Printed
from npu_dispatch_inspect.traces._copies import Copy, copies_in
from npu_dispatch_inspect.traces._deferred import Deferred
from npu_dispatch_inspect.traces._ways import launched, matches, near, way
from npu_dispatch_inspect.traces.logs import LogTrace
from npu_dispatch_inspect.traces.ops import OpTrace

__all__ = ["Copy", "DispatchReport", "Failure", "ModuleShare"]


@frozen(kw_only=True)
class ModuleShare:
    """What one module did itself, the modules inside it left out.

    Example:
        >>> import torch
        >>> from npu_dispatch_inspect import inspect_dispatch
        >>> layer, x = torch.nn.Linear(4, 2).npu(), torch.ones(3, 4).npu()
        >>> with inspect_dispatch() as seen:
        ...     y = layer(x)
        >>> share = seen.by_module()["Linear"]
        >>> share.calls, dict(share.launches)
        (5, {'aclnnAddmm': 1})
    """

    module: str | None
    """None for calls outside any module."""
    calls: int
    launches: Counter[str]
    verdicts: Counter[Verdict]


class DispatchReport(Printed, Deferred):
    """What a block ran, from the module down to the queue task.

    Inside the block the report shows what has been seen so far; afterwards it is
    an immutable value, built when somebody looks.

    Args:
        chains: the calls the program made itself, each with what is below it.
        trace: the operator calls.
        logs: torch_npu's log lines; None where they were not captured.
        failure: what the block died of.
        logger_calls: calls that torch_npu's logger made to print values; they are
            in the trace and in no chain.
        native_calls: what the profiler saw; None where it did not listen.
        notes: what this report could not see, a sentence each.

    Example:
        >>> import torch
        >>> from npu_dispatch_inspect import inspect_dispatch
        >>> layer, x = torch.nn.Linear(4, 2).npu(), torch.ones(3, 4).npu()
        >>> with inspect_dispatch() as seen:
        ...     y = torch.digamma(layer(x))
        >>> seen.path("aten::linear", to="aclnnAddmm")[:2]
        ('aten::linear', 'aten::addmm')
        >>> [(node.op.qualified_name, node.verdict.value) for node in seen.fallbacks]
        [('aten::digamma.out', 'CPU fallback')]
    """

    _fields = __slots__ = (
        "_chains",
        "_trace",
        "_logs",
        "_failure",
        "_logger_calls",
        "_native_calls",
        "_notes",
    )

    def __init__(
        self,
        *,
        chains: Iterable[ChainNode],
        trace: OpTrace,
        logs: LogTrace | None = None,
        failure: Failure | None = None,
        logger_calls: int = 0,
        native_calls: tuple[NativeCall, ...] | None = None,
        notes: tuple[str, ...] = (),
    ) -> None:
        self._chains = tuple(chains)
        self._trace = trace
        self._logs = logs
        self._failure = failure
        self._logger_calls = logger_calls
        self._native_calls = native_calls
        self._notes = notes
        self._source = None

    @property
    def chains(self) -> tuple[ChainNode, ...]:
        """The calls the program made itself, each with what is below it."""
        return self._now()._chains

    @property
    def trace(self) -> OpTrace:
        """The operator calls, those of torch_npu's logger among them."""
        return self._now()._trace

    @property
    def logs(self) -> LogTrace | None:
        """torch_npu's log lines; None where they were not captured."""
        return self._now()._logs

    @property
    def environment(self) -> Environment:
        """Where the block ran, with the switches that decide the route."""
        return self.trace.environment

    @property
    def failure(self) -> Failure | None:
        """What the block died of, if it did."""
        return self._now()._failure

    @property
    def logger_calls(self) -> int:
        """Calls of torch_npu's logger, to print 0-dim tensors; in `trace` only."""
        return self._now()._logger_calls

    @property
    def native_calls(self) -> tuple[NativeCall, ...] | None:
        """What torch_npu named to the profiler; None where none listened."""
        return self._now()._native_calls

    @property
    def notes(self) -> tuple[str, ...]:
        """What this report could not see, a sentence each."""
        return self._now()._notes

    @property
    def missing(self) -> tuple[MissingReason, ...]:
        """Kinds of log lines that did not come, with reasons and remedies."""
        logs = self.logs
        # That nothing was launched is no lack: the calls themselves are here.
        return tuple(
            each
            for each in (() if logs is None else logs.missing)
            if each.what != "everything"
        )

    @property
    def complete(self) -> bool:
        """False where something is known to be missing."""
        now = self._now()
        return (
            not now._notes
            and now._trace.complete
            and not now.missing
            and not now.unattributed
            and (now._logs is None or now._logs.complete)
        )

    def nodes(self) -> Iterator[ChainNode]:
        """Every call, in the order of the calls."""
        for chain in self.chains:
            yield from chain.walk()

    def find(self, name: str) -> tuple[ChainNode, ...]:
        """Calls whose operator matches a glob, with or without its overload."""
        return tuple(node for node in self.nodes() if matches(node, name))

    def only(self, pattern: str) -> DispatchReport:
        """The part of the report below some operators.

        Args:
            pattern: a glob over operators (``"aten::linear"``), launches
                (``"aclnnMatmul*"``) or module paths (``"encoder.*"``).

        Returns:
            A report whose chains begin at the outermost calls that match.
        """
        return self.filter(
            lambda node: (
                matches(node, pattern)
                or any(fnmatch.fnmatchcase(name, pattern) for name in launched(node))
                or in_module(node.op.module, pattern)
            )
        )

    def filter(self, predicate: Callable[[ChainNode], bool]) -> DispatchReport:
        """The report below the outermost calls for which a function of them holds."""
        now = self._now()
        found: list[ChainNode] = []
        pending = list(reversed(now._chains))
        while pending:
            node = pending.pop()
            if predicate(node):
                found.append(node)
            else:
                pending.extend(reversed(node.children))
        return DispatchReport(
            chains=found,
            trace=now._trace,
            logs=now._logs,
            failure=now._failure,
            logger_calls=now._logger_calls,
            native_calls=now._native_calls,
            notes=now._notes,
        )

    @property
    def launches(self) -> tuple[Launch, ...]:
        """Every launch that a call was seen to make, in order."""
        found = (launch for chain in self.chains for launch in chain.all_launches())
        return tuple(sorted(found, key=lambda launch: launch.record.index))

    @property
    def unattributed(self) -> tuple[AclnnRecord, ...]:
        """Launches of which the call is not known; `attribution` says why."""
        logs = self.logs
        return () if logs is None else logs.unattributed

    def path(self, name: str, *, to: str) -> tuple[str, ...]:
        """The way from an operator to something it reached, as names.

        Args:
            name: the operator to start from, a glob: ``"aten::linear"``.
            to: an aclnn operator, an aclop, an operator or a kernel's site, a glob.

        Returns:
            Operators, the last one's kernel, the launch and the task, as in
            ``("aten::addmm", "RegisterNPU.cpp:34325", "aclnnAddmm", "task 0")``.

        Raises:
            UsageError: there is no such operator, or no way from it to ``to``; the
                message names what comes nearest.
        """
        now = self._now()
        starts = now.find(name)
        if not starts:
            seen = sorted({node.op.name for node in now.nodes()})
            msg = f"{name} was not called{near(name, seen)}."
            raise UsageError(msg)
        for found in (way(start, to) for start in starts):
            if found is not None:
                return found
        below = [node for start in starts for node in start.walk()]
        reached = {launch for node in below for launch in launched(node)}
        reached.update(node.op.name for node in below)
        msg = f"{name} was called and did not reach {to}{near(to, sorted(reached))}."
        raise UsageError(msg)

    @property
    def fallbacks(self) -> tuple[ChainNode, ...]:
        """Calls that the tables send to the CPU, and kernels that computed there."""
        wanted = (Verdict.CPU_FALLBACK, Verdict.HIDDEN_CPU)
        return tuple(node for node in self.nodes() if node.verdict in wanted)

    @property
    def copies_and_casts(self) -> tuple[Copy, ...]:
        """Casts and copies, each with the call and the line that caused it."""
        return copies_in(self.chains)

    def by_module(self) -> dict[str | None, ModuleShare]:
        """Calls, launches and verdicts per module; together they are the whole.

        A path begins with the class of its root where the block has several roots.
        """
        now = self._now()
        several = len({node.op.root for node in now.nodes()} - {None}) > 1
        by_name: dict[str | None, list[ChainNode]] = {}
        for node in now.nodes():
            by_name.setdefault(_module(node.op, several=several), []).append(node)
        return {
            name: ModuleShare(
                module=name,
                calls=len(own),
                launches=Counter(
                    launch.name for node in own for launch in node.launches
                ),
                verdicts=Counter(node.verdict for node in own),
            )
            for name, own in by_name.items()
        }

    def verdicts(self) -> dict[Verdict, int]:
        """Calls per verdict, the most frequent first."""
        return dict(Counter(node.verdict for node in self.nodes()).most_common())

    def summary(self) -> str:
        """A few lines: where it ran, how many calls, launches and verdicts."""
        from npu_dispatch_inspect.display.reports import report_summary

        return report_summary(self._now())

    def to_text(
        self, *, width: int | None = 140, max_chains: int = 60, fold: bool = True
    ) -> str:
        """The report as text.

        Args:
            width: columns of the tree at most; what goes beyond is cut.
            max_chains: so many of the program's own calls are shown. Where there are
                more, many in a row outside modules are one line.
            fold: leave out what is inside views, copies, fallbacks and CPU kernels,
                and say only once what repeats; the counts are always those of all.
        """
        from npu_dispatch_inspect.display.reports import report_text

        return report_text(self._now(), width=width, max_chains=max_chains, fold=fold)

    def __repr__(self) -> str:
        """Short and code-like; `print` shows the tree."""
        now = self._now()
        calls = sum(1 for _ in now.nodes())
        return f"DispatchReport({calls} calls, {len(now.launches)} launches)"


def _module(op: OpRecord, *, several: bool) -> str | None:
    if op.module is None:
        return None
    root = op.root or ""
    if several:
        return f"{root}.{op.module}".rstrip(".")
    return op.module or root
