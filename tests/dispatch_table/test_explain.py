# SPDX-License-Identifier: BSD-3-Clause
"""Explanations: what they say, and what they say where nothing can be known."""

from __future__ import annotations

import pickle
import re

import pytest
import torch
from torch.nn import functional
from torch.testing._internal.two_tensor import TwoTensor

from npu_dispatch_inspect import (
    UnknownNameError,
    UsageError,
    calls_operator,
    explain,
    trace_ops,
)
from npu_dispatch_inspect.records.paths import StepAction


def actions(call):
    """Key and action of each step."""
    return [(step.key, step.action.value) for step in call.steps]


def test_the_way_is_walked_key_by_key():
    """Autograd passes on, fallthroughs show, the backend's kernel ends it."""
    (call,) = explain("aten::add", torch.ones(3), torch.ones(3)).calls
    assert actions(call) == [
        ("AutogradCPU", "passes on"),
        ("ADInplaceOrView", "fallthrough"),
        ("BackendSelect", "fallthrough"),
        ("CPU", "runs"),
    ]
    # Torch 2.6 has the CPU's kernels in one file without a number.
    sites = [step.kernel.site.partition(":")[0] for step in call.steps]
    assert [re.sub(r"_\d+", "", site) for site in sites] == [
        "VariableType.cpp",
        "VariableFallbackKernel.cpp",
        "BackendSelectFallbackKernel.cpp",
        "RegisterCPU.cpp",
    ]
    assert call.qualified_name == "aten::add.Tensor"
    assert call.calls is None


def test_a_composite_is_followed_to_its_kernels(device):
    """`linear` leads to `t` and `addmm`, and `addmm` to the backend's own kernel."""
    x, w, b = (torch.ones(*shape, device=device) for shape in ((2, 3), (4, 3), (4,)))
    explanation = explain("aten::linear", x, w.requires_grad_(), b)
    (linear,) = explanation.calls
    assert [each.name for each in linear.calls] == ["aten::t", "aten::addmm"]
    assert linear.last.action is StepAction.DECOMPOSES
    multiply = linear.calls[1]
    key, file = (
        ("CPU", "RegisterCPU") if device == "cpu" else ("PrivateUse1", "RegisterNPU")
    )
    assert multiply.last.key == key
    assert multiply.last.kernel.site.startswith(file)
    assert explanation.complete


@pytest.mark.npu
def test_linear_on_npu_never_calls_npu_linear():
    """What a test on a port wants to assert."""
    x = torch.ones(2, 3, device="npu:0")
    w = torch.ones(4, 3, device="npu:0")
    b = torch.ones(4, device="npu:0")
    assert not calls_operator(functional.linear, "npu::npu_linear", x, w, b)
    assert calls_operator(functional.linear, "aten::addmm", x, w, b)
    assert calls_operator("aten::linear", torch.ops.aten.matmul, x, w)


@pytest.mark.npu
def test_an_operator_without_npu_kernel_shows_the_fallback_below_it():
    """`digamma` makes its result and calls the out variant, which falls back."""
    (call,) = explain("aten::digamma", torch.ones(3, device="npu:0")).calls
    assert [each.qualified_name for each in call.calls] == [
        "aten::empty.memory_format",
        "aten::digamma.out",
    ]
    assert call.calls[1].last.action is StepAction.FALLS_BACK
    assert call.calls[1].last.kernel.site.startswith("VariableFallbackKernel.cpp")


def test_thread_state_is_part_of_the_answer():
    """Autograd stays under no_grad and goes in inference_mode; autocast comes first."""
    x, w = torch.ones(2, 3), torch.ones(4, 3)
    with torch.no_grad():
        assert explain("aten::linear", x, w).calls[0].first.key == "AutogradCPU"
    with torch.inference_mode():
        assert explain("aten::linear", x, w).calls[0].first.key == "CPU"
    with torch.autocast("cpu", dtype=torch.bfloat16):
        explanation = explain("aten::linear", x, w)
    (call,) = explanation.calls
    assert call.first.action is StepAction.CALLS_AGAIN
    assert [each.qualified_name for each in call.calls] == [
        "aten::to.dtype",
        "aten::to.dtype",
        "aten::linear",
    ]
    assert {each.value.dtype for each in call.calls[2].inputs if each.value} == {
        "bfloat16"
    }


def test_a_function_gives_its_calls_in_order():
    """Operators written one after another, Python numbers and factories among them."""

    def step(x):
        return torch.zeros(2).add_(x.sum()) + 1

    explanation = explain(step, torch.ones(3))
    assert [each.qualified_name for each in explanation.calls] == [
        "aten::zeros",
        "aten::sum",
        "aten::add_.Tensor",
        "aten::add.Tensor",
    ]
    assert explanation.calls[0].first.key == "BackendSelect"


