# SPDX-License-Identifier: BSD-3-Clause
"""Programs of all kinds run on the stand-in from start to a clean end."""

from __future__ import annotations

import re

import pytest

pytestmark = pytest.mark.npu


def test_linear_runs_forward_and_backward_without_a_stray_line(run_on_npu):
    """A linear layer's forward and backward print nothing a device would not print."""
    done = run_on_npu("""
        model = nn.Linear(128, 64).npu()
        x = torch.randn(32, 128).npu().requires_grad_()
        model(x).sum().backward()
        torch.npu.synchronize()
        print(torch.npu.is_available(), model(x).device, tuple(x.grad.shape))
    """)
    assert done.lines() == ["True npu:0 (32, 128)"]
    assert done.unexpected == []


def test_importing_torch_alone_is_enough(run_on_npu):
    """Torch's own loading of backends brings torch_npu in, without a stray line."""
    done = run_on_npu(
        "import sys; print('torch_npu' in sys.modules, torch.npu.is_available())"
    )
    assert done.lines() == ["True True"]
    assert done.unexpected == []


def test_a_transformer_layer_trains(run_on_npu):
    """Forward, backward and two AdamW steps of an encoder layer run through."""
    done = run_on_npu("""
        model = nn.TransformerEncoderLayer(64, 4, 128, batch_first=True).npu()
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
        for _ in range(2):
            loss = model(torch.randn(2, 16, 64).npu()).pow(2).mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
        print(all(p.device.type == "npu" for p in model.parameters()))
    """)
    assert done.lines() == ["True"]
    assert done.unexpected == []


def test_a_convolutional_net_trains(run_on_npu):
    """Convolution, batch norm, pooling and cross entropy run forward and backward."""
    done = run_on_npu("""
        model = nn.Sequential(
            nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2),
            nn.AvgPool2d(2), nn.Flatten(), nn.Linear(8 * 3 * 3, 10),
        ).npu()
        target = torch.tensor([1, 2, 3, 4]).npu()
        F.cross_entropy(model(torch.randn(4, 3, 16, 16).npu()), target).backward()
        print(tuple(model[0].weight.grad.shape))
    """)
    assert done.lines() == ["(8, 3, 3, 3)"]


def test_autocast_gives_half_results(run_on_npu):
    """Under autocast a linear layer answers in the chosen 16-bit type."""
    done = run_on_npu("""
        model = nn.Linear(16, 16).npu()
        for dtype in torch.float16, torch.bfloat16:
            with torch.autocast("npu", dtype=dtype):
                out = model(torch.randn(4, 16).npu())
            F.layer_norm(out, (16,)).float().sum().backward()
            print(out.dtype)
    """)
    assert done.lines() == ["torch.float16", "torch.bfloat16"]


def test_streams_and_events_are_complete(run_on_npu):
    """Work on a second stream is done when asked about, in no time."""
    done = run_on_npu("""
        stream = torch.npu.Stream()
        start, end = (torch.npu.Event(enable_timing=True) for _ in range(2))
        with torch.npu.stream(stream):
            start.record()
            torch.randn(8, 8).npu() @ torch.randn(8, 8).npu()
            end.record()
        torch.npu.current_stream().wait_stream(stream)
        end.synchronize()
        print(start.query(), stream.query(), start.elapsed_time(end))
        host = torch.randn(8, 8).pin_memory()
        device = host.to("npu", non_blocking=True)
        torch.npu.synchronize()
        print(host.is_pinned(), torch.randn(8).is_pinned(), torch.equal(device.cpu(), host))
    """)
    assert done.lines() == ["True True 0.0", "True False True"]


def test_sizes_that_depend_on_data_are_valid(run_on_npu):
    """Without looking at data, such an operator answers with the largest size."""
    done = run_on_npu("""
        x = torch.randn(3, 4).npu()
        mask = torch.ones(3, 4, dtype=torch.bool).npu()
        print(tuple(torch.masked_select(x, mask).shape), tuple(x[mask].shape))
        print(tuple(torch.nonzero(x).shape), tuple(torch.unique(x).shape))
        print(tuple(torch.nonzero(x, as_tuple=True)[1].shape))
    """)
    assert done.lines() == ["(12,) (12,)", "(12, 2) (12,)", "(12,)"]


