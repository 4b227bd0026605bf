# SPDX-License-Identifier: BSD-3-Clause
"""Collectives: the one thing that torch_npu's queue really does to memory.

Values are written when an operator is called, but a collective runs when the queue
comes to it, and copies in and out of its buffers run there too. So a collective is
waited for: the queue is empty before and after it, and moves data meanwhile. A
message to one rank is waited for by whoever computes next, as its receiver may not
be there yet. Waiting is a call of torch_npu's own, and where its log is on, it leaves
its two lines about a drain.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from npu_dispatch_inspect._torch_private import modes
from npu_dispatch_inspect._torch_private.backend_kernels import empty_queue
from npu_dispatch_inspect.standin import loader
from npu_dispatch_inspect.values._memory import on_device

__all__ = ["Collectives"]

_MESSAGES = ("send", "recv")


class Collectives:
    """Which devices' queues may hold collectives."""

    __slots__ = ("queued",)

    def __init__(self) -> None:
        self.queued: set[int] = set()

    def wait(self) -> None:
        """Let those queues run empty."""
        while self.queued:
            # Taken first: what is queued meanwhile is waited for the next time.
            try:
                device = self.queued.pop()
            except KeyError:  # another thread took the last one
                return
            empty_queue(device)

    def kernel(self, name: str, run: Callable[..., Any]) -> Callable[..., Any]:
        """A kernel in front of that of a collective."""
        base = name.partition("::")[2]
        is_message = base.startswith(_MESSAGES)

        def kernel(keyset: Any, *args: Any, **kwargs: Any) -> Any:
            devices = set(_devices([*args, *kwargs.values()]))
            if is_message:
                self.queued |= devices
                return run(keyset, *args, **kwargs)
            self.queued |= devices
            self.wait()
            loader.move_data(in_queue=True)
            try:
                return run(keyset, *args, **kwargs)
            finally:
                self.queued |= devices
                self.wait()
                loader.move_data(in_queue=False)

        modes.hide_with_calls_from_dynamo(kernel)
        return kernel


def _devices(values: Iterable[Any]) -> Iterator[int]:
    for each in values:
        if on_device(each):
            yield each.device.index
        elif isinstance(each, (list, tuple)):
            yield from _devices(each)
