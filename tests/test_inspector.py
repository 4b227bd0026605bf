# SPDX-License-Identifier: BSD-3-Clause
"""One chain from the module to the queue task, on the real torch_npu and on CPU."""

from __future__ import annotations

import copy
import pickle
import threading
from collections import Counter

import pytest
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812 - torch's own name for it

from npu_dispatch_inspect import (
    Phase,
    UsageError,
    Verdict,
    inspect_dispatch,
    load,
    save,
    trace_ops,
)

NPU = "npu:0"


def names(report):
    """The aclnn launches of a report, in order."""
    return [launch.name for launch in report.launches]


def verdicts(report, name):
    """The verdicts of all calls of an operator."""
    return [node.verdict for node in report.find(name)]


def inspected(function):
    """What one call of a function ran, without gradients."""
    with torch.no_grad(), inspect_dispatch() as report:
        function()
    return report


@pytest.fixture(scope="module")
def tensors():
    """Tensors on the NPU that the examples use."""
    make = torch.Generator().manual_seed(0)

    def new(*shape, dtype=torch.float32):
        return torch.randn(*shape, generator=make).to(NPU, dtype)

    return {
        "x": new(4, 8),
        "w": new(8, 8),
        "b": new(8),
        "x3": new(2, 4, 8),
        "q": new(1, 2, 16, 16, dtype=torch.float16),
        "image": new(1, 3, 8, 8),
        "i": torch.tensor([0, 2]).to(NPU),
        "mask": torch.ones(4, 8, dtype=torch.bool).to(NPU),
        "conv": nn.Conv2d(3, 4, 3).to(NPU),
    }


@pytest.fixture(scope="module")
def linear():
    """The report of one layer's forward and backward pass."""
    layer = nn.Linear(128, 64).to(NPU)
    x = torch.randn(32, 128).to(NPU)
    with inspect_dispatch() as report:
        layer(x).sum().backward()
    return report


@pytest.mark.npu
class TestLinear:
    def test_way_from_the_operator_to_the_task(self, linear):
        """Linear goes through addmm and its NPU kernel to aclnnAddmm and a task."""
        operators = ("aten::linear", "aten::addmm")
        found = linear.path("aten::linear", to="aclnnAddmm")
        assert found[:2] == operators
        assert found[2].startswith("RegisterNPU.cpp:")
        assert found[3] == "aclnnAddmm"
        assert found[4].startswith("task ")

    def test_task_was_written_read_and_succeeded(self, linear):
        """The launch carries its queue task with the result."""
        (launch,) = [each for each in linear.launches if each.name == "aclnnAddmm"]
        task = launch.task
        assert task.written is not None
        assert task.read is not None
        assert (task.ret, task.executed) == (0, True)

    def test_chain_of_the_module(self, linear):
        """The chain of the layer is linear with t and addmm, each with its verdict."""
        (node,) = linear.find("aten::linear")
        assert node.verdict is Verdict.COMPOSITE
        assert [child.op.name for child in node.children] == [
            "aten::t",
            "aten::addmm",
        ]
        assert [child.verdict for child in node.children] == [
            Verdict.NO_LAUNCH,
            Verdict.ACLNN,
        ]
        assert [call.name for call in node.children[1].op_plugin] == ["addmm"]

    def test_fused_linear_is_not_in_it(self, linear):
        """The NPU's own linear is not what nn.Linear reaches, and asking says so."""
        assert linear.find("npu::npu_linear") == ()
        with pytest.raises(UsageError, match=r"^npu::npu_linear was not called"):
            linear.path("npu::npu_linear", to="*")
        with pytest.raises(
            UsageError, match=r"did not reach aclnnAddm; near it: aclnnAddmm"
        ):
            linear.path("aten::linear", to="aclnnAddm")

    def test_backward_hangs_on_the_same_module(self, linear):
        """The gradients' launches belong to the layer that made them necessary."""
        (forward,) = linear.find("aten::linear")
        backward = [
            node
            for node in linear.nodes()
            if node.op.phase.value == "backward"
            and node.launches
            and node.op.module is not None
        ]
        assert [node.op.name for node in backward] == ["aten::mm", "aten::sum"]
        assert {node.op.module for node in backward} == {forward.op.module}
        assert linear.by_module()["Linear"].launches == Counter(
            ["aclnnAddmm", "aclnnMm", "aclnnReduceSum"]
        )

    def test_first_line_says_stand_in(self, linear):
        """A report made on the stand-in cannot be taken for one of a device."""
        first, *_ = str(linear).splitlines()
        assert first.startswith("device: stand-in (Ascend910B1), nothing is computed")


