# SPDX-License-Identifier: BSD-3-Clause
"""Training with computed values: the CPU's numbers, on the NPU's own path."""

import pytest
import torch

from npu_dispatch_inspect import inspect_dispatch
from tests.values.programs import PROGRAMS, run

pytestmark = [pytest.mark.npu, pytest.mark.filterwarnings("ignore")]

UNSAFE = {"embedding_bag"}
"""Its backward falls back to the CPU and reads indices, so it needs values to run."""


def traced(name):
    """Operators and launches of a program's second step on the NPU."""
    torch.manual_seed(0)
    _, step = PROGRAMS[name]("npu:0")
    step()
    with inspect_dispatch() as seen:
        step()
    calls = [(each.name, each.depth, each.phase) for each in seen.trace.records]
    return calls, [each.name for each in seen.logs.launches]


@pytest.fixture(scope="module")
def plain():
    """The same for all programs, without values."""
    return {name: traced(name) for name in PROGRAMS if name not in UNSAFE}


@pytest.mark.parametrize("name", PROGRAMS)
def test_losses_and_gradients_are_those_of_the_cpu(plain, computed, name):
    """Five steps give the CPU's losses and gradients, within the rounding of float32."""
    losses, gradients = run(name, "cpu")
    npu_losses, npu_gradients = run(name, "npu:0")

    assert losses == pytest.approx(npu_losses, rel=2e-6)
    for expected, actual in zip(gradients, npu_gradients, strict=True):
        scale = expected.abs().max().item()
        torch.testing.assert_close(actual, expected, rtol=0, atol=1e-5 * scale + 1e-12)


@pytest.mark.parametrize("name", [n for n in PROGRAMS if n not in UNSAFE])
def test_what_runs_is_what_runs_without_values(plain, computed, name):
    """Every call of the dispatcher and every aclnn launch is the same, in order."""
    calls, launches = traced(name)

    assert plain[name][0] == calls
    assert plain[name][1] == launches
    assert launches
