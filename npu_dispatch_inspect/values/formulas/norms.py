# SPDX-License-Identifier: BSD-3-Clause
"""Root mean square norms, and layer norm as torch_npu has it."""

from __future__ import annotations

import torch
from torch.nn import functional as F  # noqa: N812 - its usual name

from npu_dispatch_inspect.values.formulas._registry import formula, single, summed_to

__all__: list[str] = []


@formula("npu::npu_rms_norm")
def rms_norm(
    input: torch.Tensor, gamma: torch.Tensor, epsilon: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """``x / rms(x) * gamma`` over the dimensions of gamma, and ``1 / rms(x)``."""
    x = single(input)
    inverse = _inverse_rms(x, gamma, epsilon)
    return x * inverse * single(gamma), inverse


@formula("npu::npu_gemma_rms_norm")
def gemma_rms_norm(
    input: torch.Tensor, gamma: torch.Tensor, epsilon: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """The same with ``1 + gamma``."""
    x = single(input)
    inverse = _inverse_rms(x, gamma, epsilon)
    return x * inverse * (1 + single(gamma)), inverse


@formula("npu::npu_add_rms_norm")
def add_rms_norm(
    x1: torch.Tensor, x2: torch.Tensor, gamma: torch.Tensor, epsilon: float
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The norm of a sum, ``1 / rms``, and the sum."""
    x = single(x1) + single(x2)
    inverse = _inverse_rms(x, gamma, epsilon)
    return x * inverse * single(gamma), inverse, x


@formula("npu::npu_rms_norm_backward")
def rms_norm_backward(
    dy: torch.Tensor, input: torch.Tensor, gamma: torch.Tensor, rstd: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """The gradients of input and gamma; ``rstd`` is ``1 / rms`` of the forward."""
    gradient, x = single(dy), single(input)
    normed = x * rstd
    scaled = gradient * single(gamma)
    mean = (scaled * normed).mean(_normed_dims(gamma), keepdim=True)
    return rstd * (scaled - normed * mean), summed_to(gradient * normed, gamma.shape)


@formula("npu::npu_layer_norm_eval")
def layer_norm_eval(
    input: torch.Tensor,
    normalized_shape: list[int],
    weight: torch.Tensor | None,
    bias: torch.Tensor | None,
    eps: float,
) -> torch.Tensor:
    """Layer norm."""
    return F.layer_norm(input, normalized_shape, weight, bias, eps)


def _normed_dims(gamma: torch.Tensor) -> list[int]:
    return list(range(-gamma.dim(), 0))


def _inverse_rms(x: torch.Tensor, gamma: torch.Tensor, epsilon: float) -> torch.Tensor:
    return torch.rsqrt(x.square().mean(_normed_dims(gamma), keepdim=True) + epsilon)
