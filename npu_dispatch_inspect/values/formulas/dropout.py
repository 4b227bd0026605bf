# SPDX-License-Identifier: BSD-3-Clause
"""Dropout: on an NPU its mask has one bit for each element, 1 where it is kept."""

from __future__ import annotations

import torch

from npu_dispatch_inspect.values._random import borrowed, mixed
from npu_dispatch_inspect.values.formulas._registry import formula, single

__all__ = ["kept_again"]

_ALIGNED = 128
"""A mask is as long as one for a multiple of so many elements."""
_BITS = 8


@formula("aten::native_dropout")
def native_dropout(
    input: torch.Tensor, p: float, train: bool | None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Dropout; a mask of booleans where nothing is left to chance."""
    if train is False or p == 0:
        return input, torch.ones(input.shape, dtype=torch.bool)
    if p == 1:
        return torch.zeros_like(input), torch.zeros(input.shape, dtype=torch.bool)
    return npu_dropout(input, p)


@formula("npu::_npu_dropout")
def npu_dropout(input: torch.Tensor, p: float) -> tuple[torch.Tensor, torch.Tensor]:
    """Dropout and its mask, packed."""
    kept = _kept(input.shape, 1 - p)
    return single(input) * kept / (1 - p), _packed(kept)


@formula("npu::_dropout_with_byte_mask")
def dropout_with_byte_mask(
    input: torch.Tensor, p: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """Dropout and its mask, a byte for each element."""
    kept = _kept(input.shape, 1 - p)
    return single(input) * kept / (1 - p), kept


@formula("npu::_dropout_with_byte_mask_backward")
def dropout_with_byte_mask_backward(
    grad_output: torch.Tensor, mask: torch.Tensor, p: float
) -> torch.Tensor:
    """Its gradient."""
    return single(grad_output) * mask / (1 - p)


@formula("aten::native_dropout_backward")
def native_dropout_backward(
    grad_output: torch.Tensor, mask: torch.Tensor, scale: float
) -> torch.Tensor:
    """The gradient of dropout."""
    return single(grad_output) * _unpacked(mask, grad_output.shape) * scale


@formula("npu::npu_dropout_backward")
def npu_dropout_backward(
    grad_output: torch.Tensor, mask: torch.Tensor, p: float
) -> torch.Tensor:
    """The gradient of dropout."""
    kept = _unpacked(mask, grad_output.shape)
    return single(grad_output) * kept / (1 - p) if p < 1 else grad_output * 0


@formula("npu::npu_dropout_do_mask")
def dropout_do_mask(
    input: torch.Tensor, mask: torch.Tensor, p: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """Dropout with a given mask."""
    return single(input) * _unpacked(mask, input.shape) / (1 - p), mask


@formula("npu::_npu_dropout_gen_mask.Tensor")
def dropout_gen_mask(
    input: torch.Tensor,
    size: list[int],
    p: float,
    seed: int,
    offset: int,
    parallel: bool | None,
    sync: bool | None,
) -> torch.Tensor:
    """A mask alone, from a seed."""
    return _packed(kept_again(size, 1 - p, seed, offset))


@formula("aten::_masked_scale")
def masked_scale(self: torch.Tensor, mask: torch.Tensor, scale: float) -> torch.Tensor:
    """``self * mask * scale``."""
    return single(self) * mask * scale


def kept_again(
    shape: list[int] | torch.Size, share: float, seed: int, offset: int
) -> torch.Tensor:
    """What was kept by an operator that noted the state of the device's generator."""
    generator = borrowed(mixed(seed, offset))
    return torch.bernoulli(torch.full(shape, share), generator=generator)


def _kept(shape: torch.Size, share: float) -> torch.Tensor:
    return torch.bernoulli(torch.full(shape, share))


def _packed(kept: torch.Tensor) -> torch.Tensor:
    count = kept.numel()
    aligned = -(-count // _ALIGNED) * _ALIGNED
    bits = torch.zeros(aligned, dtype=torch.uint8)
    bits[:count] = kept.reshape(-1).to(torch.uint8)
    weights = 2 ** torch.arange(_BITS)
    return (bits.reshape(-1, _BITS) * weights).sum(1).to(torch.uint8)


def _unpacked(mask: torch.Tensor, shape: torch.Size) -> torch.Tensor:
    if mask.shape == shape:
        return mask
    bits = (mask.unsqueeze(1) >> torch.arange(_BITS)) & 1
    return bits.reshape(-1)[: shape.numel()].reshape(shape)
