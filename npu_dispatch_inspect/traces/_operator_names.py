# SPDX-License-Identifier: BSD-3-Clause
"""From what people write to the operators they mean."""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Iterable, Mapping

from attrs import frozen

from npu_dispatch_inspect.errors import UnknownNameError
from npu_dispatch_inspect.records.names import qualified

__all__ = ["FoundNames", "find_names", "spelled", "split_spelling"]

_NAME = re.compile(
    r"(?:torch\.ops\.)?(?P<space>\w+)(?:::|\.)(?P<operator>\w+)"
    r"(?:\.(?P<overload>\w+))?"
)
_PYTHON_PREFIX = re.compile(
    r"(?:torch\.)?nn\.functional\.|F\.|torch\.(?:Tensor\.|special\.|linalg\.)?|Tensor\."
)


@frozen(kw_only=True)
class FoundNames:
    """The operators that a spelling stands for."""

    operator: str
    """``"aten::add"``."""
    overload: str | None
    """None where the spelling named none: all overloads are meant."""
    names: tuple[str, ...]
    """Qualified: ``("aten::add.Tensor", "aten::add.out")``."""


def spelled(operator: object) -> str:
    """The text of a spelling: names are taken as they are, `torch.ops` objects too.

    Raises:
        UnknownNameError: it is something else, such as a Python function.
    """
    if isinstance(operator, str):
        return operator
    text = str(operator)
    if type(operator).__module__.split(".")[0] == "torch" and _NAME.fullmatch(text):
        return text
    space = getattr(operator, "namespace", None)
    if isinstance(space, str):
        return f"{space}::{text}"
    name = getattr(operator, "__qualname__", None) or type(operator).__name__
    message = (
        f"{name} is not an operator but a Python object: give an operator's name "
        f"('aten::relu') or torch.ops object, or ask explain({name}, ...) which "
        f"operators it calls."
    )
    raise UnknownNameError(message)


def split_spelling(text: str) -> tuple[str, str | None] | None:
    """``"aten.add.Tensor"`` to ``("aten::add", "Tensor")``; None where it is no name."""
    match = _NAME.fullmatch(text)
    if match is None:
        return None
    return f"{match['space']}::{match['operator']}", match["overload"]


def find_names(operator: object, known: Mapping[str, tuple[str, ...]]) -> FoundNames:
    """The operators that a spelling stands for.

    Args:
        operator: A name in any usual spelling, or a `torch.ops` object.
        known: Qualified names by operator: ``{"aten::relu": ("aten::relu", ...)}``.

    Raises:
        UnknownNameError: there is none; the sentence names the nearest ones.
    """
    text = spelled(operator)
    parts = split_spelling(text)
    if parts is None or parts[0] not in known:
        raise UnknownNameError(_unknown(text, known))
    name, overload = parts
    if overload is None:
        return FoundNames(operator=name, overload=None, names=known[name])
    found = qualified(name, overload)
    if found not in known[name]:
        there = ", ".join(_overloads(known[name]))
        message = f"{name} has no overload {overload!r}: choose one of {there}."
        raise UnknownNameError(message)
    return FoundNames(operator=name, overload=overload, names=(found,))


def _overloads(names: Iterable[str]) -> list[str]:
    return [name.partition(".")[2] or "default" for name in names]


def _unknown(text: str, known: Collection[str]) -> str:
    prefix = _PYTHON_PREFIX.match(text)
    bare = text[prefix.end() :] if prefix else text
    if "::" not in bare and (f"aten::{bare}" in known or prefix):
        there = (
            f"the operator of that name is aten::{bare}"
            if f"aten::{bare}" in known
            else "it may call several operators"
        )
        call = f", its command a call such as '{text}(x)'" if prefix else ""
        return (
            f"{text!r} is a Python name, not an operator: {there}; "
            f"explain() takes the function itself{call}."
        )
    parts = split_spelling(text)
    space, _, name = (parts[0] if parts else f"aten::{bare}").partition("::")
    # Names alone are compared: a common "aten::" would make all of them alike.
    here = [each.partition("::")[2] for each in known if each.startswith(f"{space}::")]
    near = [
        f"{space}::{each}"
        for each in difflib.get_close_matches(name, here, n=3, cutoff=0.7)
    ]
    near = near or [each for each in known if each.endswith(f"::{name}")][:3]
    hint = (
        f"did you mean {' or '.join(near)}?"
        if near
        else "write it as torch does, 'aten::relu', and load the library that has it."
    )
    return f"There is no operator {text!r}: {hint}"
