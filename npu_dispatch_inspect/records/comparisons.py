# SPDX-License-Identifier: BSD-3-Clause
"""Where two sides part, as records."""

from __future__ import annotations

from attrs import frozen

__all__ = ["Change", "Difference", "Place"]


@frozen(kw_only=True)
class Place:
    """One call, or one entry of a table, on one of the sides."""

    name: str
    """``"aten::add.Tensor"``, ``"aclnnAdd"``, ``"aten::relu on PrivateUse1"``."""
    index: int | None = None
    """The call's own number in its trace; None in a table."""
    phase: str | None = None
    """``"forward"``; None where there are no phases."""
    module: str | None = None
    """``"encoder.fc1"``, the class for the root itself; None outside any module."""
    line: str | None = None
    """``"model.py:33"``, of a registration ``"RegisterNPU.cpp:34325"``."""


@frozen(kw_only=True)
class Change:
    """One detail in which the same call differs."""

    what: str
    """``"tensors"``, ``"verdict"``, ..."""
    left: str
    right: str


@frozen(kw_only=True)
class Difference:
    """One place at which two sides part.

    Example:
        >>> from npu_dispatch_inspect import compare
        >>> (difference,) = compare(["aten::mm"], ["aten::mm", "aten::add"]).differences
        >>> difference.kind
        'only right'
    """

    kind: str
    """``"only left"``, ``"only right"`` or ``"changed"``: on both sides, not the same."""
    what: str = "call"
    """Of tables: ``"definition"``, ``"registration"``, ``"kernel"``, ...; of sets of
    graphs also ``"graph"`` and ``"failure"``."""
    left: Place | None
    right: Place | None
    changes: tuple[Change, ...] = ()
    """What differs, where it is on both sides."""
    graph: str | None = None
    """Of sets of graphs: the graph in which the call is, ``"backward graph"``."""
