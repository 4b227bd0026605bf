# SPDX-License-Identifier: BSD-3-Clause
"""Training with computed values: the CPU's numbers, on the NPU's own path."""

import pytest
import torch

from npu_dispatch_inspect import inspect_dispatch, region
from tests.values.programs import PROGRAMS, run

pytestmark = [pytest.mark.npu, pytest.mark.filterwarnings("ignore")]

UNSAFE = {"embedding_bag"}
"""Its backward falls back to the CPU and reads indices, so it needs values to run."""


def traced():
    """Operators and launches of every program's second step on the NPU."""
    steps = {}
    for name in PROGRAMS.keys() - UNSAFE:
        torch.manual_seed(0)
        _, steps[name] = PROGRAMS[name]("npu:0")
        steps[name]()
    with inspect_dispatch() as seen:
        for name in sorted(steps):
            with region(name):
                steps[name]()
    calls = [
        (each.regions, each.name, each.depth, each.phase) for each in seen.trace.records
    ]
    return calls, [each.name for each in seen.logs.launches]


@pytest.fixture(scope="module")
def plain():
    """The same without values."""
    return traced()


@pytest.mark.parametrize("name", PROGRAMS)
def test_losses_and_gradients_are_those_of_the_cpu(plain, computed, name):
    """Five steps give the CPU's losses and gradients, within the rounding of float32."""
    losses, gradients = run(name, "cpu")
    npu_losses, npu_gradients = run(name, "npu:0")

    assert losses == pytest.approx(npu_losses, rel=2e-6)
    for expected, actual in zip(gradients, npu_gradients, strict=True):
        scale = expected.abs().max().item()
        torch.testing.assert_close(actual, expected, rtol=0, atol=1e-5 * scale + 1e-12)


def test_what_runs_is_what_runs_without_values(plain, computed):
    """Every call of the dispatcher and every aclnn launch is the same, in order."""
    calls, launches = traced()

    assert {(name,) for name in PROGRAMS.keys() - UNSAFE} <= {each[0] for each in calls}
    first = next(
        (each for each in zip(plain[0], calls, strict=False) if each[0] != each[1]),
        None,
    )
    assert first is None
    assert plain[0] == calls
    assert plain[1] == launches
    assert len(launches) > 1000
