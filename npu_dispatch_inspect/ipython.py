# SPDX-License-Identifier: BSD-3-Clause
"""Magics for IPython and Jupyter: ``%load_ext npu_dispatch_inspect``.

``%%trace_ops`` and ``%%inspect_dispatch`` run the rest of their cell and show what it
ran; ``%dispatch_table`` shows what the dispatcher knows about operators.
"""

from __future__ import annotations

import argparse
import ast
import shlex
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from types import CodeType
from typing import Any, NoReturn, TypeVar

from npu_dispatch_inspect.errors import InspectError

__all__ = ["DispatchMagics", "load_ipython_extension"]

T = TypeVar("T")


def load_ipython_extension(shell: Any) -> None:
    """Add the magics to a shell; `%load_ext` calls this."""
    magics = DispatchMagics(shell)
    for name, kind in (
        ("trace_ops", "cell"),
        ("inspect_dispatch", "cell"),
        ("dispatch_table", "line"),
    ):
        shell.register_magic_function(
            getattr(magics, name), magic_kind=kind, magic_name=name
        )


class DispatchMagics:
    """The magics of one shell.

    Args:
        shell: IPython's `InteractiveShell`.
    """

    def __init__(self, shell: Any) -> None:
        self._shell = shell

    def trace_ops(self, line: str, cell: str) -> Any:
        """Run the cell and show the operator calls it made.

        ::

            %%trace_ops [NAME] [--engine ENGINE] [--max-ops N] [--quiet]

        NAME is the variable that keeps the trace. The engine ``dispatch_mode`` (the
        default) shows what reaches `__torch_dispatch__`, ``dispatcher`` every call of
        the dispatcher. A cell that raises shows what it ran until then.
        """
        __tracebackhide__ = True
        parser = _parser("%%trace_ops")
        parser.add_argument(
            "--engine",
            choices=("dispatch_mode", "dispatcher"),
            default="dispatch_mode",
        )
        options = _parsed(parser, line)

        def tracer() -> AbstractContextManager[Any]:
            from npu_dispatch_inspect.capture.ops import OpTracer

            return OpTracer(
                options.name, engine=options.engine, max_ops=options.max_ops
            )

        return self._watched(options, cell, "%%trace_ops", tracer)

    def inspect_dispatch(self, line: str, cell: str) -> Any:
        """Run the cell and show its calls, kernels, launches and queue tasks.

        ::

            %%inspect_dispatch [NAME] [--profiler] [--max-ops N] [--quiet]

        NAME is the variable that keeps the report. A cell that raises shows what it
        ran until then.
        """
        __tracebackhide__ = True
        parser = _parser("%%inspect_dispatch")
        parser.add_argument("--profiler", action="store_true")
        options = _parsed(parser, line)

        def inspector() -> AbstractContextManager[Any]:
            from npu_dispatch_inspect.capture.inspector import DispatchInspector

            return DispatchInspector(
                options.name, profiler=options.profiler, max_ops=options.max_ops
            )

        return self._watched(options, cell, "%%inspect_dispatch", inspector)

    def dispatch_table(self, line: str) -> Any:
        """Show what the dispatcher knows about operators.

        ::

            %dispatch_table aten::addmm
            %dispatch_table aten::addmm.out
            %dispatch_table aten::*norm*

        One overload is shown in full, several side by side; a glob gives a table.
        """
        names = line.split()
        if not names:
            _refuse("%dispatch_table needs an operator's name: aten::addmm.")
        return _answered(lambda: _looked_up(names))

    def _watched(
        self,
        options: argparse.Namespace,
        cell: str,
        magic: str,
        watcher: Callable[[], AbstractContextManager[Any]],
    ) -> Any:
        """Run a cell inside a context manager and show what that has seen."""
        __tracebackhide__ = True
        statements, value = self._compiled(cell, magic)
        names = self._shell.user_ns
        context = _answered(watcher)
        seen = _answered(context.__enter__)
        if options.name:
            names[options.name] = seen
        try:
            with _Entered(context):
                exec(statements, names)  # noqa: S102 - it is the user's own cell
                result = eval(value, names) if value is not None else None  # noqa: S307
        finally:
            # Before the exception goes on its way: the trace stands above it.
            if not options.quiet:
                self._display(seen)
        return None if _silenced(cell) else result

    def _display(self, seen: Any) -> None:
        from IPython import display

        show: Any = display.display
        show(seen)

    def _compiled(self, cell: str, magic: str) -> tuple[CodeType, CodeType | None]:
        """The statements of a cell, and its last line where that is an expression."""
        __tracebackhide__ = True
        shell = self._shell
        # The magic stands in the first line, and IPython drops empty lines at the
        # beginning: with both back, the numbers are those of the cell.
        empty = len(cell) - len(cell.lstrip("\n"))
        text = "\n" * (1 + empty) + shell.transform_cell(cell)
        name = shell.compile.cache(text, self._number(), raw_code=text)
        try:
            tree = shell.transform_ast(shell.compile.ast_parse(text, filename=name))
            value = None
            if tree.body and isinstance(tree.body[-1], ast.Expr):
                last = ast.Expression(tree.body.pop().value)
                value = shell.compile(last, name, "eval")
            return shell.compile(tree, name, "exec"), value
        except SyntaxError as error:
            if "await" not in str(error) and "async" not in str(error):
                raise
            _refuse(
                f"{magic} cannot run 'await' outside a function: use 'with "
                f"{magic.strip('%')}()' inside an async function."
            )

    def _number(self) -> int:
        """The number of the cell that is running: its own frame lies around ours."""
        frame = sys._getframe()
        while frame.f_back is not None:
            frame = frame.f_back
            named = self._shell.compile.format_code_name(frame.f_code.co_filename)
            if named is not None:
                digits = "".join(filter(str.isdecimal, named[1]))
                return int(digits or 0)
        return int(self._shell.execution_count)


