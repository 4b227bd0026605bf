# SPDX-License-Identifier: BSD-3-Clause
"""Private API of AOTAutograd and Dynamo's backends: making graphs, and reading them.

Everything here was run on torch 2.6.0 and 2.13.0 unless a function says otherwise.
"""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable, Sequence
from typing import Any

import torch

__all__ = [
    "boxed",
    "break_counts",
    "break_reason",
    "compile_flat",
    "copied",
    "described",
    "dynamo_compile",
    "dynamo_facts",
    "fail_kind",
    "given_core_aten",
    "given_decompositions",
    "graph_text",
    "is_restart",
    "mutated_inputs",
    "node_facts",
    "partitions",
    "placeholder_source",
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
