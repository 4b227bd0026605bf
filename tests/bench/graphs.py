# SPDX-License-Identifier: BSD-3-Clause
"""Cost of capturing graphs: ratios against AOTAutograd called directly.

Run: ``python tests/bench/graphs.py``. Each figure is the median of 13 rounds; in a
round every configuration captures once, so that a busy machine hits all alike. The
direct calls make the same joint, forward and backward graph and keep them as they are;
`capture` makes records, names and texts of them as well. Needs torch 2.9.
"""

from __future__ import annotations

import contextlib
import gc
import os
import statistics
import time
import warnings

os.environ.setdefault("TORCH_DEVICE_BACKEND_AUTOLOAD", "0")

import torch
from torch import nn
from torch._functorch.aot_autograd import (
    aot_compile_joint_with_descriptors,
    aot_export_joint_with_descriptors,
    aot_function,
)
from torch._functorch.partitioners import default_partition

from npu_dispatch_inspect import capture_graphs

ROUNDS = 13


def encoder():
    """Two transformer layers in training."""
    layer = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True)
    return nn.TransformerEncoder(layer, 2), (torch.randn(2, 8, 32),)


def convolutions():
    """Six convolutions with batch norm."""
    layers = []
    for _ in range(6):
        layers += [nn.Conv2d(4, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU()]
    return nn.Sequential(*layers), (torch.randn(2, 4, 8, 8),)


def descriptors(model, args):
    """`aot_export_joint_with_descriptors`, and the cut."""
    kept = []

    def cut(joint, *given, **options):
        kept.append(joint)
        graphs = default_partition(joint, *given, **options)
        kept.extend(graphs)
        return graphs

    with contextlib.ExitStack() as stack:
        joint = aot_export_joint_with_descriptors(stack, model, args)
        aot_compile_joint_with_descriptors(joint, partition_fn=cut)
    return kept


def function(model, args):
    """`aot_function` and one step, which compiles both graphs."""
    kept = []

    def keep(graph, _):
        kept.append(graph)
        return graph

    named = dict(model.named_parameters())
    buffers = {name: each.clone() for name, each in model.named_buffers()}

    def call(parameters, values, inputs):
        return torch.func.functional_call(model, (parameters, values), inputs)

    compiled = aot_function(call, fw_compiler=keep, bw_compiler=keep)
    compiled(named, buffers, args).sum().backward()
    return kept


def captured(model, args):
    """`capture_graphs`."""
    with capture_graphs() as graphs:
        return graphs.capture(model, *args)


CONFIGURATIONS = {
    "export_joint_with_descriptors": descriptors,
    "aot_function": function,
    "capture_graphs": captured,
}


def measure(program):
    """Median seconds per configuration."""
    model, args = program()
    taken = {name: [] for name in CONFIGURATIONS}
    for _ in range(ROUNDS):
        for name, run in CONFIGURATIONS.items():
            gc.collect()
            started = time.thread_time()
            run(model, args)
            taken[name].append(time.thread_time() - started)
    # The first round loads modules.
    return {name: statistics.median(times[1:]) for name, times in taken.items()}


def main():
    """Print one table per program."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    for program in (encoder, convolutions):
        nodes = len(captured(*program()).joint.nodes)
        times = measure(program)
        print(f"{program.__name__}: {nodes} nodes in the joint graph")
        ours = times["capture_graphs"]
        for name, seconds in times.items():
            print(
                f"  {name:30} {seconds * 1e3:7.1f} ms  ours is {ours / seconds:5.2f} x"
            )


if __name__ == "__main__":
    main()
