# SPDX-License-Identifier: BSD-3-Clause
"""What the placeholders and outputs of a graph are, and what they are called.

torch 2.9 and later describe every input and output of a joint graph. Before, they are
known by position alone: primals are the flat inputs in order; what a forward graph
returns is the new values of inputs, then the results.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from attrs import evolve, frozen

from npu_dispatch_inspect._torch_private import aot
from npu_dispatch_inspect.capture._graph_build import flat_outputs, placeholders
from npu_dispatch_inspect.capture._graph_program import FlatInput, Results
from npu_dispatch_inspect.records import TensorSpec, Value
from npu_dispatch_inspect.records.graphs import (
    GraphInput,
    GraphOutput,
    GraphStage,
    InputKind,
    OutputKind,
)

__all__ = ["INFERRED", "UNNAMED", "Names"]

INFERRED = (
    "Names were inferred from positions: this release of torch does not describe the "
    "inputs and outputs of its graphs."
)
UNNAMED = (
    "Some inputs or outputs have no names: torch has rearranged them, and this release "
    "does not say how."
)


@frozen(kw_only=True)
class _In:
    kind: InputKind = InputKind.OTHER
    name: str | None = None
    names: tuple[str, ...] = ()
    flat: FlatInput | None = None


@frozen(kw_only=True)
class _Out:
    kind: OutputKind = OutputKind.OTHER
    name: str | None = None


class Names:
    """The names of one capture, learnt from its joint or inference graph.

    Args:
        graph: that graph.
        flat: the flat inputs of what was traced.
        results: what was learnt of the results.
        forward_outputs: how many of the outputs are those of the forward graph;
            None for an inference graph.
    """

    def __init__(
        self,
        graph: Any,
        flat: Sequence[FlatInput],
        results: Results,
        forward_outputs: int | None,
    ) -> None:
        self._flat = flat
        self._results = results
        self._given = placeholders(graph)
        outputs, descriptions = flat_outputs(graph)
        self._count = len(outputs) if forward_outputs is None else forward_outputs
        self.inferred = not any("desc" in each.meta for each in self._given) and bool(
            self._given
        )
        self.unnamed = False
        if self.inferred:
            self._inputs = self._infer_inputs()
            self._outputs = self._infer_outputs(len(outputs))
        else:
            self._inputs = {
                each.name: self._describe_input(each.meta.get("desc"))
                for each in self._given
            }
            self._outputs = self._describe_outputs(descriptions, len(outputs))

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader of the graph must know of its names."""
        if not self.inferred:
            return ()
        return (INFERRED, UNNAMED) if self.unnamed else (INFERRED,)

    def input(
        self, node: Any, value: Value, index: int, stage: GraphStage
    ) -> GraphInput:
        """The record of a placeholder of any graph of this capture."""
        known = self._inputs.get(node.name)
        if known is None:
            if stage is GraphStage.BACKWARD:
                known = _In(kind=InputKind.SAVED, name=node.name, names=(node.name,))
            else:
                known = self._describe_input(node.meta.get("desc"))
        if isinstance(value, TensorSpec) and known.flat is not None:
            value = evolve(
                value,
                requires_grad=known.flat.requires_grad,
                subclass="Parameter" if known.flat.is_parameter else value.subclass,
            )
        return GraphInput(
            index=index,
            variable=node.name,
            kind=known.kind,
            name=known.name,
            names=known.names,
            value=value,
            inferred=self.inferred and known.kind is not InputKind.SAVED,
            used=bool(node.users),
        )

    def outputs(
        self, graph: Any, values: Mapping[str, Value], stage: GraphStage
    ) -> tuple[GraphOutput, ...]:
        """The records of what a graph of this capture returns."""
        flat, descriptions = flat_outputs(graph)
        start = self._count if stage is GraphStage.BACKWARD else 0
        made = []
        for index, each in enumerate(flat):
            variable = getattr(each, "name", None)
            if stage is GraphStage.FORWARD and index >= self._count:
                known = _Out(kind=OutputKind.SAVED, name=variable)
            elif start + index < len(self._outputs):
                known = self._outputs[start + index]
            elif descriptions is not None:
                known = self._describe_output(descriptions[index])
            else:
                known = _Out()
            made.append(
                GraphOutput(
                    index=index,
                    variable=variable,
                    kind=known.kind,
                    name=known.name,
                    value=values.get(variable) if variable is not None else None,
                    inferred=self.inferred and known.kind is not OutputKind.SAVED,
                )
            )
        return tuple(made)

    def saved(self, variable: str | None) -> str | None:
        """The name of the input that is saved, None where it is computed."""
        known = self._inputs.get(variable or "")
        return None if known is None else "|".join(known.names) or variable

    def _describe_input(self, description: Any) -> _In:
        if description is None:
            return _In()
        return self._input(*aot.described(description))

    def _input(self, word: str, about: Any) -> _In:
        if word == "input" and about < len(self._flat):
            return self._of_flat(about)
        if word == "named":
            return _In(kind=InputKind.PARAMETER, name=about, names=(about,))
        if word == "tangent":
            name = self._output(*about).name
            return _In(
                kind=InputKind.TANGENT, name=name, names=() if name is None else (name,)
            )
        if word == "inner":
            attribute, whole = about
            known = self._input(*whole)
            return evolve(
                known,
                name=known.name and f"{known.name}.{attribute}",
                names=tuple(f"{each}.{attribute}" for each in known.names),
            )
        name = f"base of {self._input(*about).name}" if word == "base" else str(about)
        return _In(name=name, names=(name,))

    def _of_flat(self, position: int) -> _In:
        flat = self._flat[position]
        return _In(
            kind=flat.kind,
            name=flat.names[0] if flat.names else None,
            names=flat.names,
            flat=flat,
        )

    def _describe_outputs(
        self, descriptions: list[Any] | None, count: int
    ) -> list[_Out]:
        if descriptions is None:
            return []
        made = [self._describe_output(each) for each in descriptions]
        # torch says nothing of gradients that are not there: they stand in the order
        # of the primals.
        primals = [
            known
            for known in self._inputs.values()
            if known.kind is not InputKind.TANGENT
        ]
        for index in range(self._count, count):
            place = index - self._count
            if descriptions[index] is None and place < len(primals):
                made[index] = _Out(
                    kind=OutputKind.GRADIENT, name=_joined(primals[place])
                )
        return made

    def _describe_output(self, description: Any) -> _Out:
        if description is None:
            return _Out()
        return self._output(*aot.described(description))

    def _output(self, word: str, about: Any) -> _Out:
        if word == "result":
            names = self._results.names
            return _Out(
                kind=OutputKind.RESULT,
                name=names[about] if about < len(names) else str(about),
            )
        if word in {"gradient", "mutation"}:
            return _Out(
                kind=OutputKind(word),
                name=_joined(self._input(*about)),
            )
        if word == "saved":
            return _Out(kind=OutputKind.SAVED)
        if word == "inner":
            attribute, whole = about
            known = self._output(*whole)
            return evolve(known, name=known.name and f"{known.name}.{attribute}")
        return _Out(name=str(about))

    def _infer_inputs(self) -> dict[str, _In]:
        """Primals by position, tangents in the order of what needs a gradient."""
        tangents = [each for each in self._given if each.name.startswith("tangents_")]
        primals = [each for each in self._given if each not in tangents]
        made = {each.name: _In() for each in primals}
        if len(primals) == len(self._flat):
            made = {
                each.name: self._of_flat(position)
                for position, each in enumerate(primals)
            }
        else:
            self.unnamed = True
        results = self._results
        wanted = [
            _joined(self._of_flat(position))
            for position in results.mutated
            if self._flat[position].requires_grad
        ] + [
            name
            for name, needed in zip(results.names, results.needs_grad, strict=True)
            if needed
        ]
        matching = len(wanted) == len(tangents)
        self.unnamed = self.unnamed or not matching
        for number, each in enumerate(tangents):
            name = wanted[number] if matching else None
            made[each.name] = _In(
                kind=InputKind.TANGENT, name=name, names=() if name is None else (name,)
            )
        return made

    def _infer_outputs(self, count: int) -> list[_Out]:
        """New values of inputs, results, what torch adds, gradients of all primals."""
        results = self._results
        made = [
            _Out(kind=OutputKind.MUTATION, name=_joined(self._of_flat(position)))
            for position in results.mutated
        ] + [_Out(kind=OutputKind.RESULT, name=name) for name in results.names]
        if len(made) > self._count:
            # Not every write leaves the graph as an output.
            self.unnamed = True
            made = [_Out()] * (self._count - len(results.names)) + [
                _Out(kind=OutputKind.RESULT, name=name) for name in results.names
            ]
        made += [_Out()] * (self._count - len(made))
        primals = [
            known
            for known in self._inputs.values()
            if known.kind is not InputKind.TANGENT
        ]
        made += [
            _Out(kind=OutputKind.GRADIENT, name=_joined(known))
            for known in primals[: count - self._count]
        ]
        return made + [_Out()] * (count - len(made))


def _joined(known: _In) -> str | None:
    return "|".join(known.names) or known.name
