# SPDX-License-Identifier: BSD-3-Clause
"""Whose line made this call, and through what it went.

While a program is traced, a call's Python frames are walked from the inside out
to the first one that belongs to the user. Kept are the code object and the
instruction offset; the line number is worked out when somebody looks. On the
way, frames of known places (the autograd engine, an optimizer's step,
checkpointing, a compiled graph) leave a mark each: that is how the phase of a
call is known without a hook in the program.
"""

from __future__ import annotations

import os
import sys
import sysconfig
from collections.abc import Callable
from functools import cache
from types import CodeType, FrameType

import torch

from npu_dispatch_inspect import _torch_private
from npu_dispatch_inspect._torch_private import modes
from npu_dispatch_inspect.capture._scopes import OpenModule, Site, module_call
from npu_dispatch_inspect.records import SourceLocation

__all__ = [
    "CHECKPOINT",
    "ENGINE",
    "OPTIMIZER",
    "OTHER",
    "SEED",
    "Site",
    "Sites",
    "compiled",
    "locate",
]

USER = 1
"""A frame of the user's program, or of a library that is not torch."""
ENGINE = 2
"""The autograd engine was entered here."""
SEED = 4
"""The first gradient of a backward pass was being made."""
MODULE = 8
"""A module was called here."""
CHECKPOINT = 16
"""Inside activation checkpointing."""
GRAPH = 32
"""Inside code that a graph compiler wrote."""
DYNAMO = 64
"""Inside Dynamo's wrapper around compiled code."""
OTHER = 128
"""In gradient clipping, scaling, zeroing: neither forward, backward nor step."""
OPTIMIZER = 256
"""In the code of one of torch's own optimizers."""
RUNTIME = 512
"""Inside the code that runs a compiled graph."""
SOME = 1024
"""Of a file's code objects, some have a mark of their own."""

_MARKED_FILES = {
    "torch/utils/checkpoint.py": CHECKPOINT,
    "torch/_functorch/_aot_autograd/runtime_wrappers.py": RUNTIME,
    "torch/_dynamo/eval_frame.py": DYNAMO,
    "torch/nn/utils/clip_grad.py": OTHER,
    "torch/amp/grad_scaler.py": OTHER,
    "torch/optim/optimizer.py": OTHER,
}


def _folder(path: str) -> str:
    return os.path.normcase(os.path.join(os.path.abspath(path), ""))


@cache
def _internal_folders() -> tuple[str, ...]:
    """Folders whose files are never the user's line: torch's and the tracer's own."""
    site = os.path.dirname(torch.__path__[0])
    package = os.path.dirname(os.path.dirname(__file__))
    return (
        _folder(torch.__path__[0]),
        _folder(os.path.join(site, "torch_npu")),
        _folder(os.path.dirname(__file__)),
        _folder(os.path.dirname(_torch_private.__file__)),
        _folder(os.path.join(package, "values")),
    )


@cache
def _standard_library() -> tuple[str, ...]:
    paths = sysconfig.get_paths()
    return tuple({_folder(paths["stdlib"]), _folder(paths["platstdlib"])})


def _classify(name: str) -> int:
    """Marks of the code in one file; asked once per file and tracer."""
    if name.startswith("<eval_with_key>"):
        return GRAPH
    if name.startswith("<"):
        # <stdin>, <ipython-input-...>, <string>: somebody typed it. The frozen
        # import machinery is the exception.
        return 0 if name.startswith("<frozen") else USER
    path = os.path.normcase(name)
    if "torchinductor" in path:
        return RUNTIME
    for folder in _internal_folders():
        if path.startswith(folder):
            inside = path.replace(os.sep, "/")
            for tail, mark in _MARKED_FILES.items():
                if inside.endswith(tail):
                    return mark
            return OPTIMIZER if "/torch/optim/" in inside else 0
    if "site-packages" not in path and path.startswith(_standard_library()):
        return 0
    return USER


class _Files(dict[str, int]):
    """The marks of code by the name of its file.

    Names keep their hash; a code object's is worked out from its bytecode at every
    look-up.
    """

    def __missing__(self, name: str) -> int:
        kind = self[name] = _classify(name)
        return kind


