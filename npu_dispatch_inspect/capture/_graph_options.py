# SPDX-License-Identifier: BSD-3-Clause
"""What people write for a capture's options to what AOTAutograd takes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch

from npu_dispatch_inspect._torch_private import aot, modes
from npu_dispatch_inspect.capture._graph_records import Options
from npu_dispatch_inspect.errors import UsageError

__all__ = ["read_options"]


def read_options(
    *,
    joint: bool,
    partition: Any,
    decompositions: Any,
    dynamic: bool,
    fw_compiler: Any,
    bw_compiler: Any,
) -> Options:
    """The options, checked.

    Raises:
        UsageError: one of them is not what it can be.
    """
    for name, given in (("joint", joint), ("dynamic", dynamic)):
        if not isinstance(given, bool):
            msg = f"{name} must be True or False, not {given!r}."
            raise UsageError(msg)
    for name, given in (("fw_compiler", fw_compiler), ("bw_compiler", bw_compiler)):
        if given is not None and not callable(given):
            msg = f"{name} must be a function of a graph and its inputs, not {given!r}."
            raise UsageError(msg)
    cut, cut_name = _partition(partition)
    table, table_name = _decompositions(decompositions)
    return Options(
        joint=joint,
        partition=cut,
        partition_name=cut_name,
        decompositions=table,
        decompositions_name=table_name,
        dynamic=dynamic,
        fw_compiler=fw_compiler,
        bw_compiler=bw_compiler,
    )


def _partition(given: Any) -> tuple[Callable[..., Any], str]:
    known = aot.partitions()
    if isinstance(given, str) and given in known:
        return known[given], given
    if callable(given):
        return given, getattr(given, "__name__", type(given).__name__)
    names = ", ".join(map(repr, known))
    msg = f"partition must be one of {names}, or a partition function, not {given!r}."
    raise UsageError(msg)


def _decompositions(
    given: Any,
) -> tuple[dict[Any, Callable[..., Any]] | None, str | None]:
    if given is None:
        return None, None
    if given == "core_aten":
        return aot.given_core_aten(), "core_aten"
    if isinstance(given, Mapping):
        return dict(given), f"table of {len(given)}"
    if isinstance(given, str) or not isinstance(given, Iterable):
        msg = (
            f"decompositions must be 'core_aten', a table, or a list of operators, "
            f"not {given!r}."
        )
        raise UsageError(msg)
    operators = [_operator(each) for each in given]
    table = aot.given_decompositions(operators)
    for each in operators:
        overloads = (
            {each}
            if isinstance(each, modes.operator_class)
            else {getattr(each, name) for name in each.overloads()}
        )
        if not overloads & table.keys():
            msg = f"torch has no decomposition of {each}: give a table that has one."
            raise UsageError(msg)
    return table, f"table of {len(table)}"


def _operator(given: Any) -> Any:
    if isinstance(given, (modes.operator_class, modes.packet_class)):
        return given
    if isinstance(given, str):
        space, _, rest = given.replace("::", ".", 1).partition(".")
        name, _, overload = rest.partition(".")
        packet = getattr(getattr(torch.ops, space), name, None) if name else None
        found = getattr(packet, overload, None) if overload else packet
        if found is not None:
            return found
    msg = (
        f"{given!r} is no operator: write it as torch does, 'aten::gelu', or give "
        f"torch.ops.aten.gelu."
    )
    raise UsageError(msg)