ROUTES = {
    "linear": (lambda t: F.linear(t["x"], t["w"], t["b"]), ["addmm"], ["aclnnAddmm"]),
    "mm": (lambda t: torch.mm(t["x"], t["w"]), ["mm"], ["aclnnMm"]),
    "bmm": (
        lambda t: torch.bmm(t["x3"], t["x3"].transpose(1, 2)), ["bmm"], ["aclnnBatchMatMul"],
    ),
    "einsum": (
        lambda t: torch.einsum("ij,jk->ik", t["x"], t["w"]), ["bmm"], ["aclnnBatchMatMul"],
    ),
    "gelu": (lambda t: F.gelu(t["x"]), ["gelu_out"], ["aclnnGelu"]),
    "silu": (lambda t: F.silu(t["x"]), ["silu"], ["aclnnSilu"]),
    "rms_norm": (
        lambda t: F.rms_norm(t["x"], (8,), t["b"]),
        ["pow", "mean", "add_", "rsqrt", "mul", "mul"],
        ["aclnnPowTensorScalar", "aclnnMean", "aclnnInplaceAdds", "aclnnRsqrt",
         "aclnnMul", "aclnnMul"],
    ),
    "npu_rms_norm": (
        lambda t: torch.ops.npu.npu_rms_norm(t["x"], t["b"]), ["npu_rms_norm"], ["aclnnRmsNorm"],
    ),
    "dropout": (
        lambda t: F.dropout(t["x"], 0.5),
        ["native_dropout"],
        ["aclnnDropoutGenMaskV2", "aclnnDropoutDoMask"],
    ),
    "embedding": (
        lambda t: F.embedding(t["i"], t["w"]), ["embedding_symint"], ["aclnnEmbedding"],
    ),
    "conv2d": (
        lambda t: t["conv"](t["image"]), ["convolution", "_convolution"], ["aclnnConvolution"],
    ),
    "add": (lambda t: t["x"] + 1, ["add"], ["aclnnAdds"]),
    "rsub": (lambda t: 1 - t["x"], ["rsub"], ["aclnnRsubs"]),
    "div": (lambda t: t["x"] / 2, ["div"], ["aclnnDivs"]),
    "pow": (lambda t: t["x"] ** 2, ["pow"], ["aclnnPowTensorScalar"]),
    "gt": (lambda t: t["x"] > 0, ["gt"], ["aclnnGtScalar"]),
    "mul": (lambda t: t["x"] * t["b"], ["mul"], ["aclnnMul"]),
    "masked_fill": (
        lambda t: t["x"].masked_fill(t["mask"], 0.0),
        ["masked_fill_"],
        ["aclnnInplaceCopy", "aclnnInplaceMaskedFillScalar"],
    ),
    "contiguous": (lambda t: t["w"].t().contiguous(), [], ["aclnnInplaceCopy"]),
    "half": (lambda t: t["x"].half(), [], ["aclnnInplaceCopy"]),
    "clone": (lambda t: t["x"].clone(), [], ["aclnnInplaceCopy"]),
    "index_put_": (
        lambda t: t["w"].index_put_((t["i"],), t["b"]),
        ["index_put_", "_index_put_impl_"],
        ["aclnnIndexPutImpl"],
    ),
    "autocast layer_norm": (
        lambda t: _layer_norm_under_autocast(t),
        ["native_layer_norm"],
        ["aclnnInplaceCopy", "aclnnInplaceCopy", "aclnnInplaceCopy", "aclnnLayerNorm"],
    ),
    "nanmean": (
        lambda t: torch.nanmean(t["x"]),
        ["ne", "logical_not_", "sum", "nansum", "div"],
        ["aclnnNeTensor", "aclnnInplaceLogicalNot", "aclnnReduceSum", "aclnnReduceNansum",
         "aclnnDiv"],
    ),
    "lgamma": (lambda t: torch.lgamma(t["x"]), [], []),
    "one_hot": (
        lambda t: F.one_hot(t["i"], 3),
        ["one_hot", "fill_", "fill_"],
        ["aclnnInplaceFillScalar", "aclnnInplaceFillScalar", "aclnnOneHot"],
    ),
}  # fmt: skip
"""Call, op_plugin functions entered, aclnn operators launched."""


