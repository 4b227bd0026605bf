# SPDX-License-Identifier: BSD-3-Clause
"""What `OpTracer` needs of the dispatcher hook: an engine, and late key reading."""

from __future__ import annotations

from typing import Any

from npu_dispatch_inspect._torch_private import dispatcher, redispatch
from npu_dispatch_inspect.capture._dispatcher_hook import DispatcherHook
from npu_dispatch_inspect.dispatch_table.dump_parser import DumpParser
from npu_dispatch_inspect.records import KernelChoice
from npu_dispatch_inspect.records.registrations import KeyNames

__all__ = ["DispatcherEngine", "read_keys"]


class DispatcherEngine(DispatcherHook):
    """Engine "dispatcher"; see `DispatcherHook`."""

    name = "dispatcher"
    below_autograd = False
    nesting = True

    @staticmethod
    def read_keys(op: Any, raw: int) -> tuple[tuple[str, ...], KernelChoice | None]:
        """See `read_keys`."""
        return read_keys(op, raw)


def read_keys(op: Any, raw: int) -> tuple[tuple[str, ...], KernelChoice | None]:
    """Names of the keys alive in a recorded call, and the kernel it reached first.

    The kernel is looked up when somebody asks: it is the one in the tables at
    that moment. None where the tables have none, as for a higher-order operator.
    """
    keys = redispatch.live_keys(raw)
    if not keys or not hasattr(op, "_schema"):
        return keys, None
    table = dispatcher.computed_dump(op.name())
    found = DumpParser(KeyNames(names=keys)).kernel_for(table, keys[0])
    if found is None:
        return keys, None
    return keys, KernelChoice(key=keys[0], kind=found.kind, site=found.site)
