# SPDX-License-Identifier: BSD-3-Clause
"""Programs on npu:0 under the real torch_npu: each runs the operators it should.

The lists are what torch_npu 2.13.0 runs eagerly on an Ascend910B1 with jit_compile
off, as a TorchDispatchMode sees it. Other releases may differ.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import textwrap

import pytest

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.npu

import torch.nn.functional as F  # noqa: E402, N812 - torch's own convention
from torch import nn  # noqa: E402

from npu_dispatch_inspect import Phase, trace_ops  # noqa: E402

NPU = "npu:0"


def seen(program):
    """The trace of one call of ``program``."""
    with trace_ops() as trace:
        program()
    assert trace.complete, trace.notes
    assert trace.environment.stand_in
    return trace


def names(trace):
    """Operator names without the namespace, which is aten unless shown."""
    return [each.removeprefix("aten::") for each in trace.names]


def test_linear_forward_and_backward():
    """nn.Linear is t and addmm; its backward two mm (one without input gradient) and a sum."""
    linear = nn.Linear(128, 64).to(NPU)
    inputs = torch.randn(32, 128, device=NPU)
    trace = seen(lambda: linear(inputs).sum().backward())
    assert names(trace.forward) == ["t", "addmm", "sum"]
    assert names(trace.backward) == [
        "ones_like", "expand", "t", "mm", "t", "sum", "view", "detach", "t", "detach",
    ]  # fmt: skip
    addmm = trace.find("aten::addmm")[0]
    assert [str(each) for each in addmm.input_tensors] == [
        "f32[64]", "f32[32, 128]", "f32[128, 64]",
    ]  # fmt: skip
    assert {each.device for each in addmm.input_tensors} == {NPU}
    mm = trace.find("aten::mm")[0]
    assert trace[mm.forward_index] == addmm
    assert (mm.phase, mm.autograd_node) == (Phase.BACKWARD, "AddmmBackward0")


ATTENTION = [
    "transpose", "t", "matmul", "add", "view", "unsqueeze", "transpose", "squeeze",
    "clone", "select", "select", "select", "view", "transpose", "view", "transpose",
    "view", "transpose", "view", "view", "view", "npu::npu_fusion_attention_v3",
    "permute", "clone", "_unsafe_view", "t", "addmm", "view", "transpose",
]  # fmt: skip
"""Self-attention: matmul is not decomposed, and SDPA is torch_npu's fused kernel."""
ENCODER_FORWARD = [
    *ATTENTION, "native_dropout", "add", "native_layer_norm",
    "view", "t", "addmm", "view", "relu", "native_dropout",
    "view", "t", "addmm", "view", "native_dropout", "add", "native_layer_norm",
    "pow", "mean",
]  # fmt: skip
LINEAR_BACKWARD = [
    "t", "mm", "t", "mm", "t", "sum", "view", "detach", "t", "detach", "view",
]  # fmt: skip
"""A linear layer whose input needs a gradient, on folded leading dimensions."""
ENCODER_BACKWARD = [
    "ones_like", "expand", "div", "pow", "mul", "mul",
    "native_layer_norm_backward", "detach", "detach",
    "native_dropout_backward", "view", *LINEAR_BACKWARD,
    "native_dropout_backward", "threshold_backward", "view", *LINEAR_BACKWARD,
    "add", "native_layer_norm_backward", "detach", "detach",
    "native_dropout_backward", "transpose", "clone", "_unsafe_view",
    *LINEAR_BACKWARD, "permute", "npu::npu_fusion_attention_grad_v3",
    "view", "view", "view", *["transpose", "clone", "_unsafe_view"] * 3,
    "select_backward", "select_backward", "add", "select_backward", "add",
    "unsqueeze", "transpose", "squeeze", "clone", "_unsafe_view", "sum", "view",
    "detach", "matmul_backward", "t", "new_empty_strided", "copy_",
]  # fmt: skip
ADAMW_UPDATE = [
    "_foreach_add_", "_foreach_mul_", "_foreach_lerp_", "_foreach_mul_",
    "_foreach_addcmul_", *["_local_scalar_dense"] * 24, "_foreach_sqrt",
    "_foreach_div_", "_foreach_add_", "_foreach_addcdiv_",
]  # fmt: skip
"""One foreach update of 12 parameters; the step counters are read on the host."""


def test_transformer_training_step():
    """An encoder layer, forward, backward and two AdamW steps."""
    layer = nn.TransformerEncoderLayer(64, 4, 128, batch_first=True).to(NPU)
    optimizer = torch.optim.AdamW(layer.parameters(), lr=1e-3)
    words = torch.randn(2, 16, 64, device=NPU)

    def steps():
        for _ in range(2):
            optimizer.zero_grad()
            layer(words).pow(2).mean().backward()
            optimizer.step()

    trace = seen(steps)
    assert names(trace.forward) == ENCODER_FORWARD * 2
    assert names(trace.backward) == ENCODER_BACKWARD * 2
    # The first step makes the state of 12 parameters, the second only updates.
    update = [each for each in names(trace.optimizer) if "record_function" not in each]
    assert update == [
        *["lift_fresh", "zeros_like", "zeros_like"] * 12,
        "lift_fresh", *ADAMW_UPDATE, "lift_fresh", *ADAMW_UPDATE,
    ]  # fmt: skip
    # The root is "", and out_proj is not called: attention takes its weight.
    modules = {each.module for each in trace.backward} - {None}
    assert modules == {
        "", "self_attn", "dropout", "dropout1", "dropout2",
        "linear1", "linear2", "norm1", "norm2",
    }  # fmt: skip


