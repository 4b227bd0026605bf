# SPDX-License-Identifier: BSD-3-Clause
"""Thirty small training programs, the same on every device.

Each is called with a device and returns the parameters and a function that makes one
step and returns its loss. What is random is drawn on the CPU. Which operators run
depends on no value: the backward of ``max()``, for one, asks whether there is a NaN.
"""

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

PROGRAMS = {}

SGD = torch.optim.SGD


def program(function):
    PROGRAMS[function.__name__] = function
    return function


def draw(device, *shape):
    return torch.randn(*shape).to(device)


def classes(device, count, highest):
    return torch.randint(highest, (count,)).to(device)


def trained(device, model, loss_of, make=lambda p: SGD(p, 0.1)):
    """A model whose loss is ``loss_of(model)``, with an optimizer."""
    torch.manual_seed(1)
    model = model().to(device)
    optimizer = make(model.parameters())

    def step():
        optimizer.zero_grad()
        loss = loss_of(model)
        loss.backward()
        optimizer.step()
        return loss

    return list(model.parameters()), step


def regression(
    device,
    make,
    model=lambda: nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 2)),
):
    x, y = draw(device, 5, 6), draw(device, 5, 2)
    return trained(device, model, lambda m: F.mse_loss(m(x), y), make)


def classified(device, model, x, highest=4, loss=F.cross_entropy):
    target = classes(device, x.shape[0], highest)
    return trained(device, model, lambda m: loss(m(x), target))


@program
def mlp(device):
    x = draw(device, 8, 6)
    layers = [nn.Linear(6, 16), nn.GELU(), nn.LayerNorm(16), nn.Linear(16, 4)]
    return classified(device, lambda: nn.Sequential(*layers), x)


@program
def conv_net(device):
    x = draw(device, 3, 2, 8, 8)

    def model():
        return nn.Sequential(
            nn.Conv2d(2, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(),
            nn.MaxPool2d(2), nn.Conv2d(4, 4, 3, groups=2), nn.AdaptiveAvgPool2d(1),
            nn.Flatten(), nn.Linear(4, 4),
        )  # fmt: skip

    return classified(device, model, x)


@program
def encoder(device):
    x = draw(device, 2, 5, 8)
    layer = lambda: nn.TransformerEncoderLayer(8, 2, 16, 0.0, batch_first=True)  # noqa: E731
    return trained(device, layer, lambda m: m(x).square().mean())


@program
def encoder_norm_first(device):
    x = draw(device, 5, 2, 8)
    layer = lambda: nn.TransformerEncoderLayer(8, 4, 16, 0.0, "gelu", norm_first=True)  # noqa: E731
    return trained(device, layer, lambda m: m(x).square().mean())


@program
def decoder(device):
    x, memory = draw(device, 2, 5, 8), draw(device, 2, 4, 8)
    layer = lambda: nn.TransformerDecoderLayer(8, 2, 16, 0.0, batch_first=True)  # noqa: E731
    mask = nn.Transformer.generate_square_subsequent_mask(5).to(device)
    return trained(device, layer, lambda m: m(x, memory, tgt_mask=mask).square().mean())


@program
def gru(device):
    x = draw(device, 4, 2, 6)
    return trained(device, lambda: nn.GRU(6, 5, 2), lambda m: m(x)[0].square().sum())


@program
def lstm(device):
    x = draw(device, 4, 2, 6)
    return trained(device, lambda: nn.LSTM(6, 5), lambda m: m(x)[0].square().sum())


@program
def lstm_both_ways(device):
    x = draw(device, 2, 4, 6)
    model = lambda: nn.LSTM(6, 5, 2, bidirectional=True, batch_first=True)  # noqa: E731
    return trained(device, model, lambda m: m(x)[0].square().sum())


@program
def cells(device):
    x = draw(device, 2, 6)
    model = lambda: nn.ModuleList([nn.GRUCell(6, 5), nn.RNNCell(6, 5)])  # noqa: E731
    return trained(device, model, lambda m: (m[0](x) * m[1](x)).sum())


@program
def attention(device):
    q, k, v = (draw(device, 2, 2, 6, 8) for _ in range(3))

    class Attention(nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = nn.Parameter(torch.ones(8))

        def forward(self):
            return F.scaled_dot_product_attention(q * self.scale, k, v, is_causal=True)

    return trained(device, Attention, lambda m: m().square().sum())


@program
def multihead_attention(device):
    x = draw(device, 4, 2, 8)
    padding = torch.tensor([[False] * 3 + [True], [False] * 4]).to(device)
    model = lambda: nn.MultiheadAttention(8, 2)  # noqa: E731
    return trained(
        device, model, lambda m: m(x, x, x, key_padding_mask=padding)[0].square().sum()
    )


@program
def adam(device):
    return regression(device, lambda p: torch.optim.Adam(p, 0.01, weight_decay=0.1))


@program
def adamw_fused(device):
    return regression(device, lambda p: torch.optim.AdamW(p, 0.01, fused=True))


@program
def adamw_loop(device):
    return regression(device, lambda p: torch.optim.AdamW(p, 0.01, foreach=False))


@program
def sgd_momentum(device):
    return regression(
        device, lambda p: SGD(p, 0.05, momentum=0.9, nesterov=True, foreach=True)
    )


@program
def rmsprop(device):
    return regression(device, lambda p: torch.optim.RMSprop(p, 0.01, centered=True))


@program
def adagrad(device):
    return regression(device, lambda p: torch.optim.Adagrad(p, 0.05))


@program
def nadam(device):
    return regression(device, lambda p: torch.optim.NAdam(p, 0.01))


@program
def autocast_bf16(device):
    x, y = draw(device, 8, 16), draw(device, 8, 4)
    kind = torch.device(device).type

    def loss_of(model):
        with torch.autocast(kind, torch.bfloat16):
            return F.mse_loss(model(x).float(), y)

    model = lambda: nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 4))  # noqa: E731
    return trained(device, model, loss_of)


