# SPDX-License-Identifier: BSD-3-Clause
"""Backward formulas that torch_npu has as operators, for operators of torch."""

from __future__ import annotations

from typing import Any

import torch
from torch.nn import functional as F  # noqa: N812 - its usual name

from npu_dispatch_inspect.values.formulas._registry import (
    formula,
    single,
    vector_jacobian,
)

__all__: list[str] = []

_REDUCTIONS = ("none", "mean", "sum")


@formula("aten::matmul_backward")
def matmul_backward(
    grad: torch.Tensor, self: torch.Tensor, other: torch.Tensor, mask: list[bool]
) -> tuple[Any, ...]:
    """The gradients of both factors, None for one that is not wanted.

    Where a factor was broadcast, torch_npu sums its gradient up in some cases and
    leaves that to autograd in others: the result's size tells.
    """
    given, first, second = single(grad), single(self), single(other)

    def of_first(like: torch.Tensor) -> torch.Tensor:
        if like.numel() == self.numel():
            return _needed(vector_jacobian(lambda x: x @ second, [first], given))
        return given @ second.mT

    def of_second(like: torch.Tensor) -> torch.Tensor:
        if like.numel() == other.numel():
            return _needed(vector_jacobian(lambda x: first @ x, [second], given))
        return first.mT @ given

    return of_first if mask[0] else None, of_second if mask[1] else None


def _needed(found: list[torch.Tensor | None]) -> torch.Tensor:
    (gradient,) = found
    assert gradient is not None
    return gradient


@formula("npu::matmul_double_backward")
def matmul_double_backward(
    grad_self: torch.Tensor | None,
    grad_other: torch.Tensor | None,
    grad_out: torch.Tensor,
    input: torch.Tensor,
    other: torch.Tensor,
    mask: list[bool],
) -> tuple[torch.Tensor | None, ...]:
    """The gradients of the gradients' own inputs."""

    def backward(out: Any, first: Any, second: Any) -> list[torch.Tensor]:
        product = torch.matmul(first, second)
        return list(
            torch.autograd.grad(product, [first, second], out, create_graph=True)
        )

    found = vector_jacobian(backward, [grad_out, input, other], [grad_self, grad_other])
    return tuple(
        each if wanted else None for each, wanted in zip(found, mask, strict=True)
    )


@formula("npu::l1_loss_backward")
def l1_loss_backward(
    grad_output: torch.Tensor,
    input: torch.Tensor,
    target: torch.Tensor,
    reduction: int,
) -> torch.Tensor | None:
    """The gradient of the input of ``l1_loss``."""
    kind = _REDUCTIONS[reduction]
    return vector_jacobian(
        lambda x: F.l1_loss(x, target, reduction=kind), [input], grad_output
    )[0]


@formula("npu::kl_div_backward")
def kl_div_backward(
    grad_output: torch.Tensor,
    input: torch.Tensor,
    target: torch.Tensor,
    reduction: int,
    log_target: bool,
) -> torch.Tensor | None:
    """The gradient of the input of ``kl_div``."""
    return vector_jacobian(
        lambda x: torch.kl_div(x, target, reduction, log_target=log_target),
        [input],
        grad_output,
    )[0]


@formula("npu::kl_div_target_backward")
def kl_div_target_backward(
    grad_output: torch.Tensor,
    input: torch.Tensor,
    target: torch.Tensor,
    reduction: int,
    log_target: bool,
) -> torch.Tensor | None:
    """The gradient of its target."""
    return vector_jacobian(
        lambda y: torch.kl_div(input, y, reduction, log_target=log_target),
        [target],
        grad_output,
    )[0]


@formula("npu::npu_binary_cross_entropy_with_logits_backward")
def binary_cross_entropy_with_logits_backward(
    grad_output: torch.Tensor,
    input: torch.Tensor,
    target: torch.Tensor,
    weight_opt: torch.Tensor | None,
    pos_weight_opt: torch.Tensor | None,
    reduction: int,
) -> torch.Tensor | None:
    """The gradient of the logits."""
    return vector_jacobian(
        lambda x: torch.binary_cross_entropy_with_logits(
            x, target, weight_opt, pos_weight_opt, reduction
        ),
        [input],
        grad_output,
    )[0]


@formula(
    "npu::repeat_interleave_backward_int", "npu::repeat_interleave_backward_tensor"
)
def repeat_interleave_backward(
    grad: torch.Tensor, input: torch.Tensor, repeats: Any, dim: int | None
) -> torch.Tensor | None:
    """The gradient of what was repeated."""
    return vector_jacobian(
        lambda x: torch.repeat_interleave(x, repeats, dim), [input], grad
    )[0]


@formula("npu::npu_gather_backward")
def gather_backward(
    grad: torch.Tensor,
    self_size: list[int],
    dim: int,
    index: torch.Tensor,
    sparse_grad: bool,
) -> torch.Tensor:
    """The gradient of what was gathered from."""
    if not index.dim():
        return grad.reshape(self_size)
    return grad.new_zeros(self_size).scatter_add(dim, index.long(), grad)


@formula("npu::npu_renorm_backward")
def renorm_backward(
    grad: torch.Tensor, input: torch.Tensor, p: float, dim: int, maxnorm: float
) -> torch.Tensor | None:
    """The gradient of ``renorm``."""
    return vector_jacobian(lambda x: torch.renorm(x, p, dim, maxnorm), [input], grad)[0]


@formula("npu::fft_r2c_backward")
def fft_r2c_backward(
    grad: torch.Tensor,
    dim: list[int],
    normalization: int,
    onesided: bool,
    last_dim_size: int,
) -> torch.Tensor | None:
    """The gradient of a Fourier transform of real numbers."""
    sizes = list(grad.shape)
    sizes[dim[-1]] = last_dim_size
    real = torch.zeros(sizes, dtype=grad.real.dtype)
    return vector_jacobian(
        lambda x: torch.ops.aten._fft_r2c(x, dim, normalization, onesided), [real], grad
    )[0]


@formula("npu::fft_c2r_backward")
def fft_c2r_backward(
    grad: torch.Tensor, dim: list[int], normalization: int
) -> torch.Tensor | None:
    """The gradient of a Fourier transform to real numbers."""
    sizes = list(grad.shape)
    last = sizes[dim[-1]]
    sizes[dim[-1]] = last // 2 + 1
    spectrum = torch.zeros(
        sizes, dtype=torch.promote_types(grad.dtype, torch.complex32)
    )
    return vector_jacobian(
        lambda x: torch.ops.aten._fft_c2r(x, dim, normalization, last), [spectrum], grad
    )[0]


@formula("npu::stft_backward")
def stft_backward(
    grad_output: torch.Tensor,
    input: torch.Tensor,
    n_fft: int,
    hop_length: int | None,
    win_length: int | None,
    window: torch.Tensor | None,
    normalized: bool,
    onesided: bool | None,
    return_complex: bool | None,
) -> torch.Tensor | None:
    """The gradient of the signal of ``stft``."""
    return vector_jacobian(
        lambda x: torch.stft(
            x,
            n_fft,
            hop_length,
            win_length,
            window,
            center=False,
            normalized=normalized,
            onesided=onesided,
            return_complex=return_complex,
        ),
        [input],
        grad_output,
    )[0]
