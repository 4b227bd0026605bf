# SPDX-License-Identifier: BSD-3-Clause
"""Operators that move data, make memory or change shapes: what they do is known."""

from __future__ import annotations

__all__ = [
    "ALLOCATIONS",
    "COPIES",
    "IN_PLACE_VIEWS",
    "RETURNING_THE_TARGET",
    "WRAPPED_COPIES",
]

COPIES = frozenset(
    {
        "aten::_copy_from",
        "aten::_copy_from_and_resize",
        "aten::_local_scalar_dense",
        "aten::_pin_memory",
        "aten::copy_",
        "npu::npu_format_cast",
    }
)
"""Operators whose work is to move data."""

RETURNING_THE_TARGET = frozenset({"aten::_copy_from", "aten::_copy_from_and_resize"})
"""Operators that return what they write to, though their schema names nothing written."""

WRAPPED_COPIES = frozenset(
    {
        "aten::_to_copy",
        "aten::_to_cpu",
        "aten::clone",
        "aten::contiguous",
        "aten::cpu",
        "aten::item",
        "aten::to",
    }
)
"""Operators that make room and call one of `COPIES`; they compute nothing."""

ALLOCATIONS = frozenset(
    {
        "aten::_efficientzerotensor",
        "aten::empty",
        "aten::empty_like",
        "aten::empty_permuted",
        "aten::empty_strided",
        "aten::new_empty",
        "aten::new_empty_strided",
        "aten::resize_",
        "aten::set_",
        "npu::empty_with_format",
        "npu::unsafe_empty_with_format",
    }
)
"""Operators that make or reshape memory and compute nothing."""

IN_PLACE_VIEWS = frozenset(
    {
        "aten::as_strided_",
        "aten::detach_",
        "aten::squeeze_",
        "aten::swapaxes_",
        "aten::t_",
        "aten::transpose_",
        "aten::unsqueeze_",
    }
)
"""Operators that write to a tensor's shape and strides, not to its memory."""
