# SPDX-License-Identifier: BSD-3-Clause
"""Load the stand-in into this process, before torch is imported."""

from __future__ import annotations

import atexit
import ctypes
import os
import sys
import threading
import time
from pathlib import Path

import attrs

from npu_dispatch_inspect._imports import ImportWatch
from npu_dispatch_inspect.errors import StandInError
from npu_dispatch_inspect.standin.build import RUNTIME, find_or_build
from npu_dispatch_inspect.standin.checks import (
    check_arguments,
    check_can_compute,
    check_moment,
    check_no_cann,
    find_installed,
)
from npu_dispatch_inspect.standin.devices import DeviceModel, model_of

__all__ = [
    "StandIn",
    "info",
    "is_loaded",
    "load",
    "missing_functions",
    "move_data",
    "note_unknown_values",
    "unknown_values",
]

# How the libraries learn what device to be; read in device.c.
_DEVICE_VARIABLE = "NPU_DISPATCH_INSPECT_STANDIN_DEVICE"

# No driver is asked for anything; torch_npu compares it with what it needs.
_DRIVER_VERSION = "25.5.0"

_SETTLE_SECONDS = 0.5
_SETTLE_STEP_SECONDS = 0.005

# A real CANN's own operator packages would be opened from here.
_CUSTOM_OPERATORS_VARIABLE = "ASCEND_CUSTOM_OPP_PATH"


@attrs.frozen(kw_only=True)
class StandIn:
    """The stand-in a process runs on.

    Attributes:
        device_name: what ``torch.npu.get_device_name()`` answers.
        device_count: how many such devices there are.
        values: ``"none"``: no kernel computes anything. ``"cpu"``: results are what
            the CPU computes. ``"unknown"``: they were, until an operator ran whose
            results nobody can compute; `unknown_values` names it.
        torch_npu_version: the wheel it was made for.
        folder: where its libraries lie.
    """

    device_name: str
    device_count: int
    values: str = "none"
    torch_npu_version: str
    folder: str


_lock = threading.Lock()
_loaded: StandIn | None = None
_unknown_values: dict[str, None] = {}


def load(
    device_name: str = "Ascend910B1",
    device_count: int = 1,
    *,
    values: str | None = None,
    unknown: str | None = None,
    force: bool = False,
) -> StandIn:
    """Make ``import torch`` find an NPU, on a machine that has neither NPU nor CANN.

    Must be called before torch is imported, and does not import it. The libraries
    torch_npu wants from CANN are built from what the installed wheel asks for, once,
    and kept in the user's cache folder. The real torch_npu then runs on top of them:
    its dispatcher registrations, kernels, task queue and log lines are real, only the
    arithmetic below is missing.

    Child processes inherit the stand-in through their environment
    (``LD_LIBRARY_PATH``, ``ASCEND_HOME_PATH`` and one variable of its own).

    Args:
        device_name: a device the installed torch_npu knows. It decides, among other
            things, whether operators go through aclnn or through aclop.
        device_count: how many devices to show.
        values: ``"none"``, the default, leaves results as their memory was. ``"cpu"`` puts what the
            CPU computes into them, while everything above is as real as without:
            programs whose control flow reads values take their real path. The
            numbers are the CPU's and say nothing about a device's accuracy. Child
            processes do not inherit it; they call ``load`` themselves.
        unknown: what results become that nobody can compute: ``"nan"``, ``"zeros"``,
            or ``"raise"`` for a `ValuesError`. By default an operator that has no
            formula gives NaN with a warning, and one that the CPU refuses raises.
        force: load it even though there is a real CANN, which is then left aside.

    Returns:
        What was loaded; the same as ``info()`` from then on.

    Raises:
        StandInError: it cannot be loaded here and now; the message says what to do.
    """
    global _loaded  # noqa: PLW0603 - a process has one stand-in, as it has one CANN
    check_arguments(device_name, device_count, values, unknown)
    with _lock:
        present = info()
        if present is not None:
            _check_same(present, device_name, device_count, values)
            _loaded = present
            return present
        check_moment()
        if not force:
            check_no_cann()
        installed = find_installed()
        if values == "cpu":
            check_can_compute(installed.torch, installed.torch_version)
        build = find_or_build(installed.torch_npu, installed.torch, installed.version)
        model = model_of(device_name, build.devices)
        made = StandIn(
            device_name=device_name,
            device_count=device_count,
            values=values or "none",
            torch_npu_version=installed.version,
            folder=str(build.folder),
        )
        _set_environment(made, model, installed.cann)
        for name in build.libraries:
            _open(build.folder / "lib64" / name)
        atexit.register(_let_threads_settle)
        if values == "cpu":
            _compute_values(unknown)
        _loaded = made
        return made


def info() -> StandIn | None:
    """Describe the stand-in this process runs on; None on a device, or without torch_npu."""
    return _loaded if _loaded is not None else _inherited()


def is_loaded() -> bool:
    """Tell whether this process runs on the stand-in."""
    return info() is not None


