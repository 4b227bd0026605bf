# SPDX-License-Identifier: BSD-3-Clause
"""A function or module as a function of flat tensors, and what each of them is called.

Parameters and buffers become inputs, once each however many names they have: of a
module that is captured, of the module a bound method belongs to, and of modules that a
function has in its closure.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from attrs import define, field, frozen

from npu_dispatch_inspect._torch_private import tracing
from npu_dispatch_inspect.capture._graph_state import hidden_tensors, untouched
from npu_dispatch_inspect.capture._graph_values import (
    Leaves,
    argument_names,
    open_value,
)
from npu_dispatch_inspect.errors import UsageError
from npu_dispatch_inspect.records.graphs import InputKind

__all__ = ["FlatInput", "Program", "Results", "modules_of"]


@frozen(kw_only=True)
class FlatInput:
    """What one flat tensor is."""

    kind: InputKind
    names: tuple[str, ...]
    requires_grad: bool = False
    is_parameter: bool = False


@define(kw_only=True)
class Results:
    """What is learnt of the results each time the function is traced."""

    names: list[str] = field(factory=list)
    """One per tensor that is returned."""
    build: Callable[[Sequence[Any]], Any] | None = None
    """Makes the function's result of its tensors."""
    needs_grad: list[bool] = field(factory=list)
    mutated: list[int] = field(factory=list)
    """Flat inputs that the function writes to."""
    hidden: str | None = None
    """A result that holds tensors and could not be opened, by name and class."""
    assigned: list[str] = field(factory=list)
    """Buffers that were assigned to, so that a new tensor stands in their place."""
    attributes: list[str] = field(factory=list)
    """Numbers and the like that modules have as attributes, and that were changed."""
    changed: str | None = None
    """A buffer that got another size or dtype."""


def modules_of(function: Callable[..., Any]) -> list[tuple[str, torch.nn.Module]]:
    """The modules that a function uses, each with what stands before its names."""
    while isinstance(function, functools.partial):
        function = function.func
    if isinstance(function, torch.nn.Module):
        return [("", function)]
    owner = getattr(function, "__self__", None)
    if isinstance(owner, torch.nn.Module):
        return [("", owner)]
    plain = inspect.unwrap(function)
    names = getattr(getattr(plain, "__code__", None), "co_freevars", ())
    found = []
    for name, cell in zip(
        names, getattr(plain, "__closure__", None) or (), strict=False
    ):
        try:
            value = cell.cell_contents
        except ValueError:  # not assigned yet
            continue
        if isinstance(value, torch.nn.Module):
            found.append((f"{name}.", value))
    used = getattr(getattr(plain, "__code__", None), "co_names", ())
    found += [
        (f"{name}.", value)
        for name in used
        if isinstance(
            value := getattr(plain, "__globals__", {}).get(name), torch.nn.Module
        )
    ]
    return found


