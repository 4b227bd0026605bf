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

from npu_dispatch_inspect._torch_private import modes
from npu_dispatch_inspect.records import SourceLocation

__all__ = [
    "CHECKPOINT",
    "COMPILED",
    "ENGINE",
    "OTHER",
    "SEED",
    "STEP",
    "Site",
    "frame_walker",
    "locate",
]

USER = 1
"""A frame of the user's program, or of a library that is not torch."""
ENGINE = 2
"""The autograd engine was entered here."""
SEED = 4
"""The first gradient of a backward pass was being made."""
STEP = 8
"""Inside an optimizer's step."""
CHECKPOINT = 16
"""Inside activation checkpointing."""
GRAPH = 32
"""Inside code that a graph compiler wrote."""
DYNAMO = 64
"""Inside Dynamo's wrapper around compiled code."""
OTHER = 128
"""In gradient clipping, scaling, zeroing: neither forward, backward nor step."""
COMPILED = GRAPH | DYNAMO

Site = tuple[CodeType | None, int, int]
"""(code, instruction offset, marks); code is None where no user frame was found."""

_MARKED_FILES = {
    "torch/utils/checkpoint.py": CHECKPOINT,
    "torch/_functorch/_aot_autograd/runtime_wrappers.py": GRAPH,
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
    return (
        _folder(torch.__path__[0]),
        _folder(os.path.join(site, "torch_npu")),
        _folder(os.path.dirname(__file__)),
    )


@cache
def _standard_library() -> tuple[str, ...]:
    paths = sysconfig.get_paths()
    return tuple({_folder(paths["stdlib"]), _folder(paths["platstdlib"])})


def _classify(code: CodeType) -> int:
    """Marks of one code object; asked once per code object and walker."""
    name = code.co_filename
    if name.startswith("<eval_with_key>"):
        return GRAPH
    if name.startswith("<"):
        # <stdin>, <ipython-input-...>, <string>: somebody typed it. The frozen
        # import machinery is the exception.
        return 0 if name.startswith("<frozen") else USER
    path = os.path.normcase(name)
    if "torchinductor" in path:
        return GRAPH
    for folder in _internal_folders():
        if path.startswith(folder):
            inside = path.replace(os.sep, "/")
            for tail, mark in _MARKED_FILES.items():
                if inside.endswith(tail):
                    return mark
            return 0
    if "site-packages" not in path and path.startswith(_standard_library()):
        return 0
    return USER


def frame_walker(sites: dict[Site, int]) -> Callable[[FrameType | None, bool], int]:
    """Make the function that finds a call's site; ``sites`` numbers them.

    The function takes the innermost frame and whether to go on past the first
    user frame up to the engine or the optimizer's step (a recomputation runs
    the user's code inside the engine). It returns the site's number.
    """
    engine, seed = modes.autograd_codes()
    kinds: dict[CodeType, int] = {
        engine: ENGINE,
        seed: SEED,
        modes.optimizer_step_code(): STEP,
    }
    stop = ENGINE | STEP

    def walk(frame: FrameType | None, beyond: bool) -> int:
        marks = 0
        found: CodeType | None = None
        offset = -1
        while frame is not None:
            code = frame.f_code
            kind = kinds.get(code)
            if kind is None:
                kind = kinds[code] = _classify(code)
            if kind == USER:
                if found is None:
                    found, offset = code, frame.f_lasti
                    if not beyond or marks & stop:
                        break
            elif kind:
                marks |= kind
                if found is not None and marks & stop:
                    break
            frame = frame.f_back
        site = (found, offset, marks)
        number = sites.get(site)
        if number is None:
            number = sites[site] = len(sites)
        return number

    modes.hide_from_dynamo(walk, _classify)
    return walk


def locate(code: CodeType, offset: int) -> SourceLocation:
    """The source line of an instruction; the late half of `frame_walker`."""
    line = code.co_firstlineno
    for start, end, number in code.co_lines():
        if start <= offset < end and number is not None:
            line = number
    name = code.co_qualname if sys.version_info >= (3, 11) else code.co_name
    return SourceLocation(file=code.co_filename, line=line, function=name)