def test_a_cpu_fallback_computes_real_values(run_on_npu):
    """An operator without an NPU kernel runs on the CPU, and says so as on a device."""
    done = run_on_npu("print(torch.digamma(torch.ones(2).npu()).cpu().tolist())")
    assert done.out.startswith("[-0.577215")
    assert any("aten::digamma.out" in line for line in done.err.splitlines())


def test_tensors_can_be_printed(run_on_npu):
    """The repr of a tensor, which selects and compares elements, does not fail."""
    done = run_on_npu("""
        print(torch.arange(5).float().npu())
        print(torch.randn(3, 3).npu().half())
        print(torch.tensor(3.5).npu().item())
    """)
    assert "device='npu:0'" in done.out
    assert done.lines()[-1] == "3.5"


def test_saving_and_loading_keeps_values_and_device(run_on_npu):
    """What torch.save wrote from a device comes back to it, or to the CPU if asked."""
    done = run_on_npu("""
        x = torch.randn(5)
        torch.save({"x": x.npu()}, "x.pt")
        back = torch.load("x.pt")["x"]
        print(back.device, torch.equal(back.cpu(), x))
        print(torch.load("x.pt", map_location="cpu")["x"].device)
    """)
    assert done.lines() == ["npu:0 True", "cpu"]


def test_memory_is_counted_and_given_back(run_on_npu):
    """Statistics rise and fall, and more than the device has is out of memory."""
    done = run_on_npu("""
        x = torch.empty(1 << 20, device="npu")
        used = torch.npu.memory_allocated()
        free, total = torch.npu.mem_get_info()
        print(used >= 4 << 20, total == 64 << 30, free < total)
        del x
        torch.npu.empty_cache()
        print(torch.npu.memory_stats()["allocated_bytes.all.current"])
        print(torch.npu.mem_get_info()[0] == total)
        try:
            torch.empty(1 << 40, device="npu")
        except torch.OutOfMemoryError as error:
            print("out of memory" in str(error))
    """)
    assert done.lines() == ["True True True", "0", "True", "True"]


def test_expandable_segments_work(run_on_npu):
    """The allocator's mode that reserves addresses first runs and frees as well."""
    done = run_on_npu(
        """
        x = [torch.ones(1 << 20).npu() for _ in range(12)]
        print(torch.equal(x[3].cpu(), torch.ones(1 << 20)))
        del x
        torch.npu.empty_cache()
        print(torch.npu.memory_reserved())
        """,
        PYTORCH_NPU_ALLOC_CONF="expandable_segments:True",
    )
    assert done.lines() == ["True", "0"]


def test_two_devices_are_apart(run_on_npu):
    """Tensors live on the device they were put on, and move with their values."""
    done = run_on_npu(
        """
        x = torch.randn(3)
        second = x.to("npu:1")
        print(torch.npu.device_count(), second.device)
        print(torch.equal(second.to("npu:0").cpu(), x))
        with torch.npu.device(1):
            print(torch.ones(3).npu().device)
        """,
        arguments="device_count=2",
    )
    assert done.lines() == ["2 npu:1", "True", "npu:1"]


def test_a_captured_graph_replays(run_on_npu):
    """A graph can be captured and replayed, which does nothing."""
    done = run_on_npu("""
        x = torch.randn(4, 4).npu()
        graph = torch.npu.NPUGraph()
        with torch.npu.graph(graph):
            y = x @ x
        graph.replay()
        torch.npu.synchronize()
        print(tuple(y.shape))
    """)
    assert done.lines() == ["(4, 4)"]


def test_the_profilers_run(run_on_npu):
    """Torch's profiler and torch_npu's own start, stop and leave the program alone."""
    done = run_on_npu("""
        import torch_npu
        with torch.profiler.profile() as profile:
            torch.randn(3, 3).npu() @ torch.randn(3, 3).npu()
        print(any(event.name == "aten::matmul" for event in profile.events()))
        with torch_npu.profiler.profile():
            torch.randn(3, 3).npu() @ torch.randn(3, 3).npu()
    """)
    assert done.lines()[0] == "True"
    assert "Call start failed" not in done.out


