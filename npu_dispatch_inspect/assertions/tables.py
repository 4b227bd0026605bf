# SPDX-License-Identifier: BSD-3-Clause
"""Assertions on the dispatcher's registrations."""

from __future__ import annotations

from npu_dispatch_inspect._call_patterns import overload_of
from npu_dispatch_inspect.assertions._look import fail, look
from npu_dispatch_inspect.assertions._settings import SETTINGS
from npu_dispatch_inspect.display.places import capped
from npu_dispatch_inspect.errors import UsageError
from npu_dispatch_inspect.records.registrations import KernelState
from npu_dispatch_inspect.traces.tables import DispatchTable

__all__ = ["assert_kernel", "assert_no_fallback"]

__unittest = True


def assert_kernel(
    table: DispatchTable,
    operator: object,
    key: str = "PrivateUse1",
    *,
    state: KernelState | str = KernelState.OWN_KERNEL,
    file: str | None = None,
) -> None:
    """An operator has a kernel of a kind for a dispatch key.

    Args:
        table: from `read_dispatch_table`.
        operator: one overload; a name alone means the default one.
        key: in any spelling: ``"PrivateUse1"`` or ``"NPU"``.
        state: ``"own kernel"``, ``"composite"``, ``"default backend kernel"``, ...
        file: part of the name of the file that registered it.

    Raises:
        AssertionError: it has another one or none.
        UnknownNameError: there is no such operator or key.

    Example:
        >>> from npu_dispatch_inspect import assert_kernel, read_dispatch_table
        >>> table = read_dispatch_table("aten::addmm", "aten::linear")
        >>> assert_kernel(table, "aten::addmm", key="CPU")
        >>> assert_kernel(table, "aten::linear", key="CPU", state="composite")
    """
    __tracebackhide__ = True
    _check_table(table)
    try:
        wanted = KernelState(state)
    except ValueError:
        words = ", ".join(repr(each.value) for each in KernelState)
        msg = f"state= is one of {words}, not {state!r}."
        raise UsageError(msg) from None
    entry = table.entry(operator)
    found = entry.state(key)
    kernel = dict(entry.kernels).get(entry.keys.canonical(key))
    site = kernel.site if kernel is not None else ""
    name = entry.qualified_name
    if found is not wanted:
        lines = [f"{name} has no {wanted.value} for {key}: {found.value}{_at(site)}"]
    elif file is not None and file not in site:
        lines = [
            f"{name} has its {found.value} for {key} from {site or 'a place torch does not tell'}, not from {file}"
        ]
    else:
        return
    registered = [
        f"registered for {each.key}{_at(each.site)}"
        for each in entry.registrations
        if each.active
    ]
    lines += [
        f"  {each}" for each in capped(registered, SETTINGS.rows, "registrations")
    ]
    fail(lines)


def assert_no_fallback(
    table: DispatchTable, *operators: object, key: str = "PrivateUse1"
) -> None:
    """No operator is left to the backend's fallback: with torch_npu, the CPU.

    Args:
        table: from `read_dispatch_table`.
        *operators: names, ``torch.ops`` objects, or a trace, whose operators are
            looked at; the whole table where none are given.
        key: the backend's dispatch key, in any spelling.

    Raises:
        AssertionError: some are.
        UnknownNameError: there is no such operator or key.

    Example:
        >>> import torch
        >>> from npu_dispatch_inspect import assert_no_fallback, read_dispatch_table, trace_ops
        >>> with trace_ops() as trace:
        ...     y = torch.ones(2).exp()
        >>> assert_no_fallback(read_dispatch_table(), trace, key="CPU")
    """
    __tracebackhide__ = True
    _check_table(table)
    wanted: list[object] = []
    for each in operators:
        if hasattr(each, "records"):
            # With its overload: a bare name would mean all overloads.
            called = (f"{call.name}.{overload_of(call)}" for call in look(each).calls)
            wanted += (name for name in called if name in table)
        else:
            wanted.append(each)
    chosen = table.select(*wanted) if operators else table
    left = chosen.fallback(key).names
    if not left:
        return
    head = ", ".join(left[:3]) + (f" and {len(left) - 3} more" if len(left) > 3 else "")  # noqa: PLR2004
    word = "operator falls" if len(left) == 1 else "operators fall"
    fallback = next(iter(chosen.fallbacks(key=key)), None)
    lines = [f"{len(left)} {word} back for {key}: {head} (of {len(chosen)})"]
    if fallback is not None:
        lines.append(f"  fallback registered{_at(fallback.site)}")
    lines += [f"  {each}" for each in capped(list(left), SETTINGS.rows, "operators")]
    fail(lines)


def _check_table(table: object) -> None:
    if not isinstance(table, DispatchTable):
        msg = (
            f"The first argument is the table of read_dispatch_table(), "
            f"not {type(table).__name__}."
        )
        raise UsageError(msg)


def _at(site: str) -> str:
    return f" at {site}" if site else ""
