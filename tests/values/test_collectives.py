# SPDX-License-Identifier: BSD-3-Clause
"""Collectives among ranks that compute values."""

import socket

import pytest

pytestmark = pytest.mark.npu

SCRIPT = """
import os, sys, time
from npu_dispatch_inspect import standin
standin.load(values="cpu", device_count=2)
import torch
import torch.distributed as dist
import torch.multiprocessing as mp

def work(rank):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="{port}")
    torch.npu.set_device(rank)
    dist.init_process_group("hccl", rank=rank, world_size=2)
    x = torch.full((3,), rank + 1.0).npu()
    y = x * 2
    dist.all_reduce(y)
    after = y + 1
    y.mul_(0)
    both = [torch.empty(3).npu() for _ in range(2)]
    dist.all_gather(both, x)
    assert after.tolist() == [7.0] * 3, after
    assert torch.stack(both).sum(0).tolist() == [3.0] * 3, both

    sent = torch.arange(60000.0).reshape(200, 300)
    if rank:
        for change in (lambda z: z.t().contiguous().t(), lambda z: z.resize_(300, 300)[:200]):
            got = torch.zeros(200, 300).npu()
            dist.recv(got, 0)
            changed = change(got).cpu()
            assert torch.equal(changed.flatten(), sent.flatten()), changed
    else:
        for _ in range(2):
            time.sleep(0.2)
            dist.send(sent.npu(), 1)

    torch.manual_seed(0)
    plain, model = torch.nn.Linear(3, 2), torch.nn.Linear(3, 2)
    model.load_state_dict(plain.state_dict())
    ranks = torch.nn.parallel.DistributedDataParallel(model.npu(), device_ids=[rank])
    ranks(x[None]).square().sum().backward()
    for value in (1.0, 2.0):
        (plain(torch.full((1, 3), value)).square().sum() / 2).backward()
    torch.testing.assert_close(model.weight.grad.cpu(), plain.weight.grad)
    dist.destroy_process_group()

if __name__ == "__main__":
    mp.spawn(work, nprocs=2)
    print("joined")
"""


def test_ranks_compute_with_what_others_sent(tmp_path, python):
    """What follows a collective reads its result; DDP's gradients are the mean."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    script = tmp_path / "ranks.py"
    script.write_text(SCRIPT.replace("{port}", str(port)))
    done = python(
        f"import runpy; runpy.run_path({str(script)!r}, run_name='__main__')",
        TORCH_DEVICE_BACKEND_AUTOLOAD="1",
    )
    assert (0, "joined\n") == (done.returncode, done.stdout), done.stderr
