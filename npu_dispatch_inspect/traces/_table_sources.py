# SPDX-License-Identifier: BSD-3-Clause
"""Where a registration table gets its entries."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from npu_dispatch_inspect.records.registrations import (
    ComputedKernel,
    OperatorEntry,
    OperatorKind,
)

__all__ = ["EntrySource", "TableSource"]


class TableSource(Protocol):
    """Where a table gets its entries: asked for no more than a query needs."""

    def names(self) -> tuple[str, ...]:
        """Every operator, qualified, in torch's order."""

    def entry(self, name: str) -> OperatorEntry:
        """One operator in full."""

    def kind(self, name: str) -> OperatorKind:
        """Where one operator is known."""

    def kernel(self, name: str, key: str) -> ComputedKernel | None:
        """The winner of one operator for one key in torch's spelling."""

    def may_mention(self, name: str, text: str) -> bool:
        """False where no registration of the operator can contain the text."""

    def fingerprint(self, name: str) -> object:
        """Something cheap that is equal where two entries are."""


class EntrySource:
    """A source of entries that are already there: loaded from a file, or by hand."""

    def __init__(self, entries: Iterable[OperatorEntry]) -> None:
        """Hold the entries in the order given."""
        self._entries = {entry.qualified_name: entry for entry in entries}

    def names(self) -> tuple[str, ...]:
        """Every operator, qualified, in the order given."""
        return tuple(self._entries)

    def entry(self, name: str) -> OperatorEntry:
        """One operator in full."""
        return self._entries[name]

    def kind(self, name: str) -> OperatorKind:
        """Where one operator is known."""
        return self._entries[name].kind

    def kernel(self, name: str, key: str) -> ComputedKernel | None:
        """The winner of one operator for one key in torch's spelling."""
        for each, kernel in self._entries[name].kernels:
            if each == key:
                return kernel
        return None

    def may_mention(self, name: str, text: str) -> bool:  # noqa: ARG002 - no text
        """Always: there is nothing cheaper than to look."""
        return True

    def fingerprint(self, name: str) -> object:
        """The entry itself."""
        return self._entries[name]
