# SPDX-License-Identifier: BSD-3-Clause
"""Tensors with everything but values, and the block they live in."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Any

import torch
from torch.utils import _pytree as pytree

from npu_dispatch_inspect._torch_private import keysets

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["FakeWorld", "all_fake", "as_tensors"]

_CUT_OFF = frozenset({"aten::detach", "aten::detach_"})
_LOGGER = logging.getLogger("torch._subclasses.fake_tensor")
_NUMBERS = (bool, int, float, complex)


class FakeWorld:
    """Makes fake tensors; the mode that gives them results is on inside it."""

    def __init__(self) -> None:
        """Nothing is on yet."""
        self._mode = keysets.fake_mode()
        self._inputs: list[torch.Tensor] = []

    def __enter__(self) -> Self:
        """Switch the mode on."""
        self._mode.__enter__()
        # A refusal on a fake tensor is an answer here, not an error to log.
        self._logged = not _LOGGER.disabled
        _LOGGER.disabled = True
        return self

    def __exit__(
        self,
        exception_type: type[BaseException] | None,
        exception: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Switch the mode off."""
        _LOGGER.disabled = not self._logged
        self._mode.__exit__(exception_type, exception, traceback)

    def copies(self, values: Any) -> Any:
        """The same values with a fake for every tensor."""
        fakes = pytree.tree_map_only(torch.Tensor, self._mode.from_tensor, values)
        self._inputs += _tensors(fakes)
        return fakes

    def with_grad(self, op: Any, args: tuple[Any, ...], result: Any) -> Any:
        """Let results require grad where autograd, which is off here, would."""
        if not torch.is_grad_enabled() or op.name() in _CUT_OFF:
            return result
        if any(each.requires_grad for each in _tensors(args)):
            for each in _tensors(result):
                if _differentiable(each) and not each.requires_grad:
                    each.requires_grad = True
                    each.register_hook(_no_backward)
        return result

    def forbid_backward(self) -> None:
        """Let a backward pass over the copies raise: no graph was made for one."""
        for each in self._inputs:
            if each.requires_grad and each.is_leaf:
                each.register_hook(_no_backward)

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


def _no_backward(_: torch.Tensor) -> None:
    message = "a backward pass is not predicted: capture graphs or trace a real one"
    raise RuntimeError(message)


def _differentiable(tensor: torch.Tensor) -> bool:
    kind = tensor.is_floating_point() or tensor.is_complex()
    return kind and not tensor.is_inference()


def _tensors(values: Any) -> list[torch.Tensor]:
    leaves = pytree.tree_leaves(values)
    return [each for each in leaves if isinstance(each, torch.Tensor)]


def all_fake(result: Any) -> bool:
    """Whether every tensor of a result is a fake one.

    A kernel that makes a tensor past the dispatcher makes it on the meta device.
    """
    return all(map(keysets.is_fake, _tensors(result)))
