# SPDX-License-Identifier: BSD-3-Clause
"""Private API on torch's Python classes that the dispatcher tracer changes for a while."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.torch_version import TorchVersion

__all__ = [
    "note_wrapped_numbers",
    "plain_tensor_class",
    "replace_overload_call",
    "replace_subclass_makers",
    "take_number",
]


_READS_UINT64 = bool(TorchVersion(torch.__version__) >= "2.13")
"""Whether torch can turn a number beyond int64 into one of Python's; 2.6 cannot."""


def replace_overload_call(
    make: Callable[[Callable[..., Any]], Callable[..., Any]],
) -> Callable[[], None]:
    """Change how Python calls an `OpOverload`; return what restores it.

    It is what a `__torch_dispatch__` is given to go on with. `__call__` of the class
    seen in 2.1 to 2.14.
    """
    own = torch._ops.OpOverload.__call__
    torch._ops.OpOverload.__call__ = make(own)  # type: ignore[method-assign]

    def restore() -> None:
        torch._ops.OpOverload.__call__ = own  # type: ignore[method-assign]

    return restore


def note_wrapped_numbers(here: Any) -> Callable[[], None]:
    """Note the tensors that become Python numbers; return what ends it.

    Several may ask for it, for the same ``here``: all look at one list.

    Before torch turns a wrapped number (the 0-dim tensor that stands for the 1 of
    ``x + 1``) into a Python number, it asks the tensor for `_wrapped_number`, the
    place of a symbolic value. That is the one moment at which Python can get hold
    of the tensor itself.

    ``here.seen.numbers`` is this thread's list; a tensor is appended each time it
    is asked, in the order of the arguments: once, or twice where it has an answer.
    `_wrapped_number` seen in 2.1 to 2.14.
    """
    if not _noting:
        torch.Tensor._wrapped_number = _wrapped_number(here)  # type: ignore[attr-defined]
    _noting.append(here)

    def end() -> None:
        _noting.pop()
        if not _noting:
            del torch.Tensor._wrapped_number  # type: ignore[attr-defined]

    return end


_noting: list[Any] = []
"""One entry for each who wants the tensors noted."""


def _wrapped_number(here: Any) -> Any:
    """The descriptor that notes who asks."""
    level = torch._C._functorch.maybe_current_level
    is_transformed = torch._C._functorch.is_functorch_wrapped_tensor

    class WrappedNumber:
        """A data descriptor: it is asked first, whatever the tensor keeps itself."""

        def __get__(self, tensor: Any, owner: type) -> Any:
            if tensor is None:
                return None  # somebody goes through all attributes of the class
            known = tensor.__dict__
            if "_wrapped_number" in known:
                here.seen.numbers.append(tensor)
                return known["_wrapped_number"]
            if (level() is not None and is_transformed(tensor)) or (
                tensor.dtype is torch.uint64 and not _READS_UINT64
            ):
                # Torch would fail: a transformed tensor has no memory to read a
                # number from. It goes to the kernel as the tensor it is.
                return tensor
            here.seen.numbers.append(tensor)
            raise AttributeError

        def __set__(self, tensor: Any, symbol: Any) -> None:
            tensor.__dict__["_wrapped_number"] = symbol

    return WrappedNumber()


def take_number(number: Any, notes: Any) -> Any:
    """The tensor that became ``number``: the last of the notes.

    Torch is given ``number`` the next time it asks the tensor: a look into the
    tensor's dictionary is cheaper than the exception that says there is none.
    """
    if not notes:
        return number
    tensor = notes.pop()
    known = tensor.__dict__
    if "_wrapped_number" not in known:
        known["_wrapped_number"] = number
    elif notes and notes[-1] is tensor:
        notes.pop()  # torch asked whether there is an answer, then for it
    return tensor


def plain_tensor_class(cls: type) -> bool:
    """True for a tensor subclass that does not handle its own operators; 2.1 to 2.14."""
    handler = getattr(cls, "__torch_dispatch__", None)
    return handler is torch._C._disabled_torch_dispatch_impl


class _Maker:
    """Gives out another function than torch's own while ``wanted()``.

    Whoever compares with or keeps torch's function (Dynamo does) and is not
    himself traced gets that one.
    """

    def __init__(
        self, own: Any, wanted: Callable[[], bool], make: Callable[[Any], Any]
    ) -> None:
        self._own = own
        self._wanted = wanted
        self._make = make

    def __get__(self, instance: Any, owner: type) -> Any:
        bind = getattr(self._own, "__get__", None)
        own = self._own if bind is None else bind(instance, owner)
        return self._make(own) if self._wanted() else own


def replace_subclass_makers(
    wanted: Callable[[], bool], **makers: Callable[[Any], Any]
) -> Callable[[], None]:
    """Change how C++ makes tensor subclasses on threads where ``wanted()``.

    Args:
        wanted: asked at each use.
        makers: by name (`_make_subclass`, `as_subclass`, `__new__`), what makes
            the function to use of torch's own, bound where that is bound.

    All three are inherited from `torch._C.TensorBase`, so that taking away an
    attribute of `torch.Tensor` restores them. Seen in 2.1 to 2.14. Returns the
    function that restores them.
    """
    for name, make in makers.items():
        own = torch._C.TensorBase.__dict__.get(name) or getattr(
            torch._C.TensorBase, name
        )
        setattr(torch.Tensor, name, _Maker(own, wanted, make))

    def restore() -> None:
        for name in makers:
            delattr(torch.Tensor, name)

    return restore
