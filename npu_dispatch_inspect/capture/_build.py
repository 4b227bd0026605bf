# SPDX-License-Identifier: BSD-3-Clause
"""Raw rows to records: the cold half of tracing, run when somebody looks."""

from __future__ import annotations

import functools
import re
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import torch

from npu_dispatch_inspect._torch_private import modes
from npu_dispatch_inspect.capture import _frames
from npu_dispatch_inspect.capture._odd_values import Opaque
from npu_dispatch_inspect.capture._rows import Row
from npu_dispatch_inspect.capture._scopes import (
    STEP_IN_BACKWARD,
    TORCH_STEP,
    Scope,
)
from npu_dispatch_inspect.records import (
    Argument,
    Constant,
    ExceptionRecord,
    KernelChoice,
    OpRecord,
    Phase,
    SourceLocation,
    TensorSpec,
    Value,
)

__all__ = ["Builder", "KeyReader"]

MAX_NODES = 16_384
"""So many autograd nodes are remembered; a backward call of an older one has no
forward call. Without a bound a streamed trace would not stay small."""
MAX_SPECS = 8_192

KeyReader = Callable[[Any, Any], tuple[tuple[str, ...], tuple[KernelChoice, ...]]]
"""Turns (operator, recorded key set) into key names and the kernels on the way."""


