# SPDX-License-Identifier: BSD-3-Clause
"""Where formulas are kept, and what several of them need."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import torch

from npu_dispatch_inspect._torch_private.backend_kernels import differentiable

__all__ = [
    "find_formula",
    "formula",
    "known_operators",
    "single",
    "summed_to",
    "vector_jacobian",
]

_Formula = TypeVar("_Formula", bound=Callable[..., Any])

_formulas: dict[str, Callable[..., Any]] = {}


def formula(*names: str, has_out: bool = False) -> Callable[[_Formula], _Formula]:
    """Register a function as what these operators compute.

    Args:
        *names: operators, with their overload: ``@formula("npu::npu_silu")``.
        has_out: each has an overload that writes its result into ``out``.
    """

    def register(function: _Formula) -> _Formula:
        for name in names:
            _formulas[name] = function
            if has_out:
                _formulas[f"{name}.out"] = _into_out(function)
        return function

    return register


def _into_out(function: Callable[..., Any]) -> Callable[..., Any]:
    def run(*, out: torch.Tensor, **arguments: Any) -> torch.Tensor:
        result = function(**arguments)
        return out.resize_(result.shape).copy_(result)

    return run


def find_formula(name: str) -> Callable[..., Any] | None:
    """The formula of an operator, ``"npu::npu_silu"``; None where there is none."""
    return _formulas.get(name)


def known_operators() -> tuple[str, ...]:
    """Every operator that has a formula, sorted."""
    return tuple(sorted(_formulas))


def single(tensor: torch.Tensor) -> torch.Tensor:
    """Half-precision numbers as float32: what fused kernels compute in."""
    return tensor.float() if tensor.dtype in _HALF else tensor


_HALF = (torch.float16, torch.bfloat16)


def summed_to(gradient: torch.Tensor, shape: Sequence[int]) -> torch.Tensor:
    """The gradient of something that was broadcast."""
    return gradient if gradient.shape == shape else gradient.sum_to_size(shape)


def vector_jacobian(
    forward: Callable[..., Any],
    inputs: Sequence[torch.Tensor | None],
    gradients: torch.Tensor | Sequence[torch.Tensor | None],
) -> list[torch.Tensor | None]:
    """The gradients of a function's inputs, for given gradients of its results.

    Computed by autograd on the CPU; a result whose gradient is None has none.
    """
    with differentiable():
        leaves = [
            None if each is None else single(each).detach().requires_grad_()
            for each in inputs
        ]
        results = forward(*leaves)
        if isinstance(results, torch.Tensor):
            results, gradients = [results], [gradients]  # type: ignore[list-item]
        pairs = [
            (result, single(gradient).to(result.dtype))
            for result, gradient in zip(results, gradients, strict=True)
            if gradient is not None and result.requires_grad
        ]
        given = [each for each in leaves if each is not None]
        found = iter(
            torch.autograd.grad(
                [result for result, _ in pairs],
                given,
                [gradient for _, gradient in pairs],
                allow_unused=True,
                materialize_grads=True,
            )
        )
    return [None if each is None else next(found) for each in leaves]
