# SPDX-License-Identifier: BSD-3-Clause
"""Private API of Dynamo: where compiled code is looked up, and where it runs."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from typing import Any

__all__ = ["once_imported", "replace_frame_functions"]

_MODULE = "torch._dynamo.eval_frame"


def replace_frame_functions(
    make: Callable[[Callable[[str], Any]], dict[str, Callable[..., Any]]],
) -> Callable[[], None]:
    """Put other functions where Dynamo's wrappers of compiled code call its own.

    ``make`` is given a lookup of the functions there are, by name, and returns
    the replacements. Names it may ask for: `set_eval_frame`, called with None
    before code that is not to be compiled, a finished graph for one, and with a
    callback before code that is; `_stance`, whose `stance` is "force_eager" where
    nothing is compiled; `_is_skip_guard_eval_unsafe_stance` and
    `set_skip_guard_eval_unsafe`, called when a compiled function is entered,
    the second again when it is left. Seen in 2.6 to 2.14.

    Returns the function that restores them.
    """
    module = sys.modules[_MODULE]
    namespace = vars(module)
    replaced = make(namespace.__getitem__)
    if namespace.get("_maybe_set_eval_frame") is namespace["set_eval_frame"]:
        replaced["_maybe_set_eval_frame"] = replaced["set_eval_frame"]
    before = {name: namespace[name] for name in replaced}
    namespace.update(replaced)
    return lambda: namespace.update(before)


def once_imported(action: Callable[[], None]) -> Callable[[], None]:
    """Run ``action`` now or when Dynamo's module is imported.

    `torch.compile` imports it at its first use, which takes seconds; so nobody
    else should. Returns the function that calls it off. Seen in 2.1 to 2.14.
    """
    if hasattr(sys.modules.get(_MODULE), "set_eval_frame"):
        action()
        return lambda: None
    finder = _Finder(action)
    sys.meta_path.insert(0, finder)

    def call_off() -> None:
        if finder in sys.meta_path:
            sys.meta_path.remove(finder)

    return call_off


class _Finder:
    """Finds nothing itself; follows up the import of one module."""

    def __init__(self, action: Callable[[], None]) -> None:
        self._action = action

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name != _MODULE:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def execute_and_act(module: Any) -> None:
                execute(module)
                self._action()

            spec.loader.exec_module = execute_and_act  # type: ignore[method-assign]
        return spec
