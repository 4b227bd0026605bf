# SPDX-License-Identifier: BSD-3-Clause
"""What a trace says about where it was made."""

from __future__ import annotations

import platform
import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from npu_dispatch_inspect import Environment, read_environment, trace_ops  # noqa: E402
from npu_dispatch_inspect.display.text import environment_line  # noqa: E402

ROOT = Path(__file__).parent.parent


def test_versions():
    """Versions are those that the packages give themselves."""
    environment = read_environment()
    assert environment.python == platform.python_version()
    assert environment.torch == torch.__version__


@pytest.mark.npu
def test_stand_in_is_said():
    """Everything made on the stand-in says so, with the chip it plays."""
    x = torch.ones(2, device="npu:0")
    with trace_ops() as trace:
        x + 1
    environment = trace.environment
    assert environment.device == "stand-in"
    assert environment.stand_in
    assert environment.soc == "Ascend910B1"
    assert environment.values == "none"
    assert environment.jit_compile is False
    # torch_npu 2.6 and 2.7 do not tell before it is set.
    assert environment.internal_format in {False, None}
    assert environment.torch_npu == sys.modules["torch_npu"].__version__
    assert "stand-in (Ascend910B1), nothing is computed" in environment_line(
        environment
    )


def test_reading_imports_nothing_and_starts_no_device():
    """Before torch is imported the environment is read without it."""
    code = (
        "import sys\n"
        "from npu_dispatch_inspect import read_environment\n"
        "e = read_environment()\n"
        "assert e.torch is None and e.device is None and e.grad_mode is None, e\n"
        "assert 'torch' not in sys.modules and 'torch_npu' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)


@pytest.mark.npu
def test_device_is_not_initialised_by_looking():
    """Reading the environment does not bring up an NPU that the program did not use."""
    code = (
        "from npu_dispatch_inspect import standin; standin.load()\n"
        "import torch\n"
        "from npu_dispatch_inspect import trace_ops\n"
        "with trace_ops() as trace: torch.ones(2) + 1\n"
        "assert trace.environment.device == 'stand-in' and trace.environment.soc is None\n"
        "assert not torch.npu.is_initialized()\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)


def test_switches_that_change_routes(monkeypatch):
    """Only the variables that are set are listed, sorted by name."""
    monkeypatch.setenv("TASK_QUEUE_ENABLE", "2")
    monkeypatch.setenv("ASCEND_LAUNCH_BLOCKING", "1")
    monkeypatch.delenv("TORCH_NPU_LOGS", raising=False)
    environment = read_environment()
    assert environment.switch("TASK_QUEUE_ENABLE") == "2"
    assert environment.switch("TORCH_NPU_LOGS") is None
    assert list(environment.switches) == sorted(environment.switches)


def test_modes_are_those_the_block_began_with():
    """Grad mode and autocast are read when the block begins, not when it ends."""
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16), trace_ops() as trace:
        torch.set_grad_enabled(True)
    assert trace.environment.grad_mode == "no_grad"
    assert trace.environment.autocast == ("cpu:bfloat16",)
    with torch.inference_mode(), trace_ops() as inference:
        pass
    assert inference.environment.grad_mode == "inference"


def test_environment_line():
    """The line names device, versions and switches, and leaves out what is unknown."""
    environment = Environment(
        tool="0",
        python="3.11",
        platform="linux-x86_64",
        torch="2.13.0",
        device="npu",
        soc="Ascend910B4",
        jit_compile=True,
        switches=(("TASK_QUEUE_ENABLE", "0"),),
    )
    assert environment_line(environment) == (
        "device: npu (Ascend910B4) · torch 2.13.0 · jit_compile on · TASK_QUEUE_ENABLE=0"
    )
    assert environment_line(Environment(tool="0", python="3", platform="x")) == (
        "device: unknown"
    )