@program
def half_weights(device):
    x, y = draw(device, 8, 16).bfloat16(), draw(device, 8, 4).bfloat16()
    model = lambda: nn.Linear(16, 4).bfloat16()  # noqa: E731
    return trained(device, model, lambda m: F.mse_loss(m(x), y))


@program
def clipped(device):
    parameters, step = regression(device, lambda p: SGD(p, 0.0))

    def clipped_step():
        loss = step()
        nn.utils.clip_grad_norm_(parameters, 0.5)
        with torch.no_grad():
            torch._foreach_add_(parameters, [p.grad for p in parameters], alpha=-0.1)
        return loss

    return parameters, clipped_step


@program
def embedding(device):
    tokens = torch.randint(11, (3, 5)).to(device)
    model = lambda: nn.Sequential(nn.Embedding(11, 6, padding_idx=0), nn.Linear(6, 3))  # noqa: E731
    return trained(device, model, lambda m: m(tokens).square().mean())


@program
def embedding_bag(device):
    tokens = torch.randint(11, (9,)).to(device)
    offsets = torch.tensor([0, 2, 5]).to(device)
    model = lambda: nn.EmbeddingBag(11, 6, mode="mean")  # noqa: E731
    return trained(device, model, lambda m: m(tokens, offsets).square().sum())


@program
def losses(device):
    x, y = draw(device, 6, 4), draw(device, 6, 4)
    target = classes(device, 6, 4)

    def loss_of(model):
        out = model(x)
        return (
            F.l1_loss(out, y) + F.smooth_l1_loss(out, y) + F.huber_loss(out, y)
            + F.nll_loss(out.log_softmax(1), target)
            + F.kl_div(out.log_softmax(1), y.softmax(1), reduction="batchmean")
            + F.binary_cross_entropy_with_logits(out, y.sigmoid())
            + F.binary_cross_entropy(out.sigmoid(), y.sigmoid())
            + F.cross_entropy(out, target, label_smoothing=0.1)
            + F.cosine_embedding_loss(out, y, torch.ones(6, device=out.device))
            + F.multi_margin_loss(out, target) + F.soft_margin_loss(out, y.sign())
        )  # fmt: skip

    return trained(device, lambda: nn.Linear(4, 4), loss_of)


