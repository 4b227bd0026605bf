# SPDX-License-Identifier: BSD-3-Clause
"""The operators of a traced function, each with its table entry."""

from __future__ import annotations

from attrs import frozen

from npu_dispatch_inspect.records.printed import Printed
from npu_dispatch_inspect.records.registrations import OperatorEntry

__all__ = ["RegisteredCall", "RegistrationTrace"]


@frozen(kw_only=True)
class RegisteredCall:
    """One call in a traced graph."""

    operator: str
    """Qualified: ``"aten::linear"``."""
    module: str | None
    """``"encoder.linear1"``; empty text for the root, None where there is no module."""
    entry: OperatorEntry


@frozen(kw_only=True)
class RegistrationTrace(Printed):
    """The calls of a function above decomposition, in the order of the graph.

    Example:
        >>> import torch
        >>> from npu_dispatch_inspect import trace_registrations
        >>> model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU())
        >>> trace_registrations(model, torch.ones(2, 3)).by_module()
        {'0': ('aten::linear',), '1': ('aten::relu',)}
    """

    route: str
    """``"jit.trace"`` or ``"make_fx"``."""
    reason: str
    """Why that route was taken."""
    calls: tuple[RegisteredCall, ...]

    @property
    def operators(self) -> tuple[str, ...]:
        """``("aten::linear", "aten::relu")``, repetitions kept."""
        return tuple(call.operator for call in self.calls)

    def by_module(self) -> dict[str | None, tuple[str, ...]]:
        """The operators of each module."""
        found: dict[str | None, list[str]] = {}
        for call in self.calls:
            found.setdefault(call.module, []).append(call.operator)
        return {module: tuple(names) for module, names in found.items()}
