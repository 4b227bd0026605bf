# SPDX-License-Identifier: BSD-3-Clause
"""A traced program computes on the device what it computes without a tracer."""

import warnings

import pytest
import torch

from npu_dispatch_inspect import trace_ops
from tests.programs import PROGRAMS
from tests.test_exactness import ON_NPU, bits

pytestmark = [pytest.mark.npu, pytest.mark.usefixtures("computed")]


@pytest.mark.parametrize("engine", ["dispatcher", "dispatch_mode"])
@pytest.mark.parametrize("name", ON_NPU)
def test_results_are_bit_identical(name, engine):
    """Results, gradients and random numbers are those of the untraced program."""
    program = PROGRAMS[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = [bits(each) for each in program("npu:0")]
        state = torch.npu.get_rng_state()

        with trace_ops(engine=engine):
            actual = program("npu:0")

    assert any(any(values) for _, _, values in expected)
    assert [bits(each) for each in actual] == expected
    assert torch.equal(torch.npu.get_rng_state(), state)
