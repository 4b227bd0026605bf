# SPDX-License-Identifier: BSD-3-Clause
"""Dispatch keys: their names in a process, and records looked up by them."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping
from typing import Generic, TypeVar

from attrs import frozen

from npu_dispatch_inspect.errors import UnknownNameError

__all__ = ["KernelMap", "KeyNames"]

_Record = TypeVar("_Record")


@frozen(kw_only=True)
class KeyNames:
    """The dispatch key names of the process a table was read in."""

    names: tuple[str, ...]
    """Every key that torch names, alias keys among them."""
    private_backend: str | None = None
    """What ``PrivateUse1`` was renamed to: ``"npu"``; None where it was not."""

    def canonical(self, text: str) -> str:
        """Give torch's own name for a key written in any usual way.

        Args:
            text: ``"PrivateUse1"``, ``"NPU"``, ``"AutogradNPU"``, in any case.
                ``NPU`` stands for ``PrivateUse1`` unless that key was renamed
                to another backend.

        Raises:
            UnknownNameError: torch has no such key.
        """
        if text in self.names:
            return text
        wanted = text.removeprefix("DispatchKey.").casefold()
        backend = (self.private_backend or "npu").casefold()
        spellings = {name.casefold(): name for name in self.names}
        for candidate in (wanted, wanted.replace(backend, "privateuse1")):
            if candidate in spellings:
                return spellings[candidate]
        near = difflib.get_close_matches(wanted, spellings, n=3)
        hint = (
            f"did you mean {' or '.join(spellings[name] for name in near)}?"
            if near
            else "write it as torch does: CPU, PrivateUse1, AutogradCPU."
        )
        message = f"There is no dispatch key {text!r}: {hint}"
        raise UnknownNameError(message)


class KernelMap(Mapping[str, _Record], Generic[_Record]):
    """Records by dispatch key; both ``PrivateUse1`` and ``NPU`` find the same one."""

    __slots__ = ("_items", "_names", "_what")

    def __init__(
        self, records: Iterable[tuple[str, _Record]], names: KeyNames, what: str
    ) -> None:
        """Index the records; of several for one key the first wins.

        Args:
            records: Key and record, in the order torch lists them.
            names: The keys of the process they were read in.
            what: What a missing key is missing: ``"registration on aten::add"``.
        """
        self._items: dict[str, _Record] = {}
        for key, record in records:
            self._items.setdefault(key, record)
        self._names = names
        self._what = what

    def __getitem__(self, key: str) -> _Record:
        """The record for a key in any spelling.

        Raises:
            UnknownNameError: torch has no such key, or there is nothing for it.
        """
        found = self._items.get(key)
        if found is None:
            name = self._names.canonical(key)
            found = self._items.get(name)
            if found is None:
                message = (
                    f"There is no {self._what} for {name}: "
                    f"look at .keys() for what there is, or use .get()."
                )
                raise UnknownNameError(message)
        return found

    def __iter__(self) -> Iterator[str]:
        """The keys in torch's spelling and order."""
        return iter(self._items)

    def __len__(self) -> int:
        """How many keys there are."""
        return len(self._items)

    def __repr__(self) -> str:
        """The keys alone: there are about a hundred, and each record is long."""
        return f"<KernelMap: {', '.join(self._items)}>"
