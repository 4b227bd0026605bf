# SPDX-License-Identifier: BSD-3-Clause
"""A traced graph above decomposition, and the table of every operator in it."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.fx import traceback as fx_traceback
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils import _pytree as pytree

from npu_dispatch_inspect._torch_private import keysets
from npu_dispatch_inspect.dispatch_table._module_paths import ModulePaths
from npu_dispatch_inspect.dispatch_table.reader import read_dispatch_table
from npu_dispatch_inspect.errors import UsageError
from npu_dispatch_inspect.records.registrations import OperatorKind
from npu_dispatch_inspect.records.traced_registrations import (
    RegisteredCall,
    RegistrationTrace,
)

__all__ = ["trace_registrations"]

ROUTES = ("auto", "jit.trace", "make_fx")
_Call = tuple[str, "str | None"]


def trace_registrations(
    target: Callable[..., Any], *args: Any, route: str = "auto"
) -> RegistrationTrace:
    """Trace a function above decomposition and read the table of every operator.

    The program's parameters, buffers and random state are as before when it
    ends.

    Args:
        target: A function or module of tensors.
        *args: What it is called with.
        route: ``"jit.trace"`` runs the function once and records what TorchScript
            sees; ``"make_fx"`` runs it on fake tensors and records what the
            dispatcher gets from Python. ``"auto"`` takes make_fx where jit.trace is
            deprecated, and the other one where the first fails.

    Returns:
        Every call with its table's entry and its module, and how it was traced.

    Raises:
        UsageError: neither route can trace the function.

    Example:
        >>> import torch
        >>> from npu_dispatch_inspect import trace_registrations
        >>> found = trace_registrations(torch.nn.ReLU(), torch.ones(2, 3))
        >>> [call.entry.qualified_name for call in found.calls]
        ['aten::relu']
    """
    if route not in ROUTES:
        choices = ", ".join(map(repr, ROUTES))
        message = f"There is no route {route!r}: choose one of {choices}."
        raise UsageError(message)
    if not callable(target):
        message = (
            f"trace_registrations() takes a function or a module, "
            f"not {type(target).__name__}."
        )
        raise UsageError(message)
    failed = []
    for name, reason in _order(route):
        try:
            with keysets.quiet_block(), _put_back(target):
                found = list(_ROUTES[name](target, args))
        except Exception as error:  # noqa: BLE001 - the other route may do
            text = " ".join(str(error).split())[:200]
            failed.append(f"{name}: {type(error).__name__}: {text}")
            continue
        why = f"{failed[0].partition(':')[0]} failed" if failed else reason
        return RegistrationTrace(route=name, reason=why, calls=_with_tables(found))
    message = f"The function cannot be traced ({'; '.join(failed)})."
    raise UsageError(message)


def _order(route: str) -> Iterator[tuple[str, str]]:
    if route != "auto":
        yield route, "asked for"
    elif _jit_trace_is_deprecated():
        yield "make_fx", "torch.jit.trace is deprecated in this torch"
        yield "jit.trace", ""
    else:
        yield "jit.trace", "torch.jit.trace is there and not deprecated"
        yield "make_fx", ""


def _jit_trace_is_deprecated() -> bool:
    # It warns when called, and only then; a trivial call finds out.
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with keysets.quiet_block():
            torch.jit.trace(torch.neg, (torch.zeros(1),), check_trace=False)
    return any(issubclass(each.category, DeprecationWarning) for each in caught)


def _by_jit_trace(target: Callable[..., Any], args: tuple[Any, ...]) -> Iterator[_Call]:
    module = isinstance(target, torch.nn.Module)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        traced = torch.jit.trace(target, args, check_trace=False)
    numbers: set[str] = set()
    for node in traced.inlined_graph.nodes():
        if _is_about_numbers(node, numbers):
            numbers.update(each.debugName() for each in node.outputs())
        elif not node.kind().startswith("prim::"):
            scope = node.scopeName().rpartition("/")[2]
            path = scope.removeprefix("__module").removeprefix(".") if module else None
            yield node.schema().partition("(")[0], path


def _is_about_numbers(node: Any, numbers: set[str]) -> bool:
    """Whether a node only works out sizes: jit.trace records that as operators."""
    if node.kind() == "prim::GetAttr":
        return False
    if node.kind() in (
        "prim::NumToTensor",
        "prim::Constant",
        "aten::size",
        "aten::Int",
    ):
        return True
    types = [each.type() for each in node.outputs()]
    if not any(each.kind() == "TensorType" or "Tensor" in str(each) for each in types):
        return True
    inputs = [each.debugName() for each in node.inputs()]
    return bool(inputs) and numbers.issuperset(inputs)


def _by_make_fx(target: Callable[..., Any], args: tuple[Any, ...]) -> Iterator[_Call]:
    tracer = make_fx(
        target,
        pre_dispatch=True,
        tracing_mode="fake",
        _allow_non_fake_inputs=True,
    )
    with fx_traceback.preserve_node_meta(), ModulePaths(target, _note_module):
        graph = tracer(*args).graph
    for node in graph.nodes:
        if node.op == "call_function" and hasattr(node.target, "_schema"):
            yield node.target.name(), node.meta.get("nn_module_stack", {}).get(_PATH)


_PATH = "npu_dispatch_inspect"
"""Our entry in a node's module stack."""


def _note_module(path: str | None) -> None:
    stack = {} if path is None else {_PATH: path}
    fx_traceback.current_meta["nn_module_stack"] = stack


_ROUTES = {"jit.trace": _by_jit_trace, "make_fx": _by_make_fx}


@contextlib.contextmanager
def _put_back(target: Callable[..., Any]) -> Iterator[None]:
    """Restore what a run changes: buffers, such as batch norm's, and random state."""
    buffers = (
        dict(target.named_buffers()) if isinstance(target, torch.nn.Module) else {}
    )
    kept = pytree.tree_map_only(torch.Tensor, torch.clone, buffers)
    devices = {each.device for each in buffers.values() if each.device.type == "npu"}
    with contextlib.ExitStack() as stack:
        stack.enter_context(torch.random.fork_rng(devices=[]))
        for device in devices:
            stack.enter_context(
                torch.random.fork_rng(devices=[device.index or 0], device_type="npu")
            )
        try:
            yield
        finally:
            with torch.no_grad():
                for name, value in kept.items():
                    buffers[name].copy_(value)


def _with_tables(found: list[_Call]) -> tuple[RegisteredCall, ...]:
    names = dict.fromkeys(name for name, _ in found)
    table = read_dispatch_table(*(_explicit(name) for name in names)) if names else None
    return tuple(
        RegisteredCall(operator=name, module=module, entry=entry)
        for name, module in found
        if table is not None
        and (entry := table.entry(_explicit(name))).kind is not OperatorKind.JIT_ONLY
    )


def _explicit(name: str) -> str:
    return name if "." in name else f"{name}.default"
