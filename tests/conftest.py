# SPDX-License-Identifier: BSD-3-Clause
"""Load the stand-in before anything imports torch, and watch every test for leaks."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import threading
from importlib.util import find_spec

import pytest

from npu_dispatch_inspect import standin
from npu_dispatch_inspect.standin.checks import check_no_cann
from tests.command_line import PATIENCE, without_exit_line

SET_BY_OTHERS = {
    "PYTEST_CURRENT_TEST",
    "TORCHINDUCTOR_CACHE_DIR",
    "_TORCHINDUCTOR_PYOBJECT_TENSOR_DATA_PTR",
    "_RJEM_MALLOC_CONF",
}
"""Variables that pytest, torch's compiler and polars set while tests run."""
HAS_NPU = find_spec("torch_npu") is not None

if HAS_NPU and "torch" not in sys.modules:
    check_no_cann()
    standin.load(device_count=2)


def pytest_collection_modifyitems(items):
    """Skip what needs torch_npu where it is not installed."""
    if HAS_NPU:
        return
    skip = pytest.mark.skip(reason="torch_npu is not installed")
    for item in items:
        if item.get_closest_marker("npu"):
            item.add_marker(skip)


@pytest.fixture(
    scope="session", params=["cpu", pytest.param("npu", marks=pytest.mark.npu)]
)
def device(request):
    """Each device in turn; npu is the real torch_npu on the stand-in."""
    return "cpu" if request.param == "cpu" else "npu:0"


@pytest.fixture(scope="session")
def python():
    """Run code in a new interpreter that sees the same packages; returns its result."""

    def run(code, *, timeout=PATIENCE, **variables):
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(sys.path),
            **variables,
        }
        environment.setdefault("TORCH_DEVICE_BACKEND_AUTOLOAD", "0")
        done = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(code)],
            capture_output=True,
            text=True,
            check=False,
            env=environment,
            timeout=timeout,
        )
        done.stderr = without_exit_line(done.stderr)
        return done

    return run


def _state():
    """Everything a tracer touches and must put back."""
    import torch
    from torch.nn.modules import module
    from torch.utils import _python_dispatch as modes

    scopes = sys.modules.get("npu_dispatch_inspect.capture._scopes")
    return {
        "dispatch mode stack": torch._C._len_torch_dispatch_stack(),
        "function mode stack": torch._C._len_torch_function_stack(),
        "in a dispatch mode": modes._is_in_torch_dispatch_mode,
        "in a mode Dynamo respects": getattr(
            modes, "_is_in_any_mode_without_ignore_compile_internals", None
        ),
        "Module.__call__": torch.nn.Module.__call__,
        "Thread.start": threading.Thread.start,
        "torch.utils.weakref": getattr(torch.utils, "weakref", None),
        "Tensor._make_subclass": torch.Tensor.__dict__.get("_make_subclass"),
        "global module hooks": (
            len(module._global_forward_hooks),
            len(module._global_forward_pre_hooks),
            len(module._global_backward_hooks),
        ),
        "included keys": str(torch._C._dispatch_tls_local_include_set()),
        "excluded keys": str(torch._C._dispatch_tls_local_exclude_set()),
        "grad mode": torch.is_grad_enabled(),
        "inference mode": torch.is_inference_mode_enabled(),
        "autocast": torch.is_autocast_enabled("cpu"),
        "stdout": os.fstat(1).st_ino,
        "stderr": os.fstat(2).st_ino,
        "scopes": dict(getattr(scopes, "current_scopes", {})),
        "tracers": getattr(scopes, "_users", 0),
        **{
            f"${name}": text
            for name, text in os.environ.items()
            if name not in SET_BY_OTHERS
        },
    }


@pytest.fixture(autouse=True)
def leak_guard(monkeypatch):
    """Fail a test that leaves a mode, hook, patch, descriptor or variable behind."""
    if "torch" not in sys.modules:
        yield
        return
    before = _state()
    yield
    monkeypatch.undo()
    after = _state()
    left = {
        name: (before.get(name), after.get(name))
        for name in before.keys() | after.keys()
        if before.get(name) != after.get(name)
    }
    assert not left, f"the test left something behind: {left}"
