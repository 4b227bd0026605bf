# SPDX-License-Identifier: BSD-3-Clause
"""Named sets of operators that a reader may want to leave out.

Nothing is ever left out by default: a set is named where it is used, as in
``trace.without(VIEW_OPS)``.
"""

from __future__ import annotations

__all__ = ["DETACH_OPS", "VIEW_OPS"]

VIEW_OPS: frozenset[str] = frozenset(
    f"aten::{name}"
    for name in (
        "_conj",
        "_neg_view",
        "_reshape_alias",
        "_unsafe_view",
        "alias",
        "as_strided",
        "chunk",
        "detach",
        "diagonal",
        "expand",
        "imag",
        "movedim",
        "narrow",
        "permute",
        "real",
        "select",
        "slice",
        "split",
        "split_with_sizes",
        "squeeze",
        "swapaxes",
        "t",
        "transpose",
        "unbind",
        "unflatten",
        "unfold",
        "unsqueeze",
        "view",
        "view_as_complex",
        "view_as_real",
    )
)
"""Operators whose result shares the storage of an input: no data is moved."""

DETACH_OPS: frozenset[str] = frozenset({"aten::detach", "aten::alias"})
"""Operators that autograd adds for its own bookkeeping; their number differs
between torch releases."""
