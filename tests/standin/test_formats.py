# SPDX-License-Identifier: BSD-3-Clause
"""Casts between NPU formats: which there are, how large they are, and what is in them."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.npu

CASTS = """
import torch_npu
from npu_dispatch_inspect import inspect_dispatch
torch.npu.config.allow_internal_format = True
def cast(dtype, shape, wanted):
    x = torch.arange(torch.Size(shape).numel()).reshape(shape).to(dtype).npu()
    with inspect_dispatch() as seen:
        y = torch_npu.npu_format_cast(x, wanted)
    print(
        torch_npu.get_npu_format(y).name, tuple(y.shape), y.untyped_storage().nbytes(),
        [each.name for each in seen.launches], torch.equal(y.cpu(), x.cpu()),
    )
    return x, y
"""


def test_a_cast_has_the_size_of_its_blocks_and_keeps_the_elements(run_on_npu):
    """Rows of 32 bytes and 16 of them to a block, on the last two dimensions."""
    done = run_on_npu(
        CASTS
        + """
x, y = cast(torch.float16, (33, 20), 29)
z = torch_npu.npu_format_cast(y, 2)
same = torch.equal(z.cpu(), x.cpu())
print(torch_npu.get_npu_format(z).name, z.untyped_storage().nbytes(), same)
cast(torch.float32, (3, 5, 7), 29)
cast(torch.int8, (2, 3, 4, 5), 29)
cast(torch.float32, (2, 20, 3, 5, 7), 32)
cast(torch.float32, (2, 20, 3, 5, 7), 33)
torch_npu.npu_format_cast_(x, 29)
print(torch_npu.get_npu_format(x).name, x[0, :3].tolist())
"""
    )
    launched = "['aclnnNpuFormatCast']"
    assert done.lines() == [
        f"FRACTAL_NZ (33, 20) {2 * 3 * 16 * 16 * 2} {launched} True",
        f"ND {33 * 20 * 2} True",
        f"FRACTAL_NZ (3, 5, 7) {3 * 1 * 1 * 16 * 8 * 4} {launched} True",
        f"FRACTAL_NZ (2, 3, 4, 5) {6 * 1 * 1 * 16 * 32} {launched} True",
        f"NDC1HWC0 (2, 20, 3, 5, 7) {2 * 3 * 3 * 5 * 7 * 8 * 4} {launched} True",
        f"FRACTAL_Z_3D (2, 20, 3, 5, 7) {3 * 3 * 5 * 7 * 1 * 16 * 8 * 4} {launched} True",
        "FRACTAL_NZ [0.0, 1.0, 2.0]",
    ]


@pytest.mark.parametrize(
    ("device", "expected"),
    [
        ("Ascend310P3", "FRACTAL_NZ []"),
        ("Ascend950PR_9599", "FRACTAL_NZ_C0_16 ['aclnnNpuFormatCast']"),
    ],
)
def test_other_families_cast_as_they_do(run_on_npu, device, expected):
    """An older device goes through aclop, a newer one packs for the type of the product."""
    done = run_on_npu(
        CASTS
        + """
x = torch.zeros(33, 20).npu()
with inspect_dispatch() as seen:
    y = torch_npu.npu_format_cast(x, 29)
print(torch_npu.get_npu_format(y).name, [each.name for each in seen.launches])
""",
        arguments=f"device_name={device!r}",
    )
    assert done.lines() == [expected]


def test_a_format_that_torch_npu_does_not_allow_stays_plain(run_on_npu):
    """Unless internal formats are allowed, torch_npu makes the plain format of it."""
    done = run_on_npu("""
        import torch_npu
        y = torch_npu.npu_format_cast(torch.zeros(4, 4).npu(), 29)
        print(torch_npu.get_npu_format(y).name, y.untyped_storage().nbytes())
    """)
    assert done.lines() == ["ND 64"]
