# SPDX-License-Identifier: BSD-3-Clause
"""Training steps of tiny language models: every launch has its call."""

from __future__ import annotations

import pytest
import torch

from npu_dispatch_inspect import Verdict, inspect_dispatch

pytestmark = pytest.mark.npu
transformers = pytest.importorskip("transformers")


def llama():
    """A Llama of two layers, with random weights."""
    return transformers.LlamaForCausalLM(
        transformers.LlamaConfig(
            hidden_size=32, intermediate_size=64, num_hidden_layers=2,
            num_attention_heads=4, num_key_value_heads=2, vocab_size=64,
        )
    )  # fmt: skip


def gpt2():
    """A GPT-2 of two layers, with random weights."""
    return transformers.GPT2LMHeadModel(
        transformers.GPT2Config(
            n_embd=32, n_layer=2, n_head=4, vocab_size=64, n_positions=32
        )
    )


@pytest.fixture(scope="module", params=[llama, gpt2], ids=lambda make: make.__name__)
def report(request):
    """One training step, inspected."""
    torch.manual_seed(0)
    model = request.param().to("npu:0")
    optimizer = torch.optim.AdamW(model.parameters())
    tokens = torch.randint(0, 64, (2, 8)).to("npu:0")
    with inspect_dispatch(request.param.__name__) as report:
        loss = model(input_ids=tokens, labels=tokens).loss
        loss.backward()
        optimizer.step()
    return report


def test_every_launch_has_its_call(report):
    """As many launches in chains as the raw text has lines that name one."""
    raw = "".join(record.text for record in report.logs)
    assert len(report.launches) == raw.count(" EXEC_NPU_CMD") > 100
    assert report.unattributed == ()


def test_every_launch_was_run(report):
    """Each launch that is not synchronous has a task that was read and succeeded."""
    tasks = [launch.task for launch in report.launches]
    assert None not in tasks
    assert {task.ret for task in tasks} == {0}


def test_every_chain_ends_in_a_kernel(report):
    """Every call without calls inside has a kernel that the tables name."""
    leaves = [node for node in report.nodes() if not node.children]
    assert all(node.op.path for node in leaves)
    assert Verdict.UNKNOWN not in report.verdicts()


def test_modules_add_up(report):
    """What the modules did themselves is together the whole."""
    shares = report.by_module().values()
    assert sum(share.calls for share in shares) == sum(1 for _ in report.nodes())
    assert sum(share.launches.total() for share in shares) == len(report.launches)
    assert sum(share.verdicts.total() for share in shares) == sum(
        report.verdicts().values()
    )


def test_backward_belongs_to_modules(report):
    """Most launches of the backward pass are those of a module; the rest, of the loss."""
    backward = [
        node
        for node in report.nodes()
        if node.op.phase.value == "backward" and node.launches
    ]
    inside = [node for node in backward if node.op.module is not None]
    assert len(inside) > 0.8 * len(backward)


def test_layers_that_are_alike_are_shown_once(report):
    """The text names the second layer's modules as being like the first one's."""
    text = report.to_text(max_chains=10_000)
    assert text.count(": as ") > 5
    assert max(map(len, text.splitlines()[2:100])) <= 140
