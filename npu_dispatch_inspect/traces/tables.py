# SPDX-License-Identifier: BSD-3-Clause
"""The dispatcher's registration tables as an immutable value with queries."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from itertools import chain
from typing import Any, TypeVar

from npu_dispatch_inspect.errors import UnknownNameError, UsageError
from npu_dispatch_inspect.records import Environment
from npu_dispatch_inspect.records.dispatch_keys import KeyNames
from npu_dispatch_inspect.records.printed import Printed
from npu_dispatch_inspect.records.registrations import (
    BackendFallback,
    ComputedKernel,
    Definition,
    KernelRegistration,
    KernelState,
    OperatorEntry,
    OperatorKind,
    OverloadGroup,
)
from npu_dispatch_inspect.traces._operator_names import find_names
from npu_dispatch_inspect.traces._saving import Saved
from npu_dispatch_inspect.traces._table_queries import (
    backend_fallback,
    facts_of,
    in_file,
    is_fallback,
    longest_literal,
)
from npu_dispatch_inspect.traces._table_sources import EntrySource, TableSource

__all__ = ["DispatchTable", "EntrySource", "TableSource"]

_Enum = TypeVar("_Enum", KernelState, OperatorKind)


class DispatchTable(Printed, Saved):
    """Operators with their registrations and winning kernels.

    A query gives another, smaller table, so queries chain::

        table.namespace("aten").own_kernel("NPU").registered_by("RegisterNPU.cpp")

    Records are built when somebody looks at them; a query over the whole
    registry looks at one line of each operator.

    Example:
        >>> from npu_dispatch_inspect import read_dispatch_table
        >>> table = read_dispatch_table("aten::linear", "aten::addmm", "aten::mm")
        >>> len(table.own_kernel("CPU")), table.composite("CPU").names
        (4, ('aten::linear',))
    """

    def __init__(
        self,
        source: TableSource,
        *,
        keys: KeyNames,
        environment: Environment | Callable[[], Environment] | None = None,
        names: tuple[str, ...] | None = None,
        complete: bool = False,
    ) -> None:
        """Make a table; `read_dispatch_table` and `load` are the usual ways.

        Args:
            source: Where the entries come from.
            keys: The dispatch keys of the process they were read in.
            environment: Versions and switches of that process; a function is
                asked once, when somebody wants to know.
            names: The operators to show; everything in the source by default.
            complete: The source had the whole registry.
        """
        self._source = source
        self._names = source.names() if names is None else names
        self._index: dict[str, tuple[str, ...]] | None = None
        self._known: frozenset[str] | None = None
        self._environment = environment
        self.keys = keys
        self.complete = complete

    @property
    def names(self) -> tuple[str, ...]:
        """``("aten::relu", "aten::add.Tensor", ...)``."""
        return self._names

    @property
    def environment(self) -> Environment | None:
        """Versions and switches of the process the table was read in."""
        if callable(self._environment):
            self._environment = self._environment()
        return self._environment

    def __getstate__(self) -> tuple[object, ...]:
        """Pickle the operators that the table shows, with the environment."""
        source = self._source if self.complete else EntrySource(self)
        return (source, self.keys, self.environment, self._names, self.complete)

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        """Take over what was pickled."""
        source, keys, environment, names, complete = state
        self.__init__(  # type: ignore[misc]
            source, keys=keys, environment=environment, names=names, complete=complete
        )

    def __len__(self) -> int:
        """How many operator overloads there are."""
        return len(self._names)

    def __iter__(self) -> Iterator[OperatorEntry]:
        """Every entry in full, in torch's order."""
        return map(self._source.entry, self._names)

    def __contains__(self, operator: object) -> bool:
        """Whether a name, in any spelling that `table[name]` takes, is here."""
        try:
            find_names(operator, self._by_operator())
        except UsageError:
            return False
        return True

    def __getitem__(self, operator: object) -> OperatorEntry | OverloadGroup:
        """One operator by name or by its `torch.ops` object.

        Args:
            operator: ``"aten::add.Tensor"``, ``"aten.relu.default"`` or
                ``torch.ops.aten.add.Tensor`` for one overload; ``"aten::add"``,
                ``"aten.add"`` or ``torch.ops.aten.add`` for all of them.

        Raises:
            UnknownNameError: there is no such operator; the sentence names the
                nearest ones.
        """
        found = find_names(operator, self._by_operator())
        if found.overload is not None:
            return self._source.entry(found.names[0])
        entries = tuple(map(self._source.entry, found.names))
        return OverloadGroup(name=found.operator, entries=entries)

    def entry(self, operator: object) -> OperatorEntry:
        """One overload; a name without an overload means the default one."""
        found = find_names(operator, self._by_operator())
        if len(found.names) == 1:
            return self._source.entry(found.names[0])
        if found.operator not in found.names:
            message = (
                f"{found.operator} has no default overload: "
                f"choose one of {', '.join(found.names)}."
            )
            raise UnknownNameError(message)
        return self._source.entry(found.operator)

    def kernel(self, operator: str, key: str = "PrivateUse1") -> ComputedKernel | None:
        """The winner for one key, None where there is none.

        Args:
            operator: Qualified, as in `names`.
            key: In any spelling.
        """
        return self._source.kernel(operator, self.keys.canonical(key))

    def select(self, *operators: object) -> DispatchTable:
        """The operators of these names or `torch.ops` objects, in this order, once each."""
        known = self._by_operator()
        names = (find_names(operator, known).names for operator in operators)
        return self._only(dict.fromkeys(chain.from_iterable(names)))

    def fingerprint(self, name: str) -> object | None:
        """Something cheap that is equal where two entries of one process are.

        Args:
            name: Qualified; None is the answer where it is not in this table.
        """
        if self._known is None:
            self._known = frozenset(self._names)
        return self._source.fingerprint(name) if name in self._known else None

    def __eq__(self, other: object) -> bool:
        """Equal where every entry is; where it was read does not matter."""
        if not isinstance(other, DispatchTable):
            return NotImplemented
        return self._names == other._names and all(
            mine == theirs for mine, theirs in zip(self, other, strict=True)
        )

    __hash__ = None  # type: ignore[assignment]  # a registry is too big to hash

    def __repr__(self) -> str:
        """``<DispatchTable: 3598 operators, torch 2.13.0>``."""
        where = self.environment
        version = f", torch {where.torch}" if where and where.torch else ""
        return f"<DispatchTable: {len(self)} operators{version}>"

    def operators(
        self,
        *,
        namespace: str | None = None,
        name: str | None = None,
        kind: OperatorKind | str | None = None,
        key: str = "PrivateUse1",
        state: KernelState | str | None = None,
    ) -> DispatchTable:
        """The operators that fit all conditions given.

        Args:
            namespace: ``"aten"``, ``"npu"``.
            name: A glob over qualified names: ``"aten::*norm*"``.
            kind: ``"dispatcher"``, ``"dangling"``, ``"higher order"``, ``"jit only"``.
            key: The dispatch key that `state` is about.
            state: ``"own kernel"``, ``"composite"``, ``"backend fallback"``, ...
        """
        chosen: Iterable[str] = self._names
        if namespace is not None:
            chosen = [each for each in chosen if each.startswith(f"{namespace}::")]
        if name is not None:
            chosen = [each for each in chosen if fnmatchcase(each, name)]
        if kind is not None:
            wanted_kind = _member(OperatorKind, kind)
            chosen = [each for each in chosen if self._source.kind(each) == wanted_kind]
        if state is not None:
            wanted, states = _member(KernelState, state), self.states(key)
            chosen = [each for each in chosen if states[each] == wanted]
        return self._only(chosen)

    def namespace(self, namespace: str) -> DispatchTable:
        """The operators of one namespace."""
        return self.operators(namespace=namespace)

    def own_kernel(self, key: str = "PrivateUse1") -> DispatchTable:
        """The operators with a kernel registered for the key itself."""
        return self.operators(key=key, state=KernelState.OWN_KERNEL)

    def composite(self, key: str = "PrivateUse1") -> DispatchTable:
        """The operators that are taken apart into others before the key."""
        return self.operators(key=key, state=KernelState.COMPOSITE)

    def default_kernel(self, key: str = "PrivateUse1") -> DispatchTable:
        """The operators that use the one kernel written for all backends."""
        return self.operators(key=key, state=KernelState.DEFAULT)

    def fallback(self, key: str = "PrivateUse1") -> DispatchTable:
        """The operators left to the backend's fallback: with torch_npu, the CPU."""
        return self.operators(key=key, state=KernelState.FALLBACK)

    def missing(self, key: str = "PrivateUse1") -> DispatchTable:
        """The operators that raise when they reach the key."""
        return self.operators(key=key, state=KernelState.MISSING)

    def composite_but_kernel(self, composite: str, kernel: str) -> DispatchTable:
        """The operators that one key takes apart and another has a kernel for.

        ``composite_but_kernel("CPU", "NPU")`` are the operators whose trace on
        CPU shows parts that never run on NPU.
        """
        parts = set(self.composite(composite).names)
        return self._only(
            name for name in self.own_kernel(kernel).names if name in parts
        )

    def registered_by(self, file: str) -> DispatchTable:
        """The operators with something registered from a file or library.

        Args:
            file: Part of the path (``"RegisterNPU.cpp"``, ``"torch_npu/"``), or
                a glob over the whole of it.
        """
        return self._only(
            name
            for name in self._names
            if self._source.may_mention(name, longest_literal(file))
            and any(
                in_file(each.file, file) for each in facts_of(self._source.entry(name))
            )
        )

    def registered_on(self, key: str) -> DispatchTable:
        """The operators with a registration for a key, alias keys included.

        ``registered_on("CompositeImplicitAutograd").own_kernel("NPU")`` are the
        composites that the NPU does not take apart.
        """
        wanted = self.keys.canonical(key)
        return self._only(
            name
            for name in self._names
            if self._source.may_mention(name, wanted)
            and any(
                each.key == wanted for each in self._source.entry(name).registrations
            )
        )

    def registrations(
        self, *, key: str | None = None, file: str | None = None
    ) -> tuple[KernelRegistration, ...]:
        """Every implementation (``impl``), inactive ones too, by key and by file."""
        wanted = None if key is None else self.keys.canonical(key)
        return tuple(
            each
            for each in self._records("registrations", file)
            if isinstance(each, KernelRegistration)
            and (wanted is None or each.key == wanted)
        )

    def definitions(self, *, file: str | None = None) -> tuple[Definition, ...]:
        """Every schema (``def``), by the file that defined it."""
        return tuple(
            each
            for each in self._records("definition", file)
            if isinstance(each, Definition)
        )

    def fallbacks(self, *, key: str | None = None) -> tuple[BackendFallback, ...]:
        """What keys give to operators without a kernel (``fallback``).

        torch tells it only through the operators that use it: a fallback that
        no operator of this table uses is not in the answer.
        """
        if key is not None:
            wanted = self.keys.canonical(key)
            kernels = (self._source.kernel(name, wanted) for name in self._names)
            first = next(filter(is_fallback, kernels), None)
            return () if first is None else (backend_fallback(wanted, first),)
        found: dict[str, BackendFallback] = {}
        for entry in self:
            for each, kernel in entry.kernels:
                if each not in found and is_fallback(kernel):
                    found[each] = backend_fallback(each, kernel)
        return tuple(found.values())

    def states(self, key: str = "PrivateUse1") -> Mapping[str, KernelState]:
        """What every operator has for one key, by qualified name."""
        wanted = self.keys.canonical(key)
        kernel_of = self._source.kernel
        states = {}
        for name in self._names:
            kernel = kernel_of(name, wanted)
            states[name] = KernelState.MISSING if kernel is None else kernel.state
        return states

    def counts(self, key: str = "PrivateUse1") -> Mapping[KernelState, int]:
        """How many operators have what for one key; the most frequent first."""
        return dict(Counter(self.states(key).values()).most_common())

    def counts_by_namespace(
        self, key: str = "PrivateUse1"
    ) -> Mapping[str, Mapping[KernelState, int]]:
        """The same for each namespace."""
        found: dict[str, Counter[KernelState]] = {}
        for name, state in self.states(key).items():
            found.setdefault(name.partition("::")[0], Counter())[state] += 1
        return {space: dict(each.most_common()) for space, each in found.items()}

    def _only(self, names: Iterable[str]) -> DispatchTable:
        return DispatchTable(
            self._source,
            keys=self.keys,
            environment=self._environment,
            names=tuple(names),
        )

    def _by_operator(self) -> dict[str, tuple[str, ...]]:
        if self._index is None:
            groups: dict[str, list[str]] = {}
            for name in self._names:
                groups.setdefault(name.partition(".")[0], []).append(name)
            self._index = {key: tuple(names) for key, names in groups.items()}
        return self._index

    def _records(
        self, field: str, file: str | None
    ) -> Iterator[Definition | KernelRegistration]:
        literal = longest_literal(file or "")
        for name in self._names:
            if file is None or self._source.may_mention(name, literal):
                for each in facts_of(self._source.entry(name), field):
                    if file is None or in_file(each.file, file):
                        yield each


def _member(kind: type[_Enum], value: _Enum | str) -> _Enum:
    try:
        return kind(value)
    except ValueError:
        words = ", ".join(repr(each.value) for each in kind)
        message = f"There is no {value!r} here: choose one of {words}."
        raise UnknownNameError(message) from None