def missing_functions() -> tuple[str, ...]:
    """Return the names torch_npu looked up in the stand-in and did not find.

    Optional extras of CANN are among them, whose absence torch_npu takes in its
    stride. A public function (``acl...``, ``aclnn...``, ``Hccl...``) is also named on
    standard error when it is asked for.
    """
    runtime = _runtime() if is_loaded() else None
    if runtime is None:
        return ()
    name_at = runtime.ndi_missing_name
    name_at.argtypes = [ctypes.c_size_t]
    name_at.restype = ctypes.c_char_p
    names: list[str] = []
    while (name := name_at(len(names))) is not None:
        names.append(name.decode())
    return tuple(names)


def unknown_values() -> tuple[str, ...]:
    """Name the operators that ran and whose results nobody could compute, in order.

    Always empty without ``values="cpu"``: then no result is known.
    """
    return tuple(_unknown_values)


def note_unknown_values(name: str) -> None:
    """From now on, say that some operator's results are unknown."""
    global _loaded  # noqa: PLW0603 - see load
    with _lock:
        _unknown_values[name] = None
        if _loaded is not None:
            _loaded = attrs.evolve(_loaded, values="unknown")


def move_data(*, in_queue: bool) -> None:
    """Let torch_npu's queue move data, as it does, or leave that to computed values."""
    runtime = _runtime()
    assert runtime is not None
    runtime.ndi_compute_elsewhere(int(not in_queue))


def _compute_values(unknown: str | None) -> None:
    """Compute values from the moment at which torch_npu has been imported."""

    def begin() -> None:
        # It imports torch, so it comes no earlier than torch_npu does.
        from npu_dispatch_inspect import values

        sys.meta_path.remove(watch)
        values.switch_on(unknown)

    watch = ImportWatch({"torch_npu": begin})
    sys.meta_path.insert(0, watch)


def _check_same(
    present: StandIn, device_name: str, device_count: int, values: str | None
) -> None:
    if values is not None and (present.values == "none") != (values == "none"):
        message = (
            f"The stand-in is already loaded with values={present.values!r}, and that "
            f"cannot change; start a new process for values={values!r}."
        )
        raise StandInError(message)
    if (present.device_name, present.device_count) != (device_name, device_count):
        message = (
            f"The stand-in is already loaded as {present.device_count} x "
            f"{present.device_name}, and a process can have one only; start a new "
            f"process for {device_count} x {device_name}."
        )
        raise StandInError(message)


def _set_environment(made: StandIn, model: DeviceModel, cann: str) -> None:
    fields = (
        made.device_name,
        made.device_count,
        model.cube_cores,
        model.vector_cores,
        model.memory_bytes,
        int(model.jit_compile),
        int(model.newer_family),
        cann,
        _DRIVER_VERSION,
        made.torch_npu_version,
        made.folder,
    )
    os.environ[_DEVICE_VARIABLE] = ":".join(str(field) for field in fields)
    # As CANN's set_env.sh would: torch_npu's import asks for both.
    os.environ["ASCEND_HOME_PATH"] = made.folder
    os.environ["ASCEND_OPP_PATH"] = str(Path(made.folder) / "opp")
    os.environ.pop(_CUSTOM_OPERATORS_VARIABLE, None)
    libraries = str(Path(made.folder) / "lib64")
    path = os.environ.get("LD_LIBRARY_PATH")
    if libraries not in (path or "").split(":"):
        os.environ["LD_LIBRARY_PATH"] = f"{libraries}:{path}" if path else libraries


def _open(path: Path) -> None:
    try:
        # ctypes never unloads, so the handle need not be kept.
        ctypes.CDLL(str(path))
    except OSError as error:
        message = (
            f"The stand-in's library {path} cannot be loaded ({error}); remove the "
            f"folder {path.parents[1]} and try again."
        )
        raise StandInError(message) from error


def _let_threads_settle() -> None:
    """Wait, before the interpreter ends, until no other thread is running.

    The autograd thread of a device drops its last Python references shortly after
    ``backward()`` has returned. If the interpreter is being finalised by then, CPython
    ends that thread inside a destructor, and the process aborts. A program that ends
    right after ``backward()``, as small examples do, would meet that now and then.
    """
    deadline = time.monotonic() + _SETTLE_SECONDS
    while time.monotonic() < deadline:
        # Sleeping also gives up the interpreter lock, which such a thread may want.
        time.sleep(_SETTLE_STEP_SECONDS)
        if not _others_running():
            return


def _others_running() -> bool:
    own = threading.get_native_id()
    for task in Path("/proc/self/task").iterdir():
        try:
            # The state is the first field after the name, which is in brackets.
            state = (task / "stat").read_bytes().rpartition(b") ")[2][:1]
        except OSError:  # it has just ended
            continue
        if state == b"R" and int(task.name) != own:
            return True
    return False


def _runtime() -> ctypes.CDLL | None:
    """Return the stand-in's library if this process has it, without loading it."""
    try:
        return ctypes.CDLL(RUNTIME, mode=os.RTLD_NOLOAD | os.RTLD_LAZY)
    except (OSError, AttributeError):  # not loaded, or a system without RTLD_NOLOAD
        return None


def _inherited() -> StandIn | None:
    """Recognise a stand-in that came from a parent process, once torch_npu has it."""
    fields = os.environ.get(_DEVICE_VARIABLE, "").split(":", 10)
    if len(fields) != 11 or _runtime() is None:  # noqa: PLR2004 - see _set_environment
        return None
    return StandIn(
        device_name=fields[0],
        device_count=int(fields[1]),
        torch_npu_version=fields[9],
        folder=fields[10],
    )
