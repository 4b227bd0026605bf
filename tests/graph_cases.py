# SPDX-License-Identifier: BSD-3-Clause
"""Functions and modules to capture, and a runner of captured graphs.

The runner finds every input by the name that its record gives, so a wrong name makes
wrong numbers.
"""

from __future__ import annotations

import copy
import dataclasses
import inspect
from typing import NamedTuple

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812 - everybody calls it so
from torch.utils.checkpoint import checkpoint

from npu_dispatch_inspect.records.graphs import InputKind, OutputKind


class ConvNorm(nn.Module):
    """A convolution and a batch norm, whose buffers change in training."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(2, 3, 3, padding=1)
        self.norm = nn.BatchNorm2d(3)

    def forward(self, x):
        return torch.relu(self.norm(self.conv(x)))


class Attention(nn.Module):
    """Self-attention by hand on F.scaled_dot_product_attention."""

    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(8, 24)
        self.out = nn.Linear(8, 8)

    def forward(self, x):
        q, k, v = (
            part.view(*part.shape[:2], 2, 4).transpose(1, 2)
            for part in self.qkv(x).chunk(3, dim=-1)
        )
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(y.transpose(1, 2).reshape(x.shape))


class Tied(nn.Module):
    """One weight under two names."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(7, 4)
        self.head = nn.Linear(4, 7, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, ids):
        return self.head(self.embed(ids).tanh())


class Unused(nn.Module):
    """A parameter that nothing takes, one that is frozen."""

    def __init__(self):
        super().__init__()
        self.used = nn.Linear(3, 3)
        self.unused = nn.Linear(3, 3)
        self.frozen = nn.Linear(3, 3)
        self.frozen.requires_grad_(requires_grad=False)

    def forward(self, x):
        return self.frozen(self.used(x).sigmoid())


class Twice(nn.Module):
    """One module called twice."""

    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, 3)

    def forward(self, x):
        return self.fc(torch.tanh(self.fc(x)))


class Cube(torch.autograd.Function):
    """A derivative of its own."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * 3 * x * x


class Counter(nn.Module):
    """A buffer that is assigned to, and one that is written to."""

    def __init__(self):
        super().__init__()
        self.register_buffer("steps", torch.zeros(()))
        self.register_buffer("mean", torch.zeros(3))
        self.scale = nn.Parameter(torch.ones(3))

    def forward(self, x):
        self.steps = self.steps + 1
        with torch.no_grad():
            self.mean.mul_(0.9).add_(x.mean(0), alpha=0.1)
        return x * self.scale - self.mean


class Recurrent(nn.Module):
    """nn.LSTM keeps its parameters in a list as well."""

    def __init__(self):
        super().__init__()
        self.rnn = nn.LSTM(3, 4, batch_first=True)

    def forward(self, x):
        y, (h, c) = self.rnn(x)
        return y, h + c


class Block(nn.Module):
    """A transformer's feed-forward part."""

    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(6)
        self.up = nn.Linear(6, 12)
        self.down = nn.Linear(12, 6)

    def forward(self, x, *, scale=1.0):
        return x + scale * self.down(F.gelu(self.up(self.norm(x))))

    def loss(self, x, target):
        return F.mse_loss(self(x), target)


class More(NamedTuple):
    """A part of a batch."""

    a: torch.Tensor
    b: int


@dataclasses.dataclass
class Batch:
    """What a data loader gives."""

    x: torch.Tensor
    weight: torch.Tensor
    name: str = "train"


@dataclasses.dataclass(frozen=True)
class Scores:
    """What a model gives."""

    loss: torch.Tensor
    logits: torch.Tensor
    kind: str


def sine(a, b):
    return torch.sin(a).cos() * b


def write_input(x, w):
    x.mul_(2)
    x[0].add_(1)
    return x * w


def views(x):
    return x.view(-1), x[0], x.t()


def several(x, y):
    z = x * y
    return {"sum": z.sum(), "parts": [z.exp(), (z - 1, None, 3)]}, x + 1


def take_parts(batch, scale=2.0):
    return batch["x"][0] * batch["x"][1] + batch["more"].a * scale


def take_dataclass(batch):
    logits = batch.x @ batch.weight
    return Scores(loss=logits.sum(), logits=logits, kind=batch.name)