def _layer_norm_under_autocast(t):
    with torch.autocast("npu", torch.float16):
        return F.layer_norm(t["x"].half(), (8,), t["b"].half(), t["b"].half())


@pytest.mark.npu
@pytest.mark.parametrize("name", ROUTES)
def test_route(tensors, name):
    """Each measured route: op_plugin functions, launches, and no verdict unknown."""
    call, entered, launched = ROUTES[name]
    if name == "autocast layer_norm":
        launched = ["aclnnInplaceCopy"] * 3 + launched
    report = inspected(lambda: call(tensors))
    assert [each.name for each in report.logs.op_plugin_calls] == entered
    assert names(report) == launched
    assert report.unattributed == ()
    assert Verdict.UNKNOWN not in report.verdicts()


BACKWARD = {
    "matmul": (lambda t, x: torch.matmul(x, t["w"]), ["aclnnMatmul"]),
    "softmax": (lambda _, x: F.softmax(x, -1), ["aclnnSoftmaxBackward"]),
    "gelu": (lambda _, x: F.gelu(x), ["aclnnGeluBackward"]),
    "layer_norm": (
        lambda t, x: F.layer_norm(x, (8,), t["b"]),
        ["aclnnLayerNormBackward"],
    ),
    "dropout": (lambda _, x: F.dropout(x, 0.5), ["aclnnDropoutDoMask"]),
}


@pytest.mark.npu
@pytest.mark.parametrize("name", BACKWARD)
def test_route_backward(tensors, name):
    """The launches of the gradient, each given to a backward call."""
    call, launched = BACKWARD[name]
    x = tensors["x3"].detach().requires_grad_()
    y = call(tensors, x)
    grad = torch.ones_like(y)
    with inspect_dispatch() as report:
        y.backward(grad)
    filled = {"aclnnInplaceCopy", "aclnnInplaceZero"}
    assert [each for each in names(report) if each not in filled] == launched
    assert report.unattributed == ()
    assert {node.op.phase.value for node in report.nodes() if node.launches} == {
        "backward"
    }


OPTIMIZERS = {
    "SGD foreach": (
        lambda p: torch.optim.SGD(p, 0.1, foreach=True),
        {"aclnnForeachAddListV2"},
    ),
    "AdamW fused": (
        lambda p: torch.optim.AdamW(p, fused=True),
        {"aclnnApplyAdamWV2", "aclnnSubs"},
    ),
}


@pytest.mark.npu
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_route_of_an_optimizer(name):
    """A step's launches are in the optimizer phase."""
    make, launched = OPTIMIZERS[name]
    layer = nn.Linear(8, 8).to(NPU)
    layer(torch.ones(2, 8).to(NPU)).sum().backward()
    optimizer = make(layer.parameters())
    with inspect_dispatch() as report:
        optimizer.step()
    assert launched <= set(names(report))
    assert {node.op.phase.value for node in report.nodes() if node.launches} == {
        "optimizer"
    }


@pytest.mark.npu
def test_route_of_clipping():
    """The norm of all gradients, and one multiplication for each of them."""
    layer = nn.Linear(8, 8).to(NPU)
    layer(torch.ones(2, 8).to(NPU)).sum().backward()
    with inspect_dispatch() as report:
        nn.utils.clip_grad_norm_(layer.parameters(), 1.0, foreach=True)
    norm, *rest = dict.fromkeys(names(report))
    assert norm == "aclnnForeachNorm"
    assert rest[-7:-1] == [
        "aclnnStack",
        "aclnnLinalgVectorNorm",
        "aclnnAdds",
        "aclnnReciprocal",
        "aclnnMuls",
        "aclnnClamp",
    ]
    assert report.unattributed == ()


