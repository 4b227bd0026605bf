# SPDX-License-Identifier: BSD-3-Clause
"""Private API of AOTAutograd, FX tracing and fake tensors: making and reading graphs.

Everything here was run on torch 2.6.0 and 2.13.0 unless a function says otherwise.
"""

from __future__ import annotations

import copy
import logging
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import torch

__all__ = [
    "as_if_compiling",
    "boxed",
    "break_counts",
    "break_reason",
    "children",
    "compile_flat",
    "copied",
    "described",
    "dynamo_compile",
    "dynamo_facts",
    "fail_kind",
    "fake_inputs",
    "given_core_aten",
    "given_decompositions",
    "graph_text",
    "guards_hold",
    "is_fake_or_functional",
    "is_restart",
    "mutated_inputs",
    "node_facts",
    "partitions",
    "placeholder_source",
    "quietly",
    "reparametrized",
    "storage_key",
    "trace_partly",
    "watch_nodes",
    "without_active_modes",
    "written",
]


class Flat(torch.nn.Module):
    """A function of flat tensors in the shape AOTAutograd wants: a module.

    It has no parameters of its own, and calling it is no call of `Module.__call__`.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.__dict__["function"] = function

    def __call__(self, *args: Any) -> Any:
        """Call the function."""
        return self.__dict__["function"](*args)


def compile_flat(
    function: Callable[..., Any], args: Sequence[Any], **options: Any
) -> Callable[..., Any]:
    """Trace a function of flat tensors and compile its graphs; nothing is executed.

    `torch._functorch.aot_autograd.aot_module_simplified`.

    Args:
        function: takes tensors, returns a list of tensors.
        args: real tensors, or fake ones of one mode.
        options: `fw_compiler`, `bw_compiler`, `inference_compiler`, `partition_fn`,
            `decompositions`.

    Returns:
        A function of the same flat arguments that runs what the compilers returned.
    """
    from torch._functorch.aot_autograd import aot_module_simplified

    # Without it, torch notes nothing on the nodes of a graph without a backward.
    with torch.fx.traceback.preserve_node_meta():
        compiled: Callable[..., Any] = aot_module_simplified(
            Flat(function),  # type: ignore[arg-type]
            list(args),
            **options,
        )
    return compiled


def dynamo_compile(
    graph_module: Any, example_inputs: Sequence[Any], **options: Any
) -> Callable[..., Any]:
    """What a backend of `torch.compile` does with one of Dynamo's graphs.

    `torch._dynamo.backends.common.aot_autograd`.
    """
    from torch._dynamo.backends.common import aot_autograd

    compiled: Callable[..., Any] = aot_autograd(**options)(graph_module, example_inputs)
    return compiled


def partitions() -> dict[str, Callable[..., Any]]:
    """Partition functions of torch by our name for them."""
    from torch._functorch.partitioners import (
        default_partition,
        min_cut_rematerialization_partition,
    )

    return {
        "default": default_partition,
        "min_cut": min_cut_rematerialization_partition,
    }


def given_core_aten() -> dict[Any, Callable[..., Any]]:
    """The table that leaves operators of the core ATen set only."""
    from torch._decomp import core_aten_decompositions

    return dict(core_aten_decompositions())


def given_decompositions(ops: Sequence[Any]) -> dict[Any, Callable[..., Any]]:
    """The decompositions that torch has of some operators."""
    from torch._decomp import get_decompositions

    return dict(get_decompositions(ops))


def boxed(compiled: Callable[..., Any]) -> Callable[[list[Any]], Any]:
    """A compiled function that takes its arguments in one list.

    `torch._functorch.aot_autograd.make_boxed_func`; a function that is boxed already
    says so in `_boxed_call`.
    """
    if getattr(compiled, "_boxed_call", False):
        return compiled
    aot_autograd: Any = sys.modules["torch._functorch.aot_autograd"]
    made: Callable[[list[Any]], Any] = aot_autograd.make_boxed_func(compiled)
    return made


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


def mutated_inputs() -> list[int] | None:
    """Flat inputs whose new values a forward graph returns, while Dynamo compiles it.

    `fw_metadata` of the `TracingContext`, which is there once the graph has been cut;
    None where nothing is known.
    """
    context = sys.modules["torch._guards"].TracingContext.try_get()
    metadata = getattr(context, "fw_metadata", None)
    if metadata is None:
        return None
    return list(metadata.mutated_inp_runtime_indices)


def is_fake_or_functional(value: object) -> bool:
    """True for the tensors that tracing puts in the place of real ones."""
    from torch._subclasses.fake_tensor import FakeTensor
    from torch._subclasses.functional_tensor import FunctionalTensor

    return isinstance(value, (FakeTensor, FunctionalTensor)) or (
        isinstance(value, torch.Tensor) and torch._is_functional_tensor(value)
    )


def storage_key(tensor: torch.Tensor) -> int | None:
    """Something that is equal for tensors on one storage."""
    try:
        return int(tensor.untyped_storage()._cdata)
    except (RuntimeError, NotImplementedError):  # sparse, meta and the like
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


@contextmanager
def watch_nodes(
    saw: Callable[[Any, Any], None],
    calling: Callable[[torch.nn.Module], AbstractContextManager[Any]],
) -> Iterator[None]:
    """Be told of what this thread's tracing does.

    `PythonKeyTracer` of `torch.fx.experimental.proxy_tensor` is what AOTAutograd
    traces with. While it does, `Module.__call__` is torch.fx's own.

    Args:
        saw: called with the tracer and each node that is added to a graph, from inside
            the operator call that the node stands for.
        calling: gives a block for each call of a module.
    """
    from torch.fx.experimental.proxy_tensor import PythonKeyTracer

    thread = threading.get_ident()
    own = {
        name: vars(PythonKeyTracer)[name]
        for name in ("create_node", "call_module")
        if name in vars(PythonKeyTracer)
    }
    plain_node, plain_call = PythonKeyTracer.create_node, PythonKeyTracer.call_module

    def create_node(self: Any, *args: Any, **kwargs: Any) -> Any:
        node = plain_node(self, *args, **kwargs)
        if threading.get_ident() == thread:
            saw(self, node)
        return node

    def call_module(self: Any, module: Any, *args: Any, **kwargs: Any) -> Any:
        if threading.get_ident() != thread:
            return plain_call(self, module, *args, **kwargs)
        with calling(module):
            return plain_call(self, module, *args, **kwargs)

    PythonKeyTracer.create_node = create_node  # type: ignore[method-assign]
    PythonKeyTracer.call_module = call_module  # type: ignore[assignment, method-assign]
    try:
        yield
    finally:
        for name in ("create_node", "call_module"):
            if name in own:
                setattr(PythonKeyTracer, name, own[name])
            else:
                delattr(PythonKeyTracer, name)


def copied(graph_module: Any) -> Any:
    """A graph module of its own: partition functions and compilers write to theirs.

    Like `copy.deepcopy`, without the constants, and without the warnings of copying
    the description of its inputs.
    """
    graph = torch.fx.Graph()
    values: dict[Any, Any] = {}
    found: Any = graph.graph_copy(
        graph_module.graph, val_map=values, return_output_node=True
    )
    if found is not None:
        result, before = found
        graph.output(result).meta = copy.copy(before.meta)
    graph.set_codegen(copy.copy(graph_module.graph._codegen))
    # Its Python code is compiled when it is first called.
    from torch.fx._lazy_graph_module import _LazyGraphModule

    return _LazyGraphModule(graph_module, graph)


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


def node_facts(node: Any) -> tuple[Any, bool, bool, int | None, Any]:
    """What torch notes on a node.

    Returns:
        Its fake value or values; whether it is certainly of the backward pass;
        whether torch marks gradient accumulation; autograd's sequence number; and the
        operator that the program reached.
    """
    meta = node.meta
    return (
        meta.get("val"),
        meta.get("partitioner_tag") in {"is_backward", "must_be_in_backward"}
        or bool(meta.get("autograd_backward")),
        # Said in a word since 2.7, before in what stands for a stack trace.
        bool(meta.get("is_gradient_acc"))
        or "Gradient addition node" in (node.stack_trace or ""),
        meta.get("seq_nr"),
        meta.get("original_aten"),
    )


def dynamo_facts(node: Any) -> tuple[str | None, list[tuple[str, Any]]]:
    """The stack trace (as text) and the stack of (path, class) that Dynamo noted."""
    meta = node.meta
    stack = meta.get("nn_module_stack") or meta.get("fwd_nn_module_stack") or {}
    return node.stack_trace, [(path, kind) for path, kind in stack.values()]


def described(description: Any) -> tuple[str, Any]:
    """A descriptor of an input or output, taken apart; since 2.9.

    Returns:
        A word and what it is about: ``("input", 3)``, ``("tangent", OUTPUT)``,
        ``("gradient", INPUT)``, ``("mutation", INPUT)``, ``("result", 0)``,
        ``("saved", 2)``, ``("inner", (attribute, WHOLE))``, or ``("other", text)``,
        where INPUT, OUTPUT and WHOLE are again such pairs.
    """
    kind = type(description).__name__
    if kind == "PlainAOTInput":
        return "input", description.idx
    if kind == "PlainAOTOutput":
        return "result", description.idx
    if kind in {"ParamAOTInput", "BufferAOTInput"}:
        return "named", description.target
    if kind == "TangentAOTInput":
        return "tangent", described(description.output)
    if kind == "GradAOTOutput":
        return "gradient", described(description.grad_of)
    if kind in {"InputMutationAOTOutput", "MetadataMutationAOTOutput"}:
        return "mutation", described(description.mutated_input)
    if kind == "ViewBaseAOTInput":
        return "base", described(description.base_of)
    if kind.startswith("SavedForBackwards"):
        return "saved", description.idx
    if kind in {"SubclassGetAttrAOTInput", "SubclassGetAttrAOTOutput"}:
        return "inner", (description.attr, described(description.base))
    return "other", description.expr() if hasattr(description, "expr") else kind


def graph_text(graph_module: Any) -> str:
    """The Python text of a graph with shapes; what `print_readable` prints."""
    text: str = graph_module.print_readable(print_output=False)
    return text


def placeholder_source(node: Any) -> str | None:
    """Where Dynamo found an input: ``L['self']._modules['fc']._parameters['weight']``."""
    source = getattr(node, "_dynamo_source", None)
    if source is None:
        source = getattr(node.meta.get("grapharg"), "source", None)
    name = getattr(source, "name", None)
    name = name() if callable(name) else name
    return None if name is None else str(name)


def break_reason(graph_module: Any) -> tuple[str, Any] | None:
    """Why Dynamo ended a graph early: its words, and the user's frame summaries."""
    reason = getattr(graph_module, "compile_subgraph_reason", None)
    if reason is None or not reason.graph_break:
        return None
    return str(reason.reason), list(reason.user_stack)


