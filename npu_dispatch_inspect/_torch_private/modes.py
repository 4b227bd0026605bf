# SPDX-License-Identifier: BSD-3-Clause
"""Private API behind the `__torch_dispatch__` tracer: modes, autograd, modules."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
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
    "function_modes",
    "graph_module_class",
    "has_branches",
    "has_compiled",
    "hide_from_dynamo",
    "hide_modules_from_dynamo",
    "hide_with_calls_from_dynamo",
    "higher_order_class",
    "is_fake",
    "keeps_layout",
    "made_by_dynamo",
    "mode_class",
    "node_name",
    "node_names",
    "opens_subclass",
    "operator_class",
    "other_modes",
    "packet_class",
    "pop_mode",
    "push_mode",
    "quiet_reads",
    "schema_arguments",
    "sequence_number",
    "stays_compiled",
    "storage_address",
    "tell_dynamo_plain_module_call",
    "torchbind_name",
    "without_modes",
]

mode_class = TorchDispatchMode
"""`torch.utils._python_dispatch.TorchDispatchMode`; 2.1 to 2.14."""

current_autograd_node: Callable[[], Any] = torch._C._current_autograd_node
"""The node that the autograd engine evaluates on this thread, or None; 2.1 to 2.14."""

node_names: dict[type, str] = {}
"""Names of autograd nodes by their class, where the class tells; see `node_name`."""

current_graph_task: Callable[[], int] = torch._C._current_graph_task_id
"""Number of the running backward pass on this thread, -1 outside; 2.1 to 2.14."""

sequence_number: Callable[[], int] = torch.autograd._get_sequence_nr  # type: ignore[attr-defined]
"""The number that the next autograd node of this thread will get; 2.1 to 2.14."""

operator_class = type(torch.ops.aten.ones_like.default)
"""`torch._ops.OpOverload`; higher-order operators are of another class; 2.1 to 2.14."""

packet_class = type(torch.ops.aten.ones_like)
"""`torch._ops.OpOverloadPacket`: an operator with all its overloads; 2.1 to 2.14."""

higher_order_class = torch._ops.HigherOrderOperator
"""Class of `cond`, `scan` and the like; 2.1 to 2.14."""

storage_address: Callable[[torch.Tensor], int] = torch._C._storage_id  # type: ignore[attr-defined]
"""Address of a tensor's storage, without making a Python object of it; 2.1 to 2.14."""

function_modes: Callable[[], int] = torch._C._len_torch_function_stack
"""How many torch function modes this thread has; 2.1 to 2.14."""

RECORD_FUNCTION_ENTER = torch.ops.profiler._record_function_enter_new.default
RECORD_FUNCTION_EXIT = torch.ops.profiler._record_function_exit._RecordFunction
"""Begin and end of a `torch.profiler.record_function` block; 2.1 to 2.14."""

SEED_OPERATOR = torch.ops.aten.ones_like.default
"""Makes the first gradient of a backward pass, before any autograd node runs."""


_HEAP_TYPE = 1 << 9
"""Bit of `type.__flags__`: the class was made while Python ran, and can end."""

stays_compiled: bool = hasattr(TorchDispatchMode, "ignore_compile_internals")
"""A mode can leave `torch.compile`d functions alone; from 2.9 on. Before, one call
of such a function under any mode makes it run eagerly for the rest of the process."""


def dispatch_mode_stack() -> list[Any]:
    """The thread's dispatch modes that users can enter, the next to be asked last.

    The modes of torch's own tracing (fake, functional, proxy) have places of
    their own and are left out; seen 2.1 to 2.14.
    """
    count = torch._C._len_torch_dispatch_stack()
    modes = [torch._C._get_dispatch_stack_at(each) for each in range(count)]
    return [each for each in modes if getattr(each, "_mode_key", None) is None]


