# SPDX-License-Identifier: BSD-3-Clause
"""Dynamic quantization and the routing of tokens to experts."""

from __future__ import annotations

import torch

from npu_dispatch_inspect.values.formulas._registry import formula, single

__all__: list[str] = []

_LARGEST = 127.0


@formula("npu::npu_dynamic_quant")
def dynamic_quant(
    input: torch.Tensor,
    smooth_scales: torch.Tensor | None,
    group_index: torch.Tensor | None,
    dst_type: int | None,
    quant_mode: str,
    dst_type_max: float,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Whole numbers of 8 bits and the scale of each token.

    Raises:
        NotImplementedError: another type than int8, or scales per channel.
    """
    if dst_type not in {None, 1, torch.int8} or quant_mode not in _MODES:
        msg = f"there is a formula for int8 only, not dst_type={dst_type}, quant_mode={quant_mode!r}"
        raise NotImplementedError(msg)
    x = single(input)
    if smooth_scales is not None:
        smooth = single(smooth_scales)
        if group_index is not None:
            ends = group_index.long()
            rows = torch.arange(x.shape[:-1].numel())
            smooth = smooth[torch.searchsorted(ends, rows, right=True)]
            smooth = smooth.reshape(x.shape)
        x = x * smooth
    largest = x.abs().amax(-1) if quant_mode == "pertoken" else x.abs().amax()
    scale = largest / _LARGEST
    # A row of zeros stays one.
    divisor = torch.where(scale == 0, 1.0, scale)
    divisor = divisor.unsqueeze(-1) if quant_mode == "pertoken" else divisor
    return (x / divisor).round().to(torch.int8), scale.reshape(
        scale.shape if quant_mode == "pertoken" else (1,)
    )


_MODES = ("pertoken", "pertensor")


@formula("npu::npu_moe_gating_top_k_softmax")
def moe_gating_top_k_softmax(
    x: torch.Tensor, finished: torch.Tensor | None, k: int
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The ``k`` likeliest experts of each token, and where each row goes.

    A finished token goes to no expert: its experts have the number after the last.
    """
    scores, experts = torch.softmax(single(x), -1).topk(k, -1)
    if finished is not None:
        experts = experts.masked_fill(finished.bool().unsqueeze(-1), x.shape[-1])
    tokens = x.shape[:-1].numel()
    rows = torch.arange(tokens * k).reshape(k, tokens).t().reshape(experts.shape)
    return scores, experts, rows
