# SPDX-License-Identifier: BSD-3-Clause
"""Reading the tables of this process."""

from __future__ import annotations

import contextlib
import pickle

import pytest
import torch
from torch.torch_version import TorchVersion

from npu_dispatch_inspect import (
    DispatchTableReader,
    KernelState,
    UnknownNameError,
    UsageError,
    read_dispatch_table,
    trace_ops,
)
from npu_dispatch_inspect.dispatch_table.source import OWN_KEY, without_own_rows
from npu_dispatch_inspect.records.registrations import OperatorKind

HERE = __file__ if TorchVersion(torch.__version__) >= "2.8" else None
"""Torch up to 2.7 does not tell from which file of Python a kernel is."""


@contextlib.contextmanager
def library(namespace, kind):
    """A torch library that is gone after the block."""
    made = torch.library.Library(namespace, kind)
    try:
        yield made
    finally:
        made._destroy()


def test_every_operator_of_the_dispatcher_is_there():
    """The whole registry has what torch lists, and marks what it does not list."""
    table = read_dispatch_table()
    listed = set(torch._C._dispatch_get_all_op_names())
    by_kind = {kind: set(table.operators(kind=kind).names) for kind in OperatorKind}
    assert by_kind[OperatorKind.DISPATCHER] | by_kind[OperatorKind.DANGLING] == listed
    assert "prim::device" in by_kind[OperatorKind.JIT_ONLY]
    assert "higher_order::cond" in by_kind[OperatorKind.HIGHER_ORDER]
    assert table.complete


def test_the_winner_is_the_kernel_torch_says_has_one():
    """A key has a winner exactly where torch says that it has a computed kernel."""
    table = read_dispatch_table()
    ask = torch._C._dispatch_has_computed_kernel_for_dispatch_key
    for name in ("aten::linear", "aten::addmm", "aten::relu_", "prims::add"):
        computed = table.entry(name).computed
        for key in ("CPU", "PrivateUse1", "XLA", "AutogradCPU", "Meta"):
            assert (key in computed) is ask(name, key), (name, key)


def test_one_operator_reads_as_it_does_in_the_whole():
    """Reading a few operators gives the same entries as reading all."""
    whole = read_dispatch_table()
    few = read_dispatch_table("aten::linear", torch.ops.aten.add.Tensor, "prim::device")
    assert few.names[:2] == ("aten::linear", "aten::linear.out")
    assert list(few) == [whole.entry(explicit(name)) for name in few.names]
    assert not few.complete


def explicit(name):
    """The name of exactly this overload."""
    return name if "." in name else f"{name}.default"


def test_python_kernels_and_decompositions_are_merged_in():
    """Kernels that no C++ table shows are in the entry, with their place."""
    kernels = read_dispatch_table("aten::dropout").entry("aten::dropout").python_kernels
    assert {"CompositeImplicitAutograd", "Autograd"} <= {each.key for each in kernels}
    (first, *_) = kernels
    assert first.function == "dropout"
    assert first.site.startswith("decompositions.py:")
    gelu = read_dispatch_table("aten::gelu").entry("aten::gelu.default")
    assert "decomposition" in {each.key for each in gelu.python_kernels}


@pytest.mark.parametrize("spelling", ["PrivateUse1", "NPU", "npu", "privateuse1"])
def test_both_spellings_of_the_npu_key_work(spelling):
    """PrivateUse1 and NPU name the same key, with or without torch_npu."""
    entry = read_dispatch_table("aten::linear").entry("aten::linear")
    assert entry.computed[spelling].state is KernelState.COMPOSITE
    assert entry.computed[f"Autograd{spelling}"].kind == "math kernel"


def test_an_unknown_key_is_refused_with_the_nearest():
    """A misspelt key names the right ones; a known one without a kernel says so."""
    entry = read_dispatch_table("aten::add.Tensor").entry("aten::add.Tensor")
    with pytest.raises(UnknownNameError, match="did you mean AutogradCPU"):
        entry.computed["AutogradCUP"]
    with pytest.raises(
        UnknownNameError, match=r"no kernel of aten::add\.Tensor for XLA"
    ):
        entry.computed["XLA"]
    assert entry.computed.get("XLA") is None
    assert entry.state("XLA") is KernelState.MISSING


