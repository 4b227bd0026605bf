# SPDX-License-Identifier: BSD-3-Clause
"""Arguments of a call as words: ``f32[2,3]``, ``dim=1``, ``[f32[2],f32[2]]``."""

from __future__ import annotations

import argparse
import ast
import re
from collections.abc import Sequence
from typing import Any

from npu_dispatch_inspect.cli._torch import default_device
from npu_dispatch_inspect.errors import UsageError
from npu_dispatch_inspect.records.values import DTYPE_ABBREVIATIONS

__all__ = ["WORDS", "add_options", "call_arguments", "device_of"]

WORDS = (
    "Arguments are tensors as dtype[shape], f32[2,3] or bf16[8]@cpu, "
    "Python's numbers, texts and lists, torch.float16, and name=value."
)
"""For the help of commands that take arguments."""

_TENSOR = re.compile(r"(\w+)\[([\d\s,]*)\](?:@([a-z]+(?::\d+)?))?")
_KEYWORD = re.compile(r"([A-Za-z_]\w*)=(?!=)(.*)", re.DOTALL)
_FULL = {short: full for full, short in DTYPE_ABBREVIATIONS.items()}


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add ``--device`` and ``--grad``."""
    parser.add_argument(
        "--device",
        metavar="NAME",
        help="where the tensors are: npu, cpu, meta (default: npu where there is one)",
    )
    parser.add_argument(
        "--grad",
        action="store_true",
        help="let the tensors of floating dtypes require a gradient",
    )


def device_of(options: argparse.Namespace, torch: Any) -> Any:
    """The device that was chosen, or the default one.

    Raises:
        UsageError: torch knows no such device.
    """
    name = options.device or default_device(torch)
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except Exception as error:
        reason = str(error).strip().partition("\n")[0].rstrip(".")
        msg = f"There is no device {name!r} here: {reason}."
        raise UsageError(msg) from error
    return device


def call_arguments(
    words: Sequence[str], options: argparse.Namespace, torch: Any
) -> tuple[list[Any], dict[str, Any]]:
    """The arguments that words stand for; tensors hold zeros.

    Raises:
        UsageError: a word cannot be understood.
    """
    device = device_of(options, torch)
    positional: list[Any] = []
    named: dict[str, Any] = {}
    for word in words:
        found = _KEYWORD.fullmatch(word)
        if found:
            named[found[1]] = _value(found[2], device, options.grad, torch)
        elif named:
            msg = f"{word!r} follows an argument with a name: give it a name, or put it first."
            raise UsageError(msg)
        else:
            positional.append(_value(word, device, options.grad, torch))
    return positional, named


def _value(word: str, device: Any, grad: bool, torch: Any) -> Any:  # noqa: FBT001
    tensors: list[Any] = []

    def placeholder(found: re.Match[str]) -> str:
        dtype = _dtype(found[1], torch)
        shape = [int(size) for size in found[2].split(",") if size.strip()]
        differentiable = dtype.is_floating_point or dtype.is_complex
        tensors.append(
            torch.zeros(
                shape,
                dtype=dtype,
                device=found[3] or device,
                requires_grad=grad and differentiable,
            )
        )
        return f"_tensor({len(tensors) - 1})"

    try:
        tree = ast.parse(_TENSOR.sub(placeholder, word), mode="eval").body
        return _built(tree, tensors, torch)
    except (
        SyntaxError,
        ValueError,
        LookupError,
        TypeError,
        ArithmeticError,
        RuntimeError,
        MemoryError,
    ):
        msg = (
            f"The argument {word!r} cannot be understood: write a tensor as f32[2,3], "
            "anything else as in Python, and texts in quotes."
        )
        raise UsageError(msg) from None


def _built(tree: ast.expr, tensors: list[Any], torch: Any) -> Any:
    """What an expression of literals, tensors and torch's constants stands for."""
    if (
        isinstance(tree, ast.Call)
        and tree.args
        and isinstance(tree.args[0], ast.Constant)
    ):
        return tensors[int(str(tree.args[0].value))]
    if isinstance(tree, (ast.List, ast.Tuple)):
        kind = list if isinstance(tree, ast.List) else tuple
        return kind(_built(each, tensors, torch) for each in tree.elts)
    if isinstance(tree, ast.Attribute):
        if isinstance(tree.value, ast.Name) and tree.value.id == "torch":
            found = getattr(torch, tree.attr, None)
            if found is not None:
                return found
        raise ValueError(tree)
    return ast.literal_eval(tree)


def _dtype(name: str, torch: Any) -> Any:
    found = getattr(torch, _FULL.get(name, name), None)
    if not isinstance(found, torch.dtype):
        known = ", ".join(list(_FULL)[:12])
        msg = f"There is no dtype {name!r}: write one as torch does, or short: {known}."
        raise UsageError(msg)
    return found
