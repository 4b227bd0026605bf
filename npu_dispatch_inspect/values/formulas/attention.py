# SPDX-License-Identifier: BSD-3-Clause
"""Fused attention and rotary embedding, with their gradients."""

from __future__ import annotations

from typing import Any

import torch

from npu_dispatch_inspect.values.formulas._registry import (
    formula,
    single,
    vector_jacobian,
)
from npu_dispatch_inspect.values.formulas.dropout import kept_again

__all__: list[str] = []

_LANES = 8
"""Maximum and sum of a row stand in so many equal columns."""


@formula(
    "npu::npu_fusion_attention",
    "npu::npu_fusion_attention_v2",
    "npu::npu_fusion_attention_v3",
)
def fusion_attention(**call: Any) -> tuple[Any, ...]:
    """``dropout(softmax(mask(scale * (pse + q @ k.T)))) @ v``.

    Results: the attention, maximum and sum of each row of scores, an empty tensor,
    and three facts about the dropout that torch_npu's kernel knows itself.
    """
    settings = _Settings(call)
    results = [_attend(part, settings) for part in settings.parts()]
    attention, largest, total = (
        settings.joined([each[place] for each in results], is_row=place > 0)
        for place in range(3)
    )
    return attention, largest, total, None, None, None, None


@formula(
    "npu::npu_fusion_attention_grad",
    "npu::npu_fusion_attention_grad_v2",
    "npu::npu_fusion_attention_grad_v3",
)
def fusion_attention_grad(**call: Any) -> tuple[Any, ...]:
    """The gradients of query, key, value and of the position encoding."""
    settings = _Settings(call, scale="scale_value")
    found = []
    for number, part in enumerate(settings.parts()):
        gradient = settings.as_heads(call["dy"], number)
        found.append(_attend_backward(single(gradient), part, settings, call))
    of_q, of_k, of_v = (
        settings.joined([each[place] for each in found]) for place in range(3)
    )
    of_pse = None
    if call["pse"] is not None:
        of_pse = sum(each[3].sum_to_size(call["pse"].shape) for each in found)
    count = 7 if "query_rope" in call else 5
    return of_q, of_k, of_v, of_pse, *[None] * (count - 4)


@formula("npu::npu_rotary_mul")
def rotary_mul(
    input: torch.Tensor,
    r1: torch.Tensor,
    r2: torch.Tensor,
    rotary_mode: str,
    rotate: torch.Tensor | None,
) -> torch.Tensor:
    """``r1 * x + r2 * rotated(x)``."""
    x = single(input)
    turned = _turned(x, rotary_mode) if rotate is None else x @ single(rotate)
    return single(r1) * x + single(r2) * turned


@formula("npu::npu_rotary_mul_backward")
def rotary_mul_backward(
    grad: torch.Tensor,
    input: torch.Tensor,
    r1: torch.Tensor,
    r2: torch.Tensor,
    rotary_mode: str,
) -> tuple[torch.Tensor | None, ...]:
    """The gradients of the three tensors."""

    def forward(x: Any, cosine: Any, sine: Any) -> torch.Tensor:
        rotated: torch.Tensor = cosine * x + sine * _turned(x, rotary_mode)
        return rotated

    return tuple(vector_jacobian(forward, [input, r1, r2], grad))


def _turned(x: torch.Tensor, mode: str) -> torch.Tensor:
    if mode == "interleave":
        return torch.stack((-x[..., 1::2], x[..., ::2]), -1).reshape(x.shape)
    first, second = x.chunk(2, -1)
    return torch.cat((-second, first), -1)


