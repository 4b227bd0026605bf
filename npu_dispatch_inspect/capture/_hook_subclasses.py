# SPDX-License-Identifier: BSD-3-Clause
"""Tensor subclasses made while operators are hooked.

`nn.Parameter(x)` lets C++ call ``aten::detach`` and wants a result that Python
has never seen, to give it the new class. A result that came through a Python
kernel has been seen, and torch refuses it. So the three places where C++ makes a
subclass of a fresh result run unhooked, and the one call that each of them makes
(`detach`, `alias`) is told to the recorder from here: what it is called with is
known, and nothing more runs inside it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from npu_dispatch_inspect._torch_private import redispatch
from npu_dispatch_inspect.capture._hook_threads import Calls, calls_here, told

__all__ = ["install"]


def install() -> Callable[[], None]:
    """Watch the three places; return what restores them."""
    torch.overrides.get_ignored_functions()  # is cached, and names two of them
    make_subclass, as_subclass = redispatch.subclass_makers()
    constructor = torch.Tensor.__new__
    detach = redispatch.find_overload("aten::detach")
    alias = redispatch.find_overload("aten::alias")

    def made(*args: Any, **kwargs: Any) -> Any:
        calls = _listening()
        data = kwargs.get("data") if len(args) < 2 else args[1]  # noqa: PLR2004
        if calls is None or not isinstance(data, torch.Tensor):
            return make_subclass(*args, **kwargs)
        return _told(calls, detach, data, lambda: make_subclass(*args, **kwargs))

    def viewed(self: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        calls = _listening()
        if calls is None:
            return as_subclass(self, *args, **kwargs)
        return _told(calls, alias, self, lambda: as_subclass(self, *args, **kwargs))

    def constructed(cls: type[torch.Tensor], *args: Any, **kwargs: Any) -> Any:
        if cls is torch.Tensor or _listening() is None:
            return constructor(cls, *args, **kwargs)
        if not redispatch.plain_tensor_class(cls):
            with redispatch.exclude_generic_key():
                return constructor(cls, *args, **kwargs)
        tensor = constructor(torch.Tensor, *args, **kwargs)
        tensor.__class__ = cls
        return tensor

    return redispatch.replace_subclass_makers(
        make_subclass=staticmethod(made),
        as_subclass=viewed,
        constructor=staticmethod(constructed),
    )


def _listening() -> Calls | None:
    return calls_here() if redispatch.sees_generic_key() else None


def _told(
    calls: Calls, op: Any, tensor: torch.Tensor, make: Callable[[], Any]
) -> Any:
    def hidden() -> Any:
        with redispatch.exclude_generic_key():
            return make()

    raw = redispatch.keys_without_modes(tensor)
    return told(hidden, calls, op, (tensor,), {}, raw)
