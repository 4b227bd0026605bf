# SPDX-License-Identifier: BSD-3-Clause
"""Queries over registration tables."""

from __future__ import annotations

import pytest

from npu_dispatch_inspect import (
    DispatchTable,
    KernelState,
    UnknownNameError,
    read_dispatch_table,
)
from npu_dispatch_inspect.records.dispatch_keys import KeyNames
from npu_dispatch_inspect.records.registrations import BackendFallback
from npu_dispatch_inspect.traces.tables import EntrySource
from tests.table_examples import KEYS, TABLE, entry


@pytest.fixture
def table():
    """Seven operators, one in each state."""
    return TABLE


def test_states_are_told_apart(table):
    """Each query gives the operators of one state."""
    assert table.own_kernel("NPU").names == ("aten::mm", "aten::matmul")
    assert table.composite("NPU").names == ("aten::linear",)
    assert table.fallback("NPU").names == ("aten::lgamma.out",)
    assert table.missing("NPU").names == ("npu::gone",)
    assert table.default_kernel("NPU").names == ("aten::full",)
    assert table.operators(state="fallthrough").names == ("aten::skip",)


def test_counts_add_up(table):
    """Every operator is counted once, most frequent state first; also per namespace."""
    counts = table.counts("NPU")
    assert sum(counts.values()) == len(table)
    assert next(iter(counts.items())) == (KernelState.OWN_KERNEL, 2)
    spaces = table.counts_by_namespace("NPU")
    assert spaces["npu"] == {KernelState.MISSING: 1}
    assert sum(spaces["aten"].values()) == 6


def test_composite_here_kernel_there(table):
    """What one key takes apart and another does not."""
    assert table.composite_but_kernel("CPU", "NPU").names == ("aten::matmul",)
    assert table.registered_on("CompositeImplicitAutograd").names == ("aten::matmul",)


def test_queries_chain(table):
    """A query gives a table, to be asked again."""
    chained = table.namespace("aten").own_kernel("NPU").registered_by("RegisterCPU")
    assert chained.names == ("aten::mm",)
    assert "aten::mm" in chained
    assert "aten::matmul" not in chained
    assert table.operators(name="aten::*m*", kind="dispatcher").names == (
        "aten::mm",
        "aten::matmul",
        "aten::lgamma.out",
    )


@pytest.mark.parametrize(
    ("file", "names"),
    [
        ("RegisterNPU.cpp", ("aten::mm", "aten::matmul")),
        ("/npu/", ("aten::mm", "aten::matmul")),
        ("*/RegisterCPU_?.cpp", ("aten::mm",)),
        ("nowhere.cpp", ()),
    ],
)
def test_operators_are_found_by_who_registered_them(table, file, names):
    """Part of a path, or a glob over the whole of it."""
    assert table.registered_by(file).names == names


def test_definitions_implementations_and_fallbacks_are_told_apart(table):
    """The three kinds of registrations have a query each, by key and by file."""
    assert [each.key for each in table.registrations(file="/npu/")] == [
        "PrivateUse1"
    ] * 2
    assert [each.operator for each in table.registrations(key="CPU")] == ["aten::mm"]
    assert len(table.definitions(file="Schema.cpp")) == len(table)
    assert table.definitions(file="RegisterNPU.cpp") == ()
    assert table.fallbacks(key="NPU") == (
        BackendFallback(key="PrivateUse1", file="Fallback.cpp", line=4),
    )
    assert table.fallbacks(key="CPU") == ()
    assert len(table.fallbacks()) == 1


def test_one_operator_reads_like_its_default_overload(table):
    """A group answers for the default overload, or for the only one there is."""
    assert table["aten::mm"].computed["npu"].site == "RegisterNPU.cpp:1"
    assert table["aten::lgamma"].default.overload == "out"
    assert table.entry("aten::lgamma").overload == "out"
    assert table.kernel("aten::mm", "NPU").site == "RegisterNPU.cpp:1"


