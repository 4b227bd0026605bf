# SPDX-License-Identifier: BSD-3-Clause
"""Arguments and results to raw rows: the hot half of describing a call.

A raw row is what the tracer keeps until somebody looks: plain tuples, with
torch's immutable singletons (dtype, device, Size) left as they are. Tensors
become tuples, sequences become lists, so the two never get mixed up. The cold
half, raw row to record, is in `_build`.

Identity: a tensor's number is found through its address *and* a weak reference,
so an address that Python uses again gets a new number. Only weak references are
held: a strong one to an output would make autograd copy where it would steal.
For the same reason nobody here asks a tensor for its storage: the Python object
that this makes counts as an owner of the memory for as long as the memory lives,
and autograd then adds gradients out of place. A storage is known by its address
and by the tensors that were seen on it.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from itertools import count
from typing import Any, NamedTuple

import torch

from npu_dispatch_inspect._torch_private import modes
from npu_dispatch_inspect.capture._odd_values import (
    MAX_ITEMS,
    Opaque,
    odd_tensor,
    odd_value,
)
from npu_dispatch_inspect.capture._rows import COUNT, FIXED, OP

__all__ = ["Describe", "Reference", "describer"]

ROOM = 256
"""So many references more are made before those to dead tensors are forgotten."""

MOVED = 0
"""No storage has this number."""

MAX_KEPT = 16_384
"""So many different layouts are remembered at a time."""


class Describe(NamedTuple):
    """The functions of one `describer`; they share its numbering."""

    tensor: Callable[[torch.Tensor], tuple[Any, ...]]
    result: Callable[[torch.Tensor, list[Any], int], tuple[Any, ...]]
    """The same for the result of a call, given where its row stands (see `_rows`): what
    worked in place on the first argument is not read twice."""
    value: Callable[[Any], Any]
    values: Callable[[list[Any], Any], None]
    """Adds the rows of a call's positional arguments to a list."""
    end: Callable[[], None]
    """Lets go of everything; a tensor cannot be described any more."""


_AS_IS = frozenset(
    {
        *(type(None), bool, int, float, complex, str),
        *(torch.dtype, torch.device, torch.layout, torch.memory_format),
    }
)
_INT = {int}
_EMPTY: list[Any] = []
"""The row of every empty sequence; rows are never changed."""


class Reference(weakref.ref[torch.Tensor]):
    """A tensor that has been described.

    The reference itself carries what is known: with a tuple beside it, Python's
    garbage collector would have twice as many containers to visit.
    """

    __slots__ = ("address", "before", "listed", "row", "storage")

    row: tuple[Any, ...]
    """The last one; its first item is the tensor's number."""
    address: int | None
    """Of its storage; None where the tensor is described anew each time."""
    storage: int
    """The number of its storage, `MOVED` where it has left that for another."""
    before: Reference | None
    """One that was seen on that storage before it."""
    listed: int | None
    """Where the tensor is described anew each time: the address of that storage."""