class Builder:
    """Makes records of raw rows; what was learnt of earlier rows is kept.

    Args:
        sites: the recorder's sites.
        started_ns: the recorder's zero of time.
        thread: identity of the thread that gets number 0.
        first_node: the number of that thread's next autograd node at the start.
        below_autograd: the engine sees calls after their autograd node is made.
        read_keys: reads recorded key sets; None where the engine records none.
        detail: the recorder's; with ``"names"`` not all frames were looked at.
    """

    def __init__(
        self,
        *,
        sites: _frames.Sites,
        started_ns: int,
        thread: int,
        first_node: int,
        below_autograd: bool,
        read_keys: KeyReader | None = None,
        detail: str = "full",
    ) -> None:
        self._full = detail == "full"
        self._roots: dict[str, str] = {}
        self._root_counts: Counter[str] = Counter()
        self._sites = sites
        self._started = started_ns
        self._threads = {thread: 0}
        self._below_autograd = below_autograd
        self._read_keys = read_keys
        self._places: list[tuple[SourceLocation | None, int]] = []
        self._plans: dict[Any, list[tuple[str, bool, Any, bool]] | None] = {}
        self._specs: dict[Any, TensorSpec] = {}
        self._nodes: dict[int, tuple[_Node, ...]] = {}
        self._last: dict[int, tuple[int, _Node]] = {
            thread: (first_node, _Node(-1, "", Scope(thread)))
        }
        self._noted: dict[int, int] = {}
        self._keys: dict[Any, tuple[tuple[str, ...], tuple[KernelChoice, ...]]] = {}

    def records(self, rows: Iterable[Row], ahead: Iterable[Row] = ()) -> list[OpRecord]:
        """Records of rows, which come in the order in which the calls began.

        ``ahead`` are rows of other threads whose turn comes later: a backward
        call may be the derivative of one of them.
        """
        for row in ahead:
            self._note_node(row, row[2])
        return [self._record(row) for row in rows]

    def _record(self, row: Row) -> OpRecord:
        index, op, scope, parent, depth, _, node, node_number, site, keyset = row[:10]
        start, outputs, end, error, kwargs, count = row[10:16]
        args = None if count < 0 else row[16:]
        source, marks = self._place(site)
        thread = self._threads.setdefault(scope.thread, len(self._threads))
        name, overload = _op_name(op)
        recomputed = node is not None and bool(marks & _frames.CHECKPOINT)
        forward = None
        owner = scope
        if node is not None and not recomputed:
            forward, made_in = self._made_by(node, node_number)
            # A module that a hook calls inside backward is where the call is.
            if made_in is not None and not scope.in_engine:
                owner = made_in
        self._note_node(row, owner)
        keys, path = self._read(op, keyset)
        compiled = _frames.compiled(marks)
        return OpRecord(
            index=index,
            name=name,
            overload=overload,
            parent=None if parent < 0 else parent,
            depth=depth,
            inputs=self._inputs(op, args, kwargs),
            outputs=None
            if error or args is None or not end
            else self._outputs(outputs),
            phase=_phase(node, marks, scope.step),
            root=self._root(owner.root),
            module=owner.path,
            module_type=owner.type,
            forward_index=forward,
            recomputed=recomputed,
            compiled=compiled if self._full or compiled else None,
            regions=owner.regions,
            thread=thread,
            source=source if self._full else None,
            autograd_node=node or None,
            keys=keys,
            path=path,
            start_ns=start - self._started if start else None,
            duration_ns=end - start if start and end else None,
            exception=ExceptionRecord(type=error[0], message=error[1])
            if error
            else None,
        )

    def _root(self, label: str | None) -> str | None:
        """Number the instances of a class as they come up in this trace."""
        if label is None:
            return None
        known = self._roots.get(label)
        if known is None:
            kind = label.partition("#")[0]
            self._root_counts[kind] += 1
            count = self._root_counts[kind]
            known = self._roots[label] = kind if count == 1 else f"{kind}#{count}"
        return known

    def _note_node(self, row: Row, owner: Scope) -> None:
        """Remember which call made the autograd nodes that came up since the last.

        Autograd numbers its nodes per thread, and the number moves when a node is
        made. Below autograd the node is there before the call is seen, so the
        call at which the number has moved made it; above, the call before that.
        """
        index, thread, sequence = row[0], row[2].thread, row[5]
        if index <= self._noted.get(thread, -1):
            return
        self._noted[thread] = index
        call = _Node(index, _op_name(row[1])[0], owner)
        before = self._last.get(thread)
        if before is not None and sequence > before[0]:
            if self._below_autograd:
                self._made(sequence - 1, call)
            else:
                self._made(before[0], before[1])
        self._last[thread] = (sequence, call)

    def _made(self, number: int, call: _Node) -> None:
        # Each thread counts for itself, so several may have made this number.
        thread = call.scope.thread
        others = [
            each for each in self._nodes.get(number, ()) if each.scope.thread != thread
        ]
        self._nodes[number] = (*others, call)
        if len(self._nodes) > MAX_NODES:
            del self._nodes[next(iter(self._nodes))]

    def _made_by(self, node: str, number: int) -> tuple[int | None, Scope | None]:
        """The call that made a node and the scope of it, each None where unknown."""
        found = [
            each for each in self._nodes.get(number, ()) if _derives(node, each.name)
        ]
        if len(found) == 1:
            return found[0].call, found[0].scope
        # Replicas on several threads: the call is not known, the module may be.
        if len({each.scope._replace(thread=0) for each in found}) == 1:
            return None, found[0].scope
        return None, None

    def _place(self, site: int) -> tuple[SourceLocation | None, int]:
        if site < 0:
            return None, 0
        if site >= len(self._places):
            for code, offset, marks in self._sites.found[len(self._places) :]:
                source = None if code is None else _frames.locate(code, offset)
                self._places.append((source, marks))
        return self._places[site]

    def _read(
        self, op: Any, keyset: Any
    ) -> tuple[tuple[str, ...] | None, tuple[KernelChoice, ...]]:
        if keyset is None or self._read_keys is None:
            return None, ()
        key = (op, keyset)
        if key not in self._keys:
            self._keys[key] = self._read_keys(op, keyset)
        return self._keys[key]

    def _inputs(
        self, op: Any, args: Any, kwargs: dict[str, Any] | None
    ) -> tuple[Argument, ...]:
        if args is None:
            return ()
        if op not in self._plans:
            self._plans[op] = modes.schema_arguments(op)
        plan = self._plans[op]
        kwargs = kwargs or {}
        if plan is None:
            return tuple(
                Argument(name=name, value=self._value(value))
                for name, value in (
                    *((f"args[{number}]", value) for number, value in enumerate(args)),
                    *kwargs.items(),
                )
            )
        made = []
        for number, (name, has_default, default, written) in enumerate(plan):
            if number < len(args):
                value = self._value(args[number])
            elif name in kwargs:
                value = self._value(kwargs[name])
            elif has_default:
                made.append(
                    Argument(name=name, value=self._value(default), default=True)
                )
                continue
            else:
                continue
            made.append(Argument(name=name, value=value, written=written))
        return tuple(made)

    def _outputs(self, raw: Any) -> tuple[Value, ...]:
        # A list is several results; anything else is one.
        if isinstance(raw, list):
            return tuple(self._value(each) for each in raw)
        return () if raw is None else (self._value(raw),)

    def _value(self, raw: Any) -> Value:
        if raw is None or isinstance(raw, (bool, int, float, complex, str)):
            return raw
        if isinstance(raw, list):
            return tuple(map(self._value, raw))
        if isinstance(raw, Opaque):
            return Constant(kind=raw.kind, text=raw.text)
        if isinstance(raw, tuple):
            spec = self._specs.get(raw)
            if spec is None:
                if len(self._specs) > MAX_SPECS:
                    self._specs.clear()
                spec = self._specs[raw] = self._tensor(raw)
            return spec
        return _constant(raw)

    def _tensor(self, raw: tuple[Any, ...]) -> TensorSpec:
        if len(raw) == 2:  # noqa: PLR2004 - (number, fields): the odd tensors
            return self._odd_tensor(raw[0], dict(raw[1]))
        number, storage, layout, grad = raw
        shape, stride, offset, dtype, device, parameter, neg, conj = layout
        return TensorSpec(
            dtype=_text(dtype),
            device=str(device),
            shape=shape,
            stride=stride,
            offset=offset,
            requires_grad=grad,
            id=number,
            storage_id=storage,
            subclass="Parameter" if parameter else None,
            flags=tuple(
                flag
                for flag, on in (
                    ("conj", conj),
                    ("neg", neg),
                    ("quantized", dtype in _QUANTIZED),
                )
                if on
            ),
        )

    def _odd_tensor(self, number: int, fields: dict[str, Any]) -> TensorSpec:
        unknown = fields["unknown"]
        inner = tuple(
            Argument(name=name, value=self._value(row))
            for name, row in fields.get("inner", ())
        )
        return TensorSpec(
            dtype=_text(fields.get("dtype", "unknown")),
            device=str(fields.get("device", "unknown")),
            shape=fields.get("shape"),
            stride=fields.get("stride"),
            offset=fields.get("offset"),
            layout=_text(fields.get("layout", "unknown")),
            requires_grad=bool(fields.get("requires_grad", False)),
            id=number,
            storage_id=fields.get("storage_id"),
            subclass=fields.get("subclass"),
            flags=fields["flags"],
            inner=inner,
            unknown=unknown,
        )