@pytest.mark.npu
class TestSituations:
    def test_number_correction_of_std_is_cpu_work_inside_the_kernel(self, tensors):
        """An NPU kernel that computes on the CPU is told from a fallback."""
        report = inspected(lambda: tensors["x"].std(correction=0.5))
        (outer, inner) = report.find("aten::std")
        assert outer.verdict is Verdict.HIDDEN_CPU
        assert outer.why == "Its NPU kernel called aten::std.correction on the CPU."
        assert inner.verdict is Verdict.KERNEL
        assert report.fallbacks == (outer,)

    def test_digamma_is_a_cpu_fallback_by_the_tables(self, tensors):
        """The fallback is seen every time, though torch_npu warns of it only once."""
        for _ in range(2):
            report = inspected(lambda: torch.digamma(tensors["x"]))
            assert verdicts(report, "aten::digamma.out") == [Verdict.CPU_FALLBACK]
            causes = {(each.kind, each.cause) for each in report.copies_and_casts}
            assert causes == {
                ("device to host", "CPU fallback of aten::digamma.out"),
                ("host to device", "CPU fallback of aten::digamma.out"),
            }

    @pytest.mark.parametrize("engine", ["dispatcher", "dispatch_mode"])
    def test_backward_of_a_fallback_belongs_to_its_module(self, engine):
        """What the gradient of a fallback calls has the module of the forward call."""

        class Digamma(nn.Module):
            def forward(self, x):
                return torch.digamma(x)

        model = nn.Sequential(nn.Linear(4, 4), Digamma()).npu()
        x = torch.ones(2, 4, device="npu")
        with inspect_dispatch(engine=engine) as report:
            model(x).sum().backward()
        inside = [
            each
            for each in report.trace.backward
            if each.autograd_node == "DigammaBackward0"
        ]
        assert {each.module for each in inside} == {"1"}
        assert {each.name for each in inside} >= {"aten::polygamma", "aten::mul"}
        if engine == "dispatcher":
            copies = [
                each
                for each in report.copies_and_casts
                if each.node.op.phase is Phase.BACKWARD
            ]
            assert [each.node.op.module for each in copies] == ["1"] * 3
            told = "CPU fallback of aten::polygamma.out  1 (Digamma), backward"
            assert str(report).count(told) == 2

    def test_slogdet_shows_its_launch(self, tensors):
        """A kernel above autograd, which a dispatch mode never sees, is in the report."""
        report = inspected(lambda: torch.slogdet(tensors["w"]))
        assert report.path("aten::slogdet", to="aclnnSlogdet")[-2] == "aclnnSlogdet"

    def test_casts_of_autocast_say_so(self):
        """An autocast linear shows its three casts with their reason and line."""
        layer = nn.Linear(8, 8).to(NPU)
        x = torch.ones(2, 8).to(NPU)
        with torch.autocast("npu", torch.float16), inspect_dispatch() as report:
            layer(x)
        casts = [each for each in report.copies_and_casts if each.kind == "dtype cast"]
        assert [str(each) for each in casts] == [
            "dtype cast: f32[8] -> f16[8], autocast of aten::linear",
            "dtype cast: f32[8, 8] -> f16[8, 8], autocast of aten::linear",
            "dtype cast: f32[2, 8] -> f16[2, 8], autocast of aten::linear",
        ]
        assert all(each.source.file == __file__ for each in casts)
        assert names(report) == ["aclnnInplaceCopy"] * 3 + ["aclnnAddmm"]

    def test_encoder_layer_in_eval_falls_back_as_a_whole(self):
        """The fast path has no NPU kernel; training takes the ordinary operators."""
        layer = nn.TransformerEncoderLayer(8, 2, batch_first=True).to(NPU).eval()
        x = torch.ones(2, 4, 8).to(NPU)
        report = inspected(lambda: layer(x))
        name = "aten::_transformer_encoder_layer_fwd"
        assert verdicts(report, name) == [Verdict.CPU_FALLBACK]
        with inspect_dispatch() as trained:
            layer.train()(x)
        assert trained.find(name) == ()
        assert trained.fallbacks == ()

    def test_efficient_attention_falls_back_and_raises(self, tensors):
        """No NPU kernel, and then no CPU kernel either: both are said."""
        q = tensors["q"]
        call = torch.ops.aten._scaled_dot_product_efficient_attention
        with pytest.raises(NotImplementedError), inspect_dispatch() as report:
            call(q, q, q, None, False)
        (node,) = report.chains
        assert node.verdict is Verdict.CPU_FALLBACK
        assert node.why.endswith("and raised NotImplementedError.")
        assert (report.failure.reported, report.failure.asynchronous) == (None, False)

    @pytest.mark.parametrize(
        ("mask", "fused"), [(None, True), (torch.bool, True), (torch.float16, False)]
    )
    def test_mask_decides_the_route_of_attention(self, tensors, mask, fused):
        """No mask and a bool mask reach the fused kernel, a float mask the math path."""
        q = tensors["q"]
        mask = mask and torch.ones(16, 16, dtype=mask).to(NPU)
        report = inspected(
            lambda: F.scaled_dot_product_attention(q, q, q, attn_mask=mask)
        )
        assert ("aclnnFlashAttentionScore" in names(report)) is fused
        assert ("aclnnSoftmax" in names(report)) is not fused
        (node,) = report.find("aten::scaled_dot_product_attention")
        assert node.verdict is Verdict.ACLNN_VIA

    def test_cast_after_the_product_loses_precision_before_it(self, tensors):
        """The order of product and cast is the order of the launches."""
        x, w = tensors["x"].bfloat16(), tensors["w"].bfloat16()
        late = inspected(lambda: F.linear(x, w).float())
        early = inspected(lambda: F.linear(x.float(), w.float()))
        assert names(late)[-1] == "aclnnInplaceCopy"
        assert names(early)[:2] == ["aclnnInplaceCopy"] * 2
        assert [each.kind for each in late.copies_and_casts] == ["dtype cast"]

    def test_strided_operand_needs_no_launch_of_its_own(self, tensors):
        """The copy that CANN makes inside bmm is in no line: one launch is all."""
        report = inspected(
            lambda: torch.bmm(tensors["x3"].transpose(1, 2), tensors["x3"])
        )
        assert names(report) == ["aclnnBatchMatMul"]
        (launch,) = report.launches
        assert launch.record.arguments[0].value.stride == (32, 1, 8)

    def test_adaptive_max_pool3d_of_doubles_is_hidden_cpu(self):
        """The second known kernel that computes on the CPU."""
        x = torch.ones(1, 2, 4, 4, 4, dtype=torch.double).to(NPU)
        report = inspected(lambda: F.adaptive_max_pool3d(x, 2))
        assert report.chains[0].verdict is Verdict.HIDDEN_CPU

    @pytest.mark.parametrize(
        ("call", "launched"),
        [
            (lambda t: t["mask"].nonzero(), "aclnnNonzero"),
            (lambda t: torch.masked_select(t["x"], t["mask"]), "aclnnMaskedSelect"),
            (lambda t: torch.unique(t["i"]), "aclnnUnique2"),
        ],
    )
    def test_synchronous_launches(self, tensors, call, launched):
        """Where the host waits for a size that depends on data, the launch says so."""
        report = inspected(lambda: call(tensors))
        (launch,) = [each for each in report.launches if each.name == launched]
        assert launch.record.synchronous
        assert launch.task.ret == 0
        assert report.unattributed == ()

    def test_number_arguments_are_no_cpu_work(self, tensors):
        """What a kernel does with plain numbers on the host computes nothing."""
        report = inspected(
            lambda: (tensors["x"] + 1, tensors["x"] * 2.5, tensors["x"].sum())
        )
        assert {node.verdict for node in report.chains} == {Verdict.ACLNN}

    def test_views_and_memory_launch_nothing(self, tensors):
        """Views, also through composites, and bare allocations are told as such."""
        x = tensors["x"]
        report = inspected(
            lambda: (x.view(8, 4)[0], x.t(), x.T.detach(), torch.empty(2, device=NPU))
        )
        assert {node.verdict for node in report.nodes()} == {Verdict.NO_LAUNCH}
        assert report.launches == ()

    def test_item_and_host_copies_are_copies(self, tensors):
        """Data that only moves between host and device was not computed on."""
        x, b = tensors["x"], tensors["b"]
        report = inspected(lambda: (x.cpu(), torch.ones(2).to(NPU), b[0].item()))
        kinds = [each.kind for each in report.copies_and_casts]
        assert kinds == ["device to host", "host to device", "device to host"]
        assert Verdict.HIDDEN_CPU not in report.verdicts()
        assert Verdict.UNKNOWN not in report.verdicts()

    def test_custom_operators(self, tensors):
        """A library's operator is what its kernel did: others' launches, or CPU work."""
        library = torch.library.Library("inspector_test", "FRAGMENT")
        library.define("twice(Tensor x) -> Tensor")
        library.define("on_host(Tensor x) -> Tensor")
        library.impl("twice", lambda x: x * 2, "PrivateUse1")
        library.impl("on_host", lambda x: x.cpu().erf().to(x.device), "PrivateUse1")
        ops = torch.ops.inspector_test
        report = inspected(lambda: (ops.twice(tensors["x"]), ops.on_host(tensors["x"])))
        twice, on_host = report.chains
        assert twice.verdict is Verdict.ACLNN_VIA
        assert twice.why == "Its NPU kernel called aten::mul."
        assert on_host.verdict is Verdict.HIDDEN_CPU
        assert on_host.why == "Its NPU kernel called aten::erf on the CPU."
        library._destroy()

    def test_higher_order_operators_are_what_they_call(self, tensors):
        """A higher-order operator has no kernel in the tables and calls others."""
        from torch._higher_order_ops.out_dtype import out_dtype

        x = tensors["x"]
        report = inspected(
            lambda: out_dtype(torch.ops.aten.mul.Tensor, torch.float32, x, x)
        )
        (node,) = report.chains
        assert node.op.name == "higher_order::out_dtype"
        assert node.verdict is Verdict.COMPOSITE
        assert names(report) == ["aclnnMul"]


