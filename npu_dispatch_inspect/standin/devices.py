# SPDX-License-Identifier: BSD-3-Clause
"""What the stand-in answers when torch_npu asks about the device it is on."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

import attrs

from npu_dispatch_inspect.errors import StandInError

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["DeviceModel", "model_of"]

_GIB = 1 << 30


@attrs.frozen
class DeviceModel:
    """One kind of device.

    Attributes:
        cube_cores: what log lines call ``aic_num``.
        vector_cores: what log lines call ``aiv_num``.
        memory_bytes: size of the device's memory.
        jit_compile: whether CANN compiles operators at run time unless told otherwise.
        newer_family: Ascend910B and later: bfloat16, and overflow gives inf and nan.
    """

    cube_cores: int
    vector_cores: int
    memory_bytes: int
    jit_compile: bool = False
    newer_family: bool = True


# The longest matching start of a name decides. The sizes are those of common boards
# and only show in log lines and memory figures; the two switches choose the path
# torch_npu takes, so they matter.
_MODELS = {
    "Ascend910B": DeviceModel(24, 48, 64 * _GIB),
    "Ascend910B3": DeviceModel(20, 40, 64 * _GIB),
    "Ascend910B4": DeviceModel(20, 40, 32 * _GIB),
    "Ascend910_93": DeviceModel(24, 48, 64 * _GIB),
    "Ascend910_936": DeviceModel(20, 40, 64 * _GIB),
    "Ascend910_937": DeviceModel(20, 40, 64 * _GIB),
    "Ascend910": DeviceModel(32, 32, 32 * _GIB, jit_compile=True, newer_family=False),
    "Ascend310P": DeviceModel(8, 7, 24 * _GIB, jit_compile=True, newer_family=False),
    "Ascend310B": DeviceModel(1, 1, 12 * _GIB, jit_compile=True, newer_family=False),
    "Ascend950": DeviceModel(32, 64, 128 * _GIB),
}

# Without a figure behind it, this is a 910 of the first generation despite its start.
_FIRST_GENERATION = "Ascend910B"


def model_of(device_name: str, known: Sequence[str]) -> DeviceModel:
    """Return the model of a device the installed torch_npu knows.

    A name torch_npu does not know would fail much later, inside its start-up, so it is
    refused here.

    Args:
        device_name: for example ``"Ascend910B1"``.
        known: the device names found in the wheel.

    Raises:
        StandInError: the name is not among the known ones.
    """
    if device_name not in known:
        near = difflib.get_close_matches(device_name, known, n=3, cutoff=0.6)
        hint = f"did you mean {' or '.join(near)}?" if near else "it knows: "
        if not near:
            hint += ", ".join(known)
        message = f"The installed torch_npu knows no device {device_name!r}; {hint}"
        raise StandInError(message)
    if device_name == _FIRST_GENERATION:
        return _MODELS["Ascend910"]
    start = max((s for s in _MODELS if device_name.startswith(s)), key=len, default="")
    return _MODELS[start or "Ascend910B"]
