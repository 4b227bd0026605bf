# SPDX-License-Identifier: BSD-3-Clause
"""Answers as JSON: records become objects with the names of their fields."""

from __future__ import annotations

import enum
import json
import math
from collections.abc import Iterable, Mapping
from typing import Any

import attrs

from npu_dispatch_inspect.cli._frame import write

__all__ = ["FORMAT", "plain", "write_json"]

FORMAT = 1
"""Raised when a field changes its meaning or goes away; new fields may come."""


def write_json(command: str, content: Mapping[str, Any]) -> None:
    """Print an answer under the name of its command."""
    whole = {"command": command, "format": FORMAT, **content}
    write(json.dumps(plain(whole), allow_nan=False, indent=1))


def plain(value: Any) -> Any:
    """A value as JSON has it.

    Records are objects, `Enum` members their values, numbers that JSON has no word
    for ``{"float": "nan"}`` and ``{"complex": [1.0, 2.0]}``.
    """
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {"float": repr(value)}
    if isinstance(value, complex):
        return {"complex": [plain(value.real), plain(value.imag)]}
    if isinstance(value, enum.Enum):
        return value.value
    if attrs.has(type(value)):
        found = {
            each.name: plain(getattr(value, each.name))
            for each in attrs.fields(type(value))
            if each.repr and not each.name.startswith("_")
        }
        name = getattr(value, "qualified_name", None)
        return found if name is None else {"qualified_name": name, **found}
    if hasattr(value, "_asdict"):
        return plain(value._asdict())
    if isinstance(value, Mapping):
        return {_key(key): plain(each) for key, each in value.items()}
    if isinstance(value, Iterable):
        return [plain(each) for each in value]
    return str(value)


def _key(key: Any) -> str:
    if isinstance(key, enum.Enum):
        return str(key.value)
    return "" if key is None else str(key)
