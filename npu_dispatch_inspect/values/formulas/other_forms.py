# SPDX-License-Identifier: BSD-3-Clause
"""Operators of torch whose results have another form on an NPU than on the CPU.

What they keep for their backward is torch_npu's own affair: a mask of bits for the
indices of max pooling, no buffer for `logsigmoid`, padded rows for `ctc_loss`. The
backward formulas here read what the forward formulas wrote.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.nn import functional as F  # noqa: N812 - its usual name

from npu_dispatch_inspect.values.formulas._registry import (
    formula,
    summed_to,
    vector_jacobian,
)

__all__: list[str] = []

_ROW_BITS = 16
_ROW_BYTES = 32


@formula("aten::_copy_from_and_resize")
def copy_from_and_resize(self: torch.Tensor, dst: torch.Tensor) -> torch.Tensor:
    """How a result of a CPU fallback comes to the device."""
    return dst.resize_(self.shape).copy_(self)


@formula("aten::native_batch_norm")
def native_batch_norm(**call: Any) -> tuple[torch.Tensor | None, ...]:
    """Batch norm; in evaluation there are no statistics to keep."""
    results = torch.native_batch_norm(*call.values())
    return results if call["training"] else (results[0], None, None)


@formula("aten::_native_batch_norm_legit")
def native_batch_norm_legit(**call: Any) -> tuple[torch.Tensor | None, ...]:
    """The same."""
    results = torch.ops.aten._native_batch_norm_legit(*call.values())
    return results if call["training"] else (results[0], None, None)


@formula("aten::log_sigmoid_forward")
def log_sigmoid_forward(self: torch.Tensor) -> tuple[torch.Tensor, None]:
    """``log(sigmoid(x))``; the buffer stays empty."""
    return F.logsigmoid(self), None


@formula("aten::log_sigmoid_backward")
def log_sigmoid_backward(
    grad_output: torch.Tensor, self: torch.Tensor, buffer: torch.Tensor
) -> torch.Tensor:
    """Its gradient."""
    return grad_output * torch.sigmoid(-self)


@formula("aten::_prelu_kernel_backward")
def prelu_kernel_backward(
    grad_output: torch.Tensor, self: torch.Tensor, weight: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """The gradients of input and weight, the latter already summed up."""
    of_input = torch.where(self > 0, grad_output, grad_output * weight)
    of_weight = torch.where(self > 0, 0.0, grad_output * self)
    return of_input, summed_to(of_weight, weight.shape)


@formula("aten::_cdist_backward")
def cdist_backward(
    grad: torch.Tensor,
    x1: torch.Tensor,
    x2: torch.Tensor,
    p: float,
    cdist: torch.Tensor,
) -> torch.Tensor | None:
    """The gradient of the first set of points."""
    return vector_jacobian(lambda x: torch.cdist(x, x2, p), [x1], grad)[0]


@formula("aten::_ctc_loss")
def ctc_loss(**call: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """The loss, and its forward variables in rows of a multiple of eight."""
    loss, alpha = torch.ops.aten._ctc_loss(*call.values())
    return loss, F.pad(alpha, (0, -alpha.shape[-1] % 8), value=float("-inf"))


@formula("aten::_ctc_loss_backward")
def ctc_loss_backward(**call: Any) -> torch.Tensor:
    """Its gradient."""
    longest = max(call["target_lengths"], default=0)
    call["log_alpha"] = call["log_alpha"][..., : 2 * longest + 1].contiguous()
    return torch.ops.aten._ctc_loss_backward(**call)  # type: ignore[no-any-return]


@formula("aten::adaptive_max_pool3d_backward")
def adaptive_max_pool3d_backward(
    grad_output: torch.Tensor, self: torch.Tensor, indices: torch.Tensor
) -> torch.Tensor:
    """The gradient of max pooling, whose indices are 32 bits wide."""
    backward: Any = torch.ops.aten.adaptive_max_pool3d_backward
    return backward(grad_output, self, indices.long())  # type: ignore[no-any-return]


@formula("aten::max_pool3d_with_indices_backward")
def max_pool3d_with_indices_backward(
    indices: torch.Tensor, **call: Any
) -> torch.Tensor:
    """The same."""
    backward: Any = torch.ops.aten.max_pool3d_with_indices_backward
    return backward(indices=indices.long(), **call)  # type: ignore[no-any-return]


@formula("aten::max_pool2d_with_indices")
def max_pool2d_with_indices(**call: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """Max pooling; for each place in the window a row of bits, 1 where it was largest."""
    pooled, indices = torch.ops.aten.max_pool2d_with_indices(**call)
    window = _window(**call)
    chosen = window.place_of(indices)
    bits = torch.arange(window.places).unsqueeze(1) == chosen.flatten(-2).unsqueeze(-2)
    return pooled, _as_rows(bits)


@formula("aten::max_pool2d_with_indices_backward")
def max_pool2d_with_indices_backward(
    grad_output: torch.Tensor, indices: torch.Tensor, **call: Any
) -> torch.Tensor:
    """Its gradient."""
    window = _window(**call)
    bits = _from_rows(indices, grad_output.shape[-2:].numel())
    places = bits.to(torch.uint8).argmax(-2).reshape(grad_output.shape)
    indices = window.index_of(places)
    backward: Any = torch.ops.aten.max_pool2d_with_indices_backward
    return backward(grad_output, indices=indices, **call)  # type: ignore[no-any-return]


class _Window:
    """Where in the input a place of the window lies, for each place of the output."""

    def __init__(self, width: int, **sizes: tuple[int, int]) -> None:
        self._width = width
        self._sizes = sizes
        self.places = sizes["kernel"][0] * sizes["kernel"][1]

    def _corners(self, rows: int, columns: int) -> tuple[torch.Tensor, torch.Tensor]:
        stride, padding = self._sizes["stride"], self._sizes["padding"]
        return (
            torch.arange(rows).unsqueeze(1) * stride[0] - padding[0],
            torch.arange(columns) * stride[1] - padding[1],
        )

    def place_of(self, indices: torch.Tensor) -> torch.Tensor:
        """The place in the window of what the CPU numbers by the whole input."""
        top, left = self._corners(*indices.shape[-2:])
        dilation, kernel = self._sizes["dilation"], self._sizes["kernel"]
        row = (indices // self._width - top) // dilation[0]
        column = (indices % self._width - left) // dilation[1]
        return row * kernel[1] + column

    def index_of(self, places: torch.Tensor) -> torch.Tensor:
        """The way back."""
        top, left = self._corners(*places.shape[-2:])
        dilation, kernel = self._sizes["dilation"], self._sizes["kernel"]
        row = top + places // kernel[1] * dilation[0]
        return row * self._width + left + places % kernel[1] * dilation[1]


def _window(self: torch.Tensor, kernel_size: Any, **call: Any) -> _Window:
    stride = call["stride"] or kernel_size
    return _Window(
        self.shape[-1],
        kernel=_pair(kernel_size),
        stride=_pair(stride),
        padding=_pair(call["padding"]),
        dilation=_pair(call["dilation"]),
    )


def _pair(value: Any) -> tuple[int, int]:
    if isinstance(value, int):
        return value, value
    return (value[0], value[-1])


def _as_rows(bits: torch.Tensor) -> torch.Tensor:
    count = bits.shape[-1]
    length = (-(-count // _ROW_BITS) + 1) * _ROW_BYTES
    padded = F.pad(bits.to(torch.uint8), (0, 8 * length - count))
    weights = 2 ** torch.arange(8)
    packed: torch.Tensor = (padded.unflatten(-1, (length, 8)) * weights).sum(-1)
    return packed.to(torch.uint8).view(torch.int8)


def _from_rows(rows: torch.Tensor, count: int) -> torch.Tensor:
    octets = rows.contiguous().view(torch.uint8).unsqueeze(-1)
    return (((octets >> torch.arange(8)) & 1).flatten(-2))[..., :count]