@program
def activations(device):
    x = draw(device, 6, 8)
    names = ("relu", "silu", "gelu", "elu", "selu", "mish", "softplus", "hardswish",
             "leaky_relu", "logsigmoid", "tanhshrink", "softsign")  # fmt: skip

    def loss_of(model):
        out = model(x)
        return sum(getattr(F, name)(out).square().mean() for name in names)

    model = lambda: nn.Sequential(nn.Linear(8, 8), nn.PReLU(8), nn.GLU())  # noqa: E731
    return trained(device, model, loss_of)


@program
def norms(device):
    x = draw(device, 3, 4, 6, 6)

    def model():
        return nn.Sequential(
            nn.GroupNorm(2, 4), nn.InstanceNorm2d(4, affine=True), nn.BatchNorm2d(4),
            nn.LayerNorm([4, 6, 6]), nn.RMSNorm(6), nn.LocalResponseNorm(2),
        )  # fmt: skip

    return trained(device, model, lambda m: (m(x) * x).square().mean())


@program
def pooling(device):
    x = draw(device, 2, 3, 9, 9)

    def loss_of(model):
        out = model(x)
        return (
            F.max_pool2d(out, 3, 2, 1).sum() + F.avg_pool2d(out, 2).square().sum()
            + F.adaptive_avg_pool2d(out, 3).square().sum()
            + F.adaptive_max_pool2d(out, 2).sum() + F.lp_pool2d(out, 2, 3).sum()
            + F.interpolate(out, scale_factor=2, mode="bilinear").square().mean()
            + F.pad(out, (1, 2, 0, 1), mode="reflect").square().mean()
        )  # fmt: skip

    return trained(device, lambda: nn.Conv2d(3, 3, 1), loss_of, lambda p: SGD(p, 0.001))


@program
def convolutions(device):
    x = draw(device, 2, 3, 8)

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.one = nn.Conv1d(3, 4, 3, stride=2, padding=1)
            self.two = nn.ConvTranspose1d(4, 3, 4, stride=2, padding=1)
            self.three = nn.Conv3d(1, 2, 2)

        def forward(self, x):
            y = self.two(self.one(x).relu())
            return self.three((x + y).reshape(2, 1, 3, 2, 4))

    return trained(device, Net, lambda m: m(x).square().sum(), lambda p: SGD(p, 0.01))


@program
def indexing(device):
    table = torch.arange(12).reshape(3, 4).to(device)
    rows = torch.tensor([0, 2]).to(device)

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.randn(3, 4))

        def forward(self):
            w = self.weight
            parts = [
                w[rows], w[:, 1:3], w[table % 2 == 0], w.gather(1, table % 4),
                w.index_select(1, rows), w.flip(0), w.roll(1, 1), w.tril(),
                w.sort(1, descending=True)[0], w.topk(2)[0], w.cumsum(0),
                w.repeat_interleave(2, 0), torch.where(w > 0, w, 0.1 * w),
                w.masked_fill(w < 0, 0.5), w.scatter(1, table % 4, 2.0),
                w.clone().index_add(0, rows, w[:2]), torch.einsum("ij,kj->ik", w, w),
            ]  # fmt: skip
            return sum(part.square().sum() for part in parts)

    return trained(device, Net, lambda m: m(), lambda p: SGD(p, 0.01))


@program
def accumulated(device):
    x = draw(device, 2, 4, 6)
    parameters, _ = regression(device, lambda p: SGD(p, 0.1), lambda: nn.Linear(6, 3))
    weight, bias = parameters

    def step():
        for each in parameters:
            each.grad = None
        for part in x:
            loss = (part @ weight.T + bias).relu().pow(2).sum()
            loss = loss + 0.1 * (weight.norm() + bias.abs().mean() + weight.std())
            loss.backward()
        with torch.no_grad():
            for each in parameters:
                each.sub_(0.01 * each.grad)
        return loss

    return parameters, step


def run(name, device, steps=5):
    """Losses of a few steps, and the last step's gradients, on the CPU."""
    torch.manual_seed(0)
    parameters, step = PROGRAMS[name](device)
    losses = [step().item() for _ in range(steps)]
    return losses, [p.grad.float().cpu() for p in parameters]
