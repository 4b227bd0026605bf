# SPDX-License-Identifier: BSD-3-Clause
"""Tensors with everything but values, and the block they live in."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Any

import torch
from torch.utils import _pytree as pytree

from npu_dispatch_inspect._torch_private import keysets

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["FakeWorld", "all_fake", "as_tensors", "with_grad"]

_NUMBERS = (bool, int, float, complex)


class FakeWorld:
    """Makes fake tensors; the mode that gives them results is on inside it."""

    def __init__(self) -> None:
        """Nothing is on yet."""
        self._mode = keysets.fake_mode()

    def __enter__(self) -> Self:
        """Switch the mode on."""
        self._mode.__enter__()
        return self

    def __exit__(
        self,
        exception_type: type[BaseException] | None,
        exception: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Switch the mode off."""
        self._mode.__exit__(exception_type, exception, traceback)

    def copies(self, values: Any) -> Any:
        """The same values with a fake for every tensor."""
        return pytree.tree_map_only(torch.Tensor, self._mode.from_tensor, values)

    @contextlib.contextmanager
    def null_pointers(self, values: Any) -> Iterator[Any]:
        """A block where asking a fake for its data gives a null pointer, no error.

        Only for kernels that ask and do not look. Gives the values again, with
        fakes that belong to the block.
        """
        with keysets.null_pointers(self._mode):
            yield pytree.tree_map_only(torch.Tensor, _blank, values)


def _blank(tensor: torch.Tensor) -> torch.Tensor:
    return torch.empty_strided(
        tensor.size(), tensor.stride(), dtype=tensor.dtype, device=tensor.device
    )


def as_tensors(op: Any, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Python numbers for tensors, back to the tensors that torch makes of them."""
    kinds = [str(each.type) for each in op._schema.arguments]
    return tuple(
        torch.tensor(value)
        if isinstance(value, _NUMBERS) and kind in ("Tensor", "Optional[Tensor]")
        else value
        for kind, value in zip(kinds, args, strict=False)
    )


def all_fake(result: Any) -> bool:
    """Whether every tensor of a result is a fake one.

    A kernel that makes a tensor past the dispatcher makes it on the meta device.
    """
    return all(
        keysets.is_fake(each)
        for each in pytree.tree_leaves(result)
        if isinstance(each, torch.Tensor)
    )


def with_grad(op: Any, args: tuple[Any, ...], result: Any) -> Any:
    """Let results require grad where autograd, which is off here, would."""
    if not torch.is_grad_enabled() or op.name() in ("aten::detach", "aten::detach_"):
        return result
    if any(isinstance(each, torch.Tensor) and each.requires_grad for each in args):
        for each in result if isinstance(result, list | tuple) else (result,):
            if (
                isinstance(each, torch.Tensor)
                and (each.is_floating_point() or each.is_complex())
                and not each.is_inference()
            ):
                each.requires_grad = True
    return result
