# SPDX-License-Identifier: BSD-3-Clause
"""What becomes of results that nobody can compute."""

from __future__ import annotations

import os
import sys
import textwrap
import threading
import warnings
from collections.abc import Iterable
from pathlib import Path

import torch

from npu_dispatch_inspect.errors import ValuesError
from npu_dispatch_inspect.standin import loader
from npu_dispatch_inspect.values._memory import copy_into

__all__ = ["Unknown"]

_NOT_THE_USERS = (
    str(Path(__file__).parent.parent),
    *(os.path.join(folder, "") for folder in torch.__path__),
    os.path.join(os.path.dirname(torch.__path__[0]), "torch_npu", ""),
)
"""Where the frames between a user's line and a warning belong."""


class Unknown:
    """Fills, warns or raises, as the user chose.

    Args:
        choice: ``"nan"``, ``"zeros"``, ``"raise"``; None raises where the CPU refuses
            a call, and fills with NaN where there is no formula.
    """

    def __init__(self, choice: str | None) -> None:
        self._choice = choice
        self._told: set[str] = set()
        self._lock = threading.Lock()

    def settle(
        self, name: str, targets: Iterable[torch.Tensor], refusal: Exception | None
    ) -> None:
        """Decide about the results of one call.

        Args:
            name: qualified name of the operator.
            targets: every tensor that the call has written.
            refusal: what the CPU said; None where there is no formula.

        Raises:
            ValuesError: the user is to be told.
        """
        if self._choice == "raise" or (self._choice is None and refusal is not None):
            raise ValuesError(self._sentence(name, refusal)) from refusal
        fill = 0.0 if self._choice == "zeros" else float("nan")
        for each in targets:
            special = each.is_floating_point() or each.is_complex()
            copy_into(each, torch.full((), fill if special else 0).expand(each.shape))
        with self._lock:
            known = name in self._told
            self._told.add(name)
        if not known:
            loader.note_unknown_values(name)
            kind = "zeros" if self._choice == "zeros" else "NaN (integers are 0)"
            text = (
                f"{self._sentence(name, refusal)} Its results are {kind} from here on."
            )
            warnings.warn(text, RuntimeWarning, stacklevel=_users_level())

    def _sentence(self, name: str, refusal: Exception | None) -> str:
        if refusal is None:
            return (
                f"The stand-in has no formula for {name}, so its values are unknown; "
                "move the call to the CPU, or do not rely on what comes after it."
            )
        # Some of torch's messages go on with every kernel there is.
        reason = next(iter(str(refusal).strip().splitlines()), "")
        reason = textwrap.shorten(reason, 200, placeholder="...")
        return (
            f"{name} has a kernel on the NPU, but the CPU cannot compute it "
            f"({type(refusal).__name__}: {reason}); change the call, or go on without "
            'its values with standin.load(values="cpu", unknown="nan").'
        )


def _users_level() -> int:
    """How many frames up the user's code is, as `warnings.warn` counts them."""
    level = 1
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(
        _NOT_THE_USERS
    ):
        frame = frame.f_back
        level += 1
    return level
