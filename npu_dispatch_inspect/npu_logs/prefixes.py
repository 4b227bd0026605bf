# SPDX-License-Identifier: BSD-3-Clause
"""What stands in front of a message becomes fields of its record."""

from __future__ import annotations

import re
from typing import Final

from npu_dispatch_inspect.npu_logs.sources import decoded
from npu_dispatch_inspect.records.logs import LogOrigin, LogStyle

__all__ = [
    "bracket_origin",
    "glog_origin",
    "plog_origin",
    "source_of",
    "torch_origin",
]

_LEVELS: Final = {
    "V": "DEBUG",
    "I": "INFO",
    "W": "WARNING",
    "E": "ERROR",
    "F": "CRITICAL",
}
_GLOG_REST = re.compile(
    r" *(\d+)(?: (?:([^\]\n]*):(\d+)|[^\]\n]*))?\] (?:\[rank:(\d+)\] )?"
)
_BEFORE = re.compile(r"(?:\[rank:(\d+)\]:)?(?:\[(\d+)\] )?\[")
_AFTER = re.compile(r"\] ([\w.]+): \[(\w+)\] (?:\[(\d+)\] )?")

_PLACES: Final = (
    ("OpInterface_", "torch_npu.op_plugin"),
    ("op-plugin/", "torch_npu.op_plugin"),
    ("op_plugin/", "torch_npu.op_plugin"),
    ("/NPUQueue.", "torch_npu.dispatch"),
    ("/OpParamMaker.", "torch_npu.dispatch"),
    ("/OpCommand.", "torch_npu.dispatch"),
    ("/AclInterface.", "torch_npu.acl"),
    ("torch_npu/csrc/core/npu/NPUCachingAllocator", "torch_npu.memory"),
    ("torch_npu/csrc/core/npu/NPUAllocatorConfig", "torch_npu.memory"),
    ("torch_npu/csrc/core/npu/NPUGraph", "torch_npu.npugraph"),
    ("torch_npu/csrc/", "torch_npu"),
)
_NOT_IN_SOURCE = re.compile(
    r"\x1b\[[\d;]*m|\d{4}-\d\d-\d\d[T ][\d:.,]+(?:Z|[+-]\d\d:?\d\d)? "
    r"|std(?:out|err) [FP] "
)


def glog_origin(letter: str, rest: str) -> LogOrigin:
    """Origin of ``I0715 11:20:31.045123 812 file:line] ``: letter, what is behind."""
    found = _GLOG_REST.fullmatch(rest)
    if found is None:
        return LogOrigin(style=LogStyle.GLOG, level=_LEVELS[letter])
    pid, place, line, rank = found.groups()
    file = None if place is None else decoded(place)
    return LogOrigin(
        style=LogStyle.GLOG,
        level=_LEVELS[letter],
        logger=_logger_of_place(file),
        pid=int(pid),
        rank=_number(rank),
        file=file,
        line=_number(line),
    )


def bracket_origin(before: str, after: str) -> LogOrigin:
    """Origin of ``[812] [2026-01-15 11:20:31:045] logger: [INFO] [890] ``."""
    first = _BEFORE.fullmatch(before)
    second = _AFTER.fullmatch(after)
    rank, pid = first.groups() if first else (None, None)
    logger, level, tid = second.groups() if second else ("", "", None)
    return LogOrigin(
        style=LogStyle.PLAIN if pid is None else LogStyle.THREADED,
        level=decoded(level),
        logger=decoded(logger),
        pid=_number(pid),
        tid=_number(tid),
        rank=_number(rank),
    )


def _logger_of_place(file: str | None) -> str | None:
    """The logger that a source file of torch_npu uses; None for other files."""
    for part, logger in _PLACES:
        if file is not None and part in file:
            return logger
    return None


def torch_origin(found: re.Match[str]) -> LogOrigin:
    """Origin of a match of `grammar.TORCH_LINE`."""
    letter, _time, file, line = found.groups()
    return LogOrigin(
        style=LogStyle.TORCH, level=_LEVELS[letter], file=decoded(file), line=int(line)
    )


def plog_origin(found: re.Match[str]) -> LogOrigin:
    """Origin of a match of `grammar.PLOG_LINE`."""
    level, module, pid, _time, file, line, tid, _function, _mark = found.groups()
    return LogOrigin(
        style=LogStyle.PLOG,
        level=level,
        logger=module,
        pid=int(pid),
        tid=_number(tid),
        file=decoded(file),
        line=int(line),
    )


def source_of(wrapper: str) -> str:
    """The part of a wrapper that says who wrote the line, times and colours gone."""
    return decoded(_NOT_IN_SOURCE.sub("", wrapper)).strip(" |[]:()")


def _number(digits: str | None) -> int | None:
    return None if digits is None else int(digits)
