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
from typing import Any, NamedTuple

import torch

from npu_dispatch_inspect._torch_private import modes

__all__ = ["Scope", "current_scopes", "region", "track", "untrack"]


class Scope(NamedTuple):
    """One place in the model, on one thread."""

    thread: int
    """`threading.get_ident()` of the thread."""
    root: str | None = None
    """Class of the outermost module; the second instance of a class is ``Net#2``."""
    path: str | None = None
    """Path from the root; empty for the root itself, None outside any module."""
    type: str | None = None
    """Class of the module."""
    regions: tuple[str, ...] = ()


current_scopes: dict[int, Scope] = {}
"""The scope of each thread that has one; a thread without one is at its top."""

_plain_call: Callable[..., Any] = torch.nn.Module.__call__
_users = 0
_lock = threading.Lock()
_open_modules: dict[int, list[torch.nn.Module]] = {}
_roots: dict[int, tuple[weakref.ref[torch.nn.Module], str]] = {}
_root_counts: dict[str, int] = {}
_known: dict[tuple[Scope, int], tuple[weakref.ref[torch.nn.Module], Scope]] = {}


def _tracked_call(self: torch.nn.Module, *args: Any, **kwargs: Any) -> Any:
    thread = threading.get_ident()
    outer = current_scopes.get(thread)
    opened = _open_modules.get(thread)
    if opened is None:
        opened = _open_modules[thread] = []
    current_scopes[thread] = _enter(self, outer or Scope(thread), opened)
    opened.append(self)
    try:
        return _plain_call(self, *args, **kwargs)
    finally:
        opened.pop()
        if outer is None:
            current_scopes.pop(thread, None)
        else:
            current_scopes[thread] = outer


def _enter(
    module: torch.nn.Module, outer: Scope, opened: list[torch.nn.Module]
) -> Scope:
    key = (outer, id(module))
    known = _known.get(key)
    if known is not None and known[0]() is module:
        return known[1]
    name = type(module).__name__
    if outer.path is None:
        scope = outer._replace(root=_root_name(module, name), path="", type=name)
    else:
        scope = outer._replace(path=_path(module, name, outer.path, opened), type=name)
    _known[key] = (weakref.ref(module), scope)
    return scope


def _root_name(module: torch.nn.Module, name: str) -> str:
    known = _roots.get(id(module))
    if known is not None and known[0]() is module:
        return known[1]
    count = _root_counts[name] = _root_counts.get(name, 0) + 1
    label = name if count == 1 else f"{name}#{count}"
    _roots[id(module)] = (weakref.ref(module), label)
    return label


def _path(
    module: torch.nn.Module, name: str, outer: str, opened: list[torch.nn.Module]
) -> str:
    """The path of a module that was called while ``opened`` were running."""
    prefix = outer
    # The nearest module around it that owns it gives the name; two names in one
    # owner cannot be told apart by the call, so both are given.
    for owner in reversed(opened):
        names = [path for path, each in _descendants(owner) if each is module]
        if names:
            found = "|".join(names)
            return f"{prefix}.{found}" if prefix else found
        prefix = prefix.rpartition(".")[0]
    return f"{outer}.<{name}>" if outer else f"<{name}>"


def _descendants(module: torch.nn.Module) -> Iterator[tuple[str, torch.nn.Module]]:
    """Every module below, once per name, without calling user code."""
    pending = [("", module, frozenset({id(module)}))]
    while pending:
        prefix, owner, above = pending.pop(0)
        for name, child in owner._modules.items():  # noqa: SLF001 - named_modules() can be overridden by the user
            if child is None or id(child) in above:
                continue
            path = f"{prefix}{name}"
            yield path, child
            pending.append((f"{path}.", child, above | {id(child)}))


def track() -> None:
    """Begin to follow module calls; nests, see `untrack`."""
    global _users, _plain_call  # noqa: PLW0603 - one patch for the process
    with _lock:
        _users += 1
        if _users == 1:
            _plain_call = torch.nn.Module.__call__
            modes.hide_from_dynamo(_tracked_call, _enter, _root_name, _path, _descendants)
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
            _known.clear()
            _roots.clear()
            _root_counts.clear()


@contextmanager
def region(name: str) -> Iterator[None]:
    """Label the calls made inside the block; costs next to nothing untraced.

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
    if not _users:
        yield
        return
    thread = threading.get_ident()
    outer = current_scopes.get(thread)
    base = outer or Scope(thread)
    current_scopes[thread] = base._replace(regions=(*base.regions, name))
    try:
        yield
    finally:
        if outer is None:
            current_scopes.pop(thread, None)
        else:
            current_scopes[thread] = outer