class _Entered:
    """A context manager that was entered before."""

    def __init__(self, context: AbstractContextManager[Any]) -> None:
        self._context = context

    def __enter__(self) -> None:
        pass

    def __exit__(self, *raised: object) -> bool:
        leave: Any = self._context.__exit__
        return bool(leave(*raised))


def _looked_up(names: list[str]) -> Any:
    from npu_dispatch_inspect.dispatch_table.reader import read_dispatch_table

    table = read_dispatch_table()
    if len(names) == 1:
        (name,) = names
        return table.operators(name=name) if "*" in name else table[name]
    return table.select(*names)


class _Parser(argparse.ArgumentParser):
    """Says what is wrong in one sentence, where argparse would end the process."""

    def error(self, message: str) -> NoReturn:
        _refuse(f"{message[:1].upper()}{message[1:]}: write {_usage(self)}.")


def _parser(magic: str) -> _Parser:
    parser = _Parser(prog=magic, add_help=False)
    parser.add_argument("name", nargs="?", metavar="NAME")
    parser.add_argument("--max-ops", type=int, metavar="N")
    parser.add_argument("--quiet", action="store_true")
    return parser


def _usage(parser: argparse.ArgumentParser) -> str:
    return " ".join(parser.format_usage().removeprefix("usage: ").split())


def _parsed(parser: argparse.ArgumentParser, line: str) -> argparse.Namespace:
    __tracebackhide__ = True
    try:
        words = shlex.split(line)
    except ValueError:
        _refuse(f"A quotation mark is open in {line!r}.")
    options = parser.parse_args(words)
    if options.name is not None and not options.name.isidentifier():
        _refuse(f"{options.name!r} cannot be the name of a variable.")
    return options


def _answered(ask: Callable[[], T]) -> T:
    """What a function of ours gives; its user errors become IPython's, a line each."""
    __tracebackhide__ = True
    try:
        return ask()
    except InspectError as error:
        _refuse(str(error))


def _refuse(sentence: str) -> NoReturn:
    """Raise the error that IPython shows as one line, without a traceback."""
    from IPython.core.error import UsageError

    raise UsageError(sentence) from None


def _silenced(cell: str) -> bool:
    """Whether a cell ends with a semicolon, as one ends it to show no value."""
    lines = [line for line in cell.splitlines() if line.strip()]
    return bool(lines) and lines[-1].partition("#")[0].rstrip().endswith(";")
