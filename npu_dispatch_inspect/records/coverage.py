# SPDX-License-Identifier: BSD-3-Clause
"""What a program's operators have on a device, call by call."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from attrs import frozen

from npu_dispatch_inspect.records.printed import Printed
from npu_dispatch_inspect.records.registrations import KernelState

__all__ = ["Coverage", "CoveredCall"]


@frozen(kw_only=True)
class CoveredCall:
    """One operator call and what the table has for it."""

    operator: str
    """Qualified: ``"aten::addmm"``."""
    module: str | None
    """``"encoder.linear1"``; None where it is not known."""
    state: KernelState
    site: str
    """``"RegisterNPU.cpp:34325"``; empty where there is no kernel."""
    through: str | None = None
    """The variant that does the work and that `state` and `site` are about, where
    the operator's own kernel only makes the results: ``"aten::digamma.out"``."""
    risk: str | None = None
    """Why the kernel may work on the CPU after all: known cases, not observed here."""


@frozen(kw_only=True)
class Coverage(Printed):
    """Every call of a program with what it has on one dispatch key.

    Example:
        >>> import torch
        >>> from npu_dispatch_inspect import coverage
        >>> found = coverage(torch.digamma, torch.ones(2), key="CPU")
        >>> [(call.operator, call.state.value) for call in found]
        [('aten::digamma', 'own kernel')]
    """

    key: str
    """``"PrivateUse1"``."""
    source: str
    """``"trace"``: calls that were made; ``"prediction"``: calls as `explain` sees them."""
    calls: tuple[CoveredCall, ...]
    complete: bool = True
    """False where a part of the program could not be seen."""

    def __iter__(self) -> Iterator[CoveredCall]:
        """The calls in the order they start."""
        return iter(self.calls)

    def __len__(self) -> int:
        """How many calls there are."""
        return len(self.calls)

    @property
    def counts(self) -> dict[KernelState, int]:
        """How many calls are in which state; the most frequent first."""
        return dict(Counter(call.state for call in self.calls).most_common())

    def state(self, state: KernelState | str) -> tuple[CoveredCall, ...]:
        """The calls in one state: ``"own kernel"``, ``"backend fallback"``, ..."""
        wanted = KernelState(state)
        return tuple(call for call in self.calls if call.state is wanted)

    @property
    def fallbacks(self) -> tuple[CoveredCall, ...]:
        """The calls that the device leaves to its fallback: with torch_npu, the CPU."""
        return self.state(KernelState.FALLBACK)

    @property
    def missing(self) -> tuple[CoveredCall, ...]:
        """The calls that would raise."""
        return self.state(KernelState.MISSING)

    @property
    def risks(self) -> tuple[CoveredCall, ...]:
        """The calls whose kernel is known to use the CPU in some cases."""
        return tuple(call for call in self.calls if call.risk is not None)

    def by_module(self) -> dict[str | None, dict[KernelState, int]]:
        """The same counts for each module."""
        found: dict[str | None, Counter[KernelState]] = {}
        for call in self.calls:
            found.setdefault(call.module, Counter())[call.state] += 1
        return {module: dict(each.most_common()) for module, each in found.items()}
