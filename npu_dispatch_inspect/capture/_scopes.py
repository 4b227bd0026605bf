# SPDX-License-Identifier: BSD-3-Clause
"""Where in the model a call is made: the module path and the `region` labels.

While a tracer is active, `torch.nn.Module.__call__` is one function of ours that
notes the module and calls torch's. The user's modules and classes are not
touched, no hook is registered (global module hooks end up in graphs that are
compiled meanwhile), and an exception cannot leave a module open.

A `Scope` is immutable and holds text only; the current one is kept per thread.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from types import CodeType
from typing import Any, NamedTuple

import torch

from npu_dispatch_inspect._torch_private import modes

__all__ = [
    "STEP",
    "STEP_IN_BACKWARD",
    "TORCH_STEP",
    "OpenModule",
    "Scope",
    "Site",
    "branches",
    "current_scopes",
    "enter_record_function",
    "leave_record_function",
    "module_call",
    "new_thread",
    "open_modules",
    "region",
    "thread_ended",
    "top_scope",
    "track",
    "untrack",
]


STEP = 1
"""Inside an optimizer's step."""
TORCH_STEP = 2
"""The optimizer is torch's own: its calls can be told from those of a closure."""
STEP_IN_BACKWARD = 4
"""The step was called by the autograd engine, from a hook."""


class Scope(NamedTuple):
    """One place in the model, on one thread."""

    thread: int
    """`threading.get_ident()` of the thread, or what `new_thread` chose."""
    root: str | None = None
    """Class of the outermost module; the second instance of a class is ``Net#2``."""
    path: str | None = None
    """Path from the root; empty for the root itself, None outside any module."""
    type: str | None = None
    """Class of the module."""
    regions: tuple[str, ...] = ()
    step: int = 0
    """`STEP` and the others."""
    in_engine: bool = False
    """The module was called by the autograd engine: a hook, or a recomputation."""


Site = tuple[CodeType | None, int, int]
"""(code, instruction offset, marks) of a call's place in the user's program; code
is None where no frame is the user's. See `_frames`."""


class OpenModule:
    """A module that is being called."""

    __slots__ = ("module", "path", "site", "transparent")

    def __init__(
        self, module: torch.nn.Module, path: str, *, transparent: bool
    ) -> None:
        self.module = module
        self.path = path
        self.transparent = transparent
        """A graph that torch made of the module around it, not a part of the model."""
        self.site: Site | None = None
        """Where the outermost torch code around it was called from, once known."""


current_scopes: dict[int, Scope] = {}
"""The scope of each thread that has one; a thread without one is at its top."""

open_modules: dict[int, list[OpenModule]] = {}
"""The modules that each thread is inside of, outermost first."""

_tops: dict[int, Scope] = {}
_new_threads = count(1)


def top_scope(thread: int) -> Scope:
    """The scope of a thread outside any module and region."""
    return _tops.get(thread) or Scope(thread)


def new_thread() -> None:
    """Tell this thread from one that has ended and had the same identity."""
    thread = threading.get_ident()
    open_modules.pop(thread, None)
    current_scopes.pop(thread, None)
    _tops[thread] = Scope(-next(_new_threads))


def thread_ended() -> None:
    """Forget what `new_thread` set."""
    _tops.pop(threading.get_ident(), None)


_plain_call: Callable[..., Any] = torch.nn.Module.__call__
_users = 0
_lock = threading.Lock()
MAX_SCOPES = 65_536
_roots: dict[int, tuple[weakref.ref[torch.nn.Module], str]] = {}
_root_counts: dict[str, int] = {}
_known: dict[tuple[Scope, int, bool], tuple[weakref.ref[torch.nn.Module], Scope]] = {}
_places: dict[int, tuple[weakref.ref[torch.nn.Module], list[Scope]]] = {}
"""Where each module was called from in forward."""


