# SPDX-License-Identifier: BSD-3-Clause
"""Changes of type and of NPU format, and other ways to move elements about."""

from __future__ import annotations

from typing import Any

import torch

from npu_dispatch_inspect.values.formulas._registry import formula, single

__all__: list[str] = []


@formula(
    "npu::_npu_dtype_cast",
    "npu::_npu_dtype_cast_backward",
    "npu::npu_dtype_cast",
    "npu::npu_dtype_cast_backward",
    "npu::_npu_format_cast",
    "npu::_npu_format_cast.aclnn",
    "npu::_npu_format_cast.input_dtype",
    "npu::npu_format_cast",
    "npu::npu_format_cast.Tensor",
)
def cast(**arguments: Any) -> torch.Tensor:
    """The same elements; the result brings its own type.

    A format changes where elements lie on a device. On the stand-in they stay in
    the order of the plain format, whatever format a tensor claims to have.
    """
    given: torch.Tensor = arguments["input" if "input" in arguments else "grad"]
    return given


@formula("aten::clone")
def clone(self: torch.Tensor, **_: Any) -> torch.Tensor:
    """The same elements, which are copied when they are written."""
    return self


@formula("npu::npu_format_cast_.acl_format")
def format_cast_(input: torch.Tensor, **_: Any) -> torch.Tensor:
    """The same elements in another format, in place: nothing changes."""
    return input


@formula("npu::npu_dtype_cast_", "npu::npu_format_cast_", "npu::copy_memory_")
def copy_(input: torch.Tensor, src: torch.Tensor, **_: Any) -> torch.Tensor:
    """A copy in place."""
    return input.copy_(src)


@formula("npu::one_")
def one_(input: torch.Tensor) -> torch.Tensor:
    """Ones."""
    return input.fill_(1)


@formula("npu::npu_transpose", has_out=True)
def transpose(
    input: torch.Tensor, perm: list[int], require_contiguous: bool
) -> torch.Tensor:
    """Dimensions in another order, copied."""
    return input.permute(perm)


@formula("npu::npu_broadcast", has_out=True)
def broadcast(input: torch.Tensor, size: list[int]) -> torch.Tensor:
    """Expanded, copied."""
    return input.expand(size)


@formula("npu::npu_reshape", has_out=True)
def reshape(input: torch.Tensor, shape: list[int], can_refresh: bool) -> torch.Tensor:
    """Another shape."""
    return input.reshape(shape)


@formula("npu::npu_slice", has_out=True)
def slice_(input: torch.Tensor, offsets: list[int], size: list[int]) -> torch.Tensor:
    """A part, from an offset in each dimension."""
    ends = zip(offsets, size, strict=True)
    return input[tuple(slice(start, start + length) for start, length in ends)]


@formula("npu::npu_confusion_transpose")
def confusion_transpose(
    input: torch.Tensor, perm: list[int], shape: list[int], transpose_first: bool
) -> torch.Tensor:
    """Dimensions in another order, then another shape, or the other way round."""
    if transpose_first:
        return input.permute(perm).reshape(shape)
    return input.reshape(shape).permute(perm)


@formula("npu::npu_linear")
def linear(
    input: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None
) -> torch.Tensor:
    """``x @ weight.T + bias``."""
    bias = None if bias is None else single(bias)
    return torch.nn.functional.linear(single(input), single(weight), bias)


@formula("npu::npu_bmmV2")
def bmm(
    input: torch.Tensor, mat2: torch.Tensor, output_sizes: list[int]
) -> torch.Tensor:
    """Batches of matrix products."""
    product = single(input) @ single(mat2)
    return product.reshape(output_sizes) if output_sizes else product


@formula("npu::_amp_foreach_non_finite_check")
def non_finite_check(scaled_grads: list[torch.Tensor]) -> bool:
    """Tell whether there is a number that is not finite."""
    return not all(bool(each.isfinite().all()) for each in scaled_grads)