def test_a_loader_with_worker_processes_works(run_on_npu):
    """Forked data loader workers do not disturb the device, nor it them."""
    done = run_on_npu("""
        from torch.utils.data import DataLoader
        x = torch.ones(1).npu()
        print(sum(len(batch.npu()) for batch in DataLoader(range(8), num_workers=2)))
    """)
    assert done.lines() == ["8"]


@pytest.mark.parametrize("queue", ["0", "1", "2"])
def test_log_lines_have_sane_numbers(run_on_npu, queue):
    """Whatever the task queue's mode, launches are logged with this device's cores."""
    done = run_on_npu(
        """
        nn.Linear(128, 64).npu()(torch.randn(32, 128).npu()).sum().backward()
        torch.npu.synchronize()
        """,
        TASK_QUEUE_ENABLE=queue,
        TORCH_NPU_LOGS="+op_plugin,+dispatch",
    )
    launches = re.findall(
        r"(aclnn\w+) EXEC_NPU_CMD stream_id=(\d+), aic_num=(\d+) aiv_num=(\d+)",
        done.err,
    )
    assert launches[0] == ("aclnnAddmm", "0", "24", "48")
    assert {launch[1:] for launch in launches} == {("0", "24", "48")}
    assert {"aclnnAddmm", "aclnnReduceSum"} <= {launch[0] for launch in launches}


def test_memory_of_handles_does_not_grow(run_on_npu):
    """Thousands of launches leave no tensor, scalar or list handle behind."""
    done = run_on_npu("""
        import gc
        def resident():
            return int(open("/proc/self/statm").read().split()[1]) * 4096
        x = [torch.randn(4, 4).npu() for _ in range(8)]
        def work(times):
            for _ in range(times):
                torch.cat(x)
                torch._foreach_add(x, 1.5)
                x[0].sum(dim=(0, 1))
                x[0].clone()
            torch.npu.synchronize()
            gc.collect()
        work(1000)
        before = resident()
        work(4000)
        print(resident() - before < 4 << 20, resident() - before)
    """)
    assert done.out.startswith("True"), done.out


def test_copies_change_type_and_strides(run_on_npu):
    """Copies on the device carry values through every common type and view."""
    done = run_on_npu("""
        x = torch.randn(40, 60) * torch.logspace(-9, 4, 60)
        for dtype in torch.half, torch.bfloat16, torch.int32, torch.int64, torch.bool:
            assert torch.equal(x.npu().to(dtype).cpu(), x.to(dtype)), dtype
            assert torch.equal(x.to(dtype).npu().float().cpu(), x.to(dtype).float()), dtype
        n = x.npu()
        assert torch.equal(n.t().contiguous().cpu(), x.t().contiguous())
        assert torch.equal(n[1:, ::2].clone().cpu(), x[1:, ::2])
        assert torch.equal(F.pad(n, (1, 2, 3, -1), value=1.5).cpu(),
                           F.pad(x, (1, 2, 3, -1), value=1.5))
        wide = torch.empty(3, 4, device="npu").copy_(torch.arange(4.0).npu())
        assert torch.equal(wide.cpu(), torch.arange(4.0).expand(3, 4))
        assert torch.equal(torch.full((3,), 2.5, device="npu").cpu(), torch.full((3,), 2.5))
        assert torch.equal(torch.zeros(3, device="npu").cpu(), torch.zeros(3))
        assert torch.equal(torch.ones(3, device="npu").cpu(), torch.ones(3))
        print("equal")
    """)
    assert done.lines() == ["equal"]


def test_memory_starts_out_zero(run_on_npu):
    """A first allocation holds zeros, so that results without values are repeatable."""
    done = run_on_npu("print(torch.empty(1000, device='npu').cpu().abs().max().item())")
    assert done.lines() == ["0.0"]
