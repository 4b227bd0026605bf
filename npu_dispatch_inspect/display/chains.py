# SPDX-License-Identifier: BSD-3-Clause
"""Chains as a tree of rows: what is folded, what stands in which column."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

from attrs import evolve, field, frozen

from npu_dispatch_inspect._verdict_sets import ALLOCATIONS, COPIES, WRAPPED_COPIES
from npu_dispatch_inspect.display.document import (
    Column,
    Grid,
    Heading,
    More,
    Row,
    counted,
    span,
)
from npu_dispatch_inspect.display.logs import task_text
from npu_dispatch_inspect.display.text import module_text, source_text, value_text
from npu_dispatch_inspect.records import OpRecord, Phase, TaskRecord
from npu_dispatch_inspect.records.chains import ChainNode, Launch, Verdict

__all__ = ["VERDICT_STYLES", "chain_grid", "heading_text"]

MAX_NAME = 46
"""The first column is this wide at most; longer names push the others aside."""
MAX_SITE = 34
MAX_ARGUMENTS = 12
MAX_OUTSIDE = 8
"""So many calls in a row outside modules are always shown."""
MAX_PERIOD = 12
"""Calls that come again and again are recognised up to so many at a time."""
ASIDE = ("Autograd", "ADInplaceOrView", "BackendSelect")
"""Keys that nearly every call passes on its way to its kernel."""

LABELS = {
    Verdict.ACLNN_VIA: "aclnn via",
    Verdict.HIDDEN_CPU: "CPU inside",
    Verdict.NO_LAUNCH: "no launch",
}
"""Short words for a narrow column; the others are their own."""

VERDICT_STYLES = {
    Verdict.ACLNN: "good",
    Verdict.ACLNN_VIA: "good",
    Verdict.ACLOP: "warn",
    Verdict.CPU_FALLBACK: "bad",
    Verdict.HIDDEN_CPU: "bad",
    Verdict.NO_LAUNCH: "dim",
    Verdict.COMPOSITE: "dim",
    Verdict.KERNEL: "",
    Verdict.COPY: "copy",
    Verdict.UNKNOWN: "unknown",
}
LAUNCHED = ("launch", "aclop")
STYLES = {
    "launch": "launch",
    "aclop": "warn",
    "view": "dim",
    **{
        LABELS.get(verdict, verdict.value): style
        for verdict, style in VERDICT_STYLES.items()
    },
}
"""The style of what stands in the second column."""
COLUMNS = (
    Column(name="operator", cut=None, pad=MAX_NAME),
    Column(name="verdict", cut=None),
    Column(name="kernel", rank=1, least=18, cut=None, middle=True),
    Column(name="tensors", rank=2, least=12, cut=None),
)


@frozen(kw_only=True)
class Line:
    """One line of the tree and those below it; equal ones are folded into one."""

    name: str
    verdict: str
    kernel: str = ""
    values: str = ""
    place: str = field(default="", eq=False)
    """Stream and task: they differ between calls that are otherwise equal."""
    times: int = 1
    below: tuple[Line, ...] = ()


def chain_grid(
    chains: Iterable[ChainNode], *, fold: bool = True, limit: int
) -> tuple[Grid, int]:
    """The chains under headings that say module, phase and line.

    Args:
        chains: the program's own calls.
        fold: leave out what is inside views, copies, fallbacks and CPU kernels, and
            say only once what repeats.
        limit: so many of the program's own calls are shown. Where there are more,
            many calls in a row outside modules and regions are one line, when there
            are modules.

    Returns:
        The grid, and how many calls are not in it.
    """
    shown = list(chains)
    rows: list[Row | Heading | More] = []
    known: dict[tuple[Line, ...], str] = {}
    # Where there is no room for all, parameters that are made and moved leave it to
    # what the modules do.
    crowded = fold and len(shown) > limit and any(map(_in_module, shown))
    room = limit
    told = 0
    for heading, found in groupby(shown, key=heading_text):
        group = list(found)
        if crowded and len(group) > MAX_OUTSIDE and not any(map(_placed, group)):
            rows.append(Heading(text=heading, note=_gist(group)))
            told += len(group)
            continue
        if room == 0:
            break
        group = group[:room]
        room -= len(group)
        told += len(group)
        lines = _folded([_line(each, fold=fold) for each in group], fold=fold)
        several = len(lines) > 1 or any(line.below for line in lines)
        same = known.get(lines) if fold and several else None
        if same is not None and same != heading:
            rows.append(Heading(text=heading, note=f"as {same}"))
            continue
        known.setdefault(lines, heading)
        rows.append(Heading(text=heading))
        for part, times in _repeats(lines) if fold else [(lines, 1)]:
            rows += map(_row, part)
            if times > 1:
                rows.append(
                    More(f"... the last {len(part)} calls, {times} times in all")
                )
    grid = Grid(columns=COLUMNS, rows=tuple(rows), header=False, branches=True)
    return grid, len(shown) - told


def _in_module(node: ChainNode) -> bool:
    return node.op.module is not None


def _placed(node: ChainNode) -> bool:
    """The call belongs to something that has a name of its own."""
    op = node.op
    return _in_module(node) or bool(op.regions) or op.phase is not Phase.FORWARD


def _gist(group: Sequence[ChainNode]) -> str:
    """``78 calls: 64 view, 14 copy, 14 launches``."""
    labels = Counter(_label(each, fold=True) for each in group)
    parts = [f"{number} {label}" for label, number in labels.most_common()]
    launches = sum(len(each.all_launches()) for each in group)
    if launches:
        parts.append(counted(launches, "launch"))
    return f"{len(group)} calls: {', '.join(parts)}"


def _row(line: Line) -> Row:
    made: dict[int, Row] = {}
    order = [line]
    for each in order:
        order.extend(each.below)
    for each in reversed(order):
        style = STYLES.get(each.verdict, "")
        made[id(each)] = Row(
            cells=(
                span(each.name, "launch" if each.verdict in LAUNCHED else "name"),
                span(each.verdict, style),
                span(_kernel_and_place(each), "place"),
                span(each.values, "values"),
            ),
            below=tuple(made[id(inner)] for inner in each.below),
        )
    return made[id(line)]


def heading_text(node: ChainNode) -> str:
    """Where a call stands: its module, phase and line, ``fc (Linear), backward``."""
    phase = "" if node.op.phase is Phase.FORWARD else node.op.phase.value
    if node.op.recomputed:
        phase = "recomputed"
    parts = (module_text(node.op) or "no module", phase, source_text(node.op.source))
    return ", ".join(part for part in parts if part)


def _line(node: ChainNode, *, fold: bool) -> Line:
    # Without recursion: chains can be as deep as the program's own.
    made: dict[int, Line] = {}
    order: list[ChainNode] = []
    pending = [node]
    while pending:
        each = pending.pop()
        order.append(each)
        pending.extend(each.children)
    for each in reversed(order):
        below = [made.pop(id(child)) for child in _inside(each, fold=fold)]
        below += [_launch(launch) for launch in _own_launches(each, fold=fold)]
        below += [_aclop(task) for task in _own_aclops(each, fold=fold)]
        made[id(each)] = _call(each, _folded(below, fold=fold), fold=fold)
    return made[id(node)]


def _inside(node: ChainNode, *, fold: bool) -> tuple[ChainNode, ...]:
    """The calls inside that are shown below a call."""
    if not fold:
        return node.children
    if _closed(node) or _moves(node):
        return ()
    return tuple(each for each in node.children if not _aside(each))


def _aside(node: ChainNode) -> bool:
    """A question about types or a number, or memory for a result: no step on the way."""
    op = node.op
    if op.name in ALLOCATIONS:
        return True
    if op.output_tensors or op.exception is not None:
        return False
    asks = not node.children and node.verdict is Verdict.COMPOSITE
    of_a_number = not op.input_tensors and node.verdict is not Verdict.UNKNOWN
    return asks or (of_a_number and not node.all_launches())


def _closed(node: ChainNode) -> bool:
    return node.verdict in (Verdict.NO_LAUNCH, Verdict.KERNEL, Verdict.CPU_FALLBACK)


def _moves(node: ChainNode) -> bool:
    """A copy is one thing; only what it launched in the end is worth a line."""
    return node.op.name in COPIES or node.op.name in WRAPPED_COPIES


def _own_launches(node: ChainNode, *, fold: bool) -> tuple[Launch, ...]:
    return node.all_launches() if fold and _moves(node) else node.launches


def _own_aclops(node: ChainNode, *, fold: bool) -> tuple[TaskRecord, ...]:
    if fold and _moves(node):
        return tuple(task for each in node.walk() for task in each.aclops)
    return node.aclops


def _call(node: ChainNode, below: tuple[Line, ...], *, fold: bool) -> Line:
    op = node.op
    hidden = sum(1 for _ in node.walk()) - 1
    inside = ""
    if fold and hidden and node.verdict is Verdict.CPU_FALLBACK:
        inside = f"  ({hidden} call{'' if hidden == 1 else 's'} inside)"
    if op.exception is not None:
        inside += f"  raised {op.exception.type}"
    values = _tensors(op)
    quiet = fold and node.verdict in (Verdict.NO_LAUNCH, Verdict.COPY)
    return Line(
        name=op.qualified_name,
        verdict=_label(node, fold=fold),
        kernel="" if quiet else _kernel(node),
        values=f"{values}{inside}".strip(),
        below=below,
    )


def _tensors(op: OpRecord) -> str:
    """The tensors that go in and come out, with devices where these differ."""
    parts = [each for each in (op.input_tensors, op.output_tensors) if each]
    several = len({spec.device for each in parts for spec in each}) > 1
    return " -> ".join(
        ", ".join(f"{spec} {spec.device}" if several else str(spec) for spec in each)
        for each in parts
    )


def _label(node: ChainNode, *, fold: bool) -> str:
    stands_for_copy = fold and node.verdict is Verdict.COMPOSITE and _moves(node)
    if stands_for_copy and any(each.verdict is Verdict.COPY for each in node.walk()):
        return Verdict.COPY.value
    if node.verdict is Verdict.NO_LAUNCH:
        given = {spec.storage_id for spec in node.op.input_tensors}
        results = node.op.output_tensors
        if results and all(spec.storage_id in given for spec in results):
            return "view"
    return LABELS.get(node.verdict, node.verdict.value)


def _kernel(node: ChainNode) -> str:
    path = node.op.path
    if not path:
        return "kernel unknown"
    if node.verdict is Verdict.COMPOSITE and path[0].key.startswith(ASIDE):
        return _short(path[-1].site)
    keys = [each.key for each in path[:-1] if not each.key.startswith(ASIDE)]
    keys.append(path[-1].key)
    return f"{' > '.join(keys)} {_short(path[-1].site)}".rstrip()


def _short(site: str) -> str:
    if len(site) <= MAX_SITE:
        return site
    half = (MAX_SITE - 3) // 2
    return f"{site[:half]}...{site[-half:]}"


def _launch(launch: Launch) -> Line:
    record = launch.record
    arguments = record.arguments or ()
    values = ", ".join(value_text(each.value) for each in arguments[:MAX_ARGUMENTS])
    if len(arguments) > MAX_ARGUMENTS:
        values += ", ..."
    if record.truncated not in (None, "cut at a NUL byte"):
        values += ", cut off"
    parts = []
    if record.synchronous:
        parts.append("synchronous")
    if record.stream is not None and record.stream >= 0:
        parts.append(f"stream {record.stream}")
    if launch.task is not None:
        parts.append(task_text(launch.task))
    return Line(
        name=record.name, verdict="launch", values=values, place=", ".join(parts)
    )


def _aclop(task: TaskRecord) -> Line:
    return Line(name=task.name or "", verdict="aclop", place=task_text(task))


def _folded(lines: list[Line], *, fold: bool) -> tuple[Line, ...]:
    """Equal lines that follow each other become one with a count."""
    if not fold:
        return tuple(lines)
    found: list[Line] = []
    for line in lines:
        if found and evolve(found[-1], times=line.times) == line:
            found[-1] = evolve(found[-1], times=found[-1].times + line.times)
        else:
            found.append(line)
    return tuple(found)


def _repeats(lines: tuple[Line, ...]) -> Iterator[tuple[tuple[Line, ...], int]]:
    """Parts of the lines, each with how many times it comes in a row."""
    place = 0
    while place < len(lines):
        length, times = 1, 1
        for candidate in range(2, min(MAX_PERIOD, len(lines) // 2) + 1):
            part = lines[place : place + candidate]
            found = 1
            while lines[place + found * candidate :][:candidate] == part:
                found += 1
            if found > 1 and found * candidate > length * times:
                length, times = candidate, found
        yield lines[place : place + length], times
        place += length * times


def _kernel_and_place(line: Line) -> str:
    times = f"{line.times} times" if line.times > 1 else ""
    return "  ".join(part for part in (line.kernel or line.place, times) if part)
