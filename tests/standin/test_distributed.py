# SPDX-License-Identifier: BSD-3-Clause
"""Collectives between processes carry real data, and a lost rank ends as an error."""

from __future__ import annotations

import socket

import pytest

pytestmark = pytest.mark.npu

# The processes are spawned: they have the stand-in from their parent's environment.
HEAD = """
import os
from npu_dispatch_inspect import standin
if __name__ == "__main__":
    standin.load(device_count={ranks})
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn

def start(rank, ranks):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="{port}")
    torch.npu.set_device(rank)
    dist.init_process_group("hccl", rank=rank, world_size=ranks)

def filled(value, count=5, dtype=torch.float32):
    return torch.full((count,), value, dtype=dtype).npu()

def work(rank, ranks):
{body}

if __name__ == "__main__":
    mp.spawn(work, ({ranks},), nprocs={ranks})
    print("joined")
"""


@pytest.fixture(name="run_ranks")
def run_ranks_fixture(run, tmp_path):
    """Run the body of work(rank, ranks) in several processes."""

    def run_ranks(body, *, ranks=2, **options):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        lines = "\n".join("    " + line for line in body.strip("\n").splitlines())
        script = tmp_path / "ranks.py"
        script.write_text(
            HEAD.replace("{ranks}", str(ranks))
            .replace("{port}", str(port))
            .replace("{body}", lines)
        )
        return run(
            "import runpy; runpy.run_path('ranks.py', run_name='__main__')", **options
        )

    return run_ranks


COLLECTIVES = """
start(rank, ranks)
for dtype in torch.float32, torch.float16, torch.bfloat16, torch.int32, torch.int64:
    t = filled(rank + 1, 100_000, dtype)
    dist.all_reduce(t)
    assert (t.cpu() == sum(range(1, ranks + 1))).all(), dtype
t = filled(rank + 1.0)
dist.all_reduce(t, op=dist.ReduceOp.MAX)
assert (t.cpu() == ranks).all()
gathered = [filled(0.0) for _ in range(ranks)]
dist.all_gather(gathered, filled(float(rank)))
assert [g[0].item() for g in gathered] == list(range(ranks))
t = filled(float(rank), 200_000)
dist.broadcast(t, 1)
assert (t.cpu() == 1).all()
out, source = filled(0.0, 2), torch.arange(2.0 * ranks).npu()
dist.reduce_scatter_single(out, source)
assert out.cpu().tolist() == [2.0 * rank * ranks, (2.0 * rank + 1) * ranks]
out, source = filled(0.0, ranks), torch.arange(10.0 * rank, 10.0 * rank + ranks).npu()
dist.all_to_all_single(out, source)
assert out.cpu().tolist() == [10.0 * other + rank for other in range(ranks)]
after, before = (rank + 1) % ranks, (rank - 1) % ranks
received = filled(0.0, 50_000)
operations = [
    dist.P2POp(dist.isend, filled(float(rank), 50_000), after),
    dist.P2POp(dist.irecv, received, before),
]
for pending in dist.batch_isend_irecv(operations):
    pending.wait()
assert (received.cpu() == before).all()
if rank == 0:
    dist.send(filled(7.0), 1)
elif rank == 1:
    dist.recv(received[:5], 0)
    assert (received[:5].cpu() == 7).all()
half = dist.new_group([0, 1])
if rank < 2:
    t = filled(1.0)
    dist.all_reduce(t, group=half)
    assert (t.cpu() == 2).all()
objects = [None] * ranks
dist.all_gather_object(objects, {"rank": rank})
assert objects == [{"rank": other} for other in range(ranks)]
dist.barrier()
dist.destroy_process_group()
"""


@pytest.mark.parametrize("ranks", [2, 3])
def test_collectives_carry_real_data(run_ranks, ranks):
    """Every collective and message gives each rank the values it should have."""
    assert run_ranks(COLLECTIVES, ranks=ranks).lines()[-1] == "joined"


def test_ddp_starts_and_takes_a_step(run_ranks):
    """DistributedDataParallel finds its replicas equal and trains one step."""
    done = run_ranks("""
start(rank, ranks)
model = nn.parallel.DistributedDataParallel(nn.Linear(8, 4).npu(), device_ids=[rank])
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model(torch.randn(3, 8).npu()).sum().backward()
optimizer.step()
torch.npu.synchronize()
dist.destroy_process_group()
""")
    assert done.lines()[-1] == "joined"


def test_a_lost_rank_is_an_error_for_the_others(run_ranks):
    """If a rank dies, the rank that waits for it fails instead of hanging."""
    done = run_ranks(
        """
start(rank, ranks)
t = filled(1.0)
dist.all_reduce(t)
torch.npu.synchronize()
if rank == 1:
    os._exit(0)
try:
    dist.all_reduce(t)
    torch.npu.synchronize()
except RuntimeError:
    print("the other rank has ended")
os._exit(0)
""",
        check=False,
    )
    assert "the other rank has ended" in done.out
