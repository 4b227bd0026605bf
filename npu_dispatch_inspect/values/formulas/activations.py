# SPDX-License-Identifier: BSD-3-Clause
"""Activations: GELU, fast GELU, SiLU, SwiGLU, Mish, scaled masked softmax."""

from __future__ import annotations

import torch
from torch.nn import functional as F  # noqa: N812 - its usual name

from npu_dispatch_inspect.values.formulas._registry import (
    formula,
    single,
    vector_jacobian,
)

__all__: list[str] = []

_FAST_GELU = 1.702
_MASKED = -10000.0
"""What a masked score becomes before the softmax: not minus infinity."""


@formula("npu::npu_gelu")
def gelu(input: torch.Tensor, approximate: str) -> torch.Tensor:
    """GELU, exact or by tanh."""
    return F.gelu(single(input), approximate=approximate)


@formula("npu::npu_gelu_backward")
def gelu_backward(
    grad_output: torch.Tensor, input: torch.Tensor, approximate: str
) -> torch.Tensor | None:
    """Its gradient."""
    return vector_jacobian(
        lambda x: F.gelu(x, approximate=approximate), [input], grad_output
    )[0]


@formula("npu::npu_fast_gelu", "npu::fast_gelu")
def fast_gelu(input: torch.Tensor) -> torch.Tensor:
    """``x * sigmoid(1.702 x)``."""
    x = single(input)
    return x * torch.sigmoid(_FAST_GELU * x)


@formula("npu::npu_fast_gelu_backward")
def fast_gelu_backward(grad: torch.Tensor, input: torch.Tensor) -> torch.Tensor:
    """Its gradient."""
    x = single(input)
    gate = torch.sigmoid(_FAST_GELU * x)
    return single(grad) * gate * (1 + _FAST_GELU * x * (1 - gate))


@formula("npu::npu_silu")
def silu(input: torch.Tensor) -> torch.Tensor:
    """``x * sigmoid(x)``."""
    return F.silu(single(input))


@formula("npu::npu_silu_")
def silu_(input: torch.Tensor) -> torch.Tensor:
    """The same, in place."""
    return input.copy_(F.silu(single(input)))


@formula("npu::npu_silu_backward")
def silu_backward(
    grad_output: torch.Tensor, x0: torch.Tensor, x1: torch.Tensor
) -> torch.Tensor:
    """Its gradient; ``x0`` is the input, ``x1`` the result."""
    x = single(x0)
    gate = torch.sigmoid(x)
    return single(grad_output) * gate * (1 + x * (1 - gate))


@formula("npu::npu_swiglu")
def swiglu(input: torch.Tensor, dim: int) -> torch.Tensor:
    """``silu(a) * b`` for the two halves of the input."""
    a, b = single(input).chunk(2, dim)
    return F.silu(a) * b


@formula("npu::npu_swiglu_backward")
def swiglu_backward(
    grad_output: torch.Tensor, input: torch.Tensor, dim: int
) -> torch.Tensor:
    """Its gradient, both halves in one tensor."""
    a, b = single(input).chunk(2, dim)
    gradient, gate = single(grad_output), torch.sigmoid(a)
    of_a = gradient * b * gate * (1 + a * (1 - gate))
    return torch.cat([of_a, gradient * a * gate], dim)


@formula("npu::npu_mish")
def mish(input: torch.Tensor) -> torch.Tensor:
    """``x * tanh(softplus(x))``."""
    return F.mish(single(input))


@formula("npu::npu_mish_backward")
def mish_backward(grad: torch.Tensor, input: torch.Tensor) -> torch.Tensor | None:
    """Its gradient."""
    return vector_jacobian(F.mish, [input], grad)[0]


@formula("npu::npu_scaled_masked_softmax")
def scaled_masked_softmax(
    x: torch.Tensor, mask: torch.Tensor, scale: float, fixed_triu_mask: bool
) -> torch.Tensor:
    """Softmax of the scaled scores over the last dimension, where not masked."""
    mask = _upper_triangle(mask) if fixed_triu_mask else mask
    scores = (single(x) * scale).masked_fill(mask.bool(), _MASKED)
    return torch.softmax(scores, -1)


@formula("npu::npu_scaled_masked_softmax_backward")
def scaled_masked_softmax_backward(
    y_grad: torch.Tensor,
    y: torch.Tensor,
    mask: torch.Tensor,
    scale: float,
    fixed_triu_mask: bool,
) -> torch.Tensor:
    """Its gradient; ``y`` is the result."""
    mask = _upper_triangle(mask) if fixed_triu_mask else mask
    gradient, result = single(y_grad), single(y)
    inner = (gradient * result).sum(-1, keepdim=True)
    return (result * (gradient - inner) * scale).masked_fill(mask.bool(), 0)


def _upper_triangle(mask: torch.Tensor) -> torch.Tensor:
    return torch.ones(mask.shape, dtype=torch.bool).triu(1)
