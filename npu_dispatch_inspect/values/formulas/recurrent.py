# SPDX-License-Identifier: BSD-3-Clause
"""Recurrent layers: torch_npu keeps gates for a backward that reads them.

The gradients here are worked out from the inputs again, so what a whole layer keeps
beside its results is left as it was.
"""

from __future__ import annotations

from typing import Any

import torch

from npu_dispatch_inspect.values.formulas._registry import (
    formula,
    single,
    vector_jacobian,
)

__all__: list[str] = []


@formula("npu::_gru_npu")
def gru(**call: Any) -> tuple[Any, ...]:
    """Layers of gated recurrent units."""
    return *_layers(call, [call["hx"]], call["params"]), *[None] * 5


@formula("npu::_gru_npu_backward")
def gru_backward(**call: Any) -> tuple[Any, ...]:
    """The gradients of input, state and parameters."""
    params = call["params"]

    def forward(input: Any, hx: Any, *weights: Any) -> Any:
        return _layers({**call, "input": input}, [hx], list(weights))

    gradients = [call["grad_y"], call["grad_h"]]
    found = vector_jacobian(forward, [call["input"], call["hx"], *params], gradients)
    return found[0], found[1], found[2:]


@formula("npu::_lstm_npu")
def lstm(**call: Any) -> tuple[Any, ...]:
    """Layers of long short-term memory."""
    return *_layers(call, call["hx"], call["params"]), *[None] * 7


@formula("npu::_lstm_npu_backward")
def lstm_backward(**call: Any) -> tuple[Any, ...]:
    """The gradients of input, states and parameters."""

    def forward(input: Any, h: Any, c: Any, *weights: Any) -> Any:
        return _layers({**call, "input": input}, [h, c], list(weights))

    gradients = [call["grad_y"], call["grad_hy"], call["grad_cy"]]
    given = [call["input"], *call["hx"], *call["params"]]
    found = vector_jacobian(forward, given, gradients)
    return found[0], found[1:3], found[3:]


def _layers(call: dict[str, Any], hx: list[Any], params: list[Any]) -> tuple[Any, ...]:
    if call["dropout"] and call["train"] and call["num_layers"] > 1:
        msg = "there is no formula for dropout between recurrent layers"
        raise NotImplementedError(msg)
    run: Any = torch.gru if len(hx) == 1 else torch.lstm
    state = [single(each) for each in hx]
    given = state[0] if len(hx) == 1 else state
    weights = [single(each) for each in params]
    settings = [
        call["has_biases"],
        call["num_layers"],
        0.0,
        call["train"],
        call["bidirectional"],
    ]
    rows = single(call["input"])
    sizes = call["batch_sizes"]
    if sizes is None:
        results = run(rows, given, weights, *settings, bool(call["batch_first"]))
        return tuple(results)
    # Rows of padded sequences, step by step; the CPU wants them without padding.
    lengths = sizes.tolist()
    padded = rows.reshape(len(lengths), -1, rows.shape[-1])
    packed = torch.cat([step[:n] for step, n in zip(padded, lengths, strict=True)])
    output, *last = run(packed, sizes, given, weights, *settings)
    steps = list(output.split(lengths))
    return torch.nn.utils.rnn.pad_sequence(steps, batch_first=True), *last


@formula("npu::npu_lstm")
def lstm_layer(**call: Any) -> tuple[torch.Tensor, ...]:
    """One layer in one direction, its states and gates at every step."""
    return _steps(
        *(single(call[name]) for name in ("input", "weight", "bias", "h", "c"))
    )


@formula("npu::npu_lstm_backward")
def lstm_layer_backward(**call: Any) -> tuple[Any, ...]:
    """The gradients of input, weight, bias and both states."""

    def forward(*given: Any) -> Any:
        return _steps(*given)[:3]

    given = [call[name] for name in ("input", "weight", "bias", "hx", "cx")]
    wanted = [call[name] for name in ("grady", "gradh", "gradc")]
    shape = call["y_output"].shape
    gradients = [wanted[0], *(_at_last_step(each, shape) for each in wanted[1:])]
    return tuple(vector_jacobian(forward, given, gradients))


@formula("npu::npu_lstm_cell")
def lstm_cell(**call: Any) -> tuple[torch.Tensor | None, ...]:
    """One step."""
    names = ("input", "w_ih", "w_hh", "h", "c", "b_ih", "b_hh")
    given = (None if call[name] is None else single(call[name]) for name in names)
    y, h, c, *gates = _cell(*given)
    return y.unsqueeze(0), h, c, *(each.unsqueeze(0) for each in gates)


