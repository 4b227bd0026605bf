# SPDX-License-Identifier: BSD-3-Clause
"""Private API of Dynamo: where compiled code is looked up, and where it runs."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

__all__ = ["is_compiling", "once_imported", "replace_frame_functions"]

_PACKAGE = "torch._dynamo"
_MODULE = "torch._dynamo.eval_frame"


def replace_frame_functions(
    make: Callable[[Callable[[str], Any]], dict[str, Callable[..., Any]]],
) -> Callable[[], None]:
    """Put other functions where Dynamo's wrappers of compiled code call its own.

    ``make`` is given a lookup of what the module has, by name, and returns
    replacements. What it may ask for:

    * `set_eval_frame`, called with a callback before code that may be compiled, and
      with None before code that is to run as it is (a finished graph, for one) and
      where all is over. Also called as `_maybe_set_eval_frame`: 2.6 has that name
      alone, in 2.7 it is a function that calls the other, in 2.13 and 2.14 it is
      the same function.
    * `_is_skip_guard_eval_unsafe_stance`, called when a compiled function is
      entered. 2.6 calls it elsewhere too, and needs no replacement: its wrapper does
      not restore the thread's keys.
    * `_stance`, whose `stance` is "force_eager" where nothing is compiled.

    Returns the function that restores them.
    """
    # Dynamo keeps the set of tensor methods it first sees; let it be torch's own.
    sys.modules["torch._dynamo.trace_rules"].get_tensor_method()
    namespace = vars(sys.modules[_MODULE])
    setter = "set_eval_frame"
    if setter not in namespace:
        setter = "_maybe_set_eval_frame"
    replaced = make(
        lambda name: namespace[setter if name == "set_eval_frame" else name]
    )
    callback_set = replaced.pop("set_eval_frame")
    if setter == "_maybe_set_eval_frame":
        replaced.clear()
    for name in ("set_eval_frame", "_maybe_set_eval_frame"):
        if namespace.get(name) is namespace[setter]:
            replaced[name] = callback_set
    before = {name: namespace[name] for name in replaced}
    namespace.update(replaced)
    return lambda: namespace.update(before)


def is_compiling() -> bool:
    """True while Dynamo compiles a frame of this thread; 2.1 to 2.14."""
    guards: Any = sys.modules["torch._guards"]
    return guards.CompileContext.try_get() is not None


def once_imported(
    action: Callable[[], None], around: Callable[[], AbstractContextManager[Any]]
) -> Callable[[], None]:
    """Run ``action`` now or when Dynamo is imported; the import itself in ``around()``.

    `torch.compile` and custom operators import it at their first use, which takes
    seconds; so nobody else should. Returns the function that calls it off. Seen in
    2.1 to 2.14.
    """
    if _MODULE in sys.modules:
        action()
        return lambda: None
    finder = _Finder(action, around)
    sys.meta_path.insert(0, finder)

    def call_off() -> None:
        if finder in sys.meta_path:
            sys.meta_path.remove(finder)

    return call_off


class _Finder(MetaPathFinder):
    """Finds nothing itself; follows the import of one package."""

    def __init__(
        self,
        action: Callable[[], None],
        around: Callable[[], AbstractContextManager[Any]],
    ) -> None:
        self._action = action
        self._around = around

    def find_spec(
        self,
        fullname: str,
        path: Any = None,  # noqa: ARG002 - the protocol
        target: Any = None,  # noqa: ARG002 - the protocol
    ) -> ModuleSpec | None:
        if fullname != _PACKAGE:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(fullname)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader, self._action, self._around)
        return spec


class _Loader(Loader):
    """Loads as another loader does."""

    def __init__(
        self,
        loader: Loader,
        action: Callable[[], None],
        around: Callable[[], AbstractContextManager[Any]],
    ) -> None:
        self._loader = loader
        self._action = action
        self._around = around

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        with self._around():
            self._loader.exec_module(module)
        self._action()
