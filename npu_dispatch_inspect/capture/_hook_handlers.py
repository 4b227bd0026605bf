# SPDX-License-Identifier: BSD-3-Clause
"""Calls that a `__torch_dispatch__` makes while operators are hooked.

Torch puts away all keys above Python, ours among them, while a mode or a wrapper
subclass handles a call. What the handler calls with the function it was given is
to be seen like any other call, so the key is taken out again for it. The modes
with which torch traces programs are left alone: what they do is not the program's.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from npu_dispatch_inspect._torch_private import modes, redispatch, tensor_class
from npu_dispatch_inspect.capture._hook_threads import calls_here, seen_here

__all__ = ["install"]

_TRACING = ("torch._subclasses.", "torch.fx.", "torch._functorch.", "torch._dynamo.")


def install() -> Callable[[], None]:
    """Follow handlers; return what leaves them alone again."""
    return tensor_class.replace_overload_call(_followed)


def _followed(call: Callable[..., Any]) -> Callable[..., Any]:
    is_excluded = redispatch.is_generic_key_excluded
    include = redispatch.exclude_key_no_longer

    def followed(self: Any, /, *args: Any, **kwargs: Any) -> Any:
        if not is_excluded() or not _opened(sys._getframe(1).f_globals):
            return call(self, *args, **kwargs)
        include(True)  # noqa: FBT003 - a switch
        try:
            return call(self, *args, **kwargs)
        finally:
            include(False)  # noqa: FBT003 - a switch

    modes.hide_from_dynamo(followed)
    return followed


def _opened(caller: dict[str, Any]) -> bool:
    if seen_here().hiding or calls_here() is None:
        return False
    return not str(caller.get("__name__")).startswith(_TRACING)
