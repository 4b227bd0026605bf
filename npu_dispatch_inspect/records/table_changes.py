# SPDX-License-Identifier: BSD-3-Clause
"""Differences between two registration tables, as records."""

from __future__ import annotations

from typing import TypeAlias

from attrs import frozen

from npu_dispatch_inspect.records.printed import Printed
from npu_dispatch_inspect.records.registrations import (
    BackendFallback,
    ComputedKernel,
    Definition,
    KernelRegistration,
    PythonKernel,
)

__all__ = ["TableChange", "TableChanges", "TableFact"]

TableFact: TypeAlias = (
    "BackendFallback | ComputedKernel | Definition | KernelRegistration | PythonKernel"
)
"""Anything of a table that can differ."""


@frozen(kw_only=True)
class TableChange:
    """One thing that is in one of two tables only, or different in both.

    Example:
        >>> from npu_dispatch_inspect import compare_tables, read_dispatch_table
        >>> old, new = read_dispatch_table("aten::mm"), read_dispatch_table("aten::mm", "aten::t")
        >>> change = compare_tables(old, new)[0]
        >>> change.change, change.what, change.operator
        ('added', 'definition', 'aten::t')
    """

    what: str
    """``"definition"``, ``"registration"``, ``"kernel"`` (the winner), ``"python kernel"``
    or ``"fallback"``."""
    operator: str | None
    """Qualified; None for a backend fallback, which is of no operator."""
    key: str | None
    """None for a definition."""
    before: TableFact | None
    after: TableFact | None

    @property
    def change(self) -> str:
        """``"added"``, ``"removed"`` or ``"replaced"``."""
        if self.before is None:
            return "added"
        return "removed" if self.after is None else "replaced"

    def __str__(self) -> str:
        """``added registration aten::relu on PrivateUse1: kernels.py:12``."""
        subject = " on ".join(each for each in (self.operator, self.key) if each)
        sites = " -> ".join(
            each.site for each in (self.before, self.after) if each is not None
        )
        return f"{self.change} {self.what} {subject}: {sites}"


class TableChanges(Printed, tuple[TableChange, ...]):
    """The changes between two tables: a tuple that prints itself.

    Example:
        >>> from npu_dispatch_inspect import compare_tables, read_dispatch_table
        >>> old, new = read_dispatch_table("aten::mm"), read_dispatch_table("aten::mm", "aten::t")
        >>> changes = compare_tables(old, new)
        >>> {change.operator for change in changes}
        {'aten::t'}
    """

    __slots__ = ()