@pytest.mark.npu
class TestLogger:
    def test_calls_of_the_logger_are_in_no_number(self, tensors):
        """Printing a 0-dim tensor makes calls that the program did not make."""
        x = tensors["x"]
        total = x.sum()
        report = inspected(lambda: x * total)
        assert [node.op.qualified_name for node in report.nodes()] == [
            "aten::mul.Tensor"
        ]
        assert report.logger_calls == len(report.trace) - 1 > 0
        assert sum(each.calls for each in report.by_module().values()) == 1
        assert f"left out: {report.logger_calls} calls" in report.summary()

    def test_calls_of_the_program_that_look_alike_stay(self, tensors):
        """The program's own copy of a 0-dim tensor is not taken for the logger's."""
        total = tensors["x"].sum()
        report = inspected(lambda: total.to("cpu").to(torch.float64))
        assert report.logger_calls == 0
        assert len(report.chains) == 2


@pytest.mark.npu
class TestBlock:
    def test_report_of_a_running_block(self, tensors):
        """Inside the block the report shows what has been seen, and stays as it was."""
        with torch.no_grad(), inspect_dispatch() as report:
            torch.mm(tensors["x"], tensors["w"])
            early = report.only("*")
            assert names(early) == ["aclnnMm"]
            torch.mm(tensors["x"], tensors["w"])
            assert names(early) == ["aclnnMm"]
            assert len(report.find("aten::mm")) == 2
        assert names(report) == ["aclnnMm"] * 2

    def test_report_is_a_value(self, tensors, tmp_path):
        """It compares, hashes, pickles, copies and reads back from a file."""
        report = inspected(
            lambda: (
                torch.mm(tensors["x"], tensors["w"]),
                tensors["x"].std(correction=0.5),
            )
        )
        assert pickle.loads(pickle.dumps(report)) == report
        assert copy.deepcopy(report) == report
        assert hash(copy.copy(report)) == hash(report)
        save(report, tmp_path / "report.json")
        assert load(tmp_path / "report.json") == report
        assert report != inspected(lambda: None)

    def test_truncated_report(self, tensors):
        """What a call did after recording ended is not guessed."""
        with torch.no_grad(), inspect_dispatch(max_ops=1) as report:
            F.linear(tensors["x"], tensors["w"])
            torch.mm(tensors["x"], tensors["w"])
        (linear,) = report.chains
        assert linear.verdict is Verdict.ACLNN_VIA
        assert (
            linear.why
            == "It launched aclnnMatmul through calls that were not recorded."
        )
        assert [each.name for each in report.unattributed] == ["aclnnMm"]
        assert not report.complete
        assert "truncated: max_ops was reached" in report.summary()

    def test_threads(self, tensors):
        """Calls of other threads are in the report where they are asked for."""

        def work():
            torch.mm(tensors["x"], tensors["w"])

        for threads, expected in (("current", 1), ("all", 2)):
            with torch.no_grad(), inspect_dispatch(threads=threads) as report:
                work()
                thread = threading.Thread(target=work)
                thread.start()
                thread.join()
            assert len(report.find("aten::mm")) == expected
            assert len(report.logs.launches) == 2
            assert len(report.unattributed) == 2 - expected

    def test_dispatch_mode_leaves_kernels_unknown(self, tensors):
        """With the other engine launches are known and kernels are not."""
        with torch.no_grad(), inspect_dispatch(engine="dispatch_mode") as report:
            F.linear(tensors["x"], tensors["w"], tensors["b"])
            torch.digamma(tensors["x"])
        transposed, addmm, digamma = report.chains
        assert transposed.verdict is Verdict.NO_LAUNCH
        assert addmm.verdict is Verdict.ACLNN
        assert (digamma.verdict, digamma.why) == (
            Verdict.UNKNOWN,
            "Its kernel was not observed.",
        )

    def test_blocks_nest_with_each_other_and_with_tracers(self, tensors):
        """Each block sees its own part."""
        with torch.no_grad(), inspect_dispatch() as outer:
            torch.mm(tensors["x"], tensors["w"])
            with trace_ops() as trace, inspect_dispatch() as inner:
                F.silu(tensors["x"])
        assert names(inner) == ["aclnnSilu"]
        assert trace.names == ("aten::silu",)
        assert [node.op.name for node in outer.chains] == ["aten::mm", "aten::silu"]

    def test_profiler_sees_the_same_launches(self, tensors):
        """The second source agrees with the lines, call by call."""
        x = tensors["x"].detach().requires_grad_()
        with inspect_dispatch(profiler=True) as report:
            torch.matmul(x, tensors["w"]).sum().backward()
        told = [(each.name, each.op) for each in report.native_calls]
        assert told == [(each.name, each.op) for each in report.logs.launches]
        assert report.notes == ()

    def test_profiler_of_the_user_has_its_way(self, tensors):
        """Torch has one profiler: the user's gets the events, the report says so."""
        with (
            inspect_dispatch(profiler=True) as report,
            torch.profiler.profile() as profile,
        ):
            torch.mm(tensors["x"], tensors["w"])
        events = {event.name for event in profile.events()}
        assert {"aten::mm", "aclnnMm"} <= events
        assert report.native_calls is None
        assert "taken over the events" in report.notes[0]
        assert names(report) == ["aclnnMm"]
        with (
            torch.profiler.profile() as profile,
            inspect_dispatch(profiler=True) as report,
        ):
            torch.mm(tensors["x"], tensors["w"])
        assert "aten::mm" in {event.name for event in profile.events()}
        assert report.notes[0].startswith("A profiler was on when the block began")


