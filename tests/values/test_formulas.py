# SPDX-License-Identifier: BSD-3-Clause
"""Reference formulas, each against another way to write it, in float64.

The operators are called through torch_npu, so that forms and types are those of the
real kernels. Gradients are compared with autograd of the other formula.
"""

import math

import pytest
import torch
import torch_npu

from npu_dispatch_inspect.values.formulas import find_formula, known_operators

pytestmark = [pytest.mark.npu, pytest.mark.filterwarnings("ignore")]

NAMED = (
    "npu_fusion_attention", "npu_fusion_attention_grad", "npu_rms_norm",
    "npu_rms_norm_backward", "npu_swiglu", "npu_swiglu_backward", "npu_rotary_mul",
    "npu_format_cast", "npu_dtype_cast", "npu_scaled_masked_softmax", "npu_gelu",
    "npu_fast_gelu", "npu_silu", "npu_add_rms_norm", "npu_moe_gating_top_k_softmax",
    "npu_dynamic_quant",
)  # fmt: skip


def draw(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def check(operator, other, *tensors, tolerance=1e-5, gradients=True):
    """Compare an operator on the NPU with a formula in float64, and the gradients."""
    on_npu = [each.npu().requires_grad_(gradients) for each in tensors]
    double = [each.double().requires_grad_(gradients) for each in tensors]
    actual, expected = operator(*on_npu), other(*double)
    close(actual, expected, tolerance)
    if gradients:
        weight = draw(*expected.shape, seed=9)
        actual.backward(weight.to(actual.dtype).npu())
        expected.backward(weight.double())
        for got, want in zip(on_npu, double, strict=True):
            close(got.grad, want.grad, 4 * tolerance)


def close(actual, expected, tolerance=1e-5):
    torch.testing.assert_close(
        actual.detach().cpu().double(), expected.detach().cpu().double(),
        rtol=tolerance, atol=tolerance,
    )  # fmt: skip


def normal_cdf(x):
    return 0.5 * (1 + torch.erf(x / math.sqrt(2)))


def logistic(x):
    return 1 / (1 + torch.exp(-x))


def test_the_common_operators_have_formulas():
    """Each operator that the documentation names can be looked up."""
    missing = [name for name in NAMED if f"npu::{name}" not in known_operators()]
    assert missing == []
    assert find_formula("npu::npu_nothing_of_the_kind") is None


def test_activations(computed):
    """GELU, fast GELU, SiLU, Mish and SwiGLU, with their gradients."""
    x = draw(4, 6)
    check(torch_npu.npu_gelu, lambda x: x * normal_cdf(x), x)
    check(torch_npu.fast_gelu, lambda x: x * logistic(1.702 * x), x)
    check(torch_npu.npu_fast_gelu, lambda x: x * logistic(1.702 * x), x)
    check(torch_npu.npu_silu, lambda x: x * logistic(x), x)
    check(torch_npu.npu_mish, lambda x: x * torch.tanh(torch.log1p(torch.exp(x))), x)
    check(torch_npu.npu_swiglu, lambda x: x[:, :3] * logistic(x[:, :3]) * x[:, 3:], x)


def test_gelu_by_tanh(computed):
    """The approximation is the one with the cube."""
    scale = math.sqrt(2 / math.pi)
    check(
        lambda x: torch_npu.npu_gelu(x, approximate="tanh"),
        lambda x: 0.5 * x * (1 + torch.tanh(scale * (x + 0.044715 * x**3))),
        draw(4, 6),
    )


def rms_norm(x, gamma, epsilon=1e-6):
    return x * gamma / torch.sqrt((x * x).sum(-1, keepdim=True) / x.shape[-1] + epsilon)


def test_rms_norms(computed):
    """The norm and its gradients, the one of a sum, and the one with 1 + gamma."""
    x, gamma = draw(2, 3, 8), draw(8, seed=1)
    check(lambda x, g: torch_npu.npu_rms_norm(x, g, 1e-6)[0], rms_norm, x, gamma)
    y, rstd = torch_npu.npu_rms_norm(x.npu(), gamma.npu(), 1e-6)
    close(rstd, 1 / torch.sqrt(x.double().square().mean(-1, keepdim=True) + 1e-6))

    added, _, total = torch_npu.npu_add_rms_norm(x.npu(), y, gamma.npu(), 1e-6)
    close(total, x.double() + y.cpu().double())
    close(added, rms_norm(x.double() + y.cpu().double(), gamma.double()))

    gemma, _ = torch_npu.npu_gemma_rms_norm(x.npu(), gamma.npu(), 1e-6)
    close(gemma, rms_norm(x.double(), 1 + gamma.double()))


def test_rms_norm_over_two_dimensions_in_half_precision(computed):
    """Sums run over as many dimensions as gamma has, and are kept in float32."""
    x, gamma = draw(2, 3, 8).half(), draw(3, 8, seed=1).half()
    y, rstd = torch_npu.npu_rms_norm(x.npu(), gamma.npu(), 1e-6)
    double = x.double()
    expected = 1 / torch.sqrt(double.square().mean((1, 2), keepdim=True) + 1e-6)
    assert torch.float16 == y.dtype
    assert torch.float32 == rstd.dtype
    close(rstd, expected)
    close(y, double * expected * gamma.double(), 2e-3)


@pytest.mark.parametrize("mode", ["half", "interleave"])
def test_rotary_mul(computed, mode):
    """A rotation of pairs by angles: the first with the middle one, or with the next."""
    x, angle = draw(2, 3, 1, 8), draw(1, 3, 1, 4, seed=1)

    def rotated(x):
        split = (
            (x[..., :4], x[..., 4:]) if mode == "half" else (x[..., ::2], x[..., 1::2])
        )
        turned = torch.complex(*split) * torch.polar(
            torch.ones_like(angle).double(), angle.double()
        )
        parts = (turned.real, turned.imag)
        return (
            torch.cat(parts, -1)
            if mode == "half"
            else torch.stack(parts, -1).flatten(-2)
        )

    double = [angle, angle] if mode == "half" else [angle]
    wide = torch.cat(double, -1) if mode == "half" else angle.repeat_interleave(2, -1)
    check(
        lambda x: torch_npu.npu_rotary_mul(x, wide.cos().npu(), wide.sin().npu(), mode),
        rotated,
        x,
    )


def test_scaled_masked_softmax(computed):
    """A masked score is -10000, so a row in which all is masked is even."""
    x, mask = draw(1, 1, 32, 32), draw(1, 1, 32, 32, seed=1) > 0
    mask[..., 0, :] = True

    def softmax(x):
        weights = torch.exp(torch.where(mask, -10000.0, x * 0.5).clamp(min=-700))
        even = torch.full_like(x, 1 / 32)
        return torch.where(mask.all(-1, True), even, weights / weights.sum(-1, True))

    check(lambda x: torch_npu.npu_scaled_masked_softmax(x, mask.npu(), 0.5), softmax, x)


def attention(q, k, v, hidden=None, scale=0.5, position=0.0):
    """Row by row, head by head."""
    rows = []
    for batch in range(q.shape[0]):
        for head in range(q.shape[1]):
            own = head * k.shape[1] // q.shape[1]
            for row in range(q.shape[2]):
                scores = (k[batch, own] * q[batch, head, row]).sum(-1)
                scores = (scores + position) * scale
                if hidden is not None:
                    scores = scores.masked_fill(hidden[row], -1e30)
                weights = torch.exp(scores - scores.max())
                rows.append((weights / weights.sum()) @ v[batch, own])
    return torch.stack(rows).reshape(q.shape)


def band(rows, columns, before, after):
    row, column = torch.arange(rows).unsqueeze(1), torch.arange(columns)
    row = row + columns - rows
    return (column - row > after) | (row - column > before)


@pytest.mark.parametrize(
    ("options", "hidden"),
    [
        ({}, None),
        ({"atten_mask": "given"}, "given"),
        ({"atten_mask": "all", "sparse_mode": 2}, torch.ones(5, 7).triu(1).bool()),
        ({"atten_mask": "all", "sparse_mode": 3}, band(5, 7, 99, 0)),
        (
            {
                "atten_mask": "all",
                "sparse_mode": 4,
                "pre_tockens": 2,
                "next_tockens": 1,
            },
            band(5, 7, 2, 1),
        ),
    ],
    ids=["nothing hidden", "mask", "left corner", "right corner", "band"],
)
def test_fusion_attention(computed, options, hidden):
    """Attention and its gradients, with key heads shared by query heads, and masks."""
    q, k, v = draw(2, 4, 5, 8), draw(2, 2, 7, 8, seed=1), draw(2, 2, 7, 8, seed=2)
    given = draw(5, 7, seed=3) > 0
    hidden = given if hidden == "given" else hidden if hidden is not None else None
    masks = {"given": given, "all": torch.ones(2048, 2048).triu(1).bool()}
    options = {
        name: masks[value].npu() if name == "atten_mask" else value
        for name, value in options.items()
    }
    check(
        lambda *each: torch_npu.npu_fusion_attention(
            *each, 4, "BNSD", scale=0.5, **options
        )[0],
        lambda *each: attention(*each, hidden),
        q, k, v,
    )  # fmt: skip


@pytest.mark.parametrize("layout", ["BSH", "SBH", "BSND"])
def test_fusion_attention_in_other_layouts(computed, layout):
    """The dimensions' order changes nothing but itself."""
    q, k, v = (draw(2, 2, 5, 8, seed=seed) for seed in range(3))
    orders = {"BSH": (0, 2, 1, 3), "SBH": (2, 0, 1, 3), "BSND": (0, 2, 1, 3)}

    def laid_out(x):
        x = x.permute(orders[layout])
        return x.contiguous() if layout == "BSND" else x.flatten(2)

    check(
        lambda *each: torch_npu.npu_fusion_attention(*each, 2, layout, scale=0.5)[0],
        lambda *each: laid_out(attention(*(back(x, layout) for x in each))),
        *(laid_out(each) for each in (q, k, v)),
    )


def back(x, layout):
    x = x if layout == "BSND" else x.unflatten(2, (2, 8))
    return x.permute(1, 2, 0, 3) if layout == "SBH" else x.permute(0, 2, 1, 3)


def test_fusion_attention_of_packed_sequences(computed):
    """Each sequence attends to itself alone."""
    q, k, v = (draw(7, 2, 8, seed=seed) for seed in range(3))

    def apart(*tensors):
        heads = [[x[part].transpose(0, 1)[None] for x in tensors] for part in parts]
        return torch.cat([attention(*each)[0].transpose(0, 1) for each in heads])

    parts = (slice(0, 3), slice(3, 7))
    lengths = {"actual_seq_qlen": [3, 7], "actual_seq_kvlen": [3, 7]}
    check(
        lambda *each: torch_npu.npu_fusion_attention(
            *each, 2, "TND", scale=0.5, **lengths
        )[0],
        apart, q, k, v,
    )  # fmt: skip


def test_rows_of_fusion_attention(computed):
    """Beside the attention: each row's maximum and sum, eight times over."""
    q = draw(1, 2, 5, 8)
    _, largest, total, *_ = torch_npu.npu_fusion_attention(
        q.npu(), q.npu(), q.npu(), 2, "BNSD", scale=0.5
    )
    scores = q.double() @ q.double().mT * 0.5
    close(largest, scores.amax(-1, True).expand(1, 2, 5, 8))
    close(
        total,
        torch.exp(scores - scores.amax(-1, True)).sum(-1, True).expand(1, 2, 5, 8),
    )


def test_the_gradient_of_fusion_attention_drops_what_the_forward_dropped(computed):
    """With dropout the attention is linear in the values, and its gradient fits."""
    q, k, v = (draw(1, 2, 16, 8, seed=seed).npu() for seed in range(3))
    v.requires_grad_()
    torch.manual_seed(5)
    out = torch_npu.npu_fusion_attention(q, k, v, 2, "BNSD", keep_prob=0.5)[0]
    weight = draw(*out.shape, seed=4).npu()
    out.backward(weight)
    close((out * weight).sum(), (v.grad * v).sum(), 1e-4)
    whole = torch_npu.npu_fusion_attention(q, k, v, 2, "BNSD")[0]
    assert not torch.allclose(out.cpu(), whole.cpu())


def test_casts(computed):
    """Another type has the elements, another format as well."""
    x = draw(3, 4)
    half = torch_npu.npu_dtype_cast(x.npu(), torch.float16)
    assert torch.float16 == half.dtype
    close(half, x.half())
    close(torch_npu.npu_format_cast(x.npu(), 2), x)
    check(
        lambda x: torch_npu.npu_dtype_cast(x, torch.float64).float(), lambda x: 1 * x, x
    )


def test_expert_gating(computed):
    """The likeliest experts of each token; a finished one has the number after the last."""
    x = draw(3, 5)
    finished = torch.tensor([False, True, False])
    y, experts, rows = torch_npu.npu_moe_gating_top_k_softmax(
        x.npu(), finished.npu(), 2
    )
    weights = torch.exp(x.double())
    weights = weights / weights.sum(1, True)
    order = sorted(range(5), key=lambda e: -weights[0, e])[:2]

    assert [order, [5, 5]] == experts.cpu().tolist()[:2]
    assert [[0, 3], [1, 4], [2, 5]] == rows.cpu().tolist()
    close(y[0], weights[0, order])


def test_dynamic_quantization(computed):
    """Whole numbers up to 127 times a scale for each token are the numbers again."""
    x = draw(4, 32).half()
    y, scale = torch_npu.npu_dynamic_quant(x.npu())
    largest = x.double().abs().amax(1)

    assert torch.int8 == y.dtype
    assert 127 == y.cpu().abs().max().item()
    close(scale, largest / 127)
    again = y.cpu().double() * scale.cpu().double().unsqueeze(1)
    assert (
        (again - x.double()).abs() <= 0.51 * scale.cpu().double().unsqueeze(1)
    ).all()


@pytest.mark.parametrize("kind", ["LSTM", "GRU"])
def test_recurrent_cells_step_by_step(computed, kind):
    """A layer is its cell applied to one step after another, gradients included."""
    torch.manual_seed(0)
    layer = getattr(torch.nn, kind)(3, 4)
    cell = getattr(torch.nn, f"{kind}Cell")(3, 4)
    for name, each in cell.named_parameters():
        each.data.copy_(getattr(layer, f"{name}_l0").data)
    layer, cell = layer.npu(), cell.npu()
    x = draw(5, 2, 3).npu()
    state, steps = None, []
    for step in x:
        state = cell(step, state)
        steps.append(state[0] if kind == "LSTM" else state)
    stepped = torch.stack(steps)
    whole, _ = layer(x)
    close(whole, stepped)
    whole.square().sum().backward()
    stepped.square().sum().backward()
    for name, each in cell.named_parameters():
        close(getattr(layer, f"{name}_l0").grad, each.grad)
