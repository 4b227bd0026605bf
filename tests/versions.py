# SPDX-License-Identifier: BSD-3-Clause
"""Tests that are about some versions of torch and torch_npu only."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

import pytest

from npu_dispatch_inspect._versions import holds

__all__ = ["since_torch", "since_torch_npu"]


def since_torch(first, fact):
    """Skip a test before a version of torch; ``fact`` says what is otherwise there."""
    return _since("torch", first, fact)


def since_torch_npu(first, fact):
    """The same for torch_npu."""
    return _since("torch_npu", first, fact)


def _since(package, first, fact):
    try:
        older = not holds(f">={first}", version(package), package)
    except PackageNotFoundError:
        older = False  # another mark skips what needs it
    return pytest.mark.skipif(older, reason=f"before {package} {first} {fact}")