class Sites:
    """The places calls were made from, numbered in the order they were met."""

    def __init__(self) -> None:
        self.found: list[Site] = []
        engine, seed = modes.autograd_codes()
        self.engine = engine
        # By identity; these live as long as their modules.
        self._marked = {id(engine): ENGINE, id(seed): SEED, id(module_call): MODULE}
        self.files = _Files()
        for code in (engine, seed, module_call):
            self.files[code.co_filename] |= SOME
        self.walk, self.walk_backward = self._make_walks()

    def _make_walks(
        self,
    ) -> tuple[
        Callable[[FrameType | None, list[OpenModule] | None], int],
        Callable[[FrameType | None, int], int],
    ]:
        """Make the functions that find a call's site and return its number.

        ``walk`` takes the innermost frame and the modules that this thread is
        inside of. Where it meets a module's call, the rest of the way is the same
        for every call in that module, so it is remembered there.

        ``walk_backward`` takes the innermost frame and the number of the backward
        pass. A recomputation runs the user's code inside the engine, so the way
        is followed up to the engine; a call that the engine itself makes has the
        same site as all others of its pass.
        """
        found_sites, files, marked = self.found, self.files, self._marked
        numbers: dict[tuple[int, int, int], int] = {}
        engine = self.engine
        passes: dict[int, int] = {}

        def walk(frame: FrameType | None, opened: list[OpenModule] | None) -> int:
            marks = marks_inside = 0
            found: CodeType | None = None
            offset = -1
            waiting: OpenModule | None = None
            level = -1
            while frame is not None:
                kind = files[frame.f_code.co_filename]
                if kind:
                    if kind == USER:
                        found, offset = frame.f_code, frame.f_lasti
                        break
                    if kind == SOME:
                        kind = marked.get(id(frame.f_code), 0)
                    if kind != MODULE:
                        marks |= kind
                    elif opened and -level <= len(opened):
                        module = opened[level]
                        level -= 1
                        if module.site is not None:
                            found, offset, more = module.site
                            marks |= more
                            break
                        if waiting is None:
                            waiting, marks_inside, marks = module, marks, 0
                frame = frame.f_back
            if waiting is not None:
                waiting.site = (found, offset, marks)
                marks |= marks_inside
            known = numbers.get((id(found), offset, marks))
            return number(found, offset, marks) if known is None else known

        def walk_backward(frame: FrameType | None, task: int) -> int:
            direct = frame is not None and frame.f_code is engine
            if direct and task in passes:
                return passes[task]
            marks = 0
            found: CodeType | None = None
            offset = -1
            while frame is not None:
                kind = files[frame.f_code.co_filename]
                if kind == SOME:
                    kind = marked.get(id(frame.f_code), 0)
                if kind == USER:
                    if found is None:
                        found, offset = frame.f_code, frame.f_lasti
                elif kind == ENGINE:
                    marks |= kind
                elif kind != MODULE and not marks & ENGINE:
                    # What lies around the pass says nothing about the call: a
                    # reentrant checkpoint starts a pass of its own.
                    marks |= kind
                if marks & ENGINE and found is not None:
                    break
                frame = frame.f_back
            site = number(found, offset, marks)
            if direct:
                passes.clear()
                passes[task] = site
            return site

        def number(found: CodeType | None, offset: int, marks: int) -> int:
            key = (id(found), offset, marks)
            known = numbers.get(key)
            if known is None:
                known = numbers[key] = len(found_sites)
                found_sites.append((found, offset, marks))
            return known

        return walk, walk_backward


def compiled(marks: int) -> bool:
    """True where a call came out of a `torch.compile`d region.

    Code written by torch.fx counts only under Dynamo: people run such graphs
    themselves.
    """
    return bool(marks & RUNTIME) or marks & (GRAPH | DYNAMO) == GRAPH | DYNAMO


def locate(code: CodeType, offset: int) -> SourceLocation:
    """The source line of an instruction; the late half of `Sites.walk`."""
    line = code.co_firstlineno
    for start, end, number in code.co_lines():
        if start <= offset < end and number is not None:
            line = number
    name = code.co_qualname if sys.version_info >= (3, 11) else code.co_name
    file = _cell(code.co_filename) or code.co_filename
    return SourceLocation(file=file, line=line, function=name)


def _cell(file: str) -> str | None:
    """``In[3]`` for a cell of a notebook, whose file has a name that nobody knows."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    name_of = getattr(getattr(shell, "compile", None), "format_code_name", None)
    named = name_of(file) if name_of is not None else None
    return named[1] if named else None