@formula("npu::npu_lstm_cell_backward")
def lstm_cell_backward(**call: Any) -> tuple[Any, ...]:
    """The gradients of input, weights, biases and both states, from the kept gates."""
    names = ("input", "w_ih", "w_hh", "h", "c")
    x, w_ih, w_hh, h, c = (single(call[name]) for name in names)
    names = ("i", "j", "f", "o", "tanhc")
    i, j, f, o, tanh_c = (call[name].reshape(c.shape) for name in names)
    of_y, of_h, of_c = (
        torch.zeros_like(c)
        if call[name] is None
        else single(call[name]).reshape(c.shape)
        for name in ("grady", "gradh", "gradc")
    )
    of_h = of_h + of_y
    of_c = of_c + of_h * o * (1 - tanh_c.square())
    gates = torch.cat(
        [
            of_c * j * i * (1 - i),
            of_c * c * f * (1 - f),
            of_c * i * (1 - j.square()),
            of_h * tanh_c * o * (1 - o),
        ],
        -1,
    )
    bias = gates.sum(0)
    return (
        gates @ w_ih.mT,
        x.mT @ gates,
        h.mT @ gates,
        bias,
        bias,
        gates @ w_hh.mT,
        of_c * f,
    )


@formula("aten::_thnn_fused_gru_cell")
def fused_gru_cell(
    input_gates: torch.Tensor,
    hidden_gates: torch.Tensor,
    hx: torch.Tensor,
    input_bias: torch.Tensor | None,
    hidden_bias: torch.Tensor | None,
) -> tuple[torch.Tensor, None]:
    """One step of gated recurrent units, from its gates."""
    given = input_gates if input_bias is None else input_gates + input_bias
    hidden = hidden_gates if hidden_bias is None else hidden_gates + hidden_bias
    reset_i, update_i, new_i = given.chunk(3, 1)
    reset_h, update_h, new_h = hidden.chunk(3, 1)
    update = torch.sigmoid(update_i + update_h)
    new = torch.tanh(new_i + torch.sigmoid(reset_i + reset_h) * new_h)
    return new + update * (hx - new), None


@formula("aten::_pack_padded_sequence")
def pack_padded_sequence(
    input: torch.Tensor, lengths: torch.Tensor, batch_first: bool
) -> tuple[torch.Tensor, torch.Tensor]:
    """Sequences step by step, which torch_npu leaves as they are padded."""
    steps = input.transpose(0, 1) if batch_first else input
    longest = int(lengths.max())
    sizes = (lengths > torch.arange(longest).unsqueeze(1)).sum(1)
    return steps[:longest].flatten(0, 1), sizes


@formula("aten::_pad_packed_sequence")
def pad_packed_sequence(
    data: torch.Tensor,
    batch_sizes: torch.Tensor,
    batch_first: bool,
    padding_value: float,
    total_length: int,
) -> tuple[torch.Tensor, torch.Tensor]:
    """The way back: what lies behind a sequence's end becomes the padding value."""
    count = int(batch_sizes[0])
    steps = single(data).reshape(len(batch_sizes), count, *data.shape[-1:])
    inside = torch.arange(count) < batch_sizes.unsqueeze(1)
    steps = torch.where(inside.unsqueeze(-1), steps, padding_value)
    if total_length > len(batch_sizes):
        rest = steps.new_full(
            (total_length - len(batch_sizes), *steps.shape[1:]), padding_value
        )
        steps = torch.cat([steps, rest])
    return steps.transpose(0, 1) if batch_first else steps, inside.sum(0)


def _steps(x: Any, weight: Any, bias: Any, h: Any, c: Any) -> tuple[torch.Tensor, ...]:
    h, c = h.reshape(h.shape[-2:]), c.reshape(c.shape[-2:])
    kept = []
    for step in x:
        h, c, *gates = _step(torch.cat([step, h], -1) @ weight + bias, c)
        kept.append((h, h, c, *gates))
    return tuple(torch.stack(each) for each in zip(*kept, strict=True))


def _cell(
    x: Any, w_ih: Any, w_hh: Any, h: Any, c: Any, b_ih: Any, b_hh: Any
) -> tuple[torch.Tensor, ...]:
    gates = x @ w_ih + h @ w_hh
    gates = gates if b_ih is None else gates + b_ih
    gates = gates if b_hh is None else gates + b_hh
    h, c, *kept = _step(gates, c)
    return h, h, c, *kept


def _step(gates: torch.Tensor, c: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """States and gates, in the order in which a device keeps them."""
    i, f, j, o = gates.chunk(4, -1)
    i, j, f, o = i.sigmoid(), j.tanh(), f.sigmoid(), o.sigmoid()
    c = f * c + i * j
    return o * c.tanh(), c, i, j, f, o, c.tanh()


def _at_last_step(
    gradient: torch.Tensor | None, shape: torch.Size
) -> torch.Tensor | None:
    """The gradient of a state at every step, where only the last one has one."""
    if gradient is None or gradient.shape == shape:
        return gradient
    return torch.cat([gradient.new_zeros(shape)[1:], gradient.reshape(1, *shape[1:])])
