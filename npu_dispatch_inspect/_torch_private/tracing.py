# SPDX-License-Identifier: BSD-3-Clause
"""Private API of FX tracing, fake and functional tensors, and torch's containers.

Everything here was run on torch 2.6.0 and 2.13.0.
"""

from __future__ import annotations

import logging
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import torch

__all__ = [
    "as_if_compiling",
    "children",
    "default_device",
    "fake_inputs",
    "guards_hold",
    "has_sizes",
    "is_fake_or_functional",
    "of_another_level",
    "quietly",
    "reparametrized",
    "storage_key",
    "trace_partly",
    "watch_nodes",
    "without_active_modes",
    "written",
]


def fake_inputs(
    tensors: Sequence[torch.Tensor], dynamic: Sequence[bool]
) -> tuple[list[torch.Tensor], Any]:
    """Fake tensors, with symbols for sizes where ``dynamic`` says so.

    Returns:
        The tensors and the `ShapeEnv` that knows the symbols.
    """
    from torch._dynamo.source import ConstantSource
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.fx.experimental.symbolic_shapes import (
        DimDynamic,
        ShapeEnv,
        StatelessSymbolicContext,
    )

    environment = ShapeEnv()
    mode = FakeTensorMode(shape_env=environment)
    made: list[torch.Tensor] = []
    for number, (tensor, free) in enumerate(zip(tensors, dynamic, strict=True)):
        kind = DimDynamic.DYNAMIC if free else DimDynamic.STATIC
        made.append(
            mode.from_tensor(
                tensor,
                source=ConstantSource(f"input_{number}"),
                symbolic_context=StatelessSymbolicContext(
                    dynamic_sizes=[kind] * tensor.dim()
                ),
            )
        )
    return made, environment


def guards_hold(
    environment: Any, fakes: Sequence[torch.Tensor], args: Sequence[torch.Tensor]
) -> bool:
    """True where a graph that was traced with fake inputs is right for these as well."""
    return bool(environment.evaluate_guards_for_args(fakes, args))


def default_device() -> torch.device:
    """The device of a `torch.device` block, else that of `set_default_device`.

    `torch.get_default_device` of 2.6 looks at the latter alone; `DeviceContext` and
    `_get_current_function_mode_stack` seen in 2.6 to 2.13.
    """
    from torch.overrides import _get_current_function_mode_stack
    from torch.utils._device import DeviceContext

    for mode in reversed(_get_current_function_mode_stack()):
        if isinstance(mode, DeviceContext):
            return torch.device(mode.device)
    return torch.get_default_device()


@contextmanager
def without_active_modes() -> Iterator[None]:
    """A block that no dispatch mode of the program sees.

    `torch.utils._python_dispatch._disable_current_modes`.
    """
    from torch.utils._python_dispatch import _disable_current_modes

    with _disable_current_modes():
        yield


@contextmanager
def as_if_compiling() -> Iterator[None]:
    """A block in which `torch.compiler.is_compiling()` says yes, as in torch.export."""
    compiler: Any = torch.compiler
    before = compiler._is_compiling_flag
    compiler._is_compiling_flag = True
    try:
        yield
    finally:
        compiler._is_compiling_flag = before


@contextmanager
def quietly() -> Iterator[None]:
    """A block in which torch prints nothing about exceptions of tracing.

    They become records: neither the anomaly mode that AOTAutograd traces with nor the
    logger of fake tensors has to tell of them as well. What the program itself prints
    is not held back.
    """
    logger = logging.getLogger("torch._subclasses.fake_tensor")
    thread = threading.get_ident()

    def other_thread(record: logging.LogRecord) -> bool:
        return record.thread != thread

    logger.addFilter(other_thread)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", r"Error detected in \w+\. Traceback of")
            warnings.filterwarnings("ignore", "Anomaly Detection has been enabled")
            yield
    finally:
        logger.removeFilter(other_thread)


def reparametrized(
    module: torch.nn.Module, tensors: Mapping[str, torch.Tensor]
) -> AbstractContextManager[Any]:
    """A block in which a module has other parameters and buffers.

    `torch.nn.utils.stateless._reparametrize_module`.
    """
    from torch.nn.utils.stateless import _reparametrize_module

    block: AbstractContextManager[Any] = _reparametrize_module(module, dict(tensors))
    return block


def is_fake_or_functional(value: object) -> bool:
    """True for the tensors that tracing puts in the place of real ones."""
    from torch._subclasses.fake_tensor import FakeTensor
    from torch._subclasses.functional_tensor import FunctionalTensor

    return isinstance(value, (FakeTensor, FunctionalTensor)) or (
        isinstance(value, torch.Tensor) and torch._is_functional_tensor(value)
    )


def of_another_level(tensor: torch.Tensor) -> bool:
    """True for a tensor that a transform of torch.func or another tracer has wrapped.

    `torch._C._functorch.is_functorch_wrapped_tensor`.
    """
    from torch._subclasses.functional_tensor import FunctionalTensor

    return (
        isinstance(tensor, FunctionalTensor)
        or torch._is_functional_tensor(tensor)
        or torch._C._functorch.is_functorch_wrapped_tensor(tensor)
    )


