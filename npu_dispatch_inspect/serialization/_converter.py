# SPDX-License-Identifier: BSD-3-Clause
"""Records to JSON's types and back, the same way for every kind of file.

Fields that have their default are left out. Values that JSON has no word for are
objects with one key: ``{"complex": [1.0, 2.0]}``, ``{"float": "nan"}``,
``{"tensor": {...}}``, ``{"constant": {...}}``.
"""

from __future__ import annotations

import math
import sys
import types
import typing
from collections import Counter
from collections.abc import Callable
from functools import cache
from typing import Any, TypeVar

import attrs
import cattrs
from cattrs.gen import make_dict_structure_fn, make_dict_unstructure_fn, override

from npu_dispatch_inspect import records
from npu_dispatch_inspect.records import Argument, Constant, QueueState, TensorSpec

__all__ = ["plain", "reader", "resolved", "value_type", "writer"]

T = TypeVar("T")
_PLAIN = (bool, int, float, str, type(None))


def resolved(kind: type[T]) -> type[T]:
    """An attrs class, once the annotations of its fields are types.

    `Value` is a text that names classes of its own module, so their names are
    added to those of the module that uses it.
    """
    names = {**vars(records), **vars(sys.modules[kind.__module__])}
    attrs.resolve_types(kind, globalns=names)  # type: ignore[type-var]
    return kind


@cache
def value_type() -> Any:
    """`Value` as it is in the fields of a resolved class."""
    return attrs.fields(resolved(Argument)).value.type


def _is_value(kind: Any) -> bool:
    return bool(kind == value_type())


def _overrides(kind: type[Any]) -> dict[str, Any]:
    """Fields that no file can hold are left out: what is of any type at all."""
    return {
        each.name: override(omit=True)
        for each in attrs.fields(kind)
        if each.type is Any
    }


def plain(record: Any) -> Any:
    """A record as JSON's types."""
    return writer().unstructure(record)


def _write_value(value: Any) -> Any:
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {"float": repr(value)}
    if isinstance(value, complex):
        return {"complex": [_write_value(value.real), _write_value(value.imag)]}
    if isinstance(value, tuple):
        return [_write_value(each) for each in value]
    return {"tensor" if isinstance(value, TensorSpec) else "constant": plain(value)}


@cache
def writer() -> cattrs.Converter:
    """The converter from records to JSON's types."""
    converter = cattrs.Converter(unstruct_collection_overrides={tuple: list})
    converter.register_unstructure_hook_func(_is_value, _write_value)
    converter.register_unstructure_hook(QueueState, list)
    converter.register_unstructure_hook_factory(
        attrs.has,
        lambda kind: make_dict_unstructure_fn(
            resolved(kind),
            converter,
            _cattrs_omit_if_default=True,
            **_overrides(kind),
        ),
    )
    return converter


def _is_plain_union(kind: Any) -> bool:
    return typing.get_origin(kind) in (types.UnionType, typing.Union) and all(
        each in _PLAIN for each in typing.get_args(kind)
    )


def _exactly(kind: Any) -> Callable[[Any, Any], Any]:
    """A hook that takes a value as it is or not at all: ``"5"`` is no number."""
    kinds = typing.get_args(kind) or (kind,)
    wanted = " or ".join(each.__name__ for each in kinds)

    def structure(value: Any, _: Any) -> Any:
        if type(value) not in kinds:
            msg = f"{value!r} is not of type {wanted}"
            raise TypeError(msg)
        return value

    return structure


def _read_queue_state(value: Any, _: Any) -> QueueState:
    for each in value:
        if each is not None and type(each) is not int:
            msg = f"{each!r} is not of type int"
            raise TypeError(msg)
    return QueueState(*value)


def _is_counter(kind: Any) -> bool:
    origin: Any = typing.get_origin(kind)
    return origin is Counter


def _read_counter(value: Any, _: Any) -> Counter[str]:
    for each in value.values():
        if type(each) is not int:
            msg = f"{each!r} is not of type int"
            raise TypeError(msg)
    return Counter(value)


@cache
def reader(exact: bool) -> cattrs.Converter:  # noqa: FBT001 - a cache key
    """The converter back; ``exact`` refuses fields it does not know."""
    converter = cattrs.Converter(forbid_extra_keys=exact)

    def read_value(value: Any, _: Any = None) -> Any:
        if value is None or isinstance(value, (bool, int, float, str)):
            return value
        if isinstance(value, list):
            return tuple(read_value(each) for each in value)
        if isinstance(value, dict) and len(value) == 1:
            ((key, inner),) = value.items()
            if key == "tensor":
                return converter.structure(inner, TensorSpec)
            if key == "constant":
                return converter.structure(inner, Constant)
            if key == "float" and inner in ("nan", "inf", "-inf"):
                return float(inner)
            if key == "complex" and isinstance(inner, list) and len(inner) == 2:  # noqa: PLR2004 - real and imaginary
                real, imaginary = (read_value(each) for each in inner)
                if isinstance(real, float) and isinstance(imaginary, float):
                    return complex(real, imaginary)
        msg = f"{value!r} is no value"
        raise ValueError(msg)

    for each in (bool, int, float, str):
        converter.register_structure_hook(each, _exactly(each))
    converter.register_structure_hook_factory(_is_plain_union, _exactly)
    converter.register_structure_hook_func(_is_value, read_value)
    converter.register_structure_hook(QueueState, _read_queue_state)
    converter.register_structure_hook_func(_is_counter, _read_counter)
    converter.register_structure_hook_factory(
        attrs.has,
        lambda kind: make_dict_structure_fn(
            resolved(kind),
            converter,
            _cattrs_forbid_extra_keys=exact,
            **_overrides(kind),
        ),
    )
    return converter
