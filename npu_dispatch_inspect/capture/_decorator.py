# SPDX-License-Identifier: BSD-3-Clause
"""Captures as decorators: each call of the function is one block."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from contextlib import ContextDecorator
from typing import Any, TypeVar

from npu_dispatch_inspect.errors import UsageError

__all__ = ["Decorator"]

F = TypeVar("F", bound=Callable[..., Any])


class Decorator(ContextDecorator):
    """What the context managers of this package inherit to be decorators as well."""

    def __call__(self, function: F) -> F:
        """Decorate a function: each call is one block, the capture has the last one.

        Raises:
            UsageError: it is an async function or a generator, whose body runs after
                the call has returned.
        """
        if (
            inspect.iscoroutinefunction(function)
            or inspect.isgeneratorfunction(function)
            or inspect.isasyncgenfunction(function)
        ):
            msg = (
                f"{function.__qualname__} runs after its call has returned, so nothing "
                f"of it would be seen: write the block inside the function."
            )
            raise UsageError(msg)
        return super().__call__(function)
