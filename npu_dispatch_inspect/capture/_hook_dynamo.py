# SPDX-License-Identifier: BSD-3-Clause
"""Compiled functions called while operators are hooked.

Dynamo guards compiled code by the dispatch keys of the thread, ours among them.
A function compiled before the block would be compiled again inside it, and one
compiled inside would be again afterwards. So the key is put away when a compiled
function is entered, and taken out again for the finished graph that it runs. What
Python does between graphs is not seen, nor is compilation itself.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from npu_dispatch_inspect._torch_private import dynamo, modes, redispatch
from npu_dispatch_inspect.capture._hook_threads import hidden, seen_here

__all__ = ["install"]


class _Entries(threading.local):
    """Compiled functions that this thread is inside of.

    Class attributes rather than `__init__`: that would be a frame, and Dynamo
    may be about to look at the frames of this thread.
    """

    hooked: tuple[bool, ...] = ()
    """Whether the thread was hooked when it entered each."""
    entering = False
    leaving = False


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
    set_eval_frame = original("set_eval_frame")
    is_unsafe = original("_is_skip_guard_eval_unsafe_stance")
    set_unsafe = original("set_skip_guard_eval_unsafe")
    entries = _Entries()
    switch = redispatch.include_generic_key

    def frame_callback(callback: Any) -> Any:
        watched = bool(entries.hooked) or entries.leaving
        if watched and callback is not None:
            entries.leaving = False
            switch(False)  # noqa: FBT003 - a switch
        prior = set_eval_frame(callback)
        # A graph, or other code that is to run as it is. While Dynamo compiles it
        # calls functions of its own in the same way.
        if watched and callback is None and not dynamo.is_compiling():
            entries.leaving = False
            switch(seen_here().calls is not None)
        return prior

    def entered() -> Any:
        entries.hooked += (redispatch.included_generic_key(),)
        entries.entering = True
        if original("_stance").stance != "force_eager":
            switch(False)  # noqa: FBT003 - a switch
        return is_unsafe()

    def entered_or_left(value: Any) -> Any:
        if entries.entering:
            entries.entering = False
        elif entries.hooked:
            # Dynamo's wrapper restores the thread's keys after this, and then
            # sets the callback that was there before.
            entries.leaving = entries.hooked[-1]
            entries.hooked = entries.hooked[:-1]
        return set_unsafe(value)

    modes.hide_from_dynamo(frame_callback, entered, entered_or_left)
    return {
        "set_eval_frame": frame_callback,
        "_is_skip_guard_eval_unsafe_stance": entered,
        "set_skip_guard_eval_unsafe": entered_or_left,
    }
