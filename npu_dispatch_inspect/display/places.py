# SPDX-License-Identifier: BSD-3-Clause
"""Text about single calls: what was called and where."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from attrs import frozen

from npu_dispatch_inspect._call_patterns import overload_of
from npu_dispatch_inspect.display.text import (
    inputs_text,
    line_text,
    module_text,
    value_text,
)
from npu_dispatch_inspect.patterns import Call

__all__ = [
    "OPS",
    "Words",
    "call_cells",
    "call_line",
    "call_name",
    "call_place",
    "capped",
    "counted",
    "near_names",
    "places",
    "unmet_text",
]


@frozen(kw_only=True)
class Words:
    """What the calls of a trace are called, and the two sides of a comparison."""

    noun: str = "op"
    plural: str = "ops"
    expected: str = "expected"
    traced: str = "traced"
    compared: bool = False
    """Both sides are traces; neither says what should be."""


OPS = Words()
_INDICES = 4


def counted(number: int, words: Words) -> str:
    """``1 op``, ``2 ops``."""
    return f"{number} {words.noun if number == 1 else words.plural}"


def call_name(call: Any) -> str:
    """``aten::mm``, ``aten::sum.dim_IntList``."""
    name: str = getattr(call, "qualified_name", call.name)
    return name


def call_place(call: Any) -> str:
    """``#4 in mlp.fc2``."""
    module = _module(call)
    return f"#{call.index} in {module}" if module else f"#{call.index}"


def call_line(call: Any) -> str:
    """``model.py:33``; empty where it is not known."""
    return line_text(call) if getattr(call, "source", None) is not None else ""


def call_cells(call: Any) -> tuple[str, ...]:
    """Index, phase, name, arguments, module, line."""
    phase = getattr(call, "phase", None)
    arguments = getattr(call, "arguments", None)
    if getattr(call, "inputs", None):
        tensors = inputs_text(call)
    elif arguments:
        tensors = ", ".join(value_text(each.value) for each in arguments)
    else:
        tensors = ""
    return (
        f"#{call.index}",
        "" if phase is None else phase.short,
        call_name(call),
        tensors,
        module_text(call) if getattr(call, "module", None) is not None else "",
        call_line(call),
    )


def places(calls: Iterable[Any], max_rows: int | None) -> list[str]:
    """Where calls were made, the most frequent place first.

    ``2x backward mlp.fc2 model.py:33 (#9, #11)``.
    """
    found: dict[str, list[str]] = {}
    for call in calls:
        phase = getattr(call, "phase", None)
        parts = ("" if phase is None else phase.value, _module(call), call_line(call))
        place = " ".join(part for part in parts if part)
        found.setdefault(place, []).append(f"#{call.index}")
    rows = []
    for place, indices in sorted(found.items(), key=lambda item: -len(item[1])):
        text = f"{len(indices)}x {place}".rstrip()
        shown = ", ".join(indices[:_INDICES]) + (", ..." if indices[_INDICES:] else "")
        rows.append(f"{text} ({shown})")
    return capped(rows, max_rows, "places")


def capped(rows: list[str], max_rows: int | None, what: str) -> list[str]:
    """No more rows than are wanted, and how many were left out."""
    if max_rows is None or len(rows) <= max_rows:
        return rows
    return [*rows[:max_rows], f"... {len(rows) - max_rows} more {what}"]


def unmet_text(wanted: Call, calls: Iterable[Any]) -> str | None:
    """Which conditions the calls of that name do not fulfil; None if there are none.

    ``2 calls of that name: 2 not phase backward, 1 not f16``.
    """
    named = [
        call for call in calls if wanted.call.matches_name(call.name, overload_of(call))
    ]
    if not named:
        return None
    unmet = Counter(each for call in named for each in wanted.call.unmet(call))
    told = ", ".join(f"{number} not {each}" for each, number in unmet.most_common())
    return f"{len(named)} {'call' if len(named) == 1 else 'calls'} of that name: {told}"


def near_names(name: str, calls: Sequence[Any]) -> list[str]:
    """Up to three names among the calls that somebody may have meant."""
    names = sorted({call.name for call in calls} | {call_name(call) for call in calls})
    names = [each for each in names if each != name]
    space, colons, bare = name.rpartition("::")
    bare = bare.partition(".")[0]
    # Names alone are compared: a common "aten::" would make all of them alike.
    alike = difflib.get_close_matches(
        bare, {each.rpartition("::")[2] for each in names}, n=3, cutoff=0.6
    )
    found = [
        each
        for tail in dict.fromkeys([bare, *alike])
        for each in names
        if each.rpartition("::")[2] == tail
    ]
    # The namespace that was written comes first.
    found.sort(key=lambda each: colons == "::" and not each.startswith(f"{space}::"))
    return found[:3]


def _module(call: Any) -> str:
    module = getattr(call, "module", None)
    if module is None:
        return ""
    return module or getattr(call, "root", None) or ""
