# SPDX-License-Identifier: BSD-3-Clause
"""Trying dtypes."""

from __future__ import annotations

import pytest
import torch

from npu_dispatch_inspect import UsageError, probe_dtypes, trace_ops


def outcomes(probes):
    """Outcome by dtype."""
    return {probe.dtype: probe.outcome for probe in probes}


def test_a_refusal_keeps_its_message():
    """What the operator said is the answer."""
    (probe,) = probe_dtypes("aten::addmm", *(torch.ones(2, 2),) * 3, dtypes=["bool"])
    assert probe.outcome == "refused"
    assert probe.message == "\"addmm_impl_cpu_\" not implemented for 'Bool'"
    assert probe.results == ()


def test_promotion_is_told_from_support():
    """A result of a wider dtype is promoted; a comparison's bool is not."""
    assert outcomes(probe_dtypes("aten::sum", torch.ones(3))) | {} == {
        **dict.fromkeys(("float64", "float32", "float16", "bfloat16"), "supported"),
        **dict.fromkeys(("complex64", "int64"), "supported"),
        **dict.fromkeys(("int32", "int16", "int8", "uint8", "bool"), "promoted"),
    }
    assert (
        outcomes(probe_dtypes("aten::eq", torch.ones(3), 1)).get("int32") == "supported"
    )
    assert (
        outcomes(probe_dtypes("aten::argmax", torch.ones(3)))["float32"] == "supported"
    )


def test_only_the_tensors_of_the_first_dtype_change():
    """An index stays an index."""
    found = probe_dtypes(
        "aten::embedding",
        torch.ones(4, 2),
        torch.tensor([0, 3]),
        dtypes=["float16", "int8"],
    )
    assert outcomes(found) == {"float16": "supported", "int8": "supported"}
    assert [probe.results for probe in found] == [("float16",), ("int8",)]


def test_nothing_of_the_program_changes(device):
    """Arguments, random state and an active trace are as before."""
    x = torch.zeros(3, device=device)
    random = torch.get_rng_state()
    with trace_ops(engine="dispatcher") as trace:
        probe_dtypes("aten::uniform_", x, dtypes=["float32"])
        probe_dtypes("aten::add_", x, 1, dtypes=[torch.float32])
    assert len(trace) == 0
    assert torch.equal(x.cpu(), torch.zeros(3))
    assert torch.equal(random, torch.get_rng_state())


@pytest.mark.npu
def test_on_the_stand_in_support_is_not_certain():
    """CANN would have checked; the stand-in did not."""
    (probe,) = probe_dtypes(
        "aten::relu", torch.ones(2, device="npu:0"), dtypes=["bool"]
    )
    assert probe.outcome == "supported"
    assert not probe.certain


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("aten::ones", [2]), "has no tensor whose dtype could change"),
        (("aten::relu", torch.ones(70_000)), "70000 elements: give smaller ones"),
        (
            ("_c10d_functional::all_reduce", torch.ones(1), "sum", "0"),
            "other processes",
        ),
    ],
)
def test_what_is_not_tried_is_said(arguments, sentence):
    """One sentence with the reason."""
    with pytest.raises(UsageError, match=sentence):
        probe_dtypes(*arguments)


def test_an_unknown_dtype_is_refused():
    """It is written as torch writes it."""
    with pytest.raises(UsageError, match="torch has no dtype 'fp16'"):
        probe_dtypes("aten::relu", torch.ones(1), dtypes=["fp16"])