class Program:
    """A call of a function, with its tensors laid out flat.

    Args:
        function: the function or module.
        args: its arguments.
        kwargs: its keyword arguments.

    Raises:
        UsageError: this cannot be called.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
    ) -> None:
        if not callable(function):
            msg = f"Give a function or a module to capture, not {function!r}."
            raise UsageError(msg)
        self.function = function
        self.modules = modules_of(function)
        self.tensors: list[torch.Tensor] = []
        self.inputs: list[FlatInput] = []
        self.results = Results()
        self.constants: list[tuple[str, Any]] = []
        self._position: dict[int, int] = {}
        self._named: list[dict[str, int]] = []
        self._buffers: list[list[str]] = []
        for prefix, module in self.modules:
            self._take_module(prefix, module)
        called = function
        if isinstance(function, torch.nn.Module):
            called = function.forward
        positional, keywords = argument_names(called, args, kwargs)
        leaves = Leaves()
        self._args = [
            open_value(value, name, leaves)
            for name, value in zip(positional, args, strict=True)
        ]
        self._kwargs = {
            name: open_value(kwargs[name], name, leaves) for name in keywords
        }
        self._given = [
            self._take(tensor, InputKind.ARGUMENT, name)
            for name, tensor in zip(leaves.names, leaves.tensors, strict=True)
        ]
        self.constants = leaves.constants
        self.layout = (len(args), tuple(kwargs), tuple(leaves.names))

    def _take_module(self, prefix: str, module: torch.nn.Module) -> None:
        named: dict[str, int] = {}
        for name, tensor in module.named_parameters(remove_duplicate=False):
            named[name] = self._take(tensor, InputKind.PARAMETER, f"{prefix}{name}")
        buffers = []
        for name, buffer in module.named_buffers(remove_duplicate=False):
            named[name] = self._take(buffer, InputKind.BUFFER, f"{prefix}{name}")
            buffers.append(name)
        self._named.append(named)
        self._buffers.append(buffers)

    def _take(self, tensor: torch.Tensor, kind: InputKind, name: str) -> int:
        """The flat position of a tensor; one that is there already has one more name."""
        position = self._position.get(id(tensor))
        if position is None:
            position = self._position[id(tensor)] = len(self.tensors)
            self.tensors.append(tensor)
            self.inputs.append(
                FlatInput(
                    kind=kind,
                    names=(name,),
                    requires_grad=tensor.requires_grad,
                    is_parameter=isinstance(tensor, torch.nn.Parameter),
                )
            )
            return position
        known = self.inputs[position]
        self.inputs[position] = FlatInput(
            kind=known.kind,
            names=(*known.names, name),
            requires_grad=known.requires_grad,
            is_parameter=known.is_parameter,
        )
        return position

    def forget_tensors(self) -> None:
        """Let go of the tensors: what was learnt of them stays."""
        self.tensors = []
        self._position = {}

    def __call__(self, *flat: torch.Tensor) -> list[Any]:
        """Call the function with other tensors in the place of its own."""
        given = [flat[position] for position in self._given]
        # The closures count over all leaves, so the list is the same for each.
        args = [each(given) for each in self._args]
        kwargs = {name: each(given) for name, each in self._kwargs.items()}
        results = Results()
        with ExitStack() as stack:
            # AOTAutograd calls it more than once, and each is to be the first.
            results.attributes = stack.enter_context(
                untouched([module for _, module in self.modules])
            )
            for (_, module), named in zip(self.modules, self._named, strict=True):
                replaced = {name: flat[position] for name, position in named.items()}
                stack.enter_context(tracing.reparametrized(module, replaced))
                stack.enter_context(self._replaced_lists(module, flat))
            result = self.function(*args, **kwargs)
            for (_, module), named, buffers in zip(
                self.modules, self._named, self._buffers, strict=True
            ):
                self._write_assigned(module, named, buffers, flat, results)
        leaves = Leaves()
        results.build = open_value(result, "", leaves)
        results.names = leaves.names
        results.needs_grad = [each.requires_grad for each in leaves.tensors]
        results.hidden = hidden_tensors(leaves.constants)
        results.mutated = [
            position for position, tensor in enumerate(flat) if tracing.written(tensor)
        ]
        self.results = results
        return leaves.tensors

    @contextmanager
    def _replaced_lists(
        self, module: torch.nn.Module, flat: Sequence[torch.Tensor]
    ) -> Iterator[None]:
        """Replace parameters where a module keeps them in a list, as nn.LSTM does."""
        changed = []
        for each in module.modules():
            for name, value in vars(each).items():
                if type(value) is not list or not value:
                    continue
                new = [
                    flat[self.known[id(one)]] if id(one) in self.known else one
                    for one in value
                ]
                if any(a is not b for a, b in zip(new, value, strict=True)):
                    changed.append((each, name, value, new))
        for each, name, _, new in changed:
            vars(each)[name] = new
        try:
            yield
        finally:
            for each, name, value, _ in changed:
                vars(each)[name] = value

    @property
    def known(self) -> dict[int, int]:
        """Flat positions by identity of the program's own tensors."""
        return self._position

    @staticmethod
    def _write_assigned(
        module: torch.nn.Module,
        named: Mapping[str, int],
        buffers: Sequence[str],
        flat: Sequence[torch.Tensor],
        results: Results,
    ) -> None:
        """Turn ``self.count = self.count + 1`` of a buffer into a write.

        A graph has no attributes to assign to; writing the value has the same effect
        on everybody who reads the buffer.
        """
        for name in buffers:
            owner, _, attribute = name.rpartition(".")
            new = module.get_submodule(owner)._buffers.get(attribute)
            old = flat[named[name]]
            if new is None or new is old:
                continue
            results.assigned.append(name)
            if new.shape == old.shape and new.dtype == old.dtype:
                with torch.no_grad():
                    old.copy_(new)
            else:
                results.changed = name
