# SPDX-License-Identifier: BSD-3-Clause
"""Two tables side by side."""

from __future__ import annotations

from attrs import evolve

from npu_dispatch_inspect import DispatchTable, compare_tables, read_dispatch_table
from npu_dispatch_inspect.records.dispatch_keys import KeyNames
from npu_dispatch_inspect.records.registrations import (
    ComputedKernel,
    Definition,
    KernelRegistration,
    OperatorEntry,
    PythonKernel,
)
from npu_dispatch_inspect.traces.tables import EntrySource

KEYS = KeyNames(names=("CPU", "PrivateUse1", "XLA"))
BASE = OperatorEntry(
    name="aten::mm",
    definition=Definition(
        operator="aten::mm",
        schema="aten::mm(Tensor a) -> Tensor",
        file="/a/S.cpp",
        line=6,
    ),
    registrations=(
        KernelRegistration(
            operator="aten::mm",
            key="CPU",
            file="/a/RegisterCPU_0.cpp",
            line=10,
            boxed=True,
        ),
        KernelRegistration(
            operator="aten::mm", key="CPU", file="/a/Old.cpp", line=1, active=False
        ),
    ),
    kernels=(
        ("CPU", ComputedKernel(kind="kernel", file="/a/RegisterCPU_0.cpp", line=10)),
    ),
    python_kernels=(
        PythonKernel(
            operator="aten::mm", key="Meta", function="meta_mm", file="/m.py", line=3
        ),
    ),
    keys=KEYS,
)


def table(*entries):
    """A table of some entries."""
    return DispatchTable(EntrySource(entries), keys=KEYS)


def moved(entry):
    """The same operator in another build: other folder, shard and lines."""
    return evolve(
        entry,
        definition=evolve(entry.definition, file="/b/S.cpp", line=7),
        registrations=tuple(
            evolve(each, file="/b/RegisterCPU_3.cpp", line=99)
            for each in entry.registrations
            if each.active
        ),
        kernels=tuple(
            (key, evolve(each, file="/b/RegisterCPU_3.cpp", line=99))
            for key, each in entry.kernels
        ),
        python_kernels=tuple(evolve(each, line=5) for each in entry.python_kernels),
    )


def told(changes):
    """What changed, in short."""
    return [(each.change, each.what, each.operator, each.key) for each in changes]


def test_another_build_of_the_same_is_the_same():
    """Folders, shards and lines move with every build; they are no difference."""
    assert compare_tables(table(BASE), table(moved(BASE))) == ()


def test_exactly_compared_every_line_counts():
    """Within one process a moved registration is another one."""
    changes = compare_tables(table(BASE), table(moved(BASE)), exact=True)
    assert told(changes) == [
        ("replaced", "definition", "aten::mm", None),
        ("replaced", "registration", "aten::mm", "CPU"),
        ("replaced", "python kernel", "aten::mm", "Meta"),
        ("replaced", "kernel", "aten::mm", "CPU"),
    ]


def test_operators_that_come_and_go_are_told_in_full():
    """Everything of an operator that only one table has is added or removed."""
    added = compare_tables(table(), table(BASE))
    assert told(added) == [
        ("added", "definition", "aten::mm", None),
        ("added", "registration", "aten::mm", "CPU"),
        ("added", "python kernel", "aten::mm", "Meta"),
        ("added", "kernel", "aten::mm", "CPU"),
    ]
    removed = compare_tables(table(BASE), table())
    assert {each.change for each in removed} == {"removed"}
    assert [each.before for each in removed] == [each.after for each in added]


def test_another_file_or_reason_is_a_difference():
    """What wins, why it wins and the schema are compared."""
    fallback = ComputedKernel(kind="backend fallback", file="/a/Fallback.cpp", line=1)
    other = evolve(
        BASE,
        definition=evolve(
            BASE.definition, schema="aten::mm(Tensor a, int b) -> Tensor"
        ),
        kernels=(
            ("CPU", evolve(BASE.kernels[0][1], kind="math kernel")),
            ("XLA", fallback),
        ),
    )
    assert told(compare_tables(table(BASE), table(other))) == [
        ("replaced", "definition", "aten::mm", None),
        ("replaced", "kernel", "aten::mm", "CPU"),
        ("added", "kernel", "aten::mm", "XLA"),
        ("added", "fallback", None, "XLA"),
    ]


def test_a_fallback_is_a_difference_only_where_the_whole_table_says_so():
    """A new operator that uses a fallback both tables have adds no fallback."""
    fallback = ("XLA", ComputedKernel(kind="backend fallback", file="/a/F.cpp", line=1))
    old = evolve(BASE, kernels=(fallback,))
    new = evolve(
        BASE, name="aten::new", definition=None, registrations=(), kernels=(fallback,)
    )
    changes = compare_tables(table(old), table(old, new))
    assert "fallback" not in {each.what for each in changes}


def test_changes_read_as_sentences():
    """For people, with places, short of folders."""
    (change,) = compare_tables(
        table(BASE), table(evolve(BASE, registrations=BASE.registrations[1:]))
    )
    assert str(change) == "removed registration aten::mm on CPU: RegisterCPU_0.cpp:10"


def test_a_registry_is_the_same_as_itself():
    """Two readings of one process differ in nothing."""
    assert (
        compare_tables(read_dispatch_table(), read_dispatch_table(), exact=True) == ()
    )
