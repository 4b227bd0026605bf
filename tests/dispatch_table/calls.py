# SPDX-License-Identifier: BSD-3-Clause
"""Operator calls that predictions are held against, for any device."""

from __future__ import annotations

import contextlib
import functools

import torch


def calls(device):
    """Yield (label, operator, arguments, keyword arguments, surrounding block)."""
    kind = torch.device(device).type
    t = functools.partial(torch.ones, device=device)
    w = functools.partial(torch.ones, device=device, requires_grad=True)

    def index(*shape):
        return torch.zeros(*shape, dtype=torch.long, device=device)

    autocast = functools.partial(torch.autocast, kind, dtype=torch.bfloat16)
    plain = contextlib.nullcontext
    there = {"device": device}
    rows = (
        ("bias", "aten::linear", (t(2, 3), w(4, 3), t(4)), {}, plain),
        ("no_grad", "aten::linear", (t(2, 3), t(4, 3)), {}, torch.no_grad),
        ("3-D", "aten::linear", (t(2, 5, 3), w(4, 3), t(4)), {}, plain),
        ("inference", "aten::linear", (t(2, 3), t(4, 3)), {}, torch.inference_mode),
        ("autocast", "aten::linear", (t(2, 3), t(4, 3), t(4)), {}, autocast),
        ("3-D by 2-D", "aten::matmul", (t(2, 3, 4), w(4, 5)), {}, plain),
        ("3-D by 3-D", "aten::matmul", (t(2, 3, 4), t(2, 4, 5)), {}, plain),
        ("", "aten::conv2d", (t(1, 3, 8, 8), w(2, 3, 3, 3), t(2)), {}, plain),
        ("number", "aten::add", (t(3), 1), {}, plain),
        ("grad", "aten::add", (t(3), w(3)), {}, plain),
        ("in place", "aten::add_", (t(3), 2.0), {}, plain),
        ("inference", "aten::mul", (t(3), t(3)), {}, torch.inference_mode),
        ("", "aten::layer_norm", (w(2, 4), [4], t(4), t(4)), {}, plain),
        ("", "aten::softmax", (t(2, 4), -1), {}, plain),
        ("", "aten::log_softmax", (w(2, 4), -1), {}, plain),
        ("", "aten::dropout", (t(2, 4), 0.5, True), {}, plain),
        ("", "aten::embedding", (w(5, 4), index(3)), {}, plain),
        ("", "aten::relu", (t(3),), {}, plain),
        ("", "aten::gelu", (w(3),), {}, plain),
        ("contiguous", "aten::reshape", (t(2, 3, 4), [6, 4]), {}, plain),
        ("copy", "aten::reshape", (t(2, 3, 4).transpose(0, 1), [6, 4]), {}, plain),
        ("alias", "aten::reshape", (t(4, 6)[:, :3], [2, 2, 3]), {}, plain),
        ("", "aten::t", (t(2, 3),), {}, plain),
        ("", "aten::transpose", (t(2, 3), 0, 1), {}, plain),
        ("", "aten::contiguous", (t(2, 3).t(),), {}, plain),
        ("", "aten::sum", (t(2, 3),), {}, plain),
        ("", "aten::mean", (t(2, 3), [1]), {}, plain),
        ("", "aten::einsum", ("bij,bjk->bik", [t(2, 3, 4), t(2, 4, 5)]), {}, plain),
        ("", "aten::scaled_dot_product_attention", (t(2, 4, 8, 16),) * 3, {}, plain),
        ("", "aten::digamma", (t(3),), {}, plain),
        ("", "aten::ones", ([2, 3],), there, plain),
        ("", "aten::zeros_like", (t(3),), {}, plain),
        ("", "aten::to", (t(3), torch.float16), {}, plain),
        ("", "aten::cat", ([t(2, 3), t(2, 3)],), {}, plain),
        ("", "aten::stack", ([t(2, 3), t(2, 3)],), {}, plain),
        ("", "aten::chunk", (t(4, 3), 2), {}, plain),
        ("", "aten::max_pool2d", (t(1, 1, 4, 4), [2, 2]), {}, plain),
        (
            "",
            "aten::batch_norm",
            (t(4, 3), t(3), t(3), t(3), t(3), True, 0.1, 1e-5, True),
            {},
            plain,
        ),
        ("", "aten::cross_entropy_loss", (w(4, 3), index(4)), {}, plain),
        ("", "aten::mse_loss", (w(4), t(4)), {}, plain),
        ("", "aten::where", (t(3) > 0, t(3), t(3)), {}, plain),
        ("", "aten::masked_fill", (t(3), t(3) > 0, 0.0), {}, plain),
        ("", "aten::index_select", (t(3, 2), 0, index(2)), {}, plain),
        ("", "aten::clone", (t(3),), {}, plain),
        ("", "aten::detach", (w(3),), {}, plain),
        ("", "aten::norm", (t(3),), {}, plain),
        ("", "aten::kl_div", (w(3), t(3)), {}, plain),
        ("", "aten::rms_norm", (t(2, 4), [4], t(4)), {}, plain),
        ("", "aten::group_norm", (t(2, 4, 3), 2), {}, plain),
        ("", "aten::topk", (t(5), 2), {}, plain),
        ("", "aten::tril", (t(3, 3),), {}, plain),
        ("", "aten::narrow", (t(4, 3), 0, 1, 2), {}, plain),
        ("", "aten::pad", (t(3), [1, 1]), {}, plain),
        ("", "aten::nll_loss_nd", (t(4, 3), index(4)), {}, plain),
        ("", "aten::expand_as", (t(1, 3), t(2, 3)), {}, plain),
        ("", "aten::flatten", (t(2, 3, 4), 1), {}, plain),
        ("autocast", "aten::bmm", (t(2, 3, 4), t(2, 4, 5)), {}, autocast),
        ("", "aten::hardswish", (t(3),), {}, plain),
        ("", "aten::std", (t(3),), {}, plain),
        ("", "aten::one_hot", (index(3), 4), {}, plain),
        ("", "aten::repeat_interleave", (t(3), 2), {}, plain),
        ("", "aten::bilinear", (t(2, 3), t(2, 4), t(5, 3, 4)), {}, plain),
        ("", "aten::lgamma", (t(3),), {}, plain),
        ("", "aten::huber_loss", (t(3), t(3)), {}, plain),
        ("", "aten::arange", (5,), there, plain),
        ("", "aten::randn", ([2, 3],), there, plain),
        ("", "aten::unfold", (t(4), 0, 2, 1), {}, plain),
        ("", "aten::square", (t(3),), {}, plain),
        ("", "aten::var_mean", (t(3),), {}, plain),
        (
            "",
            "aten::upsample_nearest2d",
            (t(1, 1, 4, 4), None, [2.0, 2.0]),
            {},
            plain,
        ),
    )
    return {
        f"{operator} {label}".strip(): row
        for row in rows
        for label, operator, *_ in [row]
    }
