# SPDX-License-Identifier: BSD-3-Clause
"""Which module of a model is being called, while it is followed or traced."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any

import torch
from torch.nn.modules.module import (
    register_module_forward_hook,
    register_module_forward_pre_hook,
)

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["ModulePaths"]


class ModulePaths:
    """Knows the path of the module whose forward runs; hooks are on in its block."""

    def __init__(
        self, target: object, on_change: Callable[[str | None], None] | None = None
    ) -> None:
        """Name the modules of a target.

        Args:
            target: The model; anything else has no paths.
            on_change: Called with the path whenever another module runs.
        """
        self._names: dict[int, str] = {}
        if isinstance(target, torch.nn.Module):
            self._names = {id(each): name for name, each in target.named_modules()}
        self._on_change = on_change
        self._entered: list[str] = []
        self._hooks: list[Any] = []

    @property
    def current(self) -> str | None:
        """The path, empty text for the root, None outside of all modules."""
        return self._entered[-1] if self._entered else None

    def __enter__(self) -> Self:
        """Hook all modules; without a model there is nothing to hook."""
        if self._names:
            self._hooks = [
                register_module_forward_pre_hook(self._enter),
                register_module_forward_hook(self._leave, always_call=True),
            ]
        return self

    def __exit__(
        self,
        exception_type: type[BaseException] | None,
        exception: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Take the hooks off."""
        for hook in self._hooks:
            hook.remove()

    def _enter(self, module: torch.nn.Module, _: Any) -> None:
        if id(module) in self._names:
            self._entered.append(self._names[id(module)])
            self._tell()

    def _leave(self, module: torch.nn.Module, *_: Any) -> None:
        if id(module) in self._names and self._entered:
            self._entered.pop()
            self._tell()

    def _tell(self) -> None:
        if self._on_change is not None:
            self._on_change(self.current)
