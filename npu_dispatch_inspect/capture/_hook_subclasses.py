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

import functools
from collections.abc import Callable
from typing import Any

import torch

from npu_dispatch_inspect._torch_private import redispatch, tensor_class
from npu_dispatch_inspect.capture._hook_threads import calls_here, hidden, told

__all__ = ["install"]


def install() -> Callable[[], None]:
    """Watch the three places; return what restores them."""
    torch.overrides.get_overridable_functions()  # caches what it finds in the class
    return tensor_class.replace_subclass_makers(
        _wanted, _make_subclass=_made, as_subclass=_viewed, __new__=_constructed
    )


def _wanted() -> bool:
    return redispatch.sees_generic_key() and calls_here() is not None


def _made(make_subclass: Callable[..., Any]) -> Callable[..., Any]:
    def made(*args: Any, **kwargs: Any) -> Any:
        data = kwargs.get("data") if len(args) < 2 else args[1]  # noqa: PLR2004 - cls, data
        run = functools.partial(make_subclass, *args, **kwargs)
        if not isinstance(data, torch.Tensor):
            return run()
        return _told("aten::detach", data, run)

    return made


def _viewed(as_subclass: Any) -> Callable[..., Any]:
    def viewed(*args: Any, **kwargs: Any) -> Any:
        # Bound where it was taken from a tensor, not where from the class.
        bound = getattr(as_subclass, "__self__", None)
        tensor = args[0] if bound is None else bound
        return _told(
            "aten::alias", tensor, functools.partial(as_subclass, *args, **kwargs)
        )

    return viewed


def _constructed(constructor: Callable[..., Any]) -> Callable[..., Any]:
    def constructed(cls: type[torch.Tensor], *args: Any, **kwargs: Any) -> Any:
        if cls is torch.Tensor:
            return constructor(cls, *args, **kwargs)
        if not tensor_class.plain_tensor_class(cls):
            with hidden():
                return constructor(cls, *args, **kwargs)
        tensor = constructor(torch.Tensor, *args, **kwargs)
        tensor.__class__ = cls
        return tensor

    return constructed


def _told(name: str, tensor: torch.Tensor, make: Callable[[], Any]) -> Any:
    calls = calls_here()
    op = redispatch.find_overload(name)
    if calls is None or not isinstance(tensor, torch.Tensor):
        return make()

    def make_hidden() -> Any:
        with hidden():
            return make()

    raw = redispatch.keys_without_modes(tensor)
    return told(make_hidden, calls, op, (tensor,), {}, raw)
