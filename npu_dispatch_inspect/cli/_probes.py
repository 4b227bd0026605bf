# SPDX-License-Identifier: BSD-3-Clause
"""What `doctor` finds by trying: imports, the stand-in, engines and loggers.

Everything runs in processes of its own: an import that fails, or kills the
process, must not take the answer with it.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

from npu_dispatch_inspect.cli._findings import (
    Finding,
    cuda_of_torch,
    installed_version,
    release,
)
from npu_dispatch_inspect.errors import StandInError

__all__ = ["engines", "imports", "stand_in"]

PATIENCE = 300
_MARK = "npu-dispatch-inspect doctor: "
_IMPORT = """
import torch, torch_npu
print(torch.npu.device_count() if torch.npu.is_available() else 0)
"""
_STAND_IN = """
from npu_dispatch_inspect import standin
print(standin.load().folder)
"""
_ENGINES = """
import json, sys
told = {}
if "--stand-in" in sys.argv:
    from npu_dispatch_inspect import standin
    standin.load()
import torch
import npu_dispatch_inspect as ndi
device = "cpu"
if "--npu" in sys.argv:
    import torch_npu
    device = "npu"
left = torch.ones(2, 2, device=device)
def attempt(name, action):
    try:
        told[name] = action()
    except Exception as error:
        told[name] = {"error": f"{type(error).__name__}: {error}".partition("\\n")[0]}
def traced(engine):
    with ndi.trace_ops(engine=engine) as trace:
        torch.mm(left, left)
    return {"ops": list(trace.names)}
def logged():
    with ndi.capture_logs() as logs:
        torch.mm(left, left)
        torch.npu.synchronize()
    missing = [(each.what, each.reason, each.remedy) for each in logs.missing]
    tasks = [each.name for each in logs.tasks if each.name]
    return {"launches": list(logs.names), "tasks": tasks, "missing": missing}
attempt("dispatch_mode", lambda: traced("dispatch_mode"))
attempt("dispatcher", lambda: traced("dispatcher"))
attempt("table", lambda: {"ops": list(ndi.read_dispatch_table("aten::mm").names)})
def graphed():
    with ndi.capture_graphs() as graphs:
        (graph,) = graphs.capture(lambda tensor: torch.mm(tensor, tensor), left)
    return {"ops": list(graph.names)}
attempt("graphs", graphed)
attempt("explain", lambda: {"ops": list(ndi.explain("aten::mm", left, left).names)})
if device == "npu":
    attempt("logs", logged)