def test_a_group_without_default_overload_says_so():
    """Nobody guesses which overload was meant."""
    source = EntrySource([entry("aten::add.Tensor"), entry("aten::add.Scalar")])
    both = DispatchTable(source, keys=KEYS)
    with pytest.raises(UnknownNameError, match=r"choose one of Tensor, Scalar\."):
        _ = both["aten::add"].computed
    with pytest.raises(UnknownNameError, match=r"no default overload: choose one of"):
        both.entry("aten::add")
    assert both["aten::add"]["Scalar"].qualified_name == "aten::add.Scalar"


def test_unknown_words_are_refused(table):
    """States, kinds and keys that do not exist name the ones that do."""
    with pytest.raises(
        UnknownNameError, match="choose one of 'own kernel', 'composite'"
    ):
        table.operators(state="own")
    with pytest.raises(
        UnknownNameError, match="choose one of 'dispatcher', 'dangling'"
    ):
        table.operators(kind="jit")
    with pytest.raises(UnknownNameError, match="There is no dispatch key 'TPU'"):
        table.own_kernel("TPU")


def test_the_name_npu_belongs_to_the_backend_that_has_the_key():
    """Where PrivateUse1 is some other device, NPU is not its name."""
    other = KeyNames(names=("PrivateUse1",), private_backend="tpu")
    assert other.canonical("TPU") == "PrivateUse1"
    with pytest.raises(UnknownNameError):
        other.canonical("NPU")


def test_tables_are_equal_where_their_entries_are(table):
    """Order counts, the place they were read in does not."""
    same = DispatchTable(EntrySource(list(table)), keys=KEYS)
    assert same == table
    assert same.namespace("npu") != table
    assert table != "a table"


def test_texts_are_short(table):
    """Representations fit a terminal: none spells out a hundred records."""
    assert repr(table) == "<DispatchTable: 7 operators>"
    assert repr(table["aten::mm"].computed) == "<KernelMap: CPU, PrivateUse1>"
    assert len(repr(table.entry("aten::mm"))) < 400


@pytest.mark.npu
def test_the_counts_of_torch_npu_come_out():
    """The numbers measured on torch_npu 2.13.0 with torch's own functions."""
    torch_npu = pytest.importorskip("torch_npu")
    if not torch_npu.__version__.startswith("2.13.0"):
        pytest.skip("the numbers are those of torch_npu 2.13.0")
    aten = read_dispatch_table().namespace("aten").operators(kind="dispatcher")
    dangling = read_dispatch_table().namespace("aten").operators(kind="dangling")
    counts = aten.counts("NPU")
    assert len(aten) + len(dangling) == 3529
    assert counts[KernelState.OWN_KERNEL] + len(dangling.own_kernel("NPU")) == 1496
    assert counts[KernelState.DEFAULT] == 945
    assert counts[KernelState.COMPOSITE] == 697
    assert counts[KernelState.FALLBACK] == 391
    assert KernelState.MISSING not in counts
    undecomposed = aten.registered_on("CompositeImplicitAutograd").own_kernel("NPU")
    assert len(undecomposed) == 47
    assert {"aten::matmul", "aten::softmax.int", "aten::where"} <= set(
        undecomposed.names
    )
    assert "aten::linear" not in undecomposed
    assert len(aten.registered_on("AutogradNPU")) == 59
    assert len(read_dispatch_table().namespace("npu")) == 425
    assert {"aten::lgamma.out", "aten::linalg_eig"} <= set(aten.fallback("NPU").names)


@pytest.mark.npu
def test_the_npu_fallback_is_known_by_its_file():
    """What has no NPU kernel goes to torch_npu's own fallback file."""
    (fallback,) = read_dispatch_table("aten::lgamma.out").fallbacks(key="NPU")
    assert fallback.file.endswith("VariableFallbackKernel.cpp")
    assert not fallback.fallthrough


def test_an_operator_that_is_named_twice_is_selected_once(table):
    """A name for all overloads and one of them do not add up."""
    chosen = table.select("aten::lgamma", "aten::mm", "aten::lgamma.out")
    assert chosen.names == ("aten::lgamma.out", "aten::mm")
