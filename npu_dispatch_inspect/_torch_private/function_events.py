# SPDX-License-Identifier: BSD-3-Clause
"""RecordFunction events: what C++ code says about itself while a profiler listens."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.autograd import profiler

__all__ = ["FUNCTION_SCOPE", "listen"]

FUNCTION_SCOPE = 0
"""Scope of an event of an operator's own code; labels and autograd nodes have others."""


def listen(label: str) -> Callable[[], list[Any]] | None:
    """Collect this thread's events, and those of its autograd threads, from now on.

    The first event is ``label``. torch has one profiler per process: where one is
    on nothing is collected and None is returned, and one that is started meanwhile
    takes over, so that nothing is found. Seen in torch 2.6 to 2.13.

    Returns:
        A function that ends it and gives torch's `FunctionEvent` objects.
    """
    if torch._C._autograd._profiler_enabled():
        return None
    running = profiler.profile(use_kineto=False)
    running.__enter__()
    with profiler.record_function(label):
        pass

    def stop() -> list[Any]:
        if not torch._C._autograd._profiler_enabled():
            # It ended with the one that took over; ending it again raises in 2.6.
            return []
        running.__exit__(None, None, None)
        return list(running.function_events or ())

    return stop