def other_modes(kind: type) -> bool:
    """True where a mode that is not of ``kind`` is active on this thread; 2.1 to 2.14."""
    count = torch._C._len_torch_dispatch_stack()
    return any(
        type(torch._C._get_dispatch_stack_at(each)) is not kind for each in range(count)
    )


def push_mode(mode: Any) -> None:
    """Put a dispatch mode on top of this thread's stack.

    The public `__enter__` also sets flags of the whole process, which stay set
    where two threads leave their modes crosswise. They tell Dynamo to keep away;
    a mode that leaves compiled functions alone needs none of them. Seen 2.1 to
    2.14.
    """
    if stays_compiled:
        torch._C._push_on_torch_dispatch_stack(mode)
    else:
        mode.__enter__()


def pop_mode(mode: Any) -> bool:
    """Leave ``mode`` wherever it stands in this thread's stack.

    The public `__exit__` pops whatever is on top. Here the modes above are
    taken off, ``mode`` leaves, and the others go back in their order. False
    where the mode is not on this thread's stack. Seen 2.1 to 2.14.
    """
    if not any(each is mode for each in dispatch_mode_stack()):
        return False
    above: list[Any] = []
    while (top := torch._C._pop_torch_dispatch_stack(None)) is not mode:
        above.append(top)
    if not stays_compiled:
        # It goes back for a moment so that its exit restores the flags.
        torch._C._push_on_torch_dispatch_stack(mode)
        mode.__exit__(None, None, None)
    for each in reversed(above):
        torch._C._push_on_torch_dispatch_stack(each)
    return True


def hide_from_dynamo(*functions: Callable[..., Any]) -> None:
    """Let Dynamo run these functions as they are, and look at what they call.

    Works on code objects and does not import `torch._dynamo`, which costs
    seconds. `skip_code` 2.1 to 2.6, `set_code_exec_strategy` from 2.7.
    """
    for function in functions:
        _hide(function.__code__)


def hide_with_calls_from_dynamo(*functions: Callable[..., Any]) -> None:
    """Let Dynamo run these functions, and all that they call, as they are.

    The recursive action of `set_code_exec_strategy`; 2.7 to 2.13.
    """
    api: Any = torch._C._dynamo.eval_frame
    skip = api._FrameAction.SKIP
    for function in functions:
        api.set_code_exec_strategy(
            function.__code__, api._FrameExecStrategy(skip, skip)
        )


def hide_modules_from_dynamo(*names: str) -> None:
    """The same for every function of these modules and of their submodules.

    A function that Dynamo gets hold of while it runs the user's program is
    compiled, and what it does to the mode stack with it.
    """
    for name, module in list(sys.modules.items()):
        if name not in _hidden and name.startswith(names):
            _hidden.add(name)
            for code in _codes_of(module):
                _hide(code)


_hidden: set[str] = set()


def _codes_of(module: Any) -> Iterator[CodeType]:
    pending = list(vars(module).values())
    while pending:
        each = pending.pop()
        if getattr(each, "__module__", None) not in (None, module.__name__):
            continue
        if isinstance(each, type):
            pending.extend(vars(each).values())
            continue
        if isinstance(each, (staticmethod, classmethod)):
            each = each.__func__
        # A context manager's function is wrapped in one of the library's.
        code = getattr(
            inspect.unwrap(each) if callable(each) else each, "__code__", each
        )
        if isinstance(code, CodeType):
            yield code
            pending.extend(code.co_consts)


def _hide(code: CodeType) -> None:
    api: Any = torch._C._dynamo.eval_frame
    if hasattr(api, "set_code_exec_strategy"):
        action = api._FrameAction
        api.set_code_exec_strategy(
            code, api._FrameExecStrategy(action.SKIP, action.DEFAULT)
        )
    else:
        api.skip_code(code)


