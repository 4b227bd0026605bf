# SPDX-License-Identifier: BSD-3-Clause
"""Compare release numbers: ``">=2.7,<2.9"`` against ``"2.8.0+cpu"``.

Local parts and pre-release marks do not count: what is asked is which operators
a release line has.
"""

from __future__ import annotations

import operator
import re

from npu_dispatch_inspect.errors import UsageError

__all__ = ["holds", "requirement"]

_COMPARISONS = {
    ">=": operator.ge,
    "<=": operator.le,
    "==": operator.eq,
    "!=": operator.ne,
    ">": operator.gt,
    "<": operator.lt,
}
_PART = re.compile(r"\s*(>=|<=|==|!=|>|<)\s*(\d+(?:\.\d+)*)\s*")
_RELEASE = re.compile(r"\d+(?:\.\d+)*")


def requirement(text: str) -> str:
    """Check a requirement.

    Raises:
        UsageError: it is not written as ``">=2.7"`` or ``">=2.7,<2.9"``.
    """
    if not isinstance(text, str) or not all(map(_PART.fullmatch, text.split(","))):
        msg = f"A version is asked for as '>=2.7' or '>=2.7,<2.9', not {text!r}."
        raise UsageError(msg)
    return text


def holds(wanted: str, version: str | None, package: str) -> bool:
    """Whether a version fulfils a requirement.

    torch_npu may not be there, and then fulfils none; torch always is.

    Raises:
        UsageError: the version is not known or cannot be read.
    """
    if version is None:
        if package == "torch":
            msg = (
                "A pattern asks for torch's version, which this trace does not tell: "
                "leave torch= out."
            )
            raise UsageError(msg)
        return False
    release = _RELEASE.match(version)
    if release is None:
        msg = f"The version {version!r} of {package} has no release number to compare."
        raise UsageError(msg)
    have = _numbers(release[0])
    for part in wanted.split(","):
        match = _PART.fullmatch(part)
        assert match is not None
        asked = _numbers(match[2])
        mine = (*have, *([0] * (len(asked) - len(have))))
        if match[1] in ("==", "!=", "<=", ">"):
            # "==2.7", "<=2.7" and ">2.7" speak of the whole line 2.7.x.
            mine = mine[: len(asked)]
        if not _COMPARISONS[match[1]](mine, asked):
            return False
    return True


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split(".")))
