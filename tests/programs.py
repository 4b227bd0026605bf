# SPDX-License-Identifier: BSD-3-Clause
"""Small programs that are run with and without a tracer, on any device.

Each takes a device and returns the tensors it computed, gradients among them.
They are seeded, so two runs on one device are equal to the last bit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812 - the usual name
from torch.utils.checkpoint import checkpoint

Program = Callable[[str], Sequence[torch.Tensor]]

PROGRAMS: dict[str, Program] = {}


def program(function: Program) -> Program:
    """Add a function to `PROGRAMS` under its own name."""

    def seeded(device: str) -> Sequence[torch.Tensor]:
        torch.manual_seed(0)
        return function(device)

    PROGRAMS[function.__name__] = seeded
    return function


def leaf(*shape: int, device: str, **options: Any) -> torch.Tensor:
    """A random tensor that requires a gradient."""
    return torch.randn(*shape, device=device, **options).requires_grad_()


def with_grads(output: torch.Tensor, *leaves: torch.Tensor) -> list[torch.Tensor]:
    """Run backward from a scalar made of ``output``."""
    total = output.abs() if output.is_complex() else output
    total.sum().backward()
    return [output, *(each.grad for each in leaves if each.grad is not None)]


def trained(module: nn.Module, output: torch.Tensor) -> list[torch.Tensor]:
    """The same with the parameters of a module as leaves."""
    return with_grads(output, *module.parameters())


@program
def fan_in(device: str) -> Sequence[torch.Tensor]:
    x = leaf(4, 4, device=device)
    return with_grads(x * 2 + x.sin() + x.exp(), x)


@program
def linear(device: str) -> Sequence[torch.Tensor]:
    module = nn.Linear(8, 4).to(device)
    return trained(module, module(torch.randn(3, 8, device=device)))


@program
def matmul_3d(device: str) -> Sequence[torch.Tensor]:
    a, b = leaf(2, 3, 4, device=device), leaf(4, 5, device=device)
    return with_grads(a @ b, a, b)


@program
def einsum(device: str) -> Sequence[torch.Tensor]:
    a, b = leaf(2, 3, 4, device=device), leaf(2, 4, 5, device=device)
    return with_grads(torch.einsum("bij,bjk->bik", a, b), a, b)


@program
def conv_norm_pool(device: str) -> Sequence[torch.Tensor]:
    module = nn.Sequential(
        nn.Conv2d(2, 3, 3), nn.BatchNorm2d(3), nn.ReLU(), nn.MaxPool2d(2)
    ).to(device)
    return trained(module, module(torch.randn(2, 2, 8, 8, device=device)))


@program
def conv_transpose(device: str) -> Sequence[torch.Tensor]:
    module = nn.ConvTranspose1d(2, 3, 3, stride=2).to(device)
    return trained(module, module(torch.randn(2, 2, 6, device=device)))


@program
def softmax(device: str) -> Sequence[torch.Tensor]:
    x = leaf(4, 5, device=device)
    return with_grads(x.softmax(-1) * x.log_softmax(0), x)


@program
def losses(device: str) -> Sequence[torch.Tensor]:
    x = leaf(4, 5, device=device)
    target = torch.arange(4, device=device)
    other = torch.randn(4, 5, device=device)
    total = (
        F.cross_entropy(x, target)
        + F.mse_loss(x, other)
        + F.smooth_l1_loss(x, other)
        + F.kl_div(x.log_softmax(-1), other.softmax(-1), reduction="batchmean")
        + F.binary_cross_entropy_with_logits(x, other.sigmoid())
    )
    return with_grads(total, x)


@program
def norms(device: str) -> Sequence[torch.Tensor]:
    x = leaf(2, 4, 6, device=device)
    module = nn.Sequential(nn.LayerNorm(6), nn.GroupNorm(2, 4)).to(device)
    return [*trained(module, module(x) + F.rms_norm(x, (6,))), x.grad]


@program
def attention(device: str) -> Sequence[torch.Tensor]:
    q, k, v = (leaf(2, 2, 4, 8, device=device) for _ in range(3))
    out = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    return with_grads(out, q, k, v)


@program
def encoder_layer(device: str) -> Sequence[torch.Tensor]:
    module = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).to(device)
    return trained(module, module(torch.randn(2, 3, 8, device=device)))


@program
def encoder_fast_path(device: str) -> Sequence[torch.Tensor]:
    module = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).to(device).eval()
    with torch.no_grad():
        return [module(torch.randn(2, 3, 8, device=device))]


@program
def lstm(device: str) -> Sequence[torch.Tensor]:
    module = nn.LSTM(4, 3, num_layers=2).to(device)
    return trained(module, module(torch.randn(5, 2, 4, device=device))[0])


@program
def gru(device: str) -> Sequence[torch.Tensor]:
    module = nn.GRU(4, 3, bidirectional=True).to(device)
    return trained(module, module(torch.randn(5, 2, 4, device=device))[0])


@program
def embedding(device: str) -> Sequence[torch.Tensor]:
    module = nn.Embedding(10, 4).to(device)
    return trained(module, module(torch.tensor([1, 2, 2, 7], device=device)))


@program
def indexing(device: str) -> Sequence[torch.Tensor]:
    x = leaf(5, 4, device=device)
    picked = x[torch.tensor([0, 2, 2], device=device)]
    return with_grads(picked[:, 1:3] * 2 + x[1:4, ::2], x)


@program
def index_put(device: str) -> Sequence[torch.Tensor]:
    x = leaf(5, 4, device=device)
    values = leaf(3, 4, device=device)
    where = torch.tensor([0, 2, 2], device=device)
    return with_grads(x.index_put((where,), values, accumulate=True), x, values)


@program
def gather_scatter(device: str) -> Sequence[torch.Tensor]:
    x = leaf(4, 5, device=device)
    index = torch.tensor([[0, 1, 4], [2, 2, 0]], device=device)
    taken = x.gather(0, index % 4)
    return with_grads(torch.zeros(4, 5, device=device).scatter_add(1, index, taken), x)


@program
def sort_topk_max(device: str) -> Sequence[torch.Tensor]:
    x = leaf(4, 6, device=device)
    total = x.sort(1)[0][:, 2:] + x.topk(4, 1)[0] + x.max(1, keepdim=True)[0]
    return with_grads(total, x)


@program
def products(device: str) -> Sequence[torch.Tensor]:
    x = leaf(3, 4, device=device)
    with torch.no_grad():
        x[0, 1] = 0  # both backward formulas look for zeros
    return with_grads(x.cumprod(1) + x.prod(1, keepdim=True) + x.cumsum(0), x)


@program
def linalg(device: str) -> Sequence[torch.Tensor]:
    x = leaf(3, 3, device=device)
    square = x @ x.mT + torch.eye(3, device=device)
    parts = [
        torch.linalg.cholesky(square),
        torch.linalg.inv(square),
        torch.linalg.solve(square, x),
        torch.linalg.det(square).expand(3, 3),
        torch.linalg.qr(square)[0],
        torch.linalg.svd(x, full_matrices=False)[1].expand(3, 3),
    ]
    return with_grads(torch.stack(parts), x)


@program
def clamp_where_masked(device: str) -> Sequence[torch.Tensor]:
    x = leaf(4, 4, device=device)
    mask = x.detach() > 0
    total = x.clamp(-0.5, 0.5) + torch.where(mask, x, 1) + x.masked_fill(mask, 2.0)
    return [*with_grads(total, x), x.detach().masked_select(mask)]


@program
def interpolation(device: str) -> Sequence[torch.Tensor]:
    x = leaf(1, 2, 4, 4, device=device)
    big = F.interpolate(x, scale_factor=2, mode="bilinear", align_corners=False)
    near = F.interpolate(x, size=(8, 8), mode="nearest")
    return with_grads(big + near, x)


@program
def grid_sample(device: str) -> Sequence[torch.Tensor]:
    x = leaf(1, 2, 4, 4, device=device)
    grid = leaf(1, 3, 3, 2, device=device)
    return with_grads(F.grid_sample(x, grid.tanh(), align_corners=False), x)


@program
def cat_split_unbind(device: str) -> Sequence[torch.Tensor]:
    x, y = leaf(2, 6, device=device), leaf(2, 6, device=device)
    first, second = torch.cat([x, y]).split(2)
    pieces = torch.stack([*first.unbind(0), *second.chunk(2)[0]])
    return with_grads(pieces.roll(1, 0).flip(1), x, y)


@program
def views_in_place(device: str) -> Sequence[torch.Tensor]:
    x = leaf(4, 6, device=device)
    y = x * 1
    y.view(2, 12)[0].mul_(2)
    y.t()[1].add_(1.5).clamp_(max=1)
    return with_grads(y.reshape(3, 8).permute(1, 0).contiguous(), x)


@program
def activations(device: str) -> Sequence[torch.Tensor]:
    x = leaf(4, 4, device=device)
    return with_grads(F.gelu(x) + F.silu(x) + F.softplus(x) + F.leaky_relu(x), x)


@program
def scalar_arithmetic(device: str) -> Sequence[torch.Tensor]:
    x = leaf(3, device=device)
    whole = torch.arange(3, device=device)
    half = torch.ones(3, device=device, dtype=torch.float16)
    total = 1 - x / 2 + 3.0 * x**2 + 2**x + (x > 0) * 1.5 + x.remainder(0.7)
    return [*with_grads(total, x), whole + 1.5, whole // 2, half * 2.5, half + True]


@program
def double_backward(device: str) -> Sequence[torch.Tensor]:
    x = leaf(4, device=device)
    (first,) = torch.autograd.grad((x.sin() * x**3).sum(), x, create_graph=True)
    (second,) = torch.autograd.grad((first**2).sum(), x)
    return [first, second]


@program
def checkpointed(device: str) -> Sequence[torch.Tensor]:
    module = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5), nn.Tanh()).to(device)
    x = leaf(2, 4, device=device)
    out = checkpoint(module, x, use_reentrant=False)
    return [*trained(module, out), x.grad]


@program
def checkpointed_reentrant(device: str) -> Sequence[torch.Tensor]:
    module = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5), nn.Tanh()).to(device)
    x = leaf(2, 4, device=device)
    out = checkpoint(module, x, use_reentrant=True)
    return [*trained(module, out), x.grad]


class _Cube(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
        (x,) = ctx.saved_tensors
        return grad * 3 * x**2


@program
def custom_function(device: str) -> Sequence[torch.Tensor]:
    x = leaf(4, device=device)
    return with_grads(_Cube.apply(x), x)


def _steps(device: str, optimizer: Any, **options: Any) -> Sequence[torch.Tensor]:
    module = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1)).to(device)
    steps = optimizer(module.parameters(), **options)
    for _ in range(2):
        steps.zero_grad()
        loss = module(torch.randn(3, 4, device=device)).pow(2).mean()
        loss.backward()
        nn.utils.clip_grad_norm_(module.parameters(), 0.5)
        steps.step()
    return [loss, *module.parameters()]


@program
def sgd(device: str) -> Sequence[torch.Tensor]:
    return _steps(device, torch.optim.SGD, lr=0.1, momentum=0.9, nesterov=True)


@program
def adamw(device: str) -> Sequence[torch.Tensor]:
    return _steps(device, torch.optim.AdamW, lr=0.1)


@program
def adam_foreach(device: str) -> Sequence[torch.Tensor]:
    return _steps(device, torch.optim.Adam, lr=0.1, foreach=True)


@program
def complex_numbers(device: str) -> Sequence[torch.Tensor]:
    x = leaf(4, dtype=torch.complex64, device=device)
    y = (x * 2j + x.conj()).exp()
    return with_grads(torch.view_as_real(y @ x.conj().view(4, 1)) + y.real.sum(), x)


@program
def fft(device: str) -> Sequence[torch.Tensor]:
    x = leaf(8, device=device)
    return with_grads(torch.fft.irfft(torch.fft.rfft(x) * 1.5), x)


@program
def sparse(device: str) -> Sequence[torch.Tensor]:
    index = torch.tensor([[0, 1, 1], [2, 0, 2]], device=device)
    values, dense = leaf(3, device=device), leaf(3, 2, device=device)
    matrix = torch.sparse_coo_tensor(index, values, (2, 3))
    return [*with_grads(torch.sparse.mm(matrix, dense), dense), values.grad]


@program
def sparse_gradient(device: str) -> Sequence[torch.Tensor]:
    module = nn.Embedding(10, 4, sparse=True).to(device)
    module(torch.tensor([1, 2, 2], device=device)).sum().backward()
    return [module.weight.grad.coalesce().to_dense()]


@program
def dropout(device: str) -> Sequence[torch.Tensor]:
    x = leaf(8, 8, device=device)
    noise = torch.rand(3, device=device)
    return [*with_grads(F.dropout(x, 0.3), x), noise, torch.bernoulli(noise)]


@program
def vmapped(device: str) -> Sequence[torch.Tensor]:
    x, w = torch.randn(3, 4, device=device), torch.randn(4, device=device)
    return [torch.func.vmap(lambda row: (row * 2 + 1) @ w)(x)]


@program
def function_transforms(device: str) -> Sequence[torch.Tensor]:
    x = torch.randn(4, device=device)

    def scalar(value: torch.Tensor) -> torch.Tensor:
        return (value.sin() * 2 * value).sum()

    per_row = torch.func.vmap(torch.func.grad(scalar))(x.expand(2, 4))
    value, tangent = torch.func.jvp(scalar, (x,), (torch.ones_like(x),))
    return [per_row, value, tangent, torch.func.hessian(scalar)(x)]


@program
def forward_mode(device: str) -> Sequence[torch.Tensor]:
    x = torch.randn(3, device=device)
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(x, torch.ones_like(x))
        return list(torch.autograd.forward_ad.unpack_dual(dual.sin() * 3))


@program
def autocast(device: str) -> Sequence[torch.Tensor]:
    module = nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.Linear(8, 2)).to(device)
    with torch.autocast(torch.device(device).type, dtype=torch.bfloat16):
        out = module(torch.randn(3, 4, device=device))
        loss = F.mse_loss(out, torch.zeros(3, 2, device=device))
    return trained(module, loss)


@program
def inference(device: str) -> Sequence[torch.Tensor]:
    module = nn.Linear(4, 4).to(device)
    with torch.inference_mode():
        out = module(torch.randn(2, 4, device=device)).add_(1).relu()
    return [out.clone()]


@program
def factories(device: str) -> Sequence[torch.Tensor]:
    return [
        torch.arange(5, device=device) * 2,
        torch.linspace(0, 1, 5, device=device),
        torch.full((2,), 3.0, device=device),
        torch.tensor([[1, 2], [3, 4]], device=device).tril(),
        torch.randperm(5, device=device),
        torch.zeros(3, dtype=torch.bool, device=device).logical_not(),
    ]


@program
def modules_made_inside(device: str) -> Sequence[torch.Tensor]:
    module = nn.LSTM(3, 2).to(device)
    module.register_parameter("extra", nn.Parameter(torch.ones(2, device=device)))
    module.register_buffer("seen", torch.zeros(1, device=device))
    return [each.detach() for each in module.state_dict().values()]


@program
def nested(device: str) -> Sequence[torch.Tensor]:
    x, y = torch.randn(2, 4, device=device), torch.randn(3, 4, device=device)
    both = torch.nested.nested_tensor([x, y])
    return list((both * 2).unbind())


@program
def hooks(device: str) -> Sequence[torch.Tensor]:
    module = nn.Linear(4, 4).to(device)
    module.register_forward_hook(lambda _module, _inputs, output: output * 2)
    module.weight.register_hook(lambda grad: grad + 1)
    return trained(module, module(torch.randn(2, 4, device=device)))


@program
def offloaded_saved_tensors(device: str) -> Sequence[torch.Tensor]:
    x = leaf(4, device=device)
    with torch.autograd.graph.save_on_cpu():
        y = x.exp() * x * 1.25
    return with_grads(y, x)


@program
def functional_call(device: str) -> Sequence[torch.Tensor]:
    module = nn.Linear(4, 2).to(device)
    doubled = {name: value * 2 for name, value in module.named_parameters()}
    out = torch.func.functional_call(module, doubled, torch.randn(3, 4, device=device))
    return trained(module, out)


@program
def weight_norm(device: str) -> Sequence[torch.Tensor]:
    module = nn.utils.parametrizations.weight_norm(nn.Linear(4, 2)).to(device)
    return trained(module, module(torch.randn(3, 4, device=device)))


@program
def bilinear_cdist(device: str) -> Sequence[torch.Tensor]:
    x, y = leaf(3, 4, device=device), leaf(2, 4, device=device)
    return with_grads(torch.cdist(x, y) + x @ y.mT + F.pad(x, (1, 1))[:, :2], x, y)


@program
def statistics(device: str) -> Sequence[torch.Tensor]:
    x = leaf(4, 6, device=device)
    total = x.var(1) + x.std(1) + x.logsumexp(1) + x.norm(dim=1) + x.median(1)[0]
    return with_grads(total, x)