def test_a_module_keeps_its_state_and_names_its_parts():
    """Buffers, parameters and random state are as before; calls know their module."""
    model = torch.nn.Sequential(
        torch.nn.Linear(3, 3), torch.nn.BatchNorm1d(3), torch.nn.Dropout()
    )
    before = {name: each.clone() for name, each in model.state_dict().items()}
    random = torch.get_rng_state()
    explanation = explain(model, torch.ones(2, 3))
    after = model.state_dict()
    assert all(torch.equal(after[name], each) for name, each in before.items())
    assert torch.equal(random, torch.get_rng_state())
    assert [(each.module, each.name) for each in explanation.calls] == [
        ("0", "aten::linear"),
        ("1", "aten::add_"),
        ("1", "aten::batch_norm"),
        ("2", "aten::dropout"),
    ]


def test_explaining_is_not_seen_by_a_tracer(device):
    """An active trace records nothing of it, at either level."""
    x = torch.ones(3, device=device)
    for engine in ("dispatch_mode", "dispatcher"):
        with trace_ops(engine=engine) as trace:
            explanation = explain("aten::softmax", x, 0)
        assert len(trace) == 0
        assert explanation == explain("aten::softmax", x, 0)


def test_real_values_are_never_computed():
    """An in-place call that is explained leaves its argument alone."""
    x = torch.zeros(3)
    explain("aten::add_", x, 1)
    explain(torch.Tensor.fill_, x, 5)
    assert torch.equal(x, torch.zeros(3))
    assert x._version == 0


def test_a_tensor_subclass_is_a_partial_answer():
    """The way is known up to the key where Python takes over, and that is said."""
    x = TwoTensor(torch.ones(3), torch.ones(3))
    explanation = explain("aten::sin", x)
    (call,) = explanation.calls
    assert call.last.action is StepAction.OPAQUE
    assert call.last.key == "Python"
    assert "Python" in call.unknown
    assert not explanation.complete


def test_tensors_on_several_devices_are_pointed_out():
    """The dispatcher takes the highest key all the same."""
    (call,) = explain("aten::add", torch.ones(3), torch.ones(3, device="meta")).calls
    assert call.first.key == "AutogradMeta"
    assert call.notes == (
        "the tensors are on cpu and meta: the kernel is likely to refuse them",
    )
    assert explain("aten::add", torch.ones(()), torch.ones(3)).calls[0].notes == ()


def test_a_key_without_kernel_is_said():
    """A call that would raise is predicted to raise."""
    sparse = torch.ones(2, 2).to_sparse()
    (call,) = explain("aten::logit", sparse).calls
    assert call.last.action is StepAction.RAISES
    assert call.notes == ("aten::logit has no kernel for SparseCPU: the call raises",)
    with pytest.raises(NotImplementedError, match="SparseCPU"):
        torch.logit(sparse)


def test_without_tensors_the_device_argument_decides():
    """BackendSelect has nothing but the options to go by."""
    (call,) = explain("aten::ones", [2], device="meta").calls
    assert call.last.key == "Meta"
    (call,) = explain("aten::ones", [2]).calls
    assert call.last.key == "CPU"


def test_control_flow_on_values_ends_the_prediction():
    """What came before is there, and the reason."""

    def branch(x):
        y = x.sin()
        return y.cos() if y.sum() > 0 else y

    explanation = explain(branch, torch.ones(3))
    assert not explanation.complete
    names = [each.name for each in explanation.calls]
    assert names[:3] == ["aten::sin", "aten::sum", "aten::gt"]
    assert "aten::cos" not in names
    assert "DataDependentOutputException" in str(explanation)


def test_not_knowing_is_not_a_no():
    """`calls_operator` raises where a part could not be followed."""

    def branch(x):
        return x.cos() if x.sum() > 0 else x.sin()

    assert calls_operator(branch, "aten::sum", torch.ones(3))
    with pytest.raises(UsageError, match="is not known, because a part could not"):
        calls_operator(branch, "aten::cos", torch.ones(3))


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("aten::linear",), "cannot be called like this"),
        (("aten::conv2d", 1), "Expected a value of type 'Tensor' for argument 'input'"),
        (("aten::add.Tensor", torch.ones(1)), "the argument 'other' is missing"),
        (("aten::add.Tensor", torch.ones(1), "x"), "'other' must be a tensor, not str"),
        (
            ("aten::relu.default", torch.ones(1), 2),
            "takes 1 positional arguments, not 2",
        ),
        (("higher_order::cond", 1), "it is a higher-order operator"),
        (("prim::device", torch.ones(1)), "only TorchScript knows it"),
        ((3,), "takes an operator or a function, not int"),
    ],
)
def test_what_cannot_be_explained_is_refused(arguments, sentence):
    """One sentence says what is wrong with the call."""
    with pytest.raises(UsageError) as caught:
        explain(*arguments)
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)