print("MARK" + json.dumps(told))
""".replace("MARK", _MARK)


def _python(code: str, *arguments: str, **environment: str) -> tuple[int, str, str]:
    """Run code in a new interpreter: status (negative: a signal), output, errors."""
    try:
        done = subprocess.run(  # noqa: S603 - our own interpreter and code
            [sys.executable, "-c", code, *arguments],
            capture_output=True,
            text=True,
            errors="backslashreplace",
            check=False,
            stdin=subprocess.DEVNULL,
            timeout=PATIENCE,
            env={**os.environ, **environment},
        )
    except subprocess.TimeoutExpired:
        return 1, "", f"it did not end within {PATIENCE} seconds"
    return done.returncode, done.stdout, done.stderr


def imports() -> Iterator[Finding]:
    """Whether torch imports, alone and with torch_npu, and if not, why."""
    if installed_version("torch") is None:
        return
    status, _, errors = _python("import torch", TORCH_DEVICE_BACKEND_AUTOLOAD="0")
    if status:
        yield Finding(
            level="do",
            what="import torch",
            told=f"fails: {_last_line(status, errors)}",
            action="install torch anew",
        )
        return
    yield Finding(level="ok", what="import torch", told="works")
    if installed_version("torch_npu") is None:
        return
    status, output, errors = _python(_IMPORT)
    if not status:
        count = output.split()[-1] if output.split() else "0"
        if count == "0":
            yield Finding(
                level="note",
                what="import torch_npu",
                told="works, but there is no NPU",
                action="use --stand-in to run on the host",
            )
        else:
            yield Finding(
                level="ok", what="import torch_npu", told=f"works, {count} NPU"
            )
        return
    yield _why_not(status, errors)


def _why_not(status: int, errors: str) -> Finding:
    """Recognise why torch_npu does not import."""
    what = "import torch_npu"
    library = re.search(r"(lib\w+\.so[\w.]*): cannot open shared object", errors)
    module = re.search(r"No module named '([\w.]+)'", errors)
    cuda = cuda_of_torch()
    if library:
        return _no_cann(what, library[1])
    if module:
        return Finding(
            level="do",
            what=what,
            told=f"fails: the module {module[1]} is missing",
            action=f"pip install {_PACKAGES.get(module[1], module[1])}",
        )
    if "Duplicated key" in errors or (cuda and status < 0):
        return Finding(
            level="do",
            what=what,
            told=f"fails: torch is a build for CUDA {cuda or '(unknown)'}, which this "
            "torch_npu does not bear",
            action="install torch as a CPU build: pip install torch --index-url "
            "https://download.pytorch.org/whl/cpu",
        )
    torch, npu = installed_version("torch"), installed_version("torch_npu")
    if "undefined symbol" in errors or release(torch or "") != release(npu or ""):
        return Finding(
            level="do",
            what=what,
            told=f"fails: torch_npu {npu} does not fit torch {torch}",
            action=f"pip install torch=={'.'.join(map(str, release(npu or '')))} "
            f"torch_npu=={npu}",
        )
    return Finding(
        level="do",
        what=what,
        told=f"fails: {_last_line(status, errors)}",
        action="python -c 'import torch, torch_npu' shows all of it",
    )


_PACKAGES = {"yaml": "pyyaml"}
"""Packages that are not called as their module."""


def _no_cann(what: str, library: str) -> Finding:
    from npu_dispatch_inspect.standin.checks import check_no_cann

    try:
        check_no_cann()
    except StandInError:
        return Finding(
            level="do",
            what=what,
            told=f"fails: CANN is here, but {library} is not found",
            action="source set_env.sh of CANN (/usr/local/Ascend/ascend-toolkit/set_env.sh) "
            "in this shell",
        )
    return Finding(
        level="note",
        what=what,
        told=f"fails without CANN ({library} is missing), and plain import torch with it",
        action="use --stand-in, call standin.load() before import torch, or set "
        "TORCH_DEVICE_BACKEND_AUTOLOAD=0",
    )


def _last_line(status: int, errors: str) -> str:
    if status < 0:
        return f"the process died of {signal.Signals(-status).name}"
    lines = [line.strip() for line in errors.splitlines() if line.strip()]
    return lines[-1].rstrip(".") if lines else f"status {status}"


def stand_in() -> Iterator[Finding]:
    """Whether the stand-in can be built and loaded, with what and where."""
    if installed_version("torch_npu") is None:
        return
    from npu_dispatch_inspect.standin.checks import check_no_cann, find_installed

    try:
        check_no_cann()
    except StandInError:
        return  # a real CANN is here
    try:
        from npu_dispatch_inspect.standin.build import _compiler, cache_folder

        find_installed()
        compiler, folder = " ".join(_compiler()), cache_folder()
    except StandInError as error:
        told, _, action = str(error).partition("; ")
        yield Finding(
            level="do",
            what="stand-in",
            told=f"cannot be built: {told.rstrip('.')}",
            action=action.rstrip(".") or None,
        )
        return
    status, _, errors = _python(_STAND_IN)
    if status:
        yield Finding(
            level="do",
            what="stand-in",
            told=f"does not load: {_last_line(status, errors)}",
            action=f"remove the folder {folder} and try again",
        )
    else:
        yield Finding(
            level="ok",
            what="stand-in",
            told=f"loads, built with {compiler} in {folder}",
        )


def engines(*, npu: bool, stand_in: bool) -> Iterator[Finding]:
    """Which engines see operators, and which loggers print.

    Args:
        npu: torch_npu can be used.
        stand_in: on the stand-in.
    """
    if installed_version("torch") is None:
        return
    arguments = ["--npu"] if npu else []
    environment = {} if npu else {"TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
    if stand_in:
        arguments.append("--stand-in")
    status, output, errors = _python(_ENGINES, *arguments, **environment)
    told: dict[str, Any] = {}
    for line in output.splitlines():
        if line.startswith(_MARK):
            told = json.loads(line.removeprefix(_MARK))
    if not told:
        yield Finding(
            level="do",
            what="engines",
            told=f"could not be tried: {_last_line(status, errors)}",
            action="python -c 'import npu_dispatch_inspect, torch' shows more",
        )
        return
    where = "the stand-in" if stand_in else "npu" if npu else "cpu"
    for name, what in (
        ("dispatch_mode", "engine dispatch_mode"),
        ("dispatcher", "engine dispatcher"),
        ("table", "registration table"),
        ("explain", "explain"),
        ("graphs", "graph capture"),
    ):
        yield _engine(what, told[name], where)
    if "logs" in told:
        yield from _loggers(told["logs"], where)


def _engine(what: str, told: dict[str, Any], where: str) -> Finding:
    if "aten::mm" in told.get("ops", ()):
        return Finding(level="ok", what=what, told=f"works on {where}")
    return Finding(
        level="do",
        what=what,
        told=f"does not work on {where}: {told.get('error', 'it saw nothing')}",
        action="report it with this line and the versions above",
    )


def _loggers(told: dict[str, Any], where: str) -> Iterator[Finding]:
    if "error" in told:
        yield Finding(
            level="do",
            what="log lines",
            told=f"cannot be captured on {where}: {told['error']}",
            action="report it with this line and the versions above",
        )
        return
    reasons = {what: (reason, remedy) for what, reason, remedy in told["missing"]}
    for logger, seen, of in (
        ("op_plugin", told["launches"], "launches"),
        ("dispatch", told["tasks"], "tasks"),
    ):
        what = f"logger {logger}"
        if seen:
            yield Finding(level="ok", what=what, told=f"prints {of} on {where}")
            continue
        reason, remedy = reasons.get(
            logger, reasons.get("everything", ("Nobody knows why.", ""))
        )
        yield Finding(
            level="do",
            what=what,
            told=f"prints no {of} on {where}: {reason.rstrip('.')}",
            action=remedy.rstrip(".") or None,
        )
