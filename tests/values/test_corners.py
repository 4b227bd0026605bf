# SPDX-License-Identifier: BSD-3-Clause
"""Values where torch_npu does things in a way of its own."""

import pytest
import torch

pytestmark = [pytest.mark.npu, pytest.mark.filterwarnings("ignore")]

NPU = "npu:0"


@pytest.fixture
def internal_formats():
    """Let tensors have formats of the device's own."""
    import torch_npu  # noqa: F401

    torch.npu.config.allow_internal_format = True
    yield
    torch.npu.config.allow_internal_format = False


def test_elements_survive_casts_of_format(computed, internal_formats):
    """There and back, in place, and in between the tensor is as good as a plain one."""
    import torch_npu

    x = torch.arange(33 * 20.0).reshape(33, 20)
    blocks = torch_npu.npu_format_cast(x.to(NPU), 29)
    assert torch_npu.get_npu_format(blocks) == 29
    assert torch.equal(x, blocks.cpu())
    assert torch.equal(x + 1, (blocks + 1).cpu())
    assert torch.equal(x[2:5].t(), blocks[2:5].t().contiguous().cpu())
    assert torch.equal(x, torch_npu.npu_format_cast(blocks, 2).cpu())

    layer = torch.nn.Linear(20, 4)
    expected = layer(x)
    layer.to(NPU)
    layer.weight.data = torch_npu.npu_format_cast(layer.weight.data, 29)
    assert torch_npu.get_npu_format(layer.weight) == 29
    torch.testing.assert_close(layer(x.to(NPU)).cpu(), expected)


@pytest.mark.parametrize(
    ("call", "function"),
    [
        (lambda n, x, o: n.npu_slice(x, [1, 0], [2, 3], out=o), lambda x: x[1:3, :3]),
        (lambda n, x, o: n.npu_transpose(x, [1, 0], out=o), lambda x: x.t()),
        (lambda n, x, o: n.npu_reshape(x, [2, 8], out=o), lambda x: x.reshape(2, 8)),
        (
            lambda n, x, o: n.npu_broadcast(x, [2, 4, 4], out=o),
            lambda x: x.expand(2, 4, 4),
        ),
    ],
    ids=["slice", "transpose", "reshape", "broadcast"],
)
def test_formulas_write_into_out(computed, call, function):
    """The overload with ``out`` is computed by the same formula."""
    x = torch.randn(4, 4)
    out = torch.empty(function(x).shape, device=NPU)
    call(torch.ops.npu, x.to(NPU), out)
    assert torch.equal(function(x), out.cpu())


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.uint8])
def test_bincount_counts_whatever_memory_held_before(computed, dtype):
    """Its kernel reads the least and the greatest index without the dispatcher."""
    for left in (-1, 1 << 40, 3):
        rubbish = [torch.full((n,), left, device=NPU) for n in (1, 4, 64, 128)]
        del rubbish
        given = torch.tensor([4, 0, 2, 2], dtype=dtype)
        assert [1, 0, 2, 0, 1] == torch.bincount(given.to(NPU)).tolist()
        assert [0, 2] == torch.bincount(given.to(NPU)[2:] - 1).tolist()


def test_a_sparse_tensor_has_its_values(computed):
    """It is made of tensors that are computed one by one."""
    x = torch.tensor([[0.0, 2.0, 0.0], [3.0, 0.0, 4.0]])
    made, expected = x.to(NPU).to_sparse(), x.to_sparse()
    assert torch.equal(expected.indices(), made.indices().cpu())
    assert torch.equal(expected.values(), made.values().cpu())


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_dynamo_leaves_the_mechanism_alone(computed, backend):
    """Behind a graph break, where Dynamo looks at every frame, values are computed."""
    torch._dynamo.reset()
    x = torch.tensor([1.0, 2.0])

    def broken(x):
        return torch.nn.functional.logsigmoid(x.exp()) + x.sum().item()

    frames = torch._dynamo.utils.counters["frames"]
    frames.clear()
    expected = torch.compile(broken, backend=backend)(x)
    wanted = dict(frames)
    torch._dynamo.reset()
    frames.clear()
    actual = torch.compile(broken, backend=backend)(x.to(NPU))
    torch.testing.assert_close(actual.cpu(), expected)
    assert wanted == dict(frames)
    torch._dynamo.reset()