def has_sizes(tensor: torch.Tensor) -> bool:
    """False for a parameter of a lazy module and for a nested tensor without a layout.

    `torch.nn.parameter.UninitializedTensorMixin`; both raise when they are asked.
    """
    if isinstance(tensor, torch.nn.parameter.UninitializedTensorMixin):  # type: ignore[attr-defined]
        return False
    return not (tensor.is_nested and tensor.layout is torch.strided)


def storage_key(tensor: torch.Tensor) -> int | None:
    """Something that is equal for tensors on one storage."""
    try:
        return int(tensor.untyped_storage()._cdata)
    except (RuntimeError, ValueError):  # sparse, not initialised and the like
        return None


def written(tensor: torch.Tensor) -> bool:
    """True for an input that has been written to, while a function is traced.

    `torch._functionalize_has_data_mutation`, asked of the tensor that AOTAutograd
    wraps; a tensor that is not wrapped tells nothing.
    """
    inner = getattr(tensor, "elem", None)
    if not isinstance(inner, torch.Tensor) or not torch._is_functional_tensor(inner):
        return False
    return bool(torch._functionalize_has_data_mutation(inner))  # type: ignore[attr-defined]


def children(
    value: Any,
) -> tuple[list[tuple[str, Any]], Callable[[list[Any]], Any]] | None:
    """The parts of a container that `torch.utils._pytree` knows, each with its place.

    Returns:
        Places (``"[0]"``, ``"['ids']"``, ``".field"``) with values, and the function
        that puts such a container together again. None for a leaf.
    """
    from torch.utils import _pytree

    kind = _pytree._get_node_type(value)
    known = _pytree.SUPPORTED_NODES.get(kind)
    if known is None:
        return None
    parts, context = known.flatten_fn(value)
    places = [f"[{number}]" for number in range(len(parts))]
    if isinstance(value, Mapping):
        places = [f"[{key!r}]" for key in value]
    elif hasattr(value, "_fields"):
        places = [f".{name}" for name in value._fields]
    return (
        list(zip(places, parts, strict=True)),
        lambda new: known.unflatten_fn(new, context),
    )


Saw = Callable[[Any, Any], None]
Calling = Callable[[torch.nn.Module], AbstractContextManager[Any]]

_watchers: dict[int, list[tuple[Saw, Calling]]] = {}
"""Who is told of what a thread traces, the innermost last."""
_patches: list[Callable[[], None]] = []
_lock = threading.Lock()


@contextmanager
def watch_nodes(saw: Saw, calling: Calling) -> Iterator[None]:
    """Be told of what this thread's tracing does.

    `PythonKeyTracer` of `torch.fx.experimental.proxy_tensor` is what AOTAutograd
    traces with. While it does, `Module.__call__` is torch.fx's own.

    Args:
        saw: called with the tracer and each node that is added to a graph, from inside
            the operator call that the node stands for.
        calling: gives a block for each call of a module.
    """
    thread = threading.get_ident()
    with _lock:
        if not _watchers:
            _patches.append(_patch_tracer())
        _watchers.setdefault(thread, []).append((saw, calling))
    try:
        yield
    finally:
        with _lock:
            _watchers[thread].pop()
            if not _watchers[thread]:
                del _watchers[thread]
            if not _watchers:
                _patches.pop()()


def _patch_tracer() -> Callable[[], None]:
    """Replace the tracer's two methods; returns the function that puts them back."""
    from torch.fx.experimental.proxy_tensor import PythonKeyTracer

    names = ("create_node", "call_module")
    own = {
        name: vars(PythonKeyTracer)[name]
        for name in names
        if name in vars(PythonKeyTracer)
    }
    plain_node, plain_call = PythonKeyTracer.create_node, PythonKeyTracer.call_module

    def create_node(self: Any, *args: Any, **kwargs: Any) -> Any:
        node = plain_node(self, *args, **kwargs)
        watching = _watchers.get(threading.get_ident())
        if watching:
            watching[-1][0](self, node)
        return node

    def call_module(self: Any, module: Any, *args: Any, **kwargs: Any) -> Any:
        watching = _watchers.get(threading.get_ident())
        if not watching:
            return plain_call(self, module, *args, **kwargs)
        with watching[-1][1](module):
            return plain_call(self, module, *args, **kwargs)

    PythonKeyTracer.create_node = create_node  # type: ignore[method-assign]
    PythonKeyTracer.call_module = call_module  # type: ignore[assignment, method-assign]

    def restore() -> None:
        for name in names:
            if name in own:
                setattr(PythonKeyTracer, name, own[name])
            else:
                delattr(PythonKeyTracer, name)

    return restore


def trace_partly(function: Callable[..., Any], args: Sequence[torch.Tensor]) -> None:
    """Trace a forward as far as it goes, for the sake of who watches its nodes."""
    from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
    from torch.fx.experimental.proxy_tensor import make_fx

    modes = [each.fake_mode for each in args if isinstance(each, FakeTensor)]
    mode = modes[0] if modes else FakeTensorMode()
    if not modes:
        args = [mode.from_tensor(each) for each in args]
    # In the mode: what the function makes of nothing is to have no values either.
    with mode:
        make_fx(function, pre_dispatch=False)(*args)