def has_compiled() -> bool:
    """True where `torch.compile` has been asked for something; 2.6 and 2.7.

    `torch._dynamo.eval_frame.cached_backends`. That Dynamo is loaded says nothing:
    `torch.optim` loads it.
    """
    frames = sys.modules.get("torch._dynamo.eval_frame")
    return bool(getattr(frames, "cached_backends", ()))


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
            module.unpatched_nn_module_call = call  # type: ignore[attr-defined]


def quiet_reads() -> AbstractContextManager[Any]:
    """A block in which reading a tensor calls nobody's `__torch_function__`.

    `torch._C.DisableTorchFunction`; 2.1 to 2.14.
    """
    guard: AbstractContextManager[Any] = torch._C.DisableTorchFunction()
    return guard


def without_modes() -> AbstractContextManager[Any]:
    """A block whose calls no dispatch mode sees, nor any subclass.

    `torch._C._DisableTorchDispatch`; 2.1 to 2.14.
    """
    guard: AbstractContextManager[Any] = torch._C._DisableTorchDispatch()
    return guard


def is_fake(tensor: torch.Tensor) -> bool:
    """True for FakeTensor, without importing its module; 2.1 to 2.14."""
    module = sys.modules.get("torch._subclasses.fake_tensor")
    return module is not None and isinstance(tensor, module.FakeTensor)


def opens_subclass(types: tuple[type, ...]) -> bool:
    """True where a call on these types should be shown from the inside as well.

    torch names types that do not handle their operators, such as Parameter, here
    and there. FakeTensor and FunctionalTensor are torch's own tracing machinery:
    what they do inside is not the user's program. Names seen 2.1 to 2.14.
    """
    return any(
        getattr(each, "__torch_dispatch__", None)
        is not torch._C._disabled_torch_dispatch_impl
        for each in types
    ) and not any(
        each.__name__ in {"FakeTensor", "FunctionalTensor"}
        and each.__module__.startswith("torch._subclasses")
        for each in types
    )


def node_name(node: Any) -> str:
    """The name of an autograd node; it is remembered where its class has no other.

    Nodes of C++ classes that torch does not know are all of one Python class, and
    classes that Python code made may end before this process does; 2.1 to 2.14.
    """
    kind = type(node)
    name = sys.intern(node.name())
    if not kind.__flags__ & _HEAP_TYPE and name.rpartition("::")[2] == kind.__name__:
        node_names[kind] = name
    return name


def graph_module_class() -> type | None:
    """`torch.fx.GraphModule`, None where nobody has imported it; 2.1 to 2.14."""
    module = sys.modules.get("torch.fx.graph_module")
    return None if module is None else module.GraphModule


def made_by_dynamo(graph_module: Any) -> bool:
    """True for a graph that `torch.compile` has made; key seen in 2.4 to 2.14."""
    return "dynamo_flat_name_to_original_fqn" in getattr(graph_module, "meta", ())


_WITH_BRANCHES = frozenset(
    {
        "associative_scan",
        "cond",
        "flex_attention",
        "flex_attention_backward",
        "map_impl",
        "scan",
        "while_loop",
        "wrap",
    }
)


def has_branches(op: Any) -> bool:
    """True for a higher-order operator that calls the functions it is given.

    Others take functions as a key to something, or insist on a graph module.
    Names seen in 2.4 to 2.14.
    """
    return type(op) is not operator_class and op.name() in _WITH_BRANCHES


def torchbind_name(value: torch.ScriptObject) -> str:
    """The registered class name of a torchbind object; 2.1 to 2.14."""
    try:
        return str(value._type().qualified_name())
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


_FILLS = frozenset({"copy_", "fill_", "zero_"})


def keeps_layout(op: Any) -> bool:
    """An operator of torch's own, and what it writes to in place keeps shape, strides and storage.

    Pointwise by its tag, or one that fills. Seen in 2.1 to 2.14.
    """
    if getattr(op, "namespace", None) != "aten":
        return False
    return torch.Tag.pointwise in op.tags or op._schema.name[6:] in _FILLS


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
