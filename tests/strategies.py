# SPDX-License-Identifier: BSD-3-Clause
"""Hypothesis strategies for every record, made of the types of its fields."""

from __future__ import annotations

import enum
import types
import typing
from collections import Counter

import attrs
from hypothesis import strategies as st

from npu_dispatch_inspect.records import Constant, QueueState, TensorSpec
from npu_dispatch_inspect.serialization._converter import resolved, value_type

__all__ = ["of", "values"]

DEPTH = 3
"""Records inside records inside records; below that fields keep their defaults."""
text = st.text(max_size=8)
PLAIN = {
    # What every format can hold; JSON alone has no limit.
    int: st.integers(-(2**63), 2**63 - 1),
    str: text,
    bool: st.booleans(),
    type(None): st.none(),
    QueueState: st.builds(
        QueueState, st.integers(), st.none(), st.integers(0, 9), st.none(), st.none()
    ),
}


def of(kind, depth=DEPTH):
    """A strategy for a type as it stands in the fields of records."""
    if kind in PLAIN:
        return PLAIN[kind]
    if kind == value_type():
        return values(depth)
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if origin in (types.UnionType, typing.Union):
        return st.one_of([of(each, depth) for each in inner])
    if origin is tuple and inner[1:] == (...,):
        return st.lists(of(inner[0], depth), max_size=2).map(tuple)
    if origin is tuple:
        return st.tuples(*(of(each, depth) for each in inner))
    if origin is Counter:
        return st.dictionaries(text, st.integers(0, 99), max_size=2).map(Counter)
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return st.sampled_from(kind)
    return st.deferred(lambda: _record(kind, depth))


def _record(kind, depth):
    fields = {
        each.name: of(each.type, depth - 1)
        for each in attrs.fields(resolved(kind))
        # What may be anything is in no file.
        if each.type is not typing.Any and (depth > 0 or each.default is attrs.NOTHING)
    }
    return st.builds(kind, **fields)


def values(depth=DEPTH):
    """What an argument or a result can be: infinities, nested lists, tensors."""
    leaves = st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.floats(),
        st.complex_numbers(allow_nan=True),
        text,
        st.builds(Constant, kind=text, text=text),
        *([of(TensorSpec, depth - 1)] if depth > 0 else []),
    )
    return st.recursive(
        leaves, lambda inner: st.lists(inner, max_size=2).map(tuple), max_leaves=4
    )
