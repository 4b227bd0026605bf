# SPDX-License-Identifier: BSD-3-Clause
"""Which kernels a call with some tensors will reach, key by key.

The key set of a call is that of its tensors, with the keys the thread includes
and without those it excludes. The dispatcher takes the highest; a fallthrough
hands on to the next, and so does a kernel of autograd and its like.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import torch
from attrs import frozen

from npu_dispatch_inspect._torch_private import dispatcher, keysets, tracing
from npu_dispatch_inspect.dispatch_table.dump_parser import DumpParser
from npu_dispatch_inspect.records.dispatch_keys import KeyNames
from npu_dispatch_inspect.records.ops import KernelChoice
from npu_dispatch_inspect.records.paths import PathStep, StepAction
from npu_dispatch_inspect.records.registrations import ComputedKernel

__all__ = ["Context", "Walk", "Walker", "below_autograd", "bound", "here"]

_PYTHON_KEYS = ("Python", "PythonTLSSnapshot")
_TRACER_KEYS = ("TESTING_ONLY_GenericMode",)
_OPAQUE_KEYS = frozenset(
    {
        "Python",
        "PythonDispatcher",
        "PreDispatch",
        "Functionalize",
        "FuncTorchDynamicLayerFrontMode",
        "FuncTorchDynamicLayerBackMode",
        "FuncTorchGradWrapper",
        "FuncTorchBatched",
        "Batched",
        "BatchedNestedTensor",
        "Conjugate",
        "Negative",
        "ZeroTensor",
    }
)
"""Keys whose kernels change the tensors or hand them to Python."""
_PASSING_KEYS = frozenset({"ADInplaceOrView", "PythonTLSSnapshot", "Tracer"})
_BY_KIND = {
    "math kernel": StepAction.DECOMPOSES,
    "nested kernel": StepAction.DECOMPOSES,
    "default backend kernel": StepAction.CALLS_OTHERS,
    "backend fallback": StepAction.FALLS_BACK,
    "ambiguous autogradother": StepAction.RAISES,
}


@frozen(kw_only=True)
class Context:
    """The keys that a thread adds to and takes from every call."""

    included: keysets.Keys
    excluded: keysets.Keys

    def without(self, keys: keysets.Keys) -> Context:
        """The same where some keys are excluded as well."""
        return Context(included=self.included, excluded=self.excluded | keys)


@frozen(kw_only=True)
class Walk:
    """The way of one call, and the context of the calls made inside it."""

    keys: tuple[str, ...]
    steps: tuple[PathStep, ...]
    inside: Context


def here() -> Context:
    """What this thread adds and takes away now; a tracer of ours is left out."""
    included, excluded = keysets.thread_keys()
    tracer = keysets.named_keys(_TRACER_KEYS)
    return Context(included=included - tracer, excluded=excluded - tracer)


class Walker:
    """Walks calls through the tables of this process, reading each table once."""

    def __init__(self) -> None:
        """Begin with nothing read."""
        self._parser = DumpParser(KeyNames(names=()))
        self._tables: dict[str, dict[str, ComputedKernel]] = {}

    def walk(
        self, op: Any, args: tuple[Any, ...], kwargs: Any, context: Context
    ) -> Walk:
        """The way of one call.

        Args:
            op: The `OpOverload`.
            args: Its positional arguments; fake tensors stand for real ones.
            kwargs: Its keyword arguments.
            context: What the thread adds and takes away at the call.
        """
        values = list(bound(op, args, kwargs))
        own = _argument_keys(values)
        keys = (own | context.included) - context.excluded
        alive = tuple(_names(keys))
        table = self.table(op.name())
        steps: list[PathStep] = []
        inside = context
        while True:
            key = keysets.highest(keys)
            step = _step(key, table.get(key or "Undefined"))
            steps.append(step)
            keys = keysets.below(keys, step.key)
            if step.action is StepAction.SELECTS:
                chosen = _selected(values)
                if chosen is None:
                    break
                keys = keysets.below(own | chosen, step.key)
            elif step.action is StepAction.PASSES_ON:
                if step.key not in _PYTHON_KEYS:
                    inside = inside.without(below_autograd())
            elif step.action is StepAction.CALLS_AGAIN:
                inside = inside.without(keysets.named_keys((step.key,)))
                break
            elif step.action is not StepAction.FALLTHROUGH:
                break
        return Walk(keys=alive, steps=tuple(steps), inside=inside)

    def kernels(self, name: str, keys: Iterable[str]) -> tuple[KernelChoice, ...]:
        """The kernels that a call meets whose keys were observed, highest first.

        The last one does the work or calls other operators. The device that
        BackendSelect chose is not among the keys, so the way ends there where no
        tensor's key follows.
        """
        table = self.table(name)
        found = []
        for key in keys:
            step = _step(key, table.get(key))
            if step.action is StepAction.FALLTHROUGH or step.kernel is None:
                continue
            kernel = step.kernel
            found.append(KernelChoice(key=key, kind=kernel.kind, site=kernel.site))
            if step.action not in (StepAction.PASSES_ON, StepAction.SELECTS):
                break
        return tuple(found)

    def table(self, name: str) -> dict[str, ComputedKernel]:
        """The winners of one operator by key."""
        found = self._tables.get(name)
        if found is None:
            text = dispatcher.computed_dump(name)
            found = self._tables[name] = dict(self._parser.kernels(text))
        return found


def _step(key: str | None, kernel: ComputedKernel | None) -> PathStep:
    name = key or "Undefined"
    if kernel is None:
        action = StepAction.RAISES
    elif kernel.fallthrough:
        action = StepAction.FALLTHROUGH
    elif name in _OPAQUE_KEYS:
        action = StepAction.OPAQUE
    elif name == "BackendSelect":
        action = StepAction.SELECTS
    elif name.startswith("Autocast"):
        action = StepAction.CALLS_AGAIN
    elif kernel.kind in ("math kernel", "nested kernel", "ambiguous autogradother"):
        action = _BY_KIND[kernel.kind]
    elif name.startswith("Autograd") or name in _PASSING_KEYS:
        action = StepAction.PASSES_ON
    else:
        action = _BY_KIND.get(kernel.kind, StepAction.RUNS)
    return PathStep(key=name, action=action, kernel=kernel)


def bound(
    op: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Iterator[tuple[str, str, Any]]:
    """Name, type and value of each argument given, in the order of the schema."""
    for place, argument in enumerate(op._schema.arguments):
        if place < len(args) and not argument.kwarg_only:
            yield argument.name, str(argument.type), args[place]
        elif argument.name in kwargs:
            yield argument.name, str(argument.type), kwargs[argument.name]


def _argument_keys(values: Iterable[tuple[str, str, Any]]) -> keysets.Keys:
    keys = keysets.empty_keys()
    for _, kind, value in values:
        inside = value if isinstance(value, list | tuple) else (value,)
        for each in inside:
            if isinstance(each, torch.Tensor):
                keys = keys | _tensor_keys(each)
            elif "Tensor" in kind and isinstance(each, bool | int | float | complex):
                keys = keys | keysets.number_keys()
            elif isinstance(each, torch.Generator):
                found = keysets.device_keys(each.device.type, torch.strided)
                keys = keys if found is None else keys | found
    return keys


def _tensor_keys(tensor: torch.Tensor) -> keysets.Keys:
    keys = keysets.tensor_keys(tensor)
    if keysets.is_fake(tensor):
        # A fake tensor stands for a real one, which Python knows nothing of.
        keys = keys - keysets.named_keys(_PYTHON_KEYS)
    return keys


def _selected(values: Iterable[tuple[str, str, Any]]) -> keysets.Keys | None:
    given = {name: value for name, _, value in values}
    device = given.get("device")
    layout = given.get("layout")
    return keysets.device_keys(
        torch.device(device).type if device is not None else _default_device(),
        torch.strided if layout is None else layout,
    )


def _default_device() -> str:
    return tracing.default_device().type


def below_autograd() -> keysets.Keys:
    """The keys that a kernel of autograd excludes for the calls it makes."""
    # One backend stands for all: what is excluded is the functionality.
    return keysets.named_keys(
        ("AutogradCPU", "AutogradOther", "AutogradNestedTensor", "ADInplaceOrView")
    )


def _names(keys: keysets.Keys) -> Iterator[str]:
    while (name := keysets.highest(keys)) is not None:
        yield name
        keys = keysets.below(keys, name)
