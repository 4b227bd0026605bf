# SPDX-License-Identifier: BSD-3-Clause
"""What the dispatcher knows about an operator, as records."""

from __future__ import annotations

import enum
from collections.abc import Iterator
from pathlib import PurePosixPath

from attrs import field, frozen

from npu_dispatch_inspect.errors import UnknownNameError
from npu_dispatch_inspect.records.dispatch_keys import KernelMap, KeyNames
from npu_dispatch_inspect.records.names import qualified
from npu_dispatch_inspect.records.printed import Printed

__all__ = [
    "BackendFallback",
    "ComputedKernel",
    "Definition",
    "KernelRegistration",
    "KernelState",
    "OperatorEntry",
    "OperatorKind",
    "OverloadGroup",
    "PythonKernel",
]


class KernelState(enum.Enum):
    """What an operator has for one dispatch key, in the words of a porting list.

    Example:
        >>> from npu_dispatch_inspect import KernelState, read_dispatch_table
        >>> linear = read_dispatch_table("aten::linear")["aten::linear"].default
        >>> linear.state("CPU") is KernelState.COMPOSITE
        True
    """

    OWN_KERNEL = "own kernel"
    """Registered for this very key."""
    COMPOSITE = "composite"
    """CompositeImplicitAutograd: it is taken apart into other operators."""
    DEFAULT = "default backend kernel"
    """CompositeExplicitAutograd: one kernel for all backends, calls others inside."""
    FALLBACK = "backend fallback"
    """The kernel that the backend gives to everything it has no kernel for."""
    FALLTHROUGH = "fallthrough"
    """The key is skipped."""
    OTHER = "other"
    """Another alias key supplies it: autograd, nested or batched kernels."""
    MISSING = "missing"
    """No kernel: a call that reaches this key raises."""


class OperatorKind(enum.Enum):
    """Where an operator is known."""

    DISPATCHER = "dispatcher"
    DANGLING = "dangling"
    """Kernels without a schema: it is in the tables but cannot be called."""
    HIGHER_ORDER = "higher order"
    """A Python HigherOrderOperator (``cond``): the C++ dispatcher has no row."""
    JIT_ONLY = "jit only"
    """Known to TorchScript alone."""


@frozen(kw_only=True)
class Definition:
    """A schema and the place that defined it (``TORCH_LIBRARY``, ``def``)."""

    operator: str
    schema: str
    file: str | None = None
    line: int | None = None
    note: str = ""
    """What torch says instead of a file: ``"registered by RegisterOperators"``."""

    @property
    def site(self) -> str:
        """``"RegisterSchema.cpp:6"``."""
        return _site(self.file, self.line, self.note)


@frozen(kw_only=True)
class KernelRegistration:
    """A kernel that some library registered for a key (``impl``).

    Example:
        >>> from npu_dispatch_inspect import read_dispatch_table
        >>> entry = read_dispatch_table("aten::mm")["aten::mm"].default
        >>> entry.registered["CPU"].site.partition(":")[0]
        'RegisterCPU_0.cpp'
    """

    operator: str
    key: str
    file: str | None = None
    line: int | None = None
    note: str = ""
    """What torch says instead of a file."""
    signature: str | None = None
    """The C++ signature as torch writes it; None where torch has none (Python)."""
    boxed: bool = False
    unboxed: bool = False
    fallthrough: bool = False
    alias: bool = False
    """`key` stands for several: ``Autograd``, ``CompositeImplicitAutograd``, ..."""
    active: bool = True
    """False where a later registration for the same key took its place."""

    @property
    def site(self) -> str:
        """``"RegisterNPU.cpp:34325"``."""
        return _site(self.file, self.line, self.note)


@frozen(kw_only=True)
class ComputedKernel:
    """The kernel that wins for a key, and why; many keys share one.

    Example:
        >>> from npu_dispatch_inspect import read_dispatch_table
        >>> linear = read_dispatch_table("aten::linear")["aten::linear"].default
        >>> linear.computed["CPU"].kind
        'math kernel'
    """

    kind: str
    """torch's own word: ``"kernel"``, ``"autograd kernel"``, ``"math kernel"``, ..."""
    file: str | None = None
    line: int | None = None
    note: str = ""
    """What torch says instead of a file."""
    fallthrough: bool = False

    @property
    def site(self) -> str:
        """``"RegisterNPU.cpp:34325"``."""
        return _site(self.file, self.line, self.note)

    @property
    def state(self) -> KernelState:
        """The same in the words of a porting list."""
        if self.fallthrough:
            return KernelState.FALLTHROUGH
        return _STATES.get(self.kind, KernelState.OTHER)


@frozen(kw_only=True)
class BackendFallback:
    """The kernel that a key gives to every operator without one of its own."""

    key: str
    file: str | None = None
    line: int | None = None
    note: str = ""
    fallthrough: bool = False

    @property
    def site(self) -> str:
        """``"VariableFallbackKernel.cpp:118"``."""
        return _site(self.file, self.line, self.note)