class _Part:
    """Query, key, value (batch, heads, length, size) and position encoding.

    Several heads of the query may share one of key and value.
    """

    def __init__(
        self,
        q: torch.Tensor,
        k: torch.Tensor,
        v: torch.Tensor,
        pse: torch.Tensor | None,
    ) -> None:
        self._q, self._k, self._v = single(q), single(k), single(v)
        self.pse = pse

    def with_all_heads(self) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Key and value repeated for each head of the query."""
        shared = self._q.shape[1] // self._k.shape[1]
        if shared == 1:
            return self._q, self._k, self._v
        repeat = [each.repeat_interleave(shared, 1) for each in (self._k, self._v)]
        return self._q, repeat[0], repeat[1]

    def with_own_heads(self, gradient: torch.Tensor) -> torch.Tensor:
        """A gradient for all heads, summed up for those of key and value."""
        heads = self._k.shape[1]
        if gradient.shape[1] == heads:
            return gradient
        summed: torch.Tensor = gradient.unflatten(1, (heads, -1)).sum(2)
        return summed


class _Settings:
    """What a call says beside its tensors.

    Raises:
        NotImplementedError: the call uses what there is no formula for.
    """

    def __init__(self, call: dict[str, Any], scale: str = "scale") -> None:
        unknown = [
            name
            for name in ("padding_mask", "sink", "query_rope", "key_rope", "prefix")
            if call.get(name) is not None and len(call[name])
        ]
        if call["sparse_mode"] not in range(5):
            unknown.append(f"sparse_mode={call['sparse_mode']}")
        if call.get("pse_type", 1) not in {0, 1}:
            unknown.append(f"pse_type={call['pse_type']}")
        if unknown:
            msg = f"there is no formula for attention with {', '.join(unknown)}"
            raise NotImplementedError(msg)
        self._call = call
        self._layout: str = call["input_layout"]
        self._heads: int = call["head_num"]
        self.scale: float = call[scale]
        self.keep: float = call["keep_prob"]
        self.mask: torch.Tensor | None = call["atten_mask"]
        self.sparse: int = call["sparse_mode"]
        # The first version's names have a letter more.
        later = "pre_tokens" in call
        self.before: int = call["pre_tokens" if later else "pre_tockens"]
        self.after: int = call["next_tokens" if later else "next_tockens"]
        self.scales_pse = call.get("pse_type", 1) == 1

    def parts(self) -> list[_Part]:
        """One for all sequences, or with packed sequences one for each."""
        call = self._call
        given = [call[name] for name in ("query", "key", "value")]
        if self._layout != "TND":
            size = self._size(call["query"])
            q, k, v = (self._split(each, size) for each in given)
            return [_Part(q, k, v, call["pse"])]
        ends = [_list(call["actual_seq_qlen"]), _list(call["actual_seq_kvlen"])]
        bounds = [list(zip([0, *each], each, strict=False)) for each in ends]
        parts = []
        for queries, keys in zip(*bounds, strict=True):
            rows = (queries, keys, keys)
            q, k, v = (
                each[start:end].transpose(0, 1).unsqueeze(0)
                for each, (start, end) in zip(given, rows, strict=True)
            )
            parts.append(_Part(q, k, v, call["pse"]))
        return parts

    def as_heads(self, tensor: torch.Tensor, number: int) -> torch.Tensor:
        """A gradient of the attention in the form of a part's query."""
        if self._layout != "TND":
            return self._split(tensor, self._size(self._call["query"]))
        starts = [0, *_list(self._call["actual_seq_qlen"])]
        rows = tensor[starts[number] : starts[number + 1]]
        return rows.transpose(0, 1).unsqueeze(0)

    def joined(self, parts: list[Any], *, is_row: bool = False) -> torch.Tensor:
        """Results of the parts in the form in which the call has them."""
        if self._layout == "TND":
            return torch.cat([each[0].transpose(0, 1) for each in parts])
        whole: torch.Tensor = parts[0]
        if is_row or self._layout == "BNSD":
            return whole
        if self._layout == "SBH":
            return whole.permute(2, 0, 1, 3).flatten(2)
        rows = whole.transpose(1, 2)
        return rows if self._layout == "BSND" else rows.flatten(2)

    def _size(self, query: torch.Tensor) -> int:
        flat = self._layout in {"BSH", "SBH"}
        return query.shape[-1] // self._heads if flat else query.shape[-1]

    def _split(self, tensor: torch.Tensor, size: int) -> torch.Tensor:
        if self._layout == "BNSD":
            return tensor
        if self._layout == "BSND":
            return tensor.transpose(1, 2)
        heads: torch.Tensor = tensor.unflatten(-1, (-1, size))
        order = (1, 2, 0, 3) if self._layout == "SBH" else (0, 2, 1, 3)
        return heads.permute(order)


def _attend(part: _Part, settings: _Settings) -> tuple[torch.Tensor, ...]:
    weights, largest, total = _weights(part, settings)
    if settings.keep < 1:
        share = torch.full(weights.shape, settings.keep)
        weights = weights * torch.bernoulli(share) / settings.keep
    _, _, v = part.with_all_heads()
    shape = (*largest.shape[:-1], _LANES)
    return weights @ v, largest.expand(shape), total.expand(shape)


def _attend_backward(
    gradient: torch.Tensor, part: _Part, settings: _Settings, call: dict[str, Any]
) -> tuple[torch.Tensor, ...]:
    q, k, v = part.with_all_heads()
    weights, _, _ = _weights(part, settings)
    of_weights = gradient @ v.mT
    used = weights
    if settings.keep < 1:
        # What was dropped is drawn again, from the noted state of the generator.
        seed, drawn = int(call["seed"]), int(call["offset"])
        kept = kept_again(weights.shape, settings.keep, seed, drawn) / settings.keep
        used, of_weights = weights * kept, of_weights * kept
    inner = (of_weights * weights).sum(-1, keepdim=True)
    of_scores = weights * (of_weights - inner)
    of_pse = of_scores * settings.scale if settings.scales_pse else of_scores
    of_scores = of_scores * settings.scale
    return (
        of_scores @ k,
        part.with_own_heads(of_scores.mT @ q),
        part.with_own_heads(used.mT @ gradient),
        of_pse,
    )


def _weights(part: _Part, settings: _Settings) -> tuple[torch.Tensor, ...]:
    """The softmax of the scores, and maximum and sum of each row."""
    q, k, _ = part.with_all_heads()
    scores = q @ k.mT
    if part.pse is not None and settings.scales_pse:
        scores = (scores + single(part.pse)) * settings.scale
    else:
        scores = scores * settings.scale
        scores = scores if part.pse is None else scores + single(part.pse)
    hidden = _hidden(settings, scores.shape[-2], scores.shape[-1])
    if hidden is not None:
        scores = scores.masked_fill(hidden, float("-inf"))
    largest = scores.amax(-1, keepdim=True)
    if hidden is None and part.pse is None:
        weights = torch.exp(scores - largest)
        total = weights.sum(-1, keepdim=True)
        return weights / total, largest, total
    # A row in which all is hidden attends to nothing.
    weights = torch.exp(scores - largest.masked_fill(largest.isinf(), 0))
    total = weights.sum(-1, keepdim=True)
    return weights / total.masked_fill(total == 0, 1), largest, total


def _hidden(settings: _Settings, rows: int, columns: int) -> torch.Tensor | None:
    if settings.sparse in {0, 1}:
        return None if settings.mask is None else settings.mask.bool()
    row = torch.arange(rows).unsqueeze(1)
    column = torch.arange(columns)
    if settings.sparse == 2:  # noqa: PLR2004 - the modes are numbers
        return column > row
    row = row + (columns - rows)
    if settings.sparse == 3:  # noqa: PLR2004 - see above
        return column > row
    return (column > row + settings.after) | (column < row - settings.before)


def _list(ends: Any) -> list[int]:
    return [int(each) for each in ends]
