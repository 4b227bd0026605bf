# SPDX-License-Identifier: BSD-3-Clause
"""``table``: who registered what for an operator, and which kernel wins."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from npu_dispatch_inspect.cli import _standin
from npu_dispatch_inspect.cli._frame import (
    ROWS,
    add_json,
    add_limit,
    row_limit,
    say,
    show,
    write,
)
from npu_dispatch_inspect.errors import UsageError

if TYPE_CHECKING:
    from npu_dispatch_inspect.traces.tables import DispatchTable

__all__ = ["add_parser", "default_key", "lines"]

STATES = (
    "own kernel",
    "composite",
    "default backend kernel",
    "backend fallback",
    "fallthrough",
    "other",
    "missing",
)
EXAMPLES = """\
examples:
  %(prog)s aten::addmm                      everything about one operator
  %(prog)s 'aten::*norm*' --device cpu      a line for each that fits
  %(prog)s --state 'backend fallback'       what the NPU leaves to the CPU
  %(prog)s --registered-by RegisterNPU.cpp --json
  %(prog)s --save before.json.gz            the whole registry, for diff
  %(prog)s --from before.json.gz aten::mm   without torch
"""


def add_parser(commands: Any, summary: str) -> None:
    """Add the command to the parser's ``commands``."""
    parser = commands.add_parser(
        "table",
        help=summary,
        description="Show the dispatcher's registrations: of an operator in full, of "
        "several in a line each, of the whole registry in numbers.",
        epilog=EXAMPLES,
    )
    parser.add_argument(
        "operators",
        nargs="*",
        metavar="OP",
        help="an operator, 'aten::add.Tensor' or 'aten::add', or a glob, 'aten::*norm*'",
    )
    parser.add_argument(
        "--device",
        metavar="NAME",
        help="the device or dispatch key of which kernels are told: npu, cpu, cuda, "
        "AutogradNPU (default: npu where torch_npu is, else cpu)",
    )
    parser.add_argument(
        "--state", choices=STATES, help="only operators that have this for the device"
    )
    parser.add_argument(
        "--registered-by",
        metavar="FILE",
        help="only operators with something registered from this file, a part of its "
        "path or a glob",
    )
    parser.add_argument(
        "--from", dest="source", metavar="FILE", help="read a saved table, not torch"
    )
    parser.add_argument(
        "--save", metavar="FILE", help="write the table to a .json or .json.gz file too"
    )
    add_limit(parser, "operators")
    add_json(parser)
    _standin.add_options(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Show the operators that were asked for."""
    table = _read(options)
    key = table.keys.canonical(options.device or default_key(table))
    chosen = _chosen(table, options, key)
    if options.save:
        from npu_dispatch_inspect.export.saving import save

        save(chosen, options.save)
    asked = bool(options.operators or options.state or options.registered_by)
    if options.json:
        _write_json(chosen, key, table.keys.private_backend, asked=asked)
    elif not asked:
        write("\n".join(_numbers(chosen, key)))
    elif _in_full(options, chosen):
        _show_entries(chosen, key if options.device else None)
    else:
        write("\n".join(lines(chosen, key, row_limit(options))))
    return 0


def _read(options: argparse.Namespace) -> DispatchTable:
    if options.source:
        from npu_dispatch_inspect.cli._files import read_table

        return read_table(options.source)
    from npu_dispatch_inspect.cli._progress import counted
    from npu_dispatch_inspect.cli._torch import import_torch

    import_torch(options)
    from npu_dispatch_inspect.dispatch_table.reader import (
        DispatchTableReader,
        read_dispatch_table,
    )

    plain = [each for each in options.operators if not _is_glob(each)]
    if plain and len(plain) == len(options.operators):
        return read_dispatch_table(*plain)
    with counted("reading registrations") as progress:
        return DispatchTableReader(progress=progress).read()


def default_key(table: DispatchTable) -> str:
    """The key that is told of where nobody names one: ``PrivateUse1`` where a backend has taken it, as torch_npu does."""
    return "PrivateUse1" if table.keys.private_backend else "CPU"


def _is_glob(text: str) -> bool:
    return any(mark in text for mark in "*?[")


def _chosen(
    table: DispatchTable, options: argparse.Namespace, key: str
) -> DispatchTable:
    names: list[str] = []
    for each in options.operators:
        if _is_glob(each):
            found = table.operators(name=each).names
            if not found:
                msg = f"No operator matches {each!r}: globs are over names such as 'aten::relu'."
                raise UsageError(msg)
            names += found
        else:
            names += table.select(each).names
    if options.operators:
        table = table.select(*(_explicit(name) for name in dict.fromkeys(names)))
    if options.registered_by:
        table = table.registered_by(options.registered_by)
    if options.state:
        table = table.operators(key=key, state=options.state)
    return table


def _explicit(name: str) -> str:
    """One overload: a name without any would bring all of them."""
    return name if "." in name else f"{name}.default"


def _in_full(options: argparse.Namespace, chosen: DispatchTable) -> bool:
    """Operators that were named, not found: few enough to be read."""
    globs = any(map(_is_glob, options.operators)) or not options.operators
    return not globs and len(chosen) <= ROWS


def _numbers(table: DispatchTable, key: str) -> Iterator[str]:
    """A table in numbers."""
    from npu_dispatch_inspect.display.text import environment_line

    if table.environment is not None:
        yield environment_line(table.environment)
    yield f"{len(table)} operators; what they have for {_shown(table, key)}:"
    for state, count in table.counts(key).items():
        yield f"{count:7}  {state.value}"
    for fallback in table.fallbacks(key=key):
        yield f"backend fallback: {fallback.site}"


def _shown(table: DispatchTable, key: str) -> str:
    backend = table.keys.private_backend
    return f"{key} ({backend})" if backend and key == "PrivateUse1" else key


def lines(table: DispatchTable, key: str, limit: int | None) -> Iterator[str]:
    """A line for each operator."""
    from npu_dispatch_inspect.display.document import counted
    from npu_dispatch_inspect.display.text import table as aligned

    names = table.names[:limit]
    if not names:
        say("No operator fits.")
        return
    rows = []
    for name in names:
        kernel = table.kernel(name, key)
        rows.append((
            name,
            "missing" if kernel is None else kernel.state.value,
            "" if kernel is None else kernel.site,
        ))  # fmt: skip
    yield aligned(("operator", f"for {_shown(table, key)}", "kernel"), rows)
    if len(names) < len(table):
        yield f"... {len(table) - len(names)} more; --all shows them"
    yield counted(len(table), "operator")


def _show_entries(table: DispatchTable, key: str | None) -> None:
    """Everything about each operator; what it has for the key in a line before."""
    for number, entry in enumerate(table):
        if number:
            write("")
        if key is not None:
            kernel = entry.computed.get(key)
            told = f"{kernel.state.value}, {kernel.site}" if kernel else "missing"
            write(f"{entry.qualified_name} for {key}: {told}\n")
        show(entry)


def _write_json(
    table: DispatchTable, key: str, backend: str | None, *, asked: bool
) -> None:
    from npu_dispatch_inspect.cli._json import write_json

    content: dict[str, Any] = {
        "environment": table.environment,
        "key": key,
        "private_backend": backend,
        "count": len(table),
        "states": table.counts(key),
    }
    if asked:
        content["operators"] = [
            {
                "operator": entry.qualified_name,
                "schema": entry.schema,
                "kind": entry.kind,
                "state": entry.state(key),
                "kernel": entry.computed.get(key),
                "definition": entry.definition,
                "registrations": entry.registrations,
                "python_kernels": entry.python_kernels,
            }
            for entry in table
        ]
    write_json("table", content)