def test_what_a_block_registers_is_told():
    """Definitions and implementations that appear, each with its place."""
    with contextlib.ExitStack() as stack, DispatchTableReader() as reader:
        made = stack.enter_context(library("ndi_reader", "DEF"))
        made.define("twice(Tensor x) -> Tensor")
        made.impl("twice", lambda x: 2 * x, "CPU")
        torch.library.impl(made, "twice", "CompositeExplicitAutograd")(lambda x: x + x)
        reader.__exit__(None, None, None)
        changes = reader.changes
    assert [(each.change, each.what, each.key) for each in changes] == [
        ("added", "definition", None),
        ("added", "registration", "CPU"),
        ("added", "registration", "CompositeExplicitAutograd"),
    ]
    assert {each.operator for each in changes} == {"ndi_reader::twice"}
    place = "test_reader.py:" if HERE else "registered at /dev/null:"
    assert str(changes[1]).startswith(
        f"added registration ndi_reader::twice on CPU: {place}"
    )


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_what_a_block_replaces_and_removes_is_told():
    """Overriding a kernel is one change with both places; undoing it is another."""
    with library("aten", "IMPL") as made:
        with DispatchTableReader("aten::relu") as reader:
            made.impl("relu", lambda x: x, "CPU")
        (change,) = reader.changes
        assert (change.change, change.key) == ("replaced", "CPU")
        assert change.before.file.endswith(".cpp")
        assert change.after.file == HERE
        undone = DispatchTableReader("aten::relu")
        undone.__enter__()
    undone.__exit__(None, None, None)
    (change,) = undone.changes
    assert change.before.file == HERE
    assert change.after.file.endswith(".cpp")


def test_an_operator_that_a_block_defines_can_be_asked_for_before():
    """Inside a block a name that is not there yet is no error."""
    with contextlib.ExitStack() as stack, DispatchTableReader("ndi_late::f") as reader:
        stack.enter_context(library("ndi_late", "DEF")).define("f(Tensor x) -> Tensor")
        reader.__exit__(None, None, None)
        assert reader.before.names == ()
        assert reader.after.names == ("ndi_late::f",)


def test_changes_are_told_where_the_block_raises():
    """The tables are read at the end also of a block that fails."""
    reader = DispatchTableReader("aten::relu")
    with pytest.raises(ZeroDivisionError), reader:
        _ = 1 / 0
    assert reader.changes == ()


def test_changes_are_asked_for_after_the_block():
    """Asking inside the block, or without one, says when to ask."""
    reader = DispatchTableReader("aten::relu")
    with pytest.raises(UsageError, match="when the block has ended"):
        _ = reader.changes
    with reader, pytest.raises(UsageError, match="inside a block already"):
        reader.__enter__()
    assert reader.before == reader.after


def test_reading_tells_how_far_it_is():
    """The progress function sees the beginning and the end."""
    seen = []
    DispatchTableReader(progress=lambda done, of: seen.append((done, of))).read()
    assert seen[0][0] == 0
    assert seen[-1][0] == seen[-1][1] > 3000


def test_an_operator_that_is_not_there_is_refused():
    """With the nearest names, in one sentence."""
    with pytest.raises(UnknownNameError, match=r"did you mean aten::addmm"):
        read_dispatch_table("aten::adddmm")


def test_our_own_tracer_never_shows():
    """Tables read inside a dispatcher trace equal those read outside."""
    names = ("aten::linear", "aten::add", "higher_order::cond")
    before = read_dispatch_table(*names)
    with trace_ops(engine="dispatcher"), DispatchTableReader() as reader:
        inside = read_dispatch_table(*names)
    assert inside == before
    assert reader.changes == ()
    assert not reader.after.registered_by("_torch_private")
    assert all(OWN_KEY not in dict(entry.kernels) for entry in inside)


def test_a_users_kernel_on_the_tracers_key_stays():
    """Only rows from this library's folder are dropped, and what they hid returns."""
    ours = f"{OWN_KEY}: registered at /lib/ours/hook.py:1 :: (none) [ boxed ]\n"
    theirs = f"{OWN_KEY} (inactive): registered at /theirs.py:2 :: (none) [ boxed ]\n"
    rest = "CPU: registered at /lib/ours/kernel.py:3 :: (none) [ boxed ]\n"
    shown = without_own_rows(rest + ours + theirs, "/lib/ours/")
    assert shown == rest + theirs.replace(" (inactive)", "")
    assert without_own_rows(rest, "/lib/ours/") == rest
    alone = theirs.replace(" (inactive)", "")
    assert without_own_rows(rest + alone, "/lib/ours/") == rest + alone


def test_a_table_pickles():
    """Whole or in part, with its environment."""
    table = read_dispatch_table("aten::relu")
    copy = pickle.loads(pickle.dumps(table))
    assert copy == table
    assert copy.environment == table.environment
    part = read_dispatch_table().namespace("prims")
    assert pickle.loads(pickle.dumps(part)) == part
    whole = read_dispatch_table()
    assert pickle.loads(pickle.dumps(whole)).names == whole.names
