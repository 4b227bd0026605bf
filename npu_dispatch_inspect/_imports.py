# SPDX-License-Identifier: BSD-3-Clause
"""Learn of the moment at which a module has been imported."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

__all__ = ["ImportWatch"]


class ImportWatch(MetaPathFinder):
    """Calls somebody when a module has been imported; goes into `sys.meta_path`.

    Args:
        wanted: what to call, by the module's name; each is called once.
    """

    def __init__(self, wanted: dict[str, Callable[[], None]]) -> None:
        self._wanted = wanted

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,
        target: ModuleType | None = None,
    ) -> ModuleSpec | None:
        """The module's own spec, whose loader tells us when it is done."""
        then = self._wanted.get(fullname)
        if then is None:
            return None
        # Whoever would have found it: editable installs bring finders of their own.
        # Not those in front of us, which may be another watch that has just asked us.
        others = sys.meta_path[sys.meta_path.index(self) + 1 :]
        found = (finder.find_spec(fullname, path, target) for finder in others)
        spec = next((each for each in found if each is not None), None)
        loader: Any = spec.loader if spec is not None else None
        if loader is None:
            return None
        execute = loader.exec_module

        def exec_module(module: ModuleType) -> None:
            execute(module)
            # A second import, as after a failed one, must not call again.
            if self._wanted.pop(fullname, None) is not None:
                then()

        loader.exec_module = exec_module
        return spec
