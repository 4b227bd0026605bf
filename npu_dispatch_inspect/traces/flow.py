# SPDX-License-Identifier: BSD-3-Clause
"""Which calls made the inputs of a call, and which used its results."""

from __future__ import annotations

from collections.abc import Iterable

from attrs import frozen

from npu_dispatch_inspect.records import OpRecord, TensorSpec, tensors_in
from npu_dispatch_inspect.records.printed import Printed

__all__ = ["Flow", "flow_of"]


@frozen(kw_only=True)
class Flow(Printed):
    """Where the tensors of one call came from and where its results went.

    Example:
        >>> import torch
        >>> from npu_dispatch_inspect import trace_ops
        >>> with trace_ops() as trace:
        ...     y = torch.ones(2).exp().sum()
        >>> flow = trace.flow(trace.find("aten::exp")[0])
        >>> [each.name for each in flow.makers], [each.name for each in flow.users]
        (['aten::ones'], ['aten::sum'])
    """

    record: OpRecord
    makers: tuple[OpRecord, ...]
    """The last call before it that returned or wrote each input tensor."""
    users: tuple[OpRecord, ...]
    """Later calls that took one of its results as an input, as long as no other
    call had overwritten it."""


def flow_of(record: OpRecord, records: Iterable[OpRecord]) -> Flow:
    """Follow the tensors of one call through the calls of a trace.

    Works on the identity of tensors within the trace: a tensor made before the block
    has no maker. A call that writes into a view has made every tensor on the same
    memory.
    """
    inputs = record.input_tensors
    makers: dict[int, OpRecord] = {}
    after: list[OpRecord] = []
    for each in records:
        if each.index > record.index:
            after.append(each)
        elif each.index < record.index:
            for position, spec in enumerate(inputs):
                if _makes(each, spec):
                    makers[position] = each
    users: list[OpRecord] = []
    results = [spec for spec in record.output_tensors if spec.id is not None]
    written = [spec for spec in _written(record) if spec.id is not None]
    made = list({spec.id: spec for spec in (*written, *results)}.values())
    for each in after:
        if not made:
            break
        taken = {spec.id for spec in each.input_tensors}
        if any(spec.id in taken for spec in made):
            users.append(each)
        # What is overwritten is the result of another call from here on.
        made = [spec for spec in made if not _makes(each, spec)]
    unique = {each.index: each for each in makers.values()}
    return Flow(
        record=record,
        makers=tuple(unique[index] for index in sorted(unique)),
        users=tuple(users),
    )


def _written(record: OpRecord) -> tuple[TensorSpec, ...]:
    return tensors_in(tuple(each.value for each in record.inputs if each.written))


def _makes(record: OpRecord, spec: TensorSpec) -> bool:
    """True where a call returned or wrote a tensor."""
    if spec.id is not None and any(
        each.id == spec.id for each in (*record.output_tensors, *_written(record))
    ):
        return True
    return spec.storage_id is not None and any(
        each.storage_id == spec.storage_id for each in _written(record)
    )
