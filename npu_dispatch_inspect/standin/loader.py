# SPDX-License-Identifier: BSD-3-Clause
"""Load the stand-in into this process, before torch is imported."""

from __future__ import annotations

import ctypes
import os
import sys
from importlib.metadata import PackageNotFoundError, distribution
from importlib.util import find_spec
from pathlib import Path

import attrs

from npu_dispatch_inspect.errors import StandInError
from npu_dispatch_inspect.standin.build import Build, find_or_build

__all__ = ["StandIn", "info", "is_loaded", "load"]


@attrs.frozen(kw_only=True)
class StandIn:
    """The stand-in this process runs on.

    Attributes:
        device_name: what ``torch.npu.get_device_name()`` answers.
        device_count: how many such devices there are.
        values: ``"none"``: no kernel computes anything.
        torch_npu_version: the wheel it was made for.
        folder: where the libraries are.
    """

    device_name: str
    device_count: int
    values: str = "none"
    torch_npu_version: str
    folder: str


_loaded: StandIn | None = None
# Libraries stay loaded as long as the process lives; ctypes would not unload them
# either, the names only say so.
_handles: list[ctypes.CDLL] = []


def is_loaded() -> bool:
    """Tell whether this process runs on the stand-in."""
    return _loaded is not None


def info() -> StandIn | None:
    """Describe the stand-in this process runs on, or return None."""
    return _loaded


class _Model(ctypes.Structure):
    """struct ndi_device_model of standin.h."""

    _fields_ = (
        ("soc_name", ctypes.c_char * 64),
        ("device_count", ctypes.c_uint32),
        ("cube_cores", ctypes.c_int64),
        ("vector_cores", ctypes.c_int64),
        ("memory_bytes", ctypes.c_size_t),
        ("jit_compile", ctypes.c_int64),
        ("inf_nan", ctypes.c_int64),
        ("bf16", ctypes.c_int64),
        ("cann_version", ctypes.c_char * 32),
        ("driver_version", ctypes.c_char * 32),
    )


def load(
    device_name: str = "Ascend910B1", device_count: int = 1, *, force: bool = False
) -> StandIn:
    """Make ``import torch, torch_npu`` work on a machine without an NPU."""
    global _loaded  # noqa: PLW0603 - a process has one stand-in
    torch_npu = Path(find_spec("torch_npu").submodule_search_locations[0])
    torch = Path(find_spec("torch").submodule_search_locations[0])
    version = distribution("torch_npu").version
    build = find_or_build(torch_npu, torch, version)
    for name in build.libraries:
        _handles.append(ctypes.CDLL(str(build.folder / "lib64" / name)))
    model = _Model(
        soc_name=device_name.encode(), device_count=device_count,
        cube_cores=24, vector_cores=48, memory_bytes=64 << 30, jit_compile=0,
        inf_nan=1, bf16=1, cann_version=b"8.5.0", driver_version=b"25.3.0",
    )
    _handles[0].ndi_configure(ctypes.byref(model))
    _loaded = StandIn(
        device_name=device_name, device_count=device_count,
        torch_npu_version=version, folder=str(build.folder),
    )
    return _loaded
