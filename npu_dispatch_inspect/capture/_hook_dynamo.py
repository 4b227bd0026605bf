# SPDX-License-Identifier: BSD-3-Clause
"""Compiled functions called while operators are hooked.

Dynamo guards compiled code by the dispatch keys of the thread, ours among them.
A function compiled before the block would be compiled again inside it, and one
compiled inside would be again afterwards. So the key is put away when a compiled
function is entered, and taken out again for the finished graph that it runs. What
Python does between graphs is not seen, nor is compilation itself.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from npu_dispatch_inspect._torch_private import dynamo, modes, redispatch
from npu_dispatch_inspect.capture._hook_threads import hidden, seen_here

__all__ = ["install"]


def install() -> Callable[[], None]:
    """Follow compiled functions; return what leaves them alone again."""
    undo: list[Callable[[], None]] = []

    def replace() -> None:
        with hidden():
            undo.append(dynamo.replace_frame_functions(_replacements))

    call_off = dynamo.once_imported(replace, hidden)

    def remove() -> None:
        call_off()
        while undo:
            undo.pop()()

    return remove


def _replacements(
    original: Callable[[str], Any],
) -> dict[str, Callable[..., Any]]:
    set_callback = original("set_eval_frame")
    is_unsafe = original("_is_skip_guard_eval_unsafe_stance")
    switch = redispatch.include_generic_key

    def callback_set(callback: Any) -> Any:
        if callback is not None:
            switch(False)  # noqa: FBT003 - a switch
        prior = set_callback(callback)
        # A graph, or other code that is to run as it is. While Dynamo compiles it
        # calls functions of its own in the same way.
        if (
            callback is None
            and seen_here().calls is not None
            and not seen_here().hiding
            and not dynamo.is_compiling()
        ):
            switch(True)  # noqa: FBT003 - a switch
        return prior

    def entered() -> Any:
        # The wrapper around compiled code notes the thread's keys after this, and
        # sets them before it sets its callback.
        if original("_stance").stance != "force_eager":
            switch(False)  # noqa: FBT003 - a switch
        return is_unsafe()

    modes.hide_from_dynamo(callback_set, entered)
    return {
        "set_eval_frame": callback_set,
        "_is_skip_guard_eval_unsafe_stance": entered,
    }