def describer() -> Describe:
    """Make the functions that describe values, with a numbering of their own."""
    tensors: dict[int, Reference] = {}
    # By address the tensor that was seen last on a storage; it leads to the others.
    storages: dict[int, Reference] = {}
    layouts: dict[tuple[Any, ...], tuple[Any, ...]] = {}
    sizes: dict[tuple[int, ...], list[int]] = {}
    keeping: dict[int, tuple[Any, bool]] = {}
    room = ROOM
    made = count(1).__next__
    next_number = count(1).__next__
    plain_tensor, parameter = torch.Tensor, torch.nn.Parameter
    new_known: Callable[[torch.Tensor], Reference] = Reference
    storage_address = modes.storage_address

    def tensor_row(tensor: torch.Tensor) -> tuple[Any, ...]:
        known = tensors.get(id(tensor))
        if known is None or known() is not tensor:
            return plain_row(tensor, None)
        row = known.row
        if known.address is None:
            return odd_row(tensor, known)
        # A tensor keeps its device and bits as long as it keeps its storage and
        # form; `x.data = y` changes at least one of the two.
        layout = row[2]
        try:
            changed = (
                storage_address(tensor) != known.address
                or tensor.shape != layout[0]
                or tensor.stride() != layout[1]
                or tensor.storage_offset() != layout[2]
                or tensor.dtype is not layout[3]
            )
        except Exception:  # noqa: BLE001 - swapped with a sparse one, say
            changed = True
        if changed:
            return plain_row(tensor, known)
        if tensor.requires_grad is not row[3]:
            # Every result of a differentiable call comes by here once.
            row = known.row = (row[0], row[1], layout, not row[3])
        return row

    def result_row(tensor: torch.Tensor, flat: list[Any], at: int) -> tuple[Any, ...]:
        known = tensors.get(id(tensor))
        if known is None or known() is not tensor:
            return plain_row(tensor, None)
        row = known.row
        if (
            flat[at + COUNT] > 0
            and row is flat[at + FIXED]
            and tensor.requires_grad is row[-1]
            and keeps_layout(flat[at + OP])
        ):
            return row  # type: ignore[no-any-return]
        return tensor_row(tensor)

    def keeps_layout(op: Any) -> bool:
        # An operator's hash is worked out in Python each time.
        known = keeping.get(id(op))
        if known is None:
            known = keeping[id(op)] = op, modes.keeps_layout(op)
        return known[1]

    def plain_row(tensor: torch.Tensor, known: Reference | None) -> tuple[Any, ...]:
        kind = type(tensor)
        if kind is not plain_tensor and kind is not parameter:
            return odd_row(tensor, known)
        try:
            address = storage_address(tensor)
            dtype = tensor.dtype
            layout = (
                tensor.shape,
                tensor.stride(),
                tensor.storage_offset(),
                dtype,
                tensor.device,
                kind is parameter,
                tensor.is_neg(),
                dtype.is_complex and tensor.is_conj(),
            )
            # Layouts repeat where tensors do not, so one of each is kept. Symbolic
            # sizes have no hash, and end here as well.
            shared = layouts.get(layout) or share(layout)
        except Exception:  # noqa: BLE001 - sparse, nested, functorch wrappers: no strides or storage
            return odd_row(tensor, known)
        if known is not None and known.address == address:
            row = known.row = known.row[0], known.storage, shared, tensor.requires_grad
            return row
        if made() >= room:
            forget_dead()
        if known is None:
            number = next_number()
        else:
            number = known.row[0]
            known.storage = MOVED
        known = new_known(tensor)
        storage = number_storage(known, address)
        row = known.row = (number, storage, shared, tensor.requires_grad)
        known.address = address
        # Last, as another thread may be looking for it.
        tensors[id(tensor)] = known
        return row

    def share(layout: tuple[Any, ...]) -> tuple[Any, ...]:
        # A torch.Size would be visited by the garbage collector for ever.
        if len(layouts) >= MAX_KEPT:
            layouts.clear()
        shape, *rest = layout
        shared = (tuple(shape), *rest)
        layouts[shared] = shared
        return shared

    def number_storage(new: Reference, address: int) -> int:
        """The number of a storage that one more tensor has been seen on.

        Tensors and storages are counted together.
        """
        each = storages.get(address)
        while each is not None:
            other = each()
            # Alive and still there: nobody else can have got the address.
            try:
                if (
                    other is not None
                    and each.storage != MOVED
                    and storage_address(other) == address
                ):
                    break
            except Exception:  # noqa: BLE001, S110 - as above; it is somewhere else
                pass
            each = each.before
        number = next_number() if each is None else each.storage
        # The dead that were passed are left out.
        new.storage, new.before = number, each
        storages[address] = new
        return number

    def forget_dead() -> None:
        """Make room: most tensors die young, and seldom leave their address to another.

        In copies, which are made at once: other threads may be adding.
        """
        nonlocal room
        for key, known in list(tensors.items()):
            if known() is None:
                tensors.pop(key, None)
        for address, last in list(storages.items()):
            kept, each = last, last.before
            while each is not None:
                if each() is not None and each.storage != MOVED:
                    kept.before = each
                    kept = each
                each = each.before
            kept.before = None
            if kept is last and (last() is None or last.storage == MOVED):
                storages.pop(address, None)
        # Going over them takes as long as there are tensors, so the more the less often.
        room = made() + len(tensors) + ROOM

    def odd_row(tensor: torch.Tensor, known: Reference | None) -> tuple[Any, ...]:
        before = None
        if known is None:
            if made() >= room:
                forget_dead()
            its = new_known(tensor)
            its.listed = None
            number = next_number()
        else:
            its = known
            before = its.row
            number = before[0]
            if its.address is not None:  # it was a plain one
                its.listed = its.address

        def number_of(address: int) -> int:
            nonlocal its
            if its.listed != address:
                if its.listed is not None:
                    its.storage = MOVED
                    its = new_known(tensor)
                    its.listed = None
                number_storage(its, address)
                its.listed = address
            return its.storage

        # Nobody's handlers are asked, neither another tracer's nor the subclass's.
        with modes.without_modes(), modes.quiet_reads():
            row = (number, odd_tensor(tensor, tensor_row, number_of))
        if row == before:
            row = before
        its.row, its.address = row, None
        tensors[id(tensor)] = its
        return row

    def end() -> None:
        nonlocal new_known
        new_known = ended
        for each in (tensors, storages, layouts, sizes, keeping):
            each.clear()

    def ended(_: torch.Tensor) -> Reference:
        message = "the block had ended by then"
        raise RuntimeError(message)

    def value_row(value: Any) -> Any:
        kind = type(value)
        if kind is plain_tensor:
            return tensor_row(value)
        if kind in _AS_IS:
            return value
        if isinstance(value, (list, tuple)):
            return items_row(value)
        if isinstance(value, plain_tensor):
            return tensor_row(value)
        return odd_value(value, value_row)

    def items_row(values: list[Any] | tuple[Any, ...]) -> list[Any]:
        if not values:
            return _EMPTY
        if set(map(type, values)) == _INT and len(values) <= MAX_ITEMS:
            # Sizes and dimensions repeat as layouts do.
            numbers = tuple(values)
            known = sizes.get(numbers)
            if known is None:
                if len(sizes) >= MAX_KEPT:
                    sizes.clear()
                known = sizes[numbers] = list(numbers)
            return known
        rows = [value_row(each) for each in values[:MAX_ITEMS]]
        if len(values) > MAX_ITEMS:
            rows.append(Opaque("cut", f"... {len(values) - MAX_ITEMS} more"))
        return rows

    def value_rows(rows: list[Any], values: Any) -> None:
        # The loop body repeats value_row's branches on purpose: they serve nearly
        # every argument, and a call per argument costs 15 %.
        for value in values:
            kind = type(value)
            if kind is plain_tensor or kind is parameter:
                rows.append(tensor_row(value))
            elif kind in _AS_IS:
                rows.append(value)
            elif kind is list:
                rows.append(items_row(value))
            else:
                rows.append(value_row(value))

    return Describe(tensor_row, result_row, value_row, value_rows, end)