def is_restart(error: BaseException) -> bool:
    """True where Dynamo is told to compile the same code once more in another way."""
    dynamo: Any = sys.modules.get("torch._dynamo.exc")
    return dynamo is not None and isinstance(error, dynamo.RestartAnalysis)


def break_counts() -> dict[str, int]:
    """How often Dynamo has broken a graph in this process, by its words for why.

    `torch._dynamo.utils.counters`; where a reason is only "step_unsupported", the
    words that were counted last say more.
    """
    dynamo: Any = sys.modules.get("torch._dynamo.utils")
    return {} if dynamo is None else dict(dynamo.counters["graph_break"])


def fail_kind(error: BaseException) -> tuple[str, Any]:
    """What kind of failure of tracing an exception is, and the operator it names."""
    fake = sys.modules["torch._subclasses.fake_tensor"]
    symbolic = sys.modules.get("torch.fx.experimental.symbolic_shapes")
    if isinstance(error, fake.UnsupportedOperatorException):
        return "no_meta_kernel", error.func
    if isinstance(error, fake.DataDependentOutputException):
        return "data_dependent_value", error.func
    if isinstance(error, fake.DynamicOutputShapeException):
        return "data_dependent_shape", error.func
    if symbolic is not None and isinstance(error, symbolic.GuardOnDataDependentSymNode):
        return "data_dependent_value", None
    text = str(error)
    if "convert all Tensors to FakeTensors" in text:
        return "closed_over_tensor", None
    return "other", None
