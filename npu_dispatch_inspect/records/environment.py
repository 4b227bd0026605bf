# SPDX-License-Identifier: BSD-3-Clause
"""Where a trace was made: travels with every trace."""

from __future__ import annotations

from attrs import frozen

__all__ = ["Environment"]


@frozen(kw_only=True)
class Environment:
    """Versions, device and the switches that change routes.

    What could not be read is None; a switch that is not set is not listed.

    Example:
        >>> from npu_dispatch_inspect import read_environment
        >>> environment = read_environment()
        >>> environment.torch.split(".")[0], environment.grad_mode
        ('2', 'grad')
        >>> environment.switch("ASCEND_LAUNCH_BLOCKING") is None
        True
    """

    tool: str
    """Version of this library."""
    python: str
    platform: str
    """``"linux-x86_64"``."""
    torch: str | None = None
    torch_npu: str | None = None
    cann: str | None = None
    device: str | None = None
    """``"stand-in"`` on the host stand-in for CANN, ``"npu"``, ``"cuda"``, ``"cpu"``."""
    soc: str | None = None
    """Name the NPU gives itself: ``"Ascend910B1"``."""
    values: str | None = None
    """On the stand-in: ``"none"`` (nothing is computed), ``"cpu"`` (what the CPU
    computes) or ``"unknown"`` (so too, but for operators that nobody can compute).
    None on a real device."""
    jit_compile: bool | None = None
    """aclop compilation per shape; None without torch_npu or where it is not known."""
    internal_format: bool | None = None
    """Private NPU formats allowed; None where it is not known."""
    autocast: tuple[str, ...] = ()
    """Autocast on when the block began: ``("npu:float16",)``."""
    grad_mode: str | None = None
    """``"grad"``, ``"no_grad"`` or ``"inference"`` when the block began."""
    switches: tuple[tuple[str, str], ...] = ()
    """Environment variables that change routes or logs, sorted by name."""

    @property
    def stand_in(self) -> bool:
        """True where no device computed anything."""
        return self.device == "stand-in"

    def switch(self, name: str) -> str | None:
        """The value of one environment variable of `switches`, else None."""
        return dict(self.switches).get(name)
