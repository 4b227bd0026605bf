# SPDX-License-Identifier: BSD-3-Clause
"""What a glob over operators, or over module paths, matches: the same everywhere."""

from __future__ import annotations

from fnmatch import fnmatchcase

__all__ = ["in_module", "is_operator"]


def is_operator(name: str, overload: str, glob: str) -> bool:
    """Whether the operator matches, with or without its overload."""
    return fnmatchcase(name, glob) or fnmatchcase(f"{name}.{overload}", glob)


def in_module(path: str | None, glob: str) -> bool:
    """Whether the path matches; of a module with several, one or all as written."""
    return path is not None and any(
        fnmatchcase(each, glob) for each in (path, *path.split("|"))
    )