@frozen(kw_only=True)
class PythonKernel:
    """A Python function that stands in for a kernel; no C++ table shows it.

    It acts only where Python dispatches: under the Python dispatcher, fake
    tensors, make_fx, export and torch.compile.
    """

    operator: str
    key: str
    """A dispatch key, or ``"decomposition"`` for torch's decomposition table."""
    function: str
    file: str | None = None
    line: int | None = None

    @property
    def site(self) -> str:
        """``"decompositions.py:1080"``."""
        return _site(self.file, self.line, self.function)


@frozen(kw_only=True)
class OperatorEntry(Printed):
    """Everything the tables say about one operator overload.

    Example:
        >>> from npu_dispatch_inspect import read_dispatch_table
        >>> entry = read_dispatch_table("aten::mm")["aten::mm"].default
        >>> entry.schema
        'aten::mm(Tensor self, Tensor mat2) -> Tensor'
        >>> entry.state("CPU").value, "CPU" in entry.registered
        ('own kernel', True)
    """

    name: str
    """Namespace and operator: ``"aten::add"``."""
    overload: str = "default"
    kind: OperatorKind = OperatorKind.DISPATCHER
    definition: Definition | None = None
    """None for a dangling implementation and for higher-order operators."""
    alias_analysis: str | None = None
    """``"FROM_SCHEMA"``, ``"CONSERVATIVE"``, ``"PURE_FUNCTION"``."""
    alias_analysis_default: bool = False
    """Nobody chose it: torch fell back to it."""
    registrations: tuple[KernelRegistration, ...] = field(default=(), repr=False)
    """In torch's order; overridden ones follow the one that took their place."""
    kernels: tuple[tuple[str, ComputedKernel], ...] = field(default=(), repr=False)
    """Key and winner, for each key that has one; `computed` looks them up."""
    python_kernels: tuple[PythonKernel, ...] = field(default=(), repr=False)
    keys: KeyNames = field(repr=False, eq=False)

    @property
    def qualified_name(self) -> str:
        """``"aten::linear"`` or, with an overload, ``"aten::add.Tensor"``."""
        return qualified(self.name, self.overload)

    @property
    def schema(self) -> str | None:
        """The schema as torch writes it."""
        return self.definition.schema if self.definition else None

    @property
    def registered(self) -> KernelMap[KernelRegistration]:
        """The active registration by key; `overridden` has the ones before it."""
        what = f"registration on {self.qualified_name}"
        records = ((each.key, each) for each in self.registrations)
        return KernelMap(records, self.keys, what)

    @property
    def computed(self) -> KernelMap[ComputedKernel]:
        """The kernel that wins, by key."""
        return KernelMap(self.kernels, self.keys, f"kernel of {self.qualified_name}")

    def overridden(self, key: str) -> tuple[KernelRegistration, ...]:
        """The registrations that a later one for the same key took the place of."""
        name = self.keys.canonical(key)
        return tuple(
            each for each in self.registrations if each.key == name and not each.active
        )

    def state(self, key: str) -> KernelState:
        """What the operator has for one key."""
        name = self.keys.canonical(key)
        for each, kernel in self.kernels:
            if each == name:
                return kernel.state
        return KernelState.MISSING


@frozen(kw_only=True)
class OverloadGroup(Printed):
    """All overloads of one operator; reads like its default overload."""

    name: str
    """``"aten::add"``."""
    entries: tuple[OperatorEntry, ...]

    def __iter__(self) -> Iterator[OperatorEntry]:
        """The overloads in torch's order."""
        return iter(self.entries)

    def __len__(self) -> int:
        """How many overloads there are."""
        return len(self.entries)

    def __getitem__(self, overload: str) -> OperatorEntry:
        """One overload by name: ``"Tensor"``, ``"out"``, ``"default"``."""
        for entry in self.entries:
            if entry.overload == overload:
                return entry
        message = (
            f"{self.name} has no overload {overload!r}: "
            f"choose one of {', '.join(self.overloads)}."
        )
        raise UnknownNameError(message)

    @property
    def overloads(self) -> tuple[str, ...]:
        """``("Tensor", "Scalar", "out")``."""
        return tuple(entry.overload for entry in self.entries)

    @property
    def default(self) -> OperatorEntry:
        """The default overload, or the only one there is."""
        return self.entries[0] if len(self.entries) == 1 else self["default"]

    @property
    def schema(self) -> str | None:
        """The schema of the default overload."""
        return self.default.schema

    @property
    def registered(self) -> KernelMap[KernelRegistration]:
        """The registrations of the default overload."""
        return self.default.registered

    @property
    def computed(self) -> KernelMap[ComputedKernel]:
        """The winning kernels of the default overload."""
        return self.default.computed


_STATES = {
    "kernel": KernelState.OWN_KERNEL,
    "math kernel": KernelState.COMPOSITE,
    "default backend kernel": KernelState.DEFAULT,
    "backend fallback": KernelState.FALLBACK,
}


def _site(file: str | None, line: int | None, note: str) -> str:
    if file is None:
        return note
    return f"{PurePosixPath(file).name}:{line}"
