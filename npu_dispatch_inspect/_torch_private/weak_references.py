# SPDX-License-Identifier: BSD-3-Clause
"""Private API behind telling tensors apart: who refers to one weakly is seen by torch."""

from __future__ import annotations

import threading
import weakref
from types import ModuleType

import torch

__all__ = ["hide_from_swap", "show_to_swap"]

_hidden: list[type] = []
_lock = threading.Lock()


def hide_from_swap(kind: type) -> None:
    """Let tensors be swapped that references of a class refer to; see `show_to_swap`.

    `torch.utils.swap_tensors`, and with it ``Module.to`` of some models, refuses a
    tensor that has weak references. Those are right here afterwards: they are for the
    object, whatever it holds. It asks for them by the name ``weakref`` in its module;
    seen in 2.13. Where a torch has no such name, nothing is done.
    """
    with _lock:
        _hidden.append(kind)
        if getattr(torch.utils, "weakref", None) is weakref:
            torch.utils.weakref = _filtering  # type: ignore[attr-defined]


def show_to_swap(kind: type) -> None:
    """End `hide_from_swap`; the last one leaves torch as it was."""
    with _lock:
        _hidden.remove(kind)
        if not _hidden and getattr(torch.utils, "weakref", None) is _filtering:
            torch.utils.weakref = weakref  # type: ignore[attr-defined]


def _getweakrefs(referent: object) -> list[object]:
    return [each for each in weakref.getweakrefs(referent) if type(each) not in _hidden]


# The module `weakref`, but for what it tells of a tensor's references.
_filtering = ModuleType(weakref.__name__, weakref.__doc__)
vars(_filtering).update(vars(weakref), getweakrefs=_getweakrefs)
