# SPDX-License-Identifier: BSD-3-Clause
"""A script or module as ``__main__``, as Python itself would start it.

`runpy.run_path` differs in what a program can see: the script's name stays relative,
so that tracebacks and `torch.jit.script` find no source after a `os.chdir`, ``__main__``
is gone when exit handlers run, and a pipe is read twice.
"""

from __future__ import annotations

import builtins
import importlib.machinery
import importlib.util
import marshal
import os
import pkgutil
import runpy
import sys
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any, Final

from npu_dispatch_inspect.errors import UsageError

__all__ = ["STDIN", "check", "prepare", "run"]

STDIN: Final = "-"
_PYC_HEADER: Final = 16
_ANNOTATIONS_ARE_LAZY: Final = sys.version_info >= (3, 14)


def check(script: str, *, module: bool) -> None:
    """Say now what cannot be run. Imports nothing: the program's packages are its own.

    Raises:
        UsageError: there is no such script or module, or it cannot be read.
    """
    if module:
        package = script.partition(".")[0]
        try:
            found = bool(package) and importlib.util.find_spec(package) is not None
        except (ImportError, ValueError):
            found = False
        if not found:
            msg = f"There is no module {script!r} on sys.path."
            raise UsageError(msg)
        return
    if script == STDIN:
        return
    path = Path(script)
    try:
        there = path.exists()
    except (OSError, ValueError):
        there = False
    if not there:
        msg = f"There is no script {script!r}; use -m to run a module."
        raise UsageError(msg)
    if not os.access(path, os.R_OK):
        msg = f"The script {script!r} cannot be read: permission denied."
        raise UsageError(msg)


def prepare(script: str, arguments: list[str], *, module: bool) -> None:
    """Give `sys.argv` and the first place of `sys.path` to the program."""
    if not getattr(sys.flags, "safe_path", False):
        ours = {"", os.getcwd(), os.path.dirname(os.path.realpath(sys.argv[0]))}
        if sys.path and sys.path[0] in ours:
            del sys.path[0]
        sys.path.insert(0, _first_place(script, module=module))
    sys.argv = ["-m" if module else script, *arguments]


def _first_place(script: str, *, module: bool) -> str:
    if module:
        return os.getcwd()
    if script == STDIN:
        return ""
    if _is_package(script):
        return _absolute(script)
    return str(Path(script).resolve().parent)


def run(script: str, *, module: bool) -> None:
    """Run the program in a new ``__main__``, which stays: exit handlers use it.

    Raises:
        SystemExit: the program ended so, or a module cannot be found, as in Python.
        BaseException: whatever the program raised.
    """
    main = ModuleType("__main__")
    vars(main)["__builtins__"] = builtins
    if not _ANNOTATIONS_ARE_LAZY:
        vars(main)["__annotations__"] = {}
    sys.modules["__main__"] = main
    runpy_main: Any = runpy._run_module_as_main  # type: ignore[attr-defined]
    if module:
        runpy_main(script)
    elif script != STDIN and _is_package(script):
        runpy_main("__main__", alter_argv=False)
    else:
        exec(_code(script, vars(main)), vars(main))  # noqa: S102 - the user's program


def _code(script: str, names: dict[str, Any]) -> CodeType:
    """The program's code; what a script's ``__main__`` knows of itself is added."""
    if script == STDIN:
        file = "<stdin>"
        data = sys.stdin.buffer.read() if sys.stdin is not None else b""
    else:
        file = _absolute(script)
        data = Path(script).read_bytes()
    compiled = data.startswith(importlib.util.MAGIC_NUMBER)
    loader: Any = importlib.machinery.BuiltinImporter
    if compiled:
        loader = importlib.machinery.SourcelessFileLoader("__main__", file)
    elif script != STDIN:
        loader = importlib.machinery.SourceFileLoader("__main__", file)
    names.update(__file__=file, __cached__=None, __loader__=loader)
    if compiled:
        code: CodeType = marshal.loads(data[_PYC_HEADER:])  # noqa: S302
    else:
        # This module's own __future__ is not the program's.
        code = compile(data, file, "exec", dont_inherit=True)
    return code


def _is_package(script: str) -> bool:
    """Whether it is a folder or an archive, which have a module ``__main__``."""
    return pkgutil.get_importer(script) is not None


def _absolute(script: str) -> str:
    """As Python makes it: not normalized."""
    return os.path.join(os.getcwd(), script)
