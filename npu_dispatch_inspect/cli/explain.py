# SPDX-License-Identifier: BSD-3-Clause
"""``explain``: which kernel these tensors will reach, and why."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Iterator
from typing import Any

from npu_dispatch_inspect.cli import _inputs, _standin
from npu_dispatch_inspect.cli._frame import WIDTH, add_json, show
from npu_dispatch_inspect.errors import UsageError

__all__ = ["add_parser"]

EXAMPLES = """\
examples:
  %(prog)s aten::addmm 'f32[4]' 'f32[2,3]' 'f32[3,4]'
  %(prog)s 'F.gelu(x, approximate="tanh")' x='f16[2,3]' --grad
  %(prog)s 'torch.cat([a, b])' a='f32[2]' b='f32[2]' --device cpu
  %(prog)s model.py:Net 'f32[1,3,32,32]' --no-grad
  %(prog)s aten::addmm 'f32[4]' 'f32[2,3]' 'f32[3,4]' --dtypes
"""


def add_parser(commands: Any, summary: str) -> None:
    """Add the command to the parser's ``commands``."""
    parser = commands.add_parser(
        "explain",
        help=summary,
        description="Follow a call through the dispatcher without running it: key by "
        f"key, into composites, to the backend's own kernel. {_inputs.WORDS}",
        epilog=EXAMPLES,
    )
    parser.add_argument(
        "target",
        metavar="CALL",
        help="an operator (aten::addmm), an expression of torch, F, nn and the names "
        "that follow, or module:callable",
    )
    parser.add_argument(
        "arguments", nargs="*", default=(), metavar="ARGUMENT", help="see above"
    )
    _inputs.add_options(parser)
    mode = parser.add_mutually_exclusive_group()
    mode.add_argument(
        "--no-grad", action="store_true", help="as inside torch.no_grad()"
    )
    mode.add_argument(
        "--inference", action="store_true", help="as inside torch.inference_mode()"
    )
    parser.add_argument(
        "--autocast",
        nargs="?",
        const="float16",
        metavar="DTYPE",
        help="as inside torch.autocast, to float16 or this dtype",
    )
    parser.add_argument(
        "--dtypes",
        action="store_true",
        help="try as well which dtypes the operator supports",
    )
    add_json(parser)
    _standin.add_options(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Explain one call."""
    from npu_dispatch_inspect.cli._targets import is_callable_name, quiet
    from npu_dispatch_inspect.cli._torch import import_torch

    torch = import_torch(options)
    from npu_dispatch_inspect.dispatch_table.explain import explain

    target: Any = options.target
    positional, named = _inputs.call_arguments(options.arguments, options, torch)
    if is_callable_name(target):
        from npu_dispatch_inspect.cli._targets import find_callable

        target = find_callable(target, _inputs.device_of(options, torch))
    elif "(" in target:
        if positional:
            msg = "The arguments of an expression need names: x='f32[2,3]'."
            raise UsageError(msg)
        target = _expression(target, torch)
    with quiet(), _around(options, torch):
        found = explain(target, *positional, dtypes=options.dtypes, **named)
    if found.unknown and not found.calls:
        msg = f"{options.target} could not be followed: {found.unknown}."
        raise UsageError(msg)
    if options.json:
        from npu_dispatch_inspect.cli._json import write_json

        write_json(
            "explain",
            {
                "target": options.target,
                "complete": found.complete,
                "calls": found.calls,
                "backend": found.backend,
                "dtypes": found.dtypes,
                "unknown": found.unknown,
            },
        )
    else:
        show(found, otherwise=WIDTH)
    return 0


def _expression(text: str, torch: Any) -> Any:
    """A function of the names in an expression."""
    names = {"torch": torch, "nn": torch.nn, "F": torch.nn.functional}
    try:
        code = compile(text, "<expression>", "eval")
    except SyntaxError as error:
        msg = f"The expression {text!r} is no Python: {error.msg}."
        raise UsageError(msg) from None

    def call(**tensors: Any) -> Any:
        # The user's own expression, on the user's own machine.
        return eval(code, {**names, **tensors})  # noqa: S307

    return call


@contextlib.contextmanager
def _around(options: argparse.Namespace, torch: Any) -> Iterator[None]:
    """The modes that the call is made in."""
    with contextlib.ExitStack() as stack:
        if options.no_grad:
            stack.enter_context(torch.no_grad())
        if options.inference:
            stack.enter_context(torch.inference_mode())
        if options.autocast:
            dtype = getattr(torch, options.autocast, None)
            if not isinstance(dtype, torch.dtype):
                msg = f"There is no dtype {options.autocast!r} to cast to."
                raise UsageError(msg)
            kind = _inputs.device_of(options, torch).type
            stack.enter_context(torch.autocast(kind, dtype=dtype))
        yield
