# SPDX-License-Identifier: BSD-3-Clause
"""What a command looks at, named as ``module:callable`` or ``script.py:callable``."""

from __future__ import annotations

import contextlib
import importlib
import runpy
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from npu_dispatch_inspect.errors import UsageError

__all__ = ["find_callable", "is_callable_name", "quiet", "run_script"]


def is_callable_name(text: str) -> bool:
    """Whether a word is meant as ``module:callable``; ``aten::relu`` is not."""
    place, colon, name = text.rpartition(":")
    return bool(colon and place and not place.endswith(":") and _dotted(name))


def _dotted(name: str) -> bool:
    return all(part.isidentifier() for part in name.split("."))


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Send what the user's code prints to standard error: ours is the answer's."""
    with contextlib.redirect_stdout(sys.stderr):
        yield


def find_callable(text: str, device: Any) -> Callable[..., Any]:
    """Import what a word names; a module class is made, a module moved to the device.

    Args:
        text: ``"package.module:function"`` or ``"path/to/script.py:Model"``.
        device: where a `torch.nn.Module` is moved to.

    Raises:
        UsageError: there is nothing of that name, or its import fails.
    """
    import torch

    place, _, name = text.rpartition(":")
    with quiet():
        found: Any = _namespace(place)
        for part in name.split("."):
            try:
                found = getattr(found, part)
            except AttributeError:
                msg = f"{place} has no {name!r}: write module:callable as it is there."
                raise UsageError(msg) from None
        if isinstance(found, type) and issubclass(found, torch.nn.Module):
            found = _made(found, text)
        if isinstance(found, torch.nn.Module):
            with _told(text, f"moved to {device}"):
                found = found.to(device)
    if not callable(found):
        msg = f"{text} is not callable but {type(found).__name__}: name a function or module."
        raise UsageError(msg)
    result: Callable[..., Any] = found
    return result


def _made(kind: type, text: str) -> Any:
    try:
        with _told(text, "made", but=TypeError):
            return kind()
    except TypeError as error:
        msg = (
            f"{text} cannot be made without arguments ({error}): name a function that "
            "makes and calls it, or an instance."
        )
        raise UsageError(msg) from error


def _namespace(place: str) -> Any:
    if place.endswith(".py"):
        path = Path(place)
        if not path.is_file():
            msg = f"There is no script {place!r}."
            raise UsageError(msg)
        sys.path.insert(0, str(path.resolve().parent))
        name = path.stem
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        with _told(place):
            spec.loader.exec_module(module)
        return module
    sys.path.insert(0, "")
    with _told(place):
        return importlib.import_module(place)


def run_script(path: str) -> None:
    """Run a script as Python would, with what it prints on standard error.

    Raises:
        UsageError: there is none, or it raises.
    """
    if not Path(path).is_file():
        msg = f"There is no script {path!r}."
        raise UsageError(msg)
    sys.path.insert(0, str(Path(path).resolve().parent))
    sys.argv = [path]
    with quiet(), _told(path), contextlib.suppress(SystemExit):
        runpy.run_path(path, run_name="__main__")


@contextlib.contextmanager
def _told(
    place: str, what: str = "run", but: type[Exception] | tuple[()] = ()
) -> Iterator[None]:
    """Say in one sentence what the user's code raised."""
    try:
        yield
    except but:
        raise
    except Exception as error:
        reason = str(error).strip().partition("\n")[0]
        msg = f"{place} could not be {what}: {type(error).__name__}: {reason}"
        raise UsageError(msg.rstrip(".: ") + ".") from error
