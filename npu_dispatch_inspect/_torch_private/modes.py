# SPDX-License-Identifier: BSD-3-Clause
"""Private API behind the `__torch_dispatch__` tracer: modes, autograd, modules."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import CodeType
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

__all__ = [
    "RECORD_FUNCTION_ENTER",
    "RECORD_FUNCTION_EXIT",
    "SEED_OPERATOR",
    "autograd_codes",
    "current_autograd_node",
    "current_graph_task",
    "dispatch_mode_stack",
    "eager_kernel",
    "hide_from_dynamo",
    "is_fake",
    "mode_class",
    "opens_subclass",
    "operator_class",
    "pop_mode",
    "push_mode",
    "schema_arguments",
    "sequence_number",
    "storage_address",
    "tell_dynamo_plain_module_call",
    "torchbind_name",
]

mode_class = TorchDispatchMode
"""`torch.utils._python_dispatch.TorchDispatchMode`; 2.1 to 2.14."""

current_autograd_node: Callable[[], Any] = torch._C._current_autograd_node
"""The node that the autograd engine evaluates on this thread, or None; 2.1 to 2.14."""

current_graph_task: Callable[[], int] = torch._C._current_graph_task_id
"""Number of the running backward pass on this thread, -1 outside; 2.1 to 2.14."""

sequence_number: Callable[[], int] = torch.autograd._get_sequence_nr  # type: ignore[attr-defined]
"""The number that the next autograd node of this thread will get; 2.1 to 2.14."""

operator_class = type(torch.ops.aten.ones_like.default)
"""`torch._ops.OpOverload`; higher-order operators are of another class; 2.1 to 2.14."""

storage_address: Callable[[torch.Tensor], int] = torch._C._storage_id
"""Address of a tensor's storage, without making a Python object of it; 2.1 to 2.14."""

RECORD_FUNCTION_ENTER = torch.ops.profiler._record_function_enter_new.default
RECORD_FUNCTION_EXIT = torch.ops.profiler._record_function_exit._RecordFunction
"""Begin and end of a `torch.profiler.record_function` block; 2.1 to 2.14."""

SEED_OPERATOR = torch.ops.aten.ones_like.default
"""Makes the first gradient of a backward pass, before any autograd node runs."""


def dispatch_mode_stack() -> list[Any]:
    """The thread's dispatch modes, the next to be asked last; seen 2.1 to 2.14."""
    count = torch._C._len_torch_dispatch_stack()
    return [torch._C._get_dispatch_stack_at(each) for each in range(count)]


def push_mode(mode: Any) -> None:
    """Enter a dispatch mode on this thread; public `__enter__`, 2.1 to 2.14."""
    mode.__enter__()


def pop_mode(mode: Any) -> bool:
    """Leave ``mode`` wherever it stands in this thread's stack.

    The public `__exit__` pops whatever is on top. Here the modes above are
    taken off, ``mode`` leaves, and the others go back in their order. False
    where the mode is not on this thread's stack. Seen 2.1 to 2.14.
    """
    stack = dispatch_mode_stack()
    if not any(each is mode for each in stack):
        return False
    above = []
    while (top := torch._C._get_dispatch_stack_at(len(stack) - 1)) is not mode:
        above.append(top)
        torch._C._pop_torch_dispatch_stack(None)
        stack.pop()
    mode.__exit__(None, None, None)
    for each in reversed(above):
        torch._C._push_on_torch_dispatch_stack(each)
    return True


def hide_from_dynamo(*functions: Callable[..., Any]) -> None:
    """Let Dynamo run these functions as they are, and look at what they call.

    Works on code objects and does not import `torch._dynamo`, which costs
    seconds. `skip_code` 2.1 to 2.6, `set_code_exec_strategy` from 2.7.
    """
    api: Any = torch._C._dynamo.eval_frame
    if hasattr(api, "set_code_exec_strategy"):
        action = api._FrameAction
        strategy = api._FrameExecStrategy(action.SKIP, action.DEFAULT)
        for function in functions:
            api.set_code_exec_strategy(function.__code__, strategy)
    else:
        for function in functions:
            api.skip_code(function.__code__)


def tell_dynamo_plain_module_call(call: Callable[..., Any]) -> None:
    """Make Dynamo take ``call`` for torch's own `Module.__call__`.

    Dynamo goes straight to `forward` only where `Module.__call__` is what it
    was when Dynamo was imported; otherwise it would trace into our wrapper, and
    a graph compiled under a tracer would differ. Where Dynamo is imported later,
    it finds the wrapper in place by itself. Names seen in 2.4 to 2.14; older
    releases do not compare.
    """
    for name in ("torch._dynamo.utils", "torch._dynamo.variables.nn_module"):
        module = sys.modules.get(name)
        if module is not None and hasattr(module, "unpatched_nn_module_call"):
            module.unpatched_nn_module_call = call


def is_fake(tensor: torch.Tensor) -> bool:
    """True for FakeTensor, without importing its module; 2.1 to 2.14."""
    module = sys.modules.get("torch._subclasses.fake_tensor")
    return module is not None and isinstance(tensor, module.FakeTensor)


def opens_subclass(types: tuple[type, ...]) -> bool:
    """True where a call on these types should be shown from the inside as well.

    FakeTensor and FunctionalTensor are torch's own tracing machinery: what they
    do inside is not the user's program. Names seen 2.1 to 2.14.
    """
    return not any(
        each.__name__ in {"FakeTensor", "FunctionalTensor"}
        and each.__module__.startswith("torch._subclasses")
        for each in types
    )


def eager_kernel(op: Any) -> Callable[..., Any] | None:
    """The Python kernel that runs a higher-order operator eagerly, if it can be called.

    Under a mode of its own torch shows a higher-order operator as one call. Its
    eager kernel, called with the mode on, shows the branches. None where another
    mode is active (it may have a rule of its own) or there is no such kernel.
    `py_kernels` seen 2.1 to 2.14.
    """
    if torch._C._len_torch_dispatch_stack():
        return None
    kernels = getattr(op, "py_kernels", {})
    found: Callable[..., Any] | None = kernels.get(
        torch._C.DispatchKey.CompositeExplicitAutograd
    )
    return found


def torchbind_name(value: torch.ScriptObject) -> str:
    """The registered class name of a torchbind object; 2.1 to 2.14."""
    try:
        return str(value._type().qualified_name())  # type: ignore[attr-defined]
    except (AttributeError, RuntimeError):
        return type(value).__qualname__


def schema_arguments(op: Any) -> list[tuple[str, bool, Any, bool]] | None:
    """(name, has a default, default, written) per argument of an OpOverload.

    None for a higher-order operator, which has no schema; 2.1 to 2.14.
    """
    schema = getattr(op, "_schema", None)
    if schema is None:
        return None
    return [
        (
            each.name,
            each.has_default_value(),
            each.default_value,
            each.alias_info is not None and each.alias_info.is_write,
        )
        for each in schema.arguments
    ]


def autograd_codes() -> tuple[CodeType, CodeType]:
    """Code of the engine's Python entry and of the function that seeds gradients.

    `torch.autograd.graph._engine_run_backward` and `torch.autograd._make_grads`,
    2.3 to 2.14.
    """
    import torch.autograd.graph

    return (
        torch.autograd.graph._engine_run_backward.__code__,
        torch.autograd._make_grads.__code__,
    )
