# SPDX-License-Identifier: BSD-3-Clause
"""What `OpTracer` needs of the dispatcher hook: an engine, and late key reading."""

from __future__ import annotations

from typing import Any

from npu_dispatch_inspect._torch_private import redispatch
from npu_dispatch_inspect.capture._dispatcher_hook import DispatcherHook
from npu_dispatch_inspect.dispatch_table.path import Walker
from npu_dispatch_inspect.records import KernelChoice

__all__ = ["DispatcherEngine", "read_keys"]


class DispatcherEngine(DispatcherHook):
    """Engine "dispatcher"; see `DispatcherHook`."""

    name = "dispatcher"
    below_autograd = False
    nesting = True

    @staticmethod
    def read_keys(
        op: Any, raw: int
    ) -> tuple[tuple[str, ...], tuple[KernelChoice, ...]]:
        """See `read_keys`."""
        return read_keys(op, raw)


def read_keys(op: Any, raw: int) -> tuple[tuple[str, ...], tuple[KernelChoice, ...]]:
    """Names of the keys alive in a recorded call, and the kernels on its way.

    The kernels are looked up when somebody asks: they are those in the tables at
    that moment. None where the tables have none, as for a higher-order operator.
    """
    keys = redispatch.live_keys(raw)
    if not keys or not hasattr(op, "_schema"):
        return keys, ()
    return keys, Walker().kernels(op.name(), keys)