def _tracked_call(self: torch.nn.Module, *args: Any, **kwargs: Any) -> Any:
    thread = threading.get_ident()
    outer = current_scopes.get(thread)
    opened = open_modules.get(thread)
    if opened is None:
        opened = open_modules[thread] = []
    around = outer or top_scope(thread)
    graph_module = modes.graph_module_class()
    transparent = (
        graph_module is not None
        and isinstance(self, graph_module)
        and _is_made_by_torch(self, opened)
    )
    scope = around if transparent else _enter(self, around, opened)
    current_scopes[thread] = scope
    opened.append(OpenModule(self, scope.path or "", transparent=transparent))
    try:
        return _plain_call(self, *args, **kwargs)
    finally:
        opened.pop()
        if outer is None:
            current_scopes.pop(thread, None)
        else:
            current_scopes[thread] = outer


module_call = _tracked_call.__code__
"""Code of the function that stands for `Module.__call__` while a tracer is active."""


def _enter(module: torch.nn.Module, outer: Scope, opened: list[OpenModule]) -> Scope:
    in_engine = outer.in_engine or modes.current_graph_task() != -1
    key = (outer, id(module), in_engine)
    known = _known.get(key)
    if known is not None and known[0]() is module:
        return known[1]
    name = type(module).__name__
    if in_engine and not outer.in_engine:
        scope = _called_by_engine(module, name, outer)
    elif outer.path is None:
        # A closure that an optimizer calls runs the model: that is no step.
        scope = outer._replace(
            root=_root_name(module, name), path="", type=name, step=0
        )
    else:
        scope = outer._replace(path=_path(module, name, outer.path, opened), type=name)
    if not in_engine:
        place = _places.get(id(module))
        if place is None or place[0]() is not module:
            place = _places[id(module)] = (weakref.ref(module), [])
        if all((each.root, each.path) != (scope.root, scope.path) for each in place[1]):
            place[1].append(scope)
    if len(_known) >= MAX_SCOPES:
        # Labels may be made up without end: region(f"step {n}").
        _known.clear()
    _known[key] = (weakref.ref(module), scope)
    return scope


branches: set[int] = set()
"""Identities of the functions that a higher-order operator is running."""


def _is_made_by_torch(module: torch.nn.Module, opened: list[OpenModule]) -> bool:
    """True for the graph of a compiled region, a branch, a backward pass.

    A graph module that people put into their model is named like any other.
    """
    if modes.made_by_dynamo(module) or id(module) in branches:
        return True
    owned = any(
        each is module for owner in opened for _, each in _descendants(owner.module)
    )
    return bool(opened) and (opened[-1].transparent or not owned)


def _called_by_engine(module: torch.nn.Module, name: str, outer: Scope) -> Scope:
    """The scope of a module that a hook or a recomputation calls.

    It runs where it ran in forward, though the modules around it are not being
    called now. Where it ran in several places, all are named.
    """
    base = Scope(outer.thread, regions=outer.regions, type=name, in_engine=True)
    place = _places.get(id(module))
    if place is None or place[0]() is not module:
        return base._replace(root=_root_name(module, name), path="")
    root = place[1][-1].root
    paths = [each.path or "" for each in place[1] if each.root == root]
    return base._replace(root=root, path="|".join(dict.fromkeys(paths)))


def _root_name(module: torch.nn.Module, name: str) -> str:
    known = _roots.get(id(module))
    if known is not None and known[0]() is module:
        return known[1]
    count = _root_counts[name] = _root_counts.get(name, 0) + 1
    label = name if count == 1 else f"{name}#{count}"
    _roots[id(module)] = (weakref.ref(module), label)
    return label


def _path(
    module: torch.nn.Module, name: str, outer: str, opened: list[OpenModule]
) -> str:
    """The path of a module that was called while ``opened`` were running."""
    # The nearest module around it that owns it gives the name; two names in one
    # owner cannot be told apart by the call, so both are given.
    for owner in reversed(opened):
        names = [path for path, each in _descendants(owner.module) if each is module]
        if names:
            return _join(owner.path, names)
    return _join(outer, [f"<{name}>"])


def _join(prefix: str, names: list[str]) -> str:
    return "|".join(
        f"{each}.{name}" if each else name
        for each in prefix.split("|")
        for name in names
    )


