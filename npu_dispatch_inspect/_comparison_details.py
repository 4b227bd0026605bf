# SPDX-License-Identifier: BSD-3-Clause
"""In what the same call may differ on two sides."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator
from typing import Any

from npu_dispatch_inspect._call_patterns import tensors_of
from npu_dispatch_inspect.display.text import value_text
from npu_dispatch_inspect.records import Constant, tensors_in
from npu_dispatch_inspect.records.comparisons import Change

__all__ = ["CHOICES", "STANDARD", "changes_between"]


def _tensors(call: Any, _: Any) -> str | None:
    if not hasattr(call, "inputs") and getattr(call, "arguments", None) is None:
        return None
    taken = getattr(call, "input_tensors", None)
    text = ", ".join(map(str, tensors_of(call) if taken is None else taken))
    made = getattr(call, "output_tensors", ())
    return f"{text} -> {', '.join(map(str, made))}" if made else text


def _arguments(call: Any, _: Any) -> str | None:
    given = getattr(call, "inputs", None)
    if given is None:
        given = getattr(call, "arguments", None)
    if given is None:
        return None
    return ", ".join(
        f"{each.name}={value_text(each.value)}"
        for each in given
        if not tensors_in(each.value) and not _of_the_device(each.value)
    )


def _of_the_device(value: Any) -> bool:
    """What differs between devices by its nature."""
    return isinstance(value, Constant) and value.kind in ("device", "generator")


def _phase(call: Any, _: Any) -> str | None:
    value: str | None = getattr(getattr(call, "phase", None), "value", None)
    return value


def _module(call: Any, _: Any) -> str | None:
    module = getattr(call, "module", None)
    return None if module is None else module or call.root or ""


def _kernel(call: Any, _: Any) -> str | None:
    kernel = getattr(call, "kernel", None)
    return None if kernel is None else f"{kernel.key} {kernel.kind} {kernel.site}"


def _verdict(_: Any, node: Any) -> str | None:
    return None if node is None else str(node.verdict.value)


def _launches(_: Any, node: Any) -> str | None:
    if node is None:
        return None
    counted = Counter(each.name for each in node.launches)
    return (
        ", ".join(
            name if times == 1 else f"{name} x{times}"
            for name, times in counted.items()
        )
        or "none"
    )


_DETAILS: dict[str, Callable[[Any, Any], str | None]] = {
    "tensors": _tensors,
    "arguments": _arguments,
    "phase": _phase,
    "module": _module,
    "kernel": _kernel,
    "verdict": _verdict,
    "launches": _launches,
}

CHOICES = tuple(_DETAILS)
STANDARD = ("tensors", "verdict", "launches")
"""What of the same call is compared where nobody says."""


def changes_between(
    left: tuple[Any, Any], right: tuple[Any, Any], details: Collection[str]
) -> Iterator[Change]:
    """The details that differ; what one side does not know is no difference.

    Args:
        left: a record and what its report knows about it, None without one.
        right: the same of the other side.
        details: names out of `CHOICES`.
    """
    for what, tell in _DETAILS.items():
        if what not in details:
            continue
        one, other = tell(*left), tell(*right)
        if one is not None and other is not None and one != other:
            yield Change(what=what, left=one, right=other)
