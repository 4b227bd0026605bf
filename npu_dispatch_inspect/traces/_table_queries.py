# SPDX-License-Identifier: BSD-3-Clause
"""The small questions that the queries of a registration table are made of."""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatchcase
from typing import TypeGuard

from npu_dispatch_inspect.records.registrations import (
    BackendFallback,
    ComputedKernel,
    Definition,
    KernelRegistration,
    OperatorEntry,
)

__all__ = ["backend_fallback", "facts_of", "in_file", "is_fallback", "longest_literal"]


def facts_of(
    entry: OperatorEntry, field: str | None = None
) -> Iterator[Definition | KernelRegistration]:
    """What libraries registered for an operator: its schema, its kernels, or both."""
    if field in (None, "definition") and entry.definition is not None:
        yield entry.definition
    if field in (None, "registrations"):
        yield from entry.registrations


def is_fallback(kernel: ComputedKernel | None) -> TypeGuard[ComputedKernel]:
    """Whether a winner is the fallback of its key."""
    return kernel is not None and kernel.kind == "backend fallback"


def backend_fallback(key: str, kernel: ComputedKernel) -> BackendFallback:
    """The fallback that a winner shows."""
    return BackendFallback(
        key=key,
        file=kernel.file,
        line=kernel.line,
        note=kernel.note,
        fallthrough=kernel.fallthrough,
    )


def in_file(path: str | None, wanted: str) -> bool:
    """Whether a path has a part, or fits a glob."""
    return path is not None and (wanted in path or fnmatchcase(path, wanted))


def longest_literal(glob: str) -> str:
    """The longest piece of a glob that every match must contain."""
    for mark in "*?[]":
        glob = glob.replace(mark, "*")
    return max(glob.split("*"), key=len)
