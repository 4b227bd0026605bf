# SPDX-License-Identifier: BSD-3-Clause
"""Join operator calls, kernels, log lines and queue tasks into chains.

Pure: traces in, chains out; `_verdicts` decides what each call came to.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple, TypeVar

from npu_dispatch_inspect._verdicts import Seen, judge
from npu_dispatch_inspect.records import (
    AclnnRecord,
    ExecutionRecord,
    OpPluginCall,
    OpRecord,
    QueueRecord,
    TaskKind,
    TaskRecord,
)
from npu_dispatch_inspect.records.chains import ChainNode, Launch, NativeCall
from npu_dispatch_inspect.traces.logs import LogTrace
from npu_dispatch_inspect.traces.ops import CallNode, OpTrace

__all__ = ["FILTER", "NAMED_BY_TASK", "NAMED_TO_PROFILER", "Joined", "join"]

FILTER = "TORCH_NPU_LOGS_FILTER"
"""With this variable torch_npu prints only lines that have some words, or have not."""

NAMED_BY_TASK = "named by its queue task"
NAMED_TO_PROFILER = "named to the profiler"
"""How the call was found of a launch that no line of its own tells of."""

T = TypeVar("T")


class Joined(NamedTuple):
    """The chains of a trace."""

    chains: tuple[ChainNode, ...]
    """The calls of the program, nested as they were made."""
    logger_calls: int
    """Calls by which torch_npu's logger read values to print them. They are in no
    chain: without log capture they would not have been made."""


class _Logged(NamedTuple):
    """What the logs say, by index of the call."""

    launches: Mapping[int, tuple[Launch, ...]]
    op_plugin: Mapping[int, tuple[OpPluginCall, ...]]
    aclops: Mapping[int, tuple[TaskRecord, ...]]
    doubt: str | None
    """Why a launch may have gone unseen, None where none can have."""


def join(
    trace: OpTrace,
    logs: LogTrace | None = None,
    native_calls: Iterable[NativeCall] | None = None,
) -> Joined:
    """The calls of a trace as chains, nested as they were made.

    Args:
        trace: calls of engine "dispatcher"; with engine "dispatch_mode" the tree
            is flat and kernels are not known.
        logs: lines captured beside it, with launches attributed to calls.
        native_calls: what the profiler saw; None where it did not listen.
    """
    logged = _logged(logs)
    if native_calls is not None:
        logged = _with_native(logged, list(native_calls))
    unfinished = _open_at_the_end(trace)
    made: dict[int, ChainNode] = {}
    by_logger = 0
    tree = trace.tree()
    # Children before parents, without recursion: traces can be deep.
    order: list[CallNode] = []
    pending = list(tree)
    while pending:
        call = pending.pop()
        order.append(call)
        pending.extend(call.children)
    for call in reversed(order):
        op = call.record
        children = [made.pop(child.record.index) for child in call.children]
        launches = logged.launches.get(op.index, ())
        entered = logged.op_plugin.get(op.index, ())
        by_logger += _leave_out_logger(children, entered, launches)
        seen = Seen(
            op=op,
            children=tuple(children),
            launches=launches,
            aclops=logged.aclops.get(op.index, ()),
            doubt="the trace ends inside it"
            if op.index in unfinished
            else logged.doubt,
            jit_compile=trace.environment.jit_compile and native_calls is None,
        )
        verdict, why = judge(seen)
        made[op.index] = ChainNode(
            op=op,
            verdict=verdict,
            why=why,
            op_plugin=entered,
            launches=launches,
            aclops=seen.aclops,
            children=seen.children,
        )
    return Joined(tuple(made[call.record.index] for call in tree), by_logger)


def _open_at_the_end(trace: OpTrace) -> frozenset[int]:
    """Calls inside which a truncated trace ends: what they called is not known."""
    records = trace.records
    if not trace.truncated or not records:
        return frozenset()
    parents = {each.index: each.parent for each in records}
    found = set()
    # On every thread the last call may be the one that went on.
    for index in {each.thread: each.index for each in records}.values():
        call: int | None = index
        while call is not None and call not in found:
            found.add(call)
            call = parents.get(call)
    return frozenset(found)


def _logged(logs: LogTrace | None) -> _Logged:
    if logs is None:
        return _Logged({}, {}, {}, doubt="torch_npu's log lines were not captured")
    tasks = {task.launch: task for task in logs.tasks if task.launch is not None}
    launches: dict[int, list[Launch]] = {}
    for record in logs.launches:
        if record.op is not None:
            launch = Launch(record=record, task=tasks.get(record.index))
            launches.setdefault(record.op, []).append(launch)
    aclops: dict[int, list[TaskRecord]] = {}
    unprinted = False
    for op, task, function in _tasks_without_launch(logs):
        if function == "ExecFunc":
            aclops.setdefault(op, []).append(task)
        elif function == "ExecFuncOpApi":
            unprinted = True
            launch = Launch(record=_unprinted(op, task), task=task)
            launches.setdefault(op, []).append(launch)
    entered: dict[int, list[OpPluginCall]] = {}
    for call in logs.op_plugin_calls:
        if call.op is not None:
            entered.setdefault(call.op, []).append(call)
    return _Logged(
        _frozen(launches),
        _frozen(entered),
        _frozen(aclops),
        _doubt(logs) or ("some launches were not printed" if unprinted else None),
    )


def _tasks_without_launch(logs: LogTrace) -> Iterator[tuple[int, TaskRecord, str]]:
    """Operators in the queue of which no line tells the launch.

    Yields:
        The call that wrote the task, the task, and what the consumer ran it by.
    """
    by_index = {each.index: each for each in logs.records}
    for task in logs.tasks:
        if task.kind is not TaskKind.OPERATOR or task.launch is not None:
            continue
        written = by_index.get(-1 if task.written is None else task.written)
        run = by_index.get(-1 if task.started is None else task.started)
        if (
            isinstance(written, QueueRecord)
            and written.op is not None
            and isinstance(run, ExecutionRecord)
        ):
            yield written.op, task, run.run.function


def _unprinted(op: int, task: TaskRecord) -> AclnnRecord:
    """A launch that torch_npu did not print: too long a line, or a failed one before."""
    return AclnnRecord(
        index=task.written or 0,
        offset=0,
        text="",
        name=task.name or "",
        command="",
        op=op,
        attribution=NAMED_BY_TASK,
    )


def _with_native(logged: _Logged, calls: list[NativeCall]) -> _Logged:
    """What the profiler saw of the calls of which no line tells anything."""
    launches: dict[int, list[Launch]] = {}
    aclops: dict[int, list[TaskRecord]] = {}
    for number, call in enumerate(calls):
        op = call.op
        if op is None or op in logged.launches or op in logged.aclops:
            continue
        if call.name.startswith("aclnn"):
            record = AclnnRecord(
                index=number,
                offset=0,
                text="",
                name=call.name,
                command="",
                op=op,
                attribution=NAMED_TO_PROFILER,
            )
            launches.setdefault(op, []).append(Launch(record=record))
        else:
            task = TaskRecord(index=number, kind=TaskKind.OPERATOR, name=call.name)
            aclops.setdefault(op, []).append(task)
    return _Logged(
        {**logged.launches, **_frozen(launches)},
        logged.op_plugin,
        {**logged.aclops, **_frozen(aclops)},
        # Every launch is named to the profiler, so none can have gone unseen.
        None if all(call.op is not None for call in calls) else logged.doubt,
    )


def _frozen(lists: dict[int, list[T]]) -> dict[int, tuple[T, ...]]:
    return {op: tuple(found) for op, found in lists.items()}


def _doubt(logs: LogTrace) -> str | None:
    for each in logs.missing:
        if each.what in ("op_plugin", "dispatch"):
            return f"{each.what} lines are missing"
    if logs.environment is not None and logs.environment.switch(FILTER):
        return f"{FILTER} keeps lines from being printed"
    # A launch that is given to no call may be that of any call.
    if logs.unattributed:
        return "launches were seen that no call could be given"
    return "lines may be missing" if logs.incomplete else None


def _leave_out_logger(
    children: list[ChainNode],
    entered: tuple[OpPluginCall, ...],
    launches: tuple[Launch, ...],
) -> int:
    """Take out the calls by which torch_npu's logger read values it printed.

    For every 0-dim NPU tensor in a line it copies the tensor to the host and
    widens it, two calls that follow each other (one in torch_npu 2.6 and 2.7); for
    one on the CPU it widens it.
    How many there are is known from the lines, so that of equal calls the kernel's
    own stay.

    Returns:
        How many calls were taken out, those inside them counted.
    """
    lines: list[OpPluginCall | AclnnRecord] = [*entered]
    lines += [launch.record for launch in launches]
    printed = Counter(
        argument.kind for line in lines for argument in line.arguments or ()
    )
    count = place = 0
    while place < len(children):
        kind, length = _read_by_logger(
            [node.op for node in children[place : place + 2]]
        )
        if printed[kind] > 0:
            read = children[place : place + length]
            count += sum(1 for node in read for _ in node.walk())
            del children[place : place + length]
            printed[kind] -= 1
        else:
            place += 1
    return count


def _read_by_logger(ops: list[OpRecord]) -> tuple[str, int]:
    """What kind of tensor the logger reads by calls like these, and by how many."""
    if len(ops) > 1 and _reads_value(ops[0], ops[1]):
        return "NPU scalar Tensor", 2
    first = ops[0]
    specs = (*first.input_tensors, *first.output_tensors)
    if first.qualified_name != "aten::to.device" or any(
        spec.shape != () for spec in specs
    ):
        return "", 0
    if all(spec.device == "cpu" for spec in specs):
        return "CPU scalar Tensor", 1
    # torch_npu 2.6 and 2.7 copy and widen in one call.
    if [spec.device for spec in first.output_tensors] == ["cpu"]:
        return "NPU scalar Tensor", 1
    return "", 0


def _reads_value(copy: OpRecord, widen: OpRecord) -> bool:
    if (copy.qualified_name, widen.qualified_name) != (
        "aten::to.dtype_layout",
        "aten::to.dtype",
    ):
        return False
    copied, result, wide = (
        each[0] if each else None
        for each in (copy.input_tensors, copy.output_tensors, widen.output_tensors)
    )
    return (
        copied is not None
        and result is not None
        and wide is not None
        and copied.shape == ()
        and copied.device != "cpu"
        and result.device == "cpu" == wide.device
    )