def _descendants(module: torch.nn.Module) -> Iterator[tuple[str, torch.nn.Module]]:
    """Every module below, once per name, without calling user code."""
    pending = [("", module, frozenset({id(module)}))]
    while pending:
        prefix, owner, above = pending.pop(0)
        for name, child in owner._modules.items():
            if child is None or id(child) in above:
                continue
            path = f"{prefix}{name}"
            yield path, child
            pending.append((f"{path}.", child, above | {id(child)}))


_STEP = "Optimizer.step#"
_outside_step: dict[int, list[Scope | None]] = {}


def enter_record_function(name: object) -> None:
    """Follow torch's own label around a block: an optimizer's step has one."""
    thread = threading.get_ident()
    outer = current_scopes.get(thread)
    _outside_step.setdefault(thread, []).append(outer)
    if isinstance(name, str) and name.startswith(_STEP):
        step = STEP
        kind = name.removeprefix(_STEP).partition(".")[0]
        if hasattr(torch.optim, kind):
            step |= TORCH_STEP
        if modes.current_graph_task() != -1:
            step |= STEP_IN_BACKWARD
        current_scopes[thread] = (outer or top_scope(thread))._replace(step=step)


def leave_record_function() -> None:
    """Leave the innermost label; one that was entered before tracing is ignored."""
    thread = threading.get_ident()
    entered = _outside_step.get(thread)
    if not entered:
        return
    outer = entered.pop()
    if outer is None:
        current_scopes.pop(thread, None)
    else:
        current_scopes[thread] = outer


def track() -> None:
    """Begin to follow module calls; nests, see `untrack`."""
    global _users, _plain_call  # noqa: PLW0603 - one patch for the process
    with _lock:
        _users += 1
        if _users == 1:
            _plain_call = torch.nn.Module.__call__
            torch.nn.Module.__call__ = _tracked_call  # type: ignore[method-assign]
            modes.tell_dynamo_plain_module_call(_tracked_call)


def untrack() -> None:
    """End one `track`; the last one puts torch's own call back."""
    global _users  # noqa: PLW0603
    with _lock:
        _users -= 1
        if _users == 0:
            if torch.nn.Module.__call__ is _tracked_call:
                torch.nn.Module.__call__ = _plain_call  # type: ignore[method-assign]
            modes.tell_dynamo_plain_module_call(_plain_call)
            kept: dict[Any, Any]
            for kept in (
                _known,
                _places,
                _roots,
                _root_counts,
                _outside_step,
                current_scopes,
            ):
                kept.clear()


@contextmanager
def region(name: str) -> Iterator[None]:
    """Label the calls made inside the block; costs next to nothing untraced.

    In a function that is compiled by `torch.compile` it does nothing.

    Args:
        name: the label, as `OpTrace.in_region` matches it.

    Example:
        >>> import torch
        >>> from npu_dispatch_inspect import region, trace_ops
        >>> with trace_ops() as trace:
        ...     with region("scale"):
        ...         y = torch.ones(2) * 3
        >>> trace.in_region("scale").names
        ('aten::ones', 'aten::mul')
    """
    # First: Dynamo takes it for a constant, so that the label neither breaks the
    # graph nor has it compiled again when a tracer comes or goes.
    if torch.compiler.is_compiling() or not _users:
        yield
        return
    thread = threading.get_ident()
    outer = current_scopes.get(thread)
    base = outer or top_scope(thread)
    inner = current_scopes[thread] = base._replace(regions=(*base.regions, name))
    try:
        yield
    finally:
        now = current_scopes.get(thread)
        if now is inner:
            now = outer
        elif now is not None:
            # Blocks of coroutines and generators end in any order: this label
            # goes, whatever else has come or gone meanwhile.
            now = now._replace(regions=_without_last(now.regions, name))
        if now is None or now == top_scope(thread):
            current_scopes.pop(thread, None)
        else:
            current_scopes[thread] = now


def _without_last(labels: tuple[str, ...], label: str) -> tuple[str, ...]:
    for at in range(len(labels) - 1, -1, -1):
        if labels[at] == label:
            return labels[:at] + labels[at + 1 :]
    return labels
