# SPDX-License-Identifier: BSD-3-Clause
"""Device names lead to the figures and switches of their family."""

from __future__ import annotations

import pytest

from npu_dispatch_inspect.errors import StandInError
from npu_dispatch_inspect.standin.devices import model_of

KNOWN = (
    "Ascend310B1",
    "Ascend310P3",
    "Ascend910A",
    "Ascend910B",
    "Ascend910B1",
    "Ascend910B4",
    "Ascend910ProB",
    "Ascend910_9372",
    "Ascend910_9391",
    "Ascend950PR_9599",
)


@pytest.mark.parametrize(
    ("name", "cores", "compiles"),
    [
        ("Ascend910B1", (24, 48), False),
        ("Ascend910B4", (20, 40), False),
        ("Ascend910_9391", (24, 48), False),
        ("Ascend910_9372", (20, 40), False),
        ("Ascend310P3", (8, 7), True),
        ("Ascend910B", (32, 32), True),
        ("Ascend910ProB", (32, 32), True),
    ],
)
def test_a_name_decides_cores_and_compilation(name, cores, compiles):
    """Older families compile operators at run time, newer ones have bfloat16."""
    model = model_of(name, KNOWN)
    assert (model.cube_cores, model.vector_cores) == cores
    assert model.jit_compile is compiles
    assert model.newer_family is not compiles


@pytest.mark.parametrize("name", KNOWN)
def test_every_known_name_has_a_model(name):
    """Whatever torch_npu knows can be loaded."""
    assert model_of(name, KNOWN).memory_bytes > 0


def test_an_unknown_name_is_refused_with_the_nearest():
    """A typing error is answered with the names it may have meant."""
    with pytest.raises(StandInError, match="did you mean Ascend910B4 or"):
        model_of("Ascend910B5", ("Ascend910B4", "Ascend910B1"))
    with pytest.raises(StandInError, match="it knows: Ascend310P3"):
        model_of("gpu", ("Ascend310P3",))