_QUANTIZED = frozenset(
    {torch.qint8, torch.quint8, torch.qint32, torch.quint4x2, torch.quint2x4}
)


class _Node(NamedTuple):
    """The call that made an autograd node; call -1 where none is known."""

    call: int
    name: str
    scope: Scope


_NUMBERED = re.compile(r"(\w+)Backward\d+")


@functools.cache
def _derives(node: str, name: str) -> bool:
    """False where an autograd node is certainly not that of the named operator.

    A node whose own call was not seen would fall to the next call that was.
    torch's generated nodes are called after their operator; others are not.
    """
    if not name:
        return False
    generated = _NUMBERED.fullmatch(node)
    if generated is None:
        return True
    operator = name.partition("::")[2].replace("_", "").lower()
    return generated[1].replace("_", "").lower() == operator.removesuffix("forward")


def _phase(node: Any, marks: int, step: int) -> Phase:
    if node is not None or marks & _frames.SEED:
        return Phase.OPTIMIZER if step & STEP_IN_BACKWARD else Phase.BACKWARD
    # What a closure computes inside the step of one of torch's optimizers is
    # not the optimizer's work.
    if step and (not step & TORCH_STEP or marks & (_frames.OPTIMIZER | _frames.OTHER)):
        return Phase.OPTIMIZER
    if marks & _frames.OTHER:
        return Phase.OTHER
    return Phase.FORWARD


def _op_name(op: Any) -> tuple[str, str]:
    schema = getattr(op, "_schema", None)
    if schema is not None:
        return schema.name, schema.overload_name or "default"
    namespace = getattr(op, "namespace", "higher_order")
    return f"{namespace}::{op.name()}", "default"


def _text(value: Any) -> str:
    """Torch's spelling without the prefix: ``float32``, ``strided``."""
    return str(value).removeprefix("torch.")


def _constant(raw: Any) -> Constant:
    for kind in (torch.dtype, torch.device, torch.layout, torch.memory_format):
        if isinstance(raw, kind):
            return Constant(kind=kind.__name__, text=_text(raw))
    return Constant(kind="object", text=type(raw).__qualname__)
