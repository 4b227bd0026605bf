# SPDX-License-Identifier: BSD-3-Clause
"""How to look into a composite, and where tensors without values mislead."""

from __future__ import annotations

from typing import Any

import torch

from npu_dispatch_inspect._torch_private import keysets
from npu_dispatch_inspect.dispatch_table.path import Walk
from npu_dispatch_inspect.records.paths import PathStep, StepAction

__all__ = [
    "CALLS_NOTHING",
    "GENERATED",
    "GOES_ON",
    "MISLEADING",
    "inside_key",
    "is_python_factory",
    "opaque_reason",
    "real_call",
]

GOES_ON = frozenset(
    {StepAction.DECOMPOSES, StepAction.CALLS_OTHERS, StepAction.CALLS_AGAIN}
)
"""Ends of a way whose inside can be followed."""
GENERATED = "CompositeExplicitAutogradNonFunctional"
"""Kernels that make the results and call the out variant: generated, so safe."""
CALLS_NOTHING = frozenset({"aten::detach"})
"""Seen from a mode it calls itself; without one it calls nothing."""

_OTHER_FORMULA = "it takes another formula for tensors without values"
MISLEADING = {
    "aten::_convolution": (
        "which convolution runs depends on what tensors without values do not have"
    ),
    "aten::one_hot": _OTHER_FORMULA,
    "aten::quantile": _OTHER_FORMULA,
    "aten::quantile.scalar": _OTHER_FORMULA,
    "aten::nanquantile": _OTHER_FORMULA,
    "aten::nanquantile.scalar": _OTHER_FORMULA,
    "aten::linalg_matrix_rank.atol_rtol_tensor": _OTHER_FORMULA,
    "aten::fft_hfft": _OTHER_FORMULA,
    "aten::fft_hfft2": _OTHER_FORMULA,
    "aten::fft_hfftn": _OTHER_FORMULA,
}
"""Composites of which the inside is not predicted, with the reason. Found by
comparing predictions with real calls over torch's own operator samples."""

_RESHAPES = frozenset({"aten::reshape", "aten::flatten.using_ints"})
_FACTORIES_OF_TENSORS = frozenset({"aten::linspace", "aten::logspace"})
_OPTIONS = frozenset({"dtype", "layout", "device", "pin_memory"})


def inside_key(op: Any, walk: Walk) -> str | None:
    """The alias key whose kernel is to run to see what is inside, None for none."""
    last = walk.steps[-1]
    for key in _candidates(last):
        if keysets.has_kernel(op.name(), key):
            return key
    return None


def _candidates(last: PathStep) -> tuple[str, ...]:
    if last.action is StepAction.DECOMPOSES:
        nested = last.kernel is not None and last.kernel.kind == "nested kernel"
        suffix = "NestedTensor" if nested else ""
        return (f"CompositeImplicitAutograd{suffix}",)
    if last.action is StepAction.CALLS_OTHERS and _of_torch(last):
        return (GENERATED, "CompositeExplicitAutograd")
    return ()


def _of_torch(step: PathStep) -> bool:
    """Whether a kernel for all backends is one of torch's, which are composed.

    Those of other libraries compute as they please, and with null pointers.
    """
    file = step.kernel.file if step.kernel is not None else None
    return "/RegisterCompositeExplicitAutograd" in (file or "")


def opaque_reason(key: str) -> str:
    """Say why nothing is known below a key whose kernel is `StepAction.OPAQUE`."""
    return f"{key} hands the call to Python or changes its tensors"


def is_python_factory(op: Any) -> bool:
    """Whether Python's function of that name makes tensors without autograd.

    ``torch.zeros`` and ``torch.zeros_like`` do; `torch.ops` objects do not.
    """
    names = {each.name for each in op._schema.arguments}
    takes_tensor = any("Tensor" in str(each.type) for each in op._schema.arguments)
    name = op._schema.name
    factory = name.endswith("_like") or name in _FACTORIES_OF_TENSORS
    return names >= _OPTIONS and (factory or not takes_tensor)


def real_call(
    above: tuple[str, ...], op: Any, args: tuple[Any, ...], result: Any
) -> tuple[Any, tuple[Any, ...]] | None:
    """The call that real tensors get where tensor subclasses get this one.

    torch's composites avoid writing to a subclass and aliasing one, and fake
    tensors are subclasses.
    """
    parent = above[-1] if above else ""
    aten = torch.ops.aten
    if parent in _RESHAPES and op is aten.view.default and not args[0].is_contiguous():
        return aten._reshape_alias.default, (args[0], args[1], list(result.stride()))
    if parent == "aten::_scaled_dot_product_attention_math" and op is aten.add.Tensor:
        return aten.add_.Tensor, args
    return None