class TestUse:
    def test_decorator(self):
        """A decorated function is a block, and the inspector keeps the last report."""
        inspector = inspect_dispatch("doubling")

        @inspector
        def double(x):
            return x * 2

        double(torch.ones(2))
        assert [node.op.name for node in inspector.report.chains] == ["aten::mul"]
        assert inspector.report.trace.label == "doubling"

    def test_mistakes_are_said(self):
        """Brackets left out, entering twice, and unknown options."""
        with pytest.raises(UsageError, match="needs its brackets"):
            inspect_dispatch(lambda: None)
        inspector = inspect_dispatch()
        with inspector, pytest.raises(UsageError, match="already recording"):
            inspector.__enter__()
        with pytest.raises(UsageError, match="engine must be one of"):
            inspect_dispatch(engine="magic")

    def test_exception_of_the_block(self):
        """The block's own error passes, and is in the report with no device to blame."""
        with pytest.raises(ValueError, match="theirs"), inspect_dispatch() as report:
            torch.ones(2)
            msg = "theirs"
            raise ValueError(msg)
        assert report.failure.exception.type == "ValueError"
        assert not report.failure.asynchronous
        assert "the block died of ValueError: theirs" in str(report)

    def test_leaving_the_program_is_no_failure(self):
        """SystemExit is no error of the block."""
        with pytest.raises(SystemExit), inspect_dispatch() as report:
            raise SystemExit(3)
        assert report.failure is None

    def test_cpu_work_is_complete_without_any_line(self):
        """On the CPU the chain ends in the kernel, and nothing is missing."""
        with inspect_dispatch() as report:
            F.linear(torch.ones(2, 3), torch.ones(4, 3), torch.ones(4))
        (linear,) = report.find("aten::linear")
        assert linear.verdict is Verdict.COMPOSITE
        (addmm,) = report.find("aten::addmm")
        assert addmm.verdict is Verdict.KERNEL
        assert addmm.op.path[-1].key == "CPU"
        assert report.complete
        assert report.missing == ()