def test_wrong_keyword_arguments_are_refused():
    """Unknown ones and ones given twice."""
    with pytest.raises(UsageError, match="has no argument 'foo'"):
        explain("aten::relu.default", torch.ones(1), foo=1)
    with pytest.raises(UsageError, match="'self' is given twice"):
        explain("aten::relu.default", torch.ones(1), self=1)


def test_an_unknown_operator_is_refused():
    """With the nearest names."""
    with pytest.raises(UnknownNameError, match="did you mean aten::linear"):
        explain("aten::linaer", torch.ones(1))


def test_dtypes_belong_to_one_operator():
    """A function has no single dtype to try."""
    with pytest.raises(UsageError, match="dtypes=True tries one operator"):
        explain(functional.linear, torch.ones(2, 3), torch.ones(2, 3), dtypes=True)
    explanation = explain("aten::relu", torch.ones(2), dtypes=True)
    assert {probe.outcome for probe in explanation.dtypes} == {"supported", "refused"}


def test_explanations_are_plain_values():
    """They pickle and hash, and print as a tree."""
    explanation = explain("aten::linear", torch.ones(2, 3), torch.ones(4, 3))
    assert pickle.loads(pickle.dumps(explanation)) == explanation
    assert hash(explanation) == hash(
        explain("aten::linear", torch.ones(2, 3), torch.ones(4, 3))
    )
    lines = [" ".join(line.split()) for line in str(explanation).splitlines()]
    assert lines[1].startswith(
        "aten::linear(f32[2, 3], f32[4, 3]) AutogradCPU decomposes"
    )
    assert lines[2].startswith("├─ aten::t(f32[4, 3]) AutogradCPU passes on")
    assert any(line.startswith("aten::mm CPU ") for line in lines)


def test_a_third_partys_default_kernel_is_not_run():
    """A kernel for all backends that is not torch's own may compute as it pleases."""
    library = torch.library.Library("ndi_explain", "DEF")
    library.define("peek(Tensor x) -> Tensor")
    ran = []
    library.impl("peek", lambda x: ran.append(x) or x, "CompositeExplicitAutograd")
    try:
        (call,) = explain("ndi_explain::peek", torch.ones(2)).calls
    finally:
        library._destroy()
    assert ran == []
    assert call.last.action is StepAction.CALLS_OTHERS
    assert call.calls is None


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_tensors_without_a_copy_give_a_partial_answer():
    """The way of the call itself is known; what is inside is not, nor a function's."""
    nested = torch.nested.nested_tensor([torch.ones(2, 3), torch.ones(1, 3)])
    weight = torch.ones(4, 3)
    (call,) = explain("aten::linear", nested, weight).calls
    assert call.first.key == "AutogradNestedTensor"
    assert call.unknown.startswith("the tensors cannot be copied without values")
    explanation = explain(functional.linear, nested, weight)
    assert explanation.calls == ()
    assert explanation.unknown.startswith("the tensors cannot be copied")


def test_conjugate_views_are_followed_as_far_as_is_known():
    """A composite is taken apart as always; a kernel that resolves them is opaque."""
    x = torch.ones(2, 2, dtype=torch.complex64)
    (call,) = explain("aten::matmul", x.conj(), x).calls
    assert [each.name for each in call.calls] == ["aten::mm"]
    (call,) = explain("aten::mul", x.conj(), x).calls
    assert (call.last.key, call.last.action) == ("Conjugate", StepAction.OPAQUE)


def test_a_backward_pass_is_not_predicted():
    """It ends the prediction, and leaves no gradient behind."""
    x = torch.ones(3, requires_grad=True)
    explanation = explain(lambda x: (x * x).sum().backward(), x)
    assert [each.name for each in explanation.calls[:2]] == ["aten::mul", "aten::sum"]
    assert "a backward pass is not predicted" in explanation.unknown
    assert x.grad is None


def test_inside_a_transform_the_answer_is_partial():
    """Vmap takes the call over before any key of the tensors."""
    seen = []
    torch.vmap(lambda x: seen.append(explain("aten::sin", x)) or x)(torch.ones(2, 3))
    (call,) = seen[0].calls
    assert call.last.action is StepAction.OPAQUE
    assert call.last.key.startswith("FuncTorch")