def recompute(x, w):
    def inner(x, w):
        return torch.sin(x @ w).exp()

    return checkpoint(inner, x, w, use_reentrant=False).sum()


def spectrum(x):
    y = torch.fft.rfft(x)
    return (y * y.conj()).real.sqrt(), torch.view_as_real(y * 1j)


def rows(x, index, target):
    picked = x.index_select(0, index).clone()
    picked[0] = 0
    return F.cross_entropy(picked, target), picked.gather(1, target[:, None])


def own_derivative(x):
    return Cube.apply(x).sum() + Cube.apply(x * 2).sum()


def mixed(x, w):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        return (x @ w).float().softmax(-1)


def half_frozen(x, w):
    with torch.no_grad():
        scale = x.abs().max()
    return (x.detach() / scale) @ w + x


def same_twice(a, b):
    return a * b


def drop(x):
    return F.dropout(x, 0.5).relu() + F.dropout(x * 2, 0.3)


def tensor(*shape, grad=False, seed=0):
    generator = torch.Generator().manual_seed(seed + 13 * len(shape) + sum(shape))
    return torch.randn(*shape, generator=generator).requires_grad_(grad)


def module(kind, *args, **kwargs):
    torch.manual_seed(7)
    return kind(*args, **kwargs)


def _double():
    x = tensor(3, grad=True)
    return same_twice, (x, x), {}


def _parts():
    more = More(tensor(3, grad=True), 1)
    batch = {"x": [tensor(3, grad=True, seed=1), tensor(3)], "more": more}
    return take_parts, (batch,), {}


def _closure():
    block = module(Block)

    def step(x):
        return block(x).sum()

    return step, (tensor(2, 6),), {}


CASES = {
    "sine": lambda: (sine, (tensor(3, grad=True), tensor(3, grad=True, seed=1)), {}),
    "linear": lambda: (module(nn.Linear, 4, 3), (tensor(2, 4),), {}),
    "conv and bn, train": lambda: (module(ConvNorm), (tensor(2, 2, 4, 4),), {}),
    "conv and bn, eval": lambda: (module(ConvNorm).eval(), (tensor(2, 2, 4, 4),), {}),
    "attention": lambda: (module(Attention), (tensor(2, 5, 8, grad=True),), {}),
    "dropout": lambda: (drop, (tensor(8, 8, grad=True),), {}),
    "embedding": lambda: (
        module(nn.Embedding, 7, 3, padding_idx=0),
        (torch.tensor([[0, 1], [6, 1]]),),
        {},
    ),
    "write to an input": lambda: (
        write_input,
        (tensor(3, 2), tensor(2, grad=True)),
        {},
    ),
    "views of an input": lambda: (views, (tensor(2, 3, grad=True),), {}),
    "several outputs": lambda: (
        several,
        (tensor(3, grad=True), tensor(3, grad=True, seed=1)),
        {},
    ),
    "no gradients": lambda: (sine, (tensor(3), tensor(3, seed=1)), {}),
    "tied weights": lambda: (module(Tied), (torch.tensor([1, 2, 6]),), {}),
    "unused and frozen": lambda: (module(Unused), (tensor(2, 3),), {}),
    "own derivative": lambda: (own_derivative, (tensor(4, grad=True),), {}),
    "checkpoint": lambda: (
        recompute,
        (tensor(2, 3, grad=True), tensor(3, 2, grad=True)),
        {},
    ),
    "complex": lambda: (spectrum, (tensor(2, 6, grad=True),), {}),
    "a module twice": lambda: (module(Twice), (tensor(2, 3),), {}),
    "keywords": lambda: (module(Block), (tensor(2, 6),), {"scale": 0.5}),
    "dataclass": lambda: (
        take_dataclass,
        (Batch(tensor(2, 3), tensor(3, 2, grad=True)),),
        {},
    ),
    "nested containers": _parts,
    "assigned buffer": lambda: (module(Counter), (tensor(2, 3),), {}),
    "indexing and loss": lambda: (
        rows,
        (tensor(4, 3, grad=True), torch.tensor([3, 0, 0]), torch.tensor([2, 1, 0])),
        {},
    ),
    "autocast": lambda: (
        mixed,
        (tensor(2, 3, grad=True), tensor(3, 2, grad=True)),
        {},
    ),
    "no_grad inside": lambda: (
        half_frozen,
        (tensor(2, 2, grad=True), tensor(2, 2, grad=True, seed=3)),
        {},
    ),
    "one tensor twice": _double,
    "a method": lambda: (module(Block).loss, (tensor(2, 6), tensor(2, 6, seed=2)), {}),
    "a module in a closure": _closure,
}


