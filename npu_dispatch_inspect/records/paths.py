# SPDX-License-Identifier: BSD-3-Clause
"""The way a call takes through the dispatcher, predicted, as records."""

from __future__ import annotations

import enum
from collections.abc import Iterator

from attrs import field, frozen

from npu_dispatch_inspect.records.names import qualified
from npu_dispatch_inspect.records.ops import KernelChoice
from npu_dispatch_inspect.records.printed import Printed
from npu_dispatch_inspect.records.registrations import ComputedKernel
from npu_dispatch_inspect.records.values import Argument

__all__ = [
    "BackendChoice",
    "DtypeProbe",
    "Explanation",
    "PathStep",
    "PredictedCall",
    "StepAction",
]


class StepAction(enum.Enum):
    """What happens to a call at one dispatch key."""

    FALLTHROUGH = "fallthrough"
    """The key is skipped; nothing runs."""
    PASSES_ON = "passes on"
    """A kernel runs and sends the call on to the keys below, as autograd does."""
    SELECTS = "selects backend"
    """There is no tensor to tell the backend: the device argument does."""
    CALLS_AGAIN = "calls again"
    """Autocast: arguments are cast and the operator is called anew without it."""
    DECOMPOSES = "decomposes"
    """A composite: it calls other operators, and is seen no more below."""
    CALLS_OTHERS = "calls others"
    """A kernel written for all backends, out of other operators."""
    RUNS = "runs"
    """The backend's own kernel: the end of the way."""
    FALLS_BACK = "falls back"
    """The backend's fallback for operators without a kernel."""
    OPAQUE = "opaque"
    """Python takes over (a mode, a tensor subclass, a transform): not predicted."""
    RAISES = "raises"
    """The key has no kernel: the call ends with an error."""


@frozen(kw_only=True)
class PathStep:
    """One dispatch key on the way."""

    key: str
    action: StepAction
    kernel: ComputedKernel | None = None
    """None where the key has none."""


@frozen(kw_only=True)
class PredictedCall(Printed):
    """One call with the keys it will pass and the calls it will make.

    Example:
        >>> import torch
        >>> from npu_dispatch_inspect import explain
        >>> (call,) = explain("aten::mm", torch.ones(2, 3), torch.ones(3, 4)).calls
        >>> call.name, call.last.key, call.last.action.value
        ('aten::mm', 'CPU', 'runs')
    """

    name: str
    """``"aten::linear"``."""
    overload: str = "default"
    module: str | None = None
    """Path of the module that makes the call, where a module is explained."""
    inputs: tuple[Argument, ...] = ()
    keys: tuple[str, ...] = ()
    """Dispatch keys alive, highest first; those that fall through are in it."""
    steps: tuple[PathStep, ...] = ()
    """Key by key, until a kernel that does not pass on."""
    calls: tuple[PredictedCall, ...] | None = None
    """The calls made inside, in order; None where they were not predicted: the
    inside of a backend's own kernel never is."""
    unknown: str | None = None
    """Why the inside of a composite could not be followed to its end."""
    notes: tuple[str, ...] = ()
    """What may make the real call differ."""

    @property
    def qualified_name(self) -> str:
        """``"aten::linear"`` or, with an overload, ``"aten::sum.dim_IntList"``."""
        return qualified(self.name, self.overload)

    @property
    def first(self) -> PathStep | None:
        """The first key whose kernel runs."""
        for step in self.steps:
            if step.action is not StepAction.FALLTHROUGH:
                return step
        return None

    @property
    def last(self) -> PathStep | None:
        """Where the way ends: the kernel that does the work or takes it apart."""
        return self.steps[-1] if self.steps else None

    @property
    def kernel(self) -> KernelChoice | None:
        """The first kernel that runs, as a dispatcher trace records it."""
        step = self.first
        if step is None or step.kernel is None:
            return None
        return KernelChoice(key=step.key, kind=step.kernel.kind, site=step.kernel.site)

    def walk(self) -> Iterator[PredictedCall]:
        """This call and all below it, in the order they start."""
        yield self
        for call in self.calls or ():
            yield from call.walk()


@frozen(kw_only=True)
class BackendChoice:
    """What the backend itself decides once its kernel runs.

    Example:
        >>> import torch
        >>> from npu_dispatch_inspect import explain
        >>> x, w = torch.ones(2, 3).npu(), torch.ones(3, 4).npu()
        >>> (choice,) = explain("aten::mm", x, w).backend
        >>> choice.backend, choice.route
        ('NPU', 'aclnn')
    """

    operator: str
    backend: str
    """``"CPU"``, ``"NPU"``, or the device type of another backend."""
    route: str
    """``"aclnn"``, ``"aclop"``, ``"cpu fallback"``, ``"AVX512"``, ...; ``"unknown"``."""
    reasons: tuple[str, ...] = ()
    """The switches and facts that decide it, as they are now."""
    unobserved: tuple[str, ...] = ()
    """What decides it too and cannot be seen from outside."""


@frozen(kw_only=True)
class DtypeProbe:
    """What an operator did with one dtype when it was tried.

    Example:
        >>> import torch
        >>> from npu_dispatch_inspect import probe_dtypes
        >>> (probe,) = probe_dtypes("aten::sum", torch.ones(2), dtypes=["int32"])
        >>> probe.outcome, probe.results
        ('promoted', ('int64',))
    """

    dtype: str
    """The dtype the floating or other tensors of the sample were given."""
    outcome: str
    """``"supported"``, ``"promoted"`` or ``"refused"``."""
    results: tuple[str, ...] = ()
    """The dtypes that came out."""
    message: str | None = None
    """With what it refused."""
    certain: bool = True
    """False on the stand-in: the checks that CANN makes were not made."""


@frozen(kw_only=True)
class Explanation(Printed):
    """Why these tensors go where they go, in the three stages torch documents.

    Example:
        >>> import torch
        >>> from npu_dispatch_inspect import explain
        >>> explained = explain(torch.nn.Linear(3, 4), torch.ones(2, 3))
        >>> explained.names[0], explained.backend[-1].operator
        ('aten::linear', 'aten::addmm')
    """

    calls: tuple[PredictedCall, ...]
    """Stage 1, the dispatcher: one call for an operator, several for a function."""
    backend: tuple[BackendChoice, ...] = ()
    """Stage 2, the backend: one for every kernel at the end of a way."""
    dtypes: tuple[DtypeProbe, ...] | None = None
    """Stage 3, the dtype; None where nobody asked to try."""
    unknown: str | None = field(default=None)
    """Why the function could not be followed to its end; `calls` is what came before."""

    def walk(self) -> Iterator[PredictedCall]:
        """Every call, in the order they start."""
        for call in self.calls:
            yield from call.walk()

    @property
    def complete(self) -> bool:
        """True where every composite could be followed to its end."""
        return self.unknown is None and not any(call.unknown for call in self.walk())

    @property
    def names(self) -> tuple[str, ...]:
        """Qualified names of every call, in the order they start."""
        return tuple(call.qualified_name for call in self.walk())
