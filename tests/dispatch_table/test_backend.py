# SPDX-License-Identifier: BSD-3-Clause
"""What the backend decides, and what of it can be known."""

from __future__ import annotations

import pytest
import torch

from npu_dispatch_inspect import explain
from npu_dispatch_inspect._torch_private import npu_switches


def choices(*arguments):
    """The backend's choice by operator."""
    return {each.operator: each for each in explain(*arguments).backend}


def test_cpu_kernels_tell_the_capability():
    """And that nobody can see whether this kernel makes use of it."""
    choice = choices("aten::relu", torch.ones(2))["aten::relu"]
    assert (choice.backend, choice.route) == (
        "CPU",
        torch.backends.cpu.get_cpu_capability(),
    )
    assert "whether this kernel is behind a DispatchStub" in choice.unobserved


def test_another_backend_is_not_guessed_at():
    """Its route is unknown."""
    choice = choices("aten::relu", torch.ones(2, device="meta"))["aten::relu"]
    assert (choice.backend, choice.route) == ("Meta", "unknown")


@pytest.fixture
def npu():
    """An initialised NPU, its compile mode put back afterwards."""
    pytest.importorskip("torch_npu")
    torch.npu.init()
    before = npu_switches.jit_compile()
    yield "npu:0"
    torch.npu.set_compile_mode(jit_compile=before)


@pytest.mark.npu
def test_aclnn_where_compilation_is_off(npu):
    """With the switches that decide it."""
    torch.npu.set_compile_mode(jit_compile=False)
    choice = choices("aten::relu", torch.ones(2, device=npu))["aten::relu"]
    assert choice.route == "aclnn"
    assert choice.reasons[0] == "jit_compile is off"
    told = "private formats are not allowed" in choice.reasons
    assert told is (npu_switches.internal_format_allowed() is False)


@pytest.mark.npu
def test_aclop_where_compilation_is_on(npu):
    """An operator with both implementations follows jit_compile."""
    torch.npu.set_compile_mode(jit_compile=True)
    if not npu_switches.jit_compile():
        pytest.skip("this torch_npu does not take the mode on this stand-in")
    assert {"acl_op", "op_api"} <= set(npu_switches.implementations("aten::relu"))
    choice = choices("aten::relu", torch.ones(2, device=npu))["aten::relu"]
    assert (choice.route, choice.reasons) == ("aclop", ("jit_compile is on",))


@pytest.mark.npu
def test_an_operator_with_one_implementation_has_no_choice(npu):
    """Whatever the switches say."""
    torch.npu.set_compile_mode(jit_compile=True)
    name = "aten::_foreach_add_.Scalar"
    assert "acl_op" not in npu_switches.implementations(name)
    choice = choices(name, [torch.ones(2, device=npu)], 1)[name]
    assert choice.route == "aclnn"
    assert choice.reasons == ("torch_npu has no implementation of it but aclnn",)


@pytest.mark.npu
def test_an_operator_outside_the_list_is_unknown(npu):
    """`as_strided` is neither aclnn nor aclop."""
    choice = choices("aten::as_strided", torch.ones(2, device=npu), [2], [1])[
        "aten::as_strided"
    ]
    assert choice.route == "unknown"


@pytest.mark.npu
def test_the_fallback_says_where_it_goes(npu, monkeypatch):
    """To the CPU and back, and which switch forbids it."""
    monkeypatch.setenv("TORCH_NPU_FALLBACK_CPU_DISABLE", "1")
    choice = choices("aten::digamma", torch.ones(2, device=npu))["aten::digamma.out"]
    assert choice.route == "cpu fallback"
    assert "VariableFallbackKernel.cpp" in choice.reasons[0]
    assert choice.reasons[1] == "TORCH_NPU_FALLBACK_CPU_DISABLE=1"