def clone_case(case):
    """A case of its own: the same numbers in other tensors."""
    function, args, kwargs = case
    memo = {}
    return tuple(copy.deepcopy(each, memo) for each in (function, args, kwargs))


def owner_of(function):
    """The module whose parameters a function has."""
    if isinstance(function, nn.Module):
        return function
    if isinstance(getattr(function, "__self__", None), nn.Module):
        return function.__self__
    return None


def find(name, function, args, kwargs):
    """The tensor that a record's name stands for."""
    module = owner_of(function)
    if module is not None:
        named = dict(module.named_parameters(remove_duplicate=False))
        named.update(module.named_buffers(remove_duplicate=False))
        if name in named:
            return named[name]
    cells = inspect.getclosurevars(
        function.forward if isinstance(function, nn.Module) else function
    ).nonlocals
    for cell, value in cells.items():
        if isinstance(value, nn.Module) and name.startswith(f"{cell}."):
            return find(name.removeprefix(f"{cell}."), value, (), {})
    called = function.forward if isinstance(function, nn.Module) else function
    bound = inspect.signature(called).bind(*args, **kwargs)
    return eval(name, {}, {**kwargs, **bound.arguments})


def leaves(value):
    """The tensors of a result, in order."""
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, (list, tuple)):
        return [leaf for each in value for leaf in leaves(each)]
    if isinstance(value, dict):
        return [leaf for each in value.values() for leaf in leaves(each)]
    if dataclasses.is_dataclass(value):
        return [
            leaf
            for each in dataclasses.fields(value)
            for leaf in leaves(getattr(value, each.name))
        ]
    return []


def tangent_for(tensor):
    """A gradient to start from: the same for tensors of the same shape."""
    generator = torch.Generator().manual_seed(tensor.numel())
    return torch.randn(tensor.shape, generator=generator, dtype=tensor.dtype)


def run_eager(case):
    """What the program gives: results, gradients and all inputs afterwards."""
    function, args, kwargs = case
    torch.manual_seed(3)
    results = leaves(function(*args, **kwargs))
    wanted = [each for each in results if each.requires_grad]
    if wanted:
        torch.autograd.backward(wanted, [tangent_for(each) for each in wanted])
    return results


def run_graphs(captured, case):
    """Run the graphs of a capture on a case's own tensors.

    Returns:
        Results by name; gradients by name of the input; new values of inputs by name.
    """
    stages = {each.stage.value: each for each in captured}
    forward = stages.get("forward") or stages["inference"]
    given = {}

    def value_of(record):
        if record.kind in {InputKind.PARAMETER, InputKind.BUFFER, InputKind.ARGUMENT}:
            found = [find(name, *case) for name in record.names]
            assert all(each is found[0] for each in found)
            return found[0].detach()
        return given[record.variable]

    torch.manual_seed(3)
    with torch.no_grad():
        returned = forward.graph_module(*map(value_of, forward.inputs))
    results, written = {}, {}
    for record, value in zip(forward.outputs, returned, strict=True):
        if record.kind is OutputKind.RESULT:
            results[record.name] = value
        elif record.kind is OutputKind.MUTATION:
            written[record.name] = value
        if record.variable is not None:
            given[record.variable] = value
    gradients = {}
    backward = stages.get("backward")
    if backward is not None:
        for record in backward.inputs:
            if record.kind is InputKind.TANGENT:
                given[record.variable] = tangent_for(results[record.name])
        with torch.no_grad():
            returned = backward.graph_module(*map(value_of, backward.inputs))
        gradients = {
            record.name: value
            for record, value in zip(backward.outputs, returned, strict=True)
            if record.kind is OutputKind.GRADIENT and value is not None
        }
    return results, gradients, written


def same(a, b):
    """Equal bit for bit."""
    return (
        a.shape == b.shape
        and a.dtype == b.dtype
        and bool(
            torch.equal(torch.nan_to_num(a), torch.nan_to_num(b))
            if a.is_floating_point()
            else torch.equal(a, b)
        )
    )
