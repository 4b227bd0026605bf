# SPDX-License-Identifier: BSD-3-Clause
"""What an assertion looks at: the calls of a trace, or the part that was asked for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Any, NoReturn

from attrs import frozen

from npu_dispatch_inspect._call_patterns import (
    CallPattern,
    NamedCall,
    as_phase,
    call_name,
)
from npu_dispatch_inspect._globs import in_module
from npu_dispatch_inspect.display.places import OPS, Words, counted
from npu_dispatch_inspect.errors import UsageError
from npu_dispatch_inspect.patterns import (
    Pattern,
    as_pattern,
    as_patterns,
    resolve,
    single_calls,
)
from npu_dispatch_inspect.records import Phase

__all__ = ["LAUNCHES", "Seen", "fail", "look"]

# unittest leaves out the frames of modules that say so, pytest those of functions
# with __tracebackhide__: a failure shows the line of the test.
__unittest = True

LAUNCHES = Words(noun="launch", plural="launches")

Ignored = object
"""What ``ignore=`` takes: a name, pattern or set of names, or several in a list."""


@frozen(kw_only=True)
class Seen:
    """The calls that an assertion is about."""

    calls: tuple[Any, ...]
    outside: tuple[Any, ...]
    """Calls of the trace in another phase or module."""
    words: Words
    notes: tuple[str, ...]
    """What a reader of a failure must know about the choice of calls."""
    versions: Mapping[str, str | None]
    cut: bool
    """Recording ended at a limit, so that later calls are not known."""

    def patterns(self, values: Iterable[object]) -> list[Pattern]:
        """Patterns for the versions the trace was made with."""
        kept = (resolve(each, self.versions) for each in as_patterns(values))
        return [each for each in kept if each is not None]

    def singles(self, values: Iterable[object], function: str) -> list[Pattern]:
        """The same, each for one call.

        Raises:
            UsageError: a pattern is not always one call.
        """
        patterns = self.patterns(values)
        for each in patterns:
            if single_calls(each) is None:
                msg = (
                    f"{function} looks at single calls, not at {each}: use "
                    f"assert_ops_match for patterns of several calls."
                )
                raise UsageError(msg)
        return patterns

    def fitting(self, pattern: Pattern) -> list[Any]:
        """The calls that a pattern for one call fits."""
        return [call for call in self.calls if fits(pattern, call)]


def fits(pattern: Pattern, call: Any) -> bool:
    """Whether a pattern for one call fits."""
    return any(each.call.matches(call) for each in single_calls(pattern) or ())


def look(
    trace: object,
    *,
    phase: Phase | str | None = None,
    module: str | None = None,
    ignore: Ignored = (),
    words: Words | None = None,
) -> Seen:
    """The calls of a trace that an assertion is about.

    Args:
        trace: a trace, a report or a chain of it, a `torch.fx` graph, or names in a
            list.
        phase: only this phase.
        module: only modules whose path matches this glob.
        ignore: operators to leave out.
        words: what the calls are called.

    Raises:
        UsageError: this is no trace, or a condition cannot be understood.
    """
    calls, found = _calls_of(trace)
    # A report of all mechanisms has the operators as a trace of its own.
    trace = getattr(trace, "trace", trace)
    words = words or found
    notes = [f"the trace notes: {each}" for each in getattr(trace, "notes", ())]
    versions = _versions(trace)
    chosen, conditions = calls, []
    if phase is not None:
        wanted = as_phase(phase)
        chosen = tuple(
            each for each in chosen if getattr(each, "phase", None) is wanted
        )
        conditions.append(f"phase {wanted.value}")
    if module is not None:
        if not isinstance(module, str):
            msg = f"module= takes a glob over module paths as text, not {module!r}."
            raise UsageError(msg)
        chosen = tuple(
            each for each in chosen if in_module(getattr(each, "module", None), module)
        )
        conditions.append(f"module {module}")
    if conditions:
        notes.append(
            f"only {', '.join(conditions)}: {len(chosen)} of {counted(len(calls), words)}"
        )
    kept = _without(chosen, ignore, versions)
    if len(kept) != len(chosen):
        left_out = counted(len(chosen) - len(kept), words)
        notes.append(f"left out by ignore=: {left_out}")
    inside = {id(each) for each in chosen}
    return Seen(
        calls=kept,
        outside=tuple(each for each in calls if id(each) not in inside),
        words=words,
        notes=tuple(notes),
        versions=versions,
        cut=bool(getattr(trace, "truncated", False)),
    )


def fail(lines: Sequence[str], *seen: Seen) -> NoReturn:
    """Raise the failure.

    Args:
        lines: the text; the first line says all.
        seen: what was looked at.
    """
    __tracebackhide__ = True
    text = list(lines)
    notes = dict.fromkeys(note for each in seen for note in each.notes)
    text += [f"  {each}" for each in notes]
    text += [
        "  the trace was cut off at max_ops: later calls are not known"
        for _ in {each.cut for each in seen if each.cut}
    ]
    raise AssertionError("\n".join(text))


def cannot_tell(what: str, seen: Seen) -> NoReturn:
    """Fail because the trace does not go far enough to know."""
    __tracebackhide__ = True
    fail(
        [
            f"cannot tell {what}: only the first {counted(len(seen.calls), seen.words)} were recorded"
        ],
        seen,
    )


def _calls_of(trace: object) -> tuple[tuple[Any, ...], Words]:
    # A report: the calls of its chains, without those of torch_npu's logger, which
    # are in its trace. A chain or a call with what is inside it is walked as well.
    if hasattr(trace, "chains") and hasattr(trace, "nodes"):
        return tuple(each.op for each in trace.nodes()), OPS
    if hasattr(trace, "walk"):
        return tuple(getattr(each, "op", each) for each in trace.walk()), OPS
    # A log trace holds every line; its launches are the calls.
    launches = getattr(trace, "launches", None)
    if launches is not None and not hasattr(trace, "ops"):
        return tuple(launches), LAUNCHES
    records = getattr(trace, "records", None)
    if records is not None:
        return tuple(records), OPS
    nodes = getattr(getattr(trace, "graph", trace), "nodes", None)
    if nodes is not None:
        return tuple(_of_graph(nodes)), OPS
    if isinstance(trace, Iterable) and not isinstance(trace, (str, bytes, Mapping)):
        return tuple(_named(index, each) for index, each in enumerate(trace)), OPS
    shown = repr(trace) if isinstance(trace, (str, bytes)) else type(trace).__name__
    msg = (
        f"{shown} is no trace: give an OpTrace, a LogTrace, a captured graph, or a "
        f"list of operator names."
    )
    raise UsageError(msg)


def _named(index: int, item: Any) -> Any:
    item = getattr(item, "op", item)
    if isinstance(getattr(item, "name", None), str) and not callable(item):
        return item
    name = call_name(item)
    if name is None:
        msg = f"A trace is made of records or names; item {index} is {item!r}."
        raise UsageError(msg)
    return NamedCall(index=index, name=name[0], overload=name[1])


def _of_graph(nodes: Iterable[Any]) -> Iterator[Any]:
    """The operator calls of a `torch.fx` graph, or of a graph of records."""
    for index, node in enumerate(nodes):
        kind, target = getattr(node, "op", None), getattr(node, "target", None)
        if target is None:
            yield node
            continue
        if kind != "call_function":
            continue
        name = call_name(target)
        if name is None or "::" not in name[0]:
            # auto_functionalized(op, ...) stands for the operator it calls.
            inner = call_name(node.args[0]) if node.args else None
            name = inner or (getattr(target, "__name__", str(target)), "default")
        yield NamedCall(index=index, name=name[0], overload=name[1])


def _without(
    calls: tuple[Any, ...], ignore: Ignored, versions: Mapping[str, str | None]
) -> tuple[Any, ...]:
    values = ignore if isinstance(ignore, (list, tuple)) else (ignore,)
    unwanted: list[CallPattern] = []
    for each in values:
        pattern = resolve(as_pattern(each), versions)
        if pattern is None:
            continue
        alternatives = single_calls(pattern)
        if alternatives is None:
            msg = f"ignore= takes operators, such as VIEW_OPS, not {pattern}."
            raise UsageError(msg)
        unwanted += [one.call for one in alternatives]
    if not unwanted:
        return calls
    return tuple(
        call for call in calls if not any(each.matches(call) for each in unwanted)
    )


def _versions(trace: object) -> dict[str, str | None]:
    environment = getattr(trace, "environment", None)
    if environment is not None:
        return {"torch": environment.torch, "torch_npu": environment.torch_npu}
    # Names and graphs do not tell where they come from: from this process.
    return {package: _installed(package) for package in ("torch", "torch_npu")}


def _installed(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
