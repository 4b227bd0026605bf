# SPDX-License-Identifier: BSD-3-Clause
"""Indexing whose results, or whose sizes, depend on values."""

import pytest
import torch

from npu_dispatch_inspect import capture_logs

pytestmark = [pytest.mark.npu, pytest.mark.filterwarnings("ignore")]


def numbers(device):
    return torch.tensor([[3.0, -1.0, 0.0, 2.0], [0.0, 4.0, -2.0, 3.0]], device=device)


def whole(device):
    return torch.tensor([3, 1, 4, 1, 5, 9, 2, 6, 5, 3], device=device)


def put(x, index, values, **options):
    return x.clone().index_put_(index, values, **options)


def set_where(x, value):
    x = x.clone()
    x[x > 0] = value
    x[:, 1] += 1
    return x


ZOO = {
    "mask": lambda x, n: x[x > 0],
    "mask of rows": lambda x, n: x[torch.tensor([False, True]).to(x.device)],
    "mask of columns": lambda x, n: x[:, x[0] > 0],
    "mask and numbers": lambda x, n: x[x[:, 0] > 0, [1]],
    "mask of nothing": lambda x, n: x[x > 99],
    "set by mask": lambda x, n: set_where(x, 7.0),
    "masked_select": lambda x, n: x.masked_select(x > 0),
    "masked_select broadcast": lambda x, n: x.masked_select(x[0] > 0),
    "masked_fill": lambda x, n: x.masked_fill(x < 0, 9.0),
    "masked_scatter": lambda x, n: x.masked_scatter(x > 0, n.float()),
    "nonzero": lambda x, n: x.nonzero(),
    "nonzero as tuple": lambda x, n: x.nonzero(as_tuple=True),
    "argwhere": lambda x, n: torch.argwhere(x > 2),
    "where": lambda x, n: torch.where(x > 0),
    "where of three": lambda x, n: torch.where(x > 0, x, -1.0),
    "count_nonzero": lambda x, n: torch.count_nonzero(x, 0),
    "unique": lambda x, n: torch.unique(n, return_inverse=True, return_counts=True),
    "unique of rows": lambda x, n: torch.unique(x[:, [0, 0]], dim=1),
    "unique_consecutive": lambda x, n: torch.unique_consecutive(n.sort()[0]),
    "bincount": lambda x, n: torch.bincount(n),
    "bincount with weights": lambda x, n: torch.bincount(n, n.float(), 12),
    "histc": lambda x, n: torch.histc(x, 4),
    "repeat_interleave": lambda x, n: torch.repeat_interleave(n, n),
    "repeat_interleave of rows": lambda x, n: x.repeat_interleave(n[:2], 0),
    "topk": lambda x, n: x.topk(2),
    "sort": lambda x, n: x.sort(descending=True, stable=True),
    "argsort": lambda x, n: n.argsort(stable=True),
    "kthvalue": lambda x, n: x.kthvalue(2),
    "max": lambda x, n: x.max(1),
    "argmin": lambda x, n: x.argmin(),
    "median": lambda x, n: x.median(1),
    "searchsorted": lambda x, n: torch.searchsorted(n.sort()[0], n),
    "bucketize": lambda x, n: torch.bucketize(x, n.sort()[0].float()),
    "gather": lambda x, n: x.gather(1, n[1:3].reshape(2, 1) % 4),
    "scatter": lambda x, n: x.scatter(1, n[1:3].reshape(2, 1) % 4, 5.0),
    "scatter_add": lambda x, n: x.scatter_add(1, n[:8].reshape(2, 4) % 4, x),
    "scatter_reduce": lambda x, n: x.scatter_reduce(1, n[:8].reshape(2, 4) % 4, x, "amax"),
    "index_put": lambda x, n: put(x, (n[1:2] % 2, n[:1] % 4), x[0, :1]),
    "index_put that adds": lambda x, n: put(x, (n % 2, n % 4), x[0, 0], accumulate=True),
    "index_add": lambda x, n: x.index_add(0, n[:2] % 2, x),
    "index_select": lambda x, n: x.index_select(1, n % 4),
    "index_copy": lambda x, n: x.index_copy(0, n[1:2] % 2, x[:1]),
    "index_fill": lambda x, n: x.index_fill(1, n[:2] % 4, 0.5),
    "take": lambda x, n: x.take(n % 8),
    "put": lambda x, n: x.clone().put_(n[:3], x[0, :3]),
    "take_along_dim": lambda x, n: x.take_along_dim(x.argsort(1), 1),
    "isin": lambda x, n: torch.isin(n, n[:2]),
    "one_hot": lambda x, n: torch.nn.functional.one_hot(n),
    "tril_indices": lambda x, n: x[0].diag()[tuple(torch.tril_indices(4, 4, device=x.device))],
    "combinations": lambda x, n: torch.combinations(n[:4]),
    "cartesian_prod": lambda x, n: torch.cartesian_prod(n[:2], n[2:4]),
    "split by number": lambda x, n: x.split(n[1:2].tolist() * 4, 1),
    "while": lambda x, n: halved(x),
}  # fmt: skip


def halved(x):
    steps = 0
    while x.abs().max() > 0.5:
        x = x / 2
        steps += 1
    return x, torch.tensor(steps)


def on_cpu(result):
    results = result if isinstance(result, (tuple, list)) else [result]
    return [each.cpu() for each in results]


@pytest.mark.parametrize("name", ZOO)
def test_indexing_gives_what_the_cpu_gives(computed, name):
    """Values, sizes and types are the CPU's."""
    expected = on_cpu(ZOO[name](numbers("cpu"), whole("cpu")))
    actual = on_cpu(ZOO[name](numbers("npu:0"), whole("npu:0")))

    assert [each.shape for each in expected] == [each.shape for each in actual]
    for want, got in zip(expected, actual, strict=True):
        torch.testing.assert_close(got, want, check_dtype=name != "count_nonzero")


def test_sizes_inside_a_kernel_follow_values(computed):
    """The launch that follows the search for a mask's elements has their number."""
    x = numbers("npu:0")
    mask = x > 0
    with capture_logs() as logs:
        x[mask]
    (launch,) = (each for each in logs.launches if each.name == "aclnnIndex")
    shapes = [
        each.shape
        for argument in launch.arguments
        for each in (
            argument.value if isinstance(argument.value, tuple) else [argument.value]
        )
    ]
    assert [(2, 4), (4,), (4,)] == shapes
