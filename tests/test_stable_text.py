# SPDX-License-Identifier: BSD-3-Clause
"""The text of a trace is the same in every process, folder and hash seed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PROGRAM = """
import sys
import torch
from npu_dispatch_inspect import trace_ops

(device,) = sys.argv[1:]
for engine in ("dispatch_mode", "dispatcher"):
    torch.manual_seed(0)
    model = torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, dropout=0.0)
    model.to(device)
    optimizer = torch.optim.AdamW(model.parameters())
    with trace_ops("step", engine=engine) as trace:
        loss = model(torch.ones(2, 3, 8, device=device)).sum()
        loss.backward()
        optimizer.step()
        try:
            torch.ones(2, device=device) @ torch.ones(3, device=device)
        except RuntimeError:
            pass
    print(trace.to_text())
    print("== end of", engine)
"""


def run(folder, *arguments, seed, program="program.py", **variables):
    """The text that the program prints, in a process of its own."""
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "PYTHONHASHSEED": seed,
        **variables,
    }
    return subprocess.run(
        [sys.executable, program, *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    ).stdout


@pytest.mark.parametrize(
    "device", ["cpu", pytest.param("npu:0", marks=pytest.mark.npu)]
)
def test_same_text_everywhere(tmp_path, device):
    """Another folder, path to the program, hash seed and process: not a byte differs."""
    one, other = tmp_path / "one", tmp_path / "far" / "away"
    for folder in (one, other):
        folder.mkdir(parents=True)
        (folder / "program.py").write_text(PROGRAM)
    autoload = {"TORCH_DEVICE_BACKEND_AUTOLOAD": "0"} if device == "cpu" else {}
    texts = {
        run(one, device, seed="0", **autoload),
        run(
            tmp_path,
            device,
            seed="12345",
            program=str(other / "program.py"),
            **autoload,
        ),
    }
    assert len(texts) == 1
    (text,) = texts
    below_autograd, every_call, rest = text.split("== end of")
    assert rest.split() == ["dispatcher"]
    for each in (below_autograd, every_call):
        if device == "cpu":
            assert "raised RuntimeError" in each
        assert "bwd" in each
        assert "opt" in each
    assert str(tmp_path) not in text
    assert "0x" not in text


def test_same_text_after_loading(tmp_path):
    """A trace that was stored and loaded has the same text as before."""
    import torch

    from npu_dispatch_inspect import load, save, trace_ops

    with trace_ops() as trace:
        torch.ones(2) * 2
    save(trace, tmp_path / "trace.jsonl")
    assert load(tmp_path / "trace.jsonl").to_text() == trace.to_text()