def test_convolutional_net():
    """Convolution, batch norm, pooling and cross entropy have kernels of their own."""
    net = nn.Sequential(
        nn.Conv2d(3, 8, 3),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(8 * 15 * 15, 10),
    ).to(NPU)
    images = torch.randn(4, 3, 32, 32, device=NPU)
    classes = torch.zeros(4, dtype=torch.long, device=NPU)
    trace = seen(lambda: F.cross_entropy(net(images), classes).backward())
    assert names(trace.forward) == [
        "convolution", "add_", "empty", "native_batch_norm", "relu",
        "max_pool2d_with_indices", "view", "t", "addmm", "_log_softmax",
        "nll_loss_forward",
    ]  # fmt: skip
    assert names(trace.backward) == [
        "ones_like", "nll_loss_backward", "_log_softmax_backward_data",
        "t", "mm", "t", "mm", "t", "sum", "view", "detach", "t", "detach",
        "view", "max_pool2d_with_indices_backward", "threshold_backward",
        "native_batch_norm_backward", "detach", "detach",
        "convolution_backward", "detach", "detach",
    ]  # fmt: skip


def test_autocast():
    """Autocast casts input, weight and bias to half before addmm."""
    linear = nn.Linear(128, 64).to(NPU)
    inputs = torch.randn(32, 128, device=NPU)

    def program():
        with torch.autocast("npu", torch.float16):
            linear(inputs)

    trace = seen(program)
    assert names(trace) == ["_to_copy", "_to_copy", "_to_copy", "t", "addmm"]
    assert {each.dtype for each in trace[-1].input_tensors} == {"float16"}


def test_streams_and_events():
    """Work on a second stream, an event waited for, and a copy to the host."""
    x = torch.randn(32, 128, device=NPU)

    def program():
        stream = torch.npu.Stream()
        with torch.npu.stream(stream):
            y = x @ x.t()
            event = torch.npu.Event()
            event.record()
        event.wait()
        y.cpu()
        torch.npu.synchronize()

    trace = seen(program)
    assert names(trace) == ["t", "matmul", "_to_copy"]
    assert trace[-1].output_tensors[0].device == "cpu"


def test_shapes_that_depend_on_data():
    """masked_select, nonzero and unique return tensors of a valid shape."""
    x = torch.ones(32, 4, device=NPU)
    mask = torch.ones(32, 4, dtype=torch.bool, device=NPU)
    trace = seen(
        lambda: (torch.masked_select(x, mask), torch.nonzero(x), torch.unique(x))
    )
    assert names(trace) == ["masked_select", "nonzero", "_unique2"]
    assert all(each.output_tensors[0].shape is not None for each in trace)


def test_cpu_fallback():
    """Digamma has no NPU kernel; at this level it is one call all the same."""
    x = torch.ones(8, device=NPU)
    trace = seen(lambda: torch.digamma(x))
    assert names(trace) == ["digamma"]
    assert trace[0].output_tensors[0].device == NPU


RANK_PROGRAM = textwrap.dedent("""
    import os, sys
    import torch, torch.distributed as dist
    from torch import nn
    from torch.nn.parallel import DistributedDataParallel
    from npu_dispatch_inspect import trace_ops

    rank = int(os.environ["RANK"])
    torch.npu.set_device(rank)
    dist.init_process_group("hccl")
    x = torch.full((4,), float(rank), device=f"npu:{rank}")
    with trace_ops() as trace:
        dist.all_reduce(x)
    model = DistributedDataParallel(nn.Linear(4, 2).to(rank), device_ids=[rank])
    rows = torch.ones(1, 4, device=rank)
    with trace_ops() as step:
        model(rows).sum().backward()
    torch.npu.synchronize()
    print("REDUCED", *trace.names)
    print("FORWARD", *step.forward.without("profiler::*").names)
    print("COLLECTIVES", *(each for each in step.names if each.startswith("c10d::")))
    print("MODULES", *sorted({each.module for each in step.forward if each.module}))
    dist.destroy_process_group()
""")


def test_two_processes_over_hccl(tmp_path):
    """init_process_group("hccl"), all_reduce and a DDP step in two processes."""
    script = tmp_path / "rank.py"
    script.write_text(RANK_PROGRAM)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    ranks = [
        subprocess.Popen(
            [
                sys.executable,
                "-m",
                "npu_dispatch_inspect",
                "run",
                "--stand-in",
                "--device-count",
                "2",
                str(script),
            ],
            env={
                **os.environ,
                "RANK": str(rank),
                "WORLD_SIZE": "2",
                "MASTER_ADDR": "127.0.0.1",
                "MASTER_PORT": str(port),
                "PYTHONPATH": os.pathsep.join(sys.path),
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for rank in range(2)
    ]
    outputs = [rank.communicate(timeout=240)[0] for rank in ranks]
    assert [rank.returncode for rank in ranks] == [0, 0], outputs
    for output in outputs:
        lines = dict(
            line.split(" ", 1)
            for line in output.splitlines()
            if line[:1].isupper() and " " in line
        )
        assert lines["REDUCED"] == "c10d::allreduce_"
        assert lines["FORWARD"].split() == ["aten::t", "aten::addmm", "aten::sum"]
        assert "c10d::allreduce_" in lines["COLLECTIVES"]
        assert lines["MODULES"] == "module"
