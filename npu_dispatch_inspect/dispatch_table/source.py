# SPDX-License-Identifier: BSD-3-Clause
"""The dumps of one moment, read into records when somebody looks at them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from npu_dispatch_inspect.dispatch_table.dump_parser import DumpParser
from npu_dispatch_inspect.records.dispatch_keys import KeyNames
from npu_dispatch_inspect.records.registrations import (
    ComputedKernel,
    OperatorEntry,
    OperatorKind,
    PythonKernel,
)

__all__ = ["OWN_KEY", "DumpSource", "without_own_rows"]

OWN_KEY = "TESTING_ONLY_GenericMode"
"""The key on which this library's own tracer registers a kernel for every operator."""
_NO_FILE = "registered at /dev/null:"
"""What torch up to 2.7 says of every kernel from Python, ours among them."""


class DumpSource:
    """Keeps the text of the dumps: 46 MB for a whole registry, read once.

    Building every record takes several times as long as getting the text, and
    most questions are about one operator or one key.
    """

    def __init__(
        self,
        dumps: Mapping[str, tuple[str, str]],
        *,
        keys: KeyNames,
        python_kernels: Mapping[str, tuple[PythonKernel, ...]],
        others: Mapping[str, OperatorEntry],
    ) -> None:
        """Hold what was read.

        Args:
            dumps: Registrations and computed table as text, by qualified name.
            keys: The dispatch keys of the process.
            python_kernels: Kernels that no dump shows, by qualified name.
            others: Operators that the dispatcher itself does not know.
        """
        self._dumps = dumps
        self._python_kernels = python_kernels
        self._others = others
        self._keys = keys
        self._parser = DumpParser(keys)
        self._entries: dict[str, OperatorEntry] = {}

    def __getstate__(self) -> dict[str, Any]:
        """Pickle what was read, not what was built from it."""
        return {**vars(self), "_parser": None, "_entries": {}}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Start again from what was read."""
        vars(self).update(state)
        self._parser = DumpParser(self._keys)

    def names(self) -> tuple[str, ...]:
        """Every operator, qualified: the dispatcher's first, in its order."""
        return (*self._dumps, *self._others)

    def entry(self, name: str) -> OperatorEntry:
        """One operator in full."""
        entry = self._others.get(name) or self._entries.get(name)
        if entry is None:
            dump, table = self._dumps[name]
            kernels = self._python_kernels.get(name, ())
            entry = self._entries[name] = self._parser.operator(dump, table, kernels)
        return entry

    def kind(self, name: str) -> OperatorKind:
        """Where one operator is known."""
        other = self._others.get(name)
        if other is not None:
            return other.kind
        if "\nschema: (none)\n" in self._dumps[name][0]:
            return OperatorKind.DANGLING
        return OperatorKind.DISPATCHER

    def kernel(self, name: str, key: str) -> ComputedKernel | None:
        """The winner of one operator for one key in torch's spelling."""
        if name in self._others:
            return None
        return self._parser.kernel_for(self._dumps[name][1], key)

    def may_mention(self, name: str, text: str) -> bool:
        """False where no registration of the operator can contain the text."""
        return name not in self._others and text in self._dumps[name][0]

    def fingerprint(self, name: str) -> object:
        """The text it was read from."""
        if name in self._others:
            return self._others[name]
        return (*self._dumps[name], self._python_kernels.get(name))


def without_own_rows(text: str, folder: str) -> str:
    """Drop the rows of this library's own tracer from a dump.

    Args:
        text: Either dump.
        folder: Where this library is installed; a user's own kernel on the
            same key comes from elsewhere and stays.
    """
    if OWN_KEY not in text:
        return text
    ours = (f"registered at {folder}", _NO_FILE)
    kept = []
    dropped = False
    for line in text.splitlines(keepends=True):
        label, _, rest = line.partition(": ")
        site = rest.removeprefix("fallthrough ")
        if label.startswith(OWN_KEY) and site.startswith(ours):
            dropped = True
        elif dropped and label == f"{OWN_KEY} (inactive)":
            kept.append(line.replace(" (inactive)", "", 1))
            dropped = False
        else:
            kept.append(line)
    return "".join(kept)
