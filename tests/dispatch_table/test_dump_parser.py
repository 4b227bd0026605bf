# SPDX-License-Identifier: BSD-3-Clause
"""The text of the dumps, to records and back."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from npu_dispatch_inspect import KernelState, RecordError
from npu_dispatch_inspect.dispatch_table.dump_parser import (
    DumpParser,
    render_dump,
    render_table,
    split_name,
)
from npu_dispatch_inspect.records.dispatch_keys import KeyNames
from npu_dispatch_inspect.records.registrations import OperatorKind

DUMP = """\
name: demo::add.Tensor
schema: demo::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor
debug: registered at /src/Schema.cpp:6
alias analysis kind: CONSERVATIVE (default)
Conjugate: registered at /src/ConjugateFallback.cpp:21 :: (none) [ fallthrough boxed ]
CPU: registered at /src/a b: c/RegisterCPU_0.cpp:1297 :: (Tensor _0) -> Tensor _0 [ boxed unboxed ]
Meta: registered at /lib/python/_meta.py:54 :: (none) [ boxed ]
Meta (inactive): registered at /src/RegisterMeta_0.cpp:1106 :: (Tensor _0) -> () [ boxed unboxed ]
Autograd[alias]: registered by RegisterOperators :: (Tensor _0) -> Tensor _0 [ boxed unboxed ]
"""
TABLE = """\
Undefined: registered at /src/Composite.cpp:5218 [math kernel]
CPU: registered at /src/a b: c/RegisterCPU_0.cpp:1297 [kernel]
PrivateUse1: registered at ../csrc/VariableFallbackKernel.cpp:240 [backend fallback]
ADInplaceOrView: fallthrough registered at /src/Variable.cpp:103 [backend fallback]
AutogradOther: ambiguous_autogradother [ambiguous autogradother]
"""
NO_FILE = """\
name: demo::lost
schema: (none)
CPU: registered at /dev/null:137 :: (none) [ boxed ]
"""
DANGLING = """\
name: demo::lost
schema: (none)
PrivateUse1: registered at ../csrc/RegisterNPU.cpp:34325 :: (Tensor _0) -> () [ boxed unboxed ]
"""
ROUND_TRIP = """
import json, sys
import torch
from npu_dispatch_inspect.dispatch_table.dump_parser import *
from npu_dispatch_inspect.records.dispatch_keys import KeyNames
parser = DumpParser(KeyNames(names=()))
lines = wrong = 0
names = torch._C._dispatch_get_all_op_names()
for name in names:
    dump = torch._C._dispatch_dump(name)
    table = torch._C._dispatch_dump_table(name)
    entry = parser.operator(dump, table)
    wrong += (render_dump(entry), render_table(entry)) != (dump, table)
    lines += dump.count("\\n") + table.count("\\n")
npu = any(name.startswith("npu::") for name in names)
json.dump({"operators": len(names), "lines": lines, "wrong": wrong, "npu": npu}, sys.stdout)
"""


def parse(dump=DUMP, table=TABLE):
    """Parse what a process with these two keys said."""
    return DumpParser(KeyNames(names=("CPU", "Meta"))).operator(dump, table)


def test_head_gives_schema_and_definition():
    """Name, schema, place of definition and alias analysis come from the head."""
    entry = parse()
    assert (entry.name, entry.overload) == ("demo::add", "Tensor")
    assert entry.schema == DUMP.splitlines()[1].removeprefix("schema: ")
    assert (entry.definition.file, entry.definition.line) == ("/src/Schema.cpp", 6)
    assert entry.definition.site == "Schema.cpp:6"
    assert (entry.alias_analysis, entry.alias_analysis_default) == (
        "CONSERVATIVE",
        True,
    )
    assert entry.kind is OperatorKind.DISPATCHER


def test_registrations_keep_every_mark():
    """Alias keys, inactive ones, fallthroughs and both calling conventions are told apart."""
    entry = parse()
    conjugate, cpu, meta, old_meta, autograd = entry.registrations
    assert (conjugate.fallthrough, conjugate.boxed, conjugate.unboxed) == (
        True,
        True,
        False,
    )
    assert conjugate.signature is None
    assert (cpu.file, cpu.line) == ("/src/a b: c/RegisterCPU_0.cpp", 1297)
    assert (cpu.boxed, cpu.unboxed, cpu.fallthrough) == (True, True, False)
    assert cpu.signature == "(Tensor _0) -> Tensor _0"
    assert (meta.active, old_meta.active) == (True, False)
    assert (autograd.alias, autograd.file, autograd.note) == (
        True,
        None,
        "registered by RegisterOperators",
    )
    assert {each.operator for each in entry.registrations} == {"demo::add.Tensor"}


def test_registered_gives_the_active_one_and_overridden_the_others():
    """A later registration for a key takes the place of the one before it."""
    entry = parse()
    assert entry.registered["Meta"].site == "_meta.py:54"
    assert [each.site for each in entry.overridden("Meta")] == [
        "RegisterMeta_0.cpp:1106"
    ]


def test_winners_keep_their_reason():
    """Each winner says why it wins; a key without a line has none."""
    computed = parse().computed
    assert computed["CPU"].state is KernelState.OWN_KERNEL
    assert computed["Undefined"].state is KernelState.COMPOSITE
    assert computed["PrivateUse1"].state is KernelState.FALLBACK
    assert computed["ADInplaceOrView"].state is KernelState.FALLTHROUGH
    assert computed["AutogradOther"].kind == "ambiguous autogradother"
    assert computed["AutogradOther"].site == "ambiguous_autogradother"
    assert computed.get("CUDA") is None


def test_one_key_is_found_without_reading_the_others():
    """`kernel_for` agrees with the whole table, for the first, a middle and no line."""
    parser = DumpParser(KeyNames(names=()))
    whole = dict(parser.kernels(TABLE))
    for key in (*whole, "Use1", "CUDA", "Autograd"):
        assert parser.kernel_for(TABLE, key) == whole.get(key)


def test_an_operator_without_schema_is_marked():
    """Kernels without a schema make an entry that says so."""
    entry = parse(DANGLING, "")
    assert entry.kind is OperatorKind.DANGLING
    assert entry.schema is None
    assert render_dump(entry) == DANGLING


def test_rendering_gives_the_text_back():
    """Nothing of the text is lost."""
    entry = parse()
    assert render_dump(entry) == DUMP
    assert render_table(entry) == TABLE


@pytest.mark.parametrize(
    "line",
    [
        "CPU: registered at /src/a.cpp:1 :: (none) [ boxed purple ]",
        "CPU: registered at /src/a.cpp:1",
        "CPU registered at /src/a.cpp:1 :: (none) [ boxed ]",
        "C P U: registered at /src/a.cpp:1 :: (none) [ boxed ]",
        "CPU (asleep): registered at /src/a.cpp:1 :: (none) [ boxed ]",
        "",
    ],
)
def test_an_unknown_registration_line_is_refused(line):
    """A line of a new shape is an error that shows it, never skipped."""
    with pytest.raises(RecordError, match="a shape not seen before") as caught:
        parse(f"{DUMP}{line}\n")
    assert repr(line) in str(caught.value)


@pytest.mark.parametrize(
    "line",
    ["CPU: registered at /src/a.cpp:1", "CPU", "CPU: x [kernel] y", "CPU: [kernel"],
)
def test_an_unknown_winner_line_is_refused(line):
    """The same for the computed table."""
    with pytest.raises(RecordError, match="a shape not seen before"):
        parse(table=f"{TABLE}{line}\n")


@pytest.mark.parametrize("keep", range(4))
def test_a_cut_head_is_refused(keep):
    """A dump that ends inside its head is an error."""
    with pytest.raises(RecordError, match="a shape not seen before"):
        parse("".join(DUMP.splitlines(keepends=True)[:keep]))


@given(
    file=st.text(st.characters(exclude_categories=["C", "Z"]), min_size=1),
    line=st.integers(min_value=0),
)
def test_any_file_name_comes_back(file, line):
    """Whatever a path contains, the registration renders as it was."""
    text = DUMP + f"HIP: registered at {file}:{line} :: (none) [ boxed ]\n"
    entry = parse(text)
    assert render_dump(entry) == text
    assert (entry.registered["HIP"].file, entry.registered["HIP"].line) == (file, line)


@given(debug=st.text(st.characters(exclude_categories=["C", "Z"])))
def test_any_other_note_comes_back(debug):
    """Also where torch names no file."""
    text = TABLE + f"HIP: {debug} [kernel]\n"
    assert render_table(parse(table=text)) == text


def test_names_split_at_the_overload():
    """No overload means the default one."""
    assert split_name("aten::add.Tensor") == ("aten::add", "Tensor")
    assert split_name("aten::relu") == ("aten::relu", "default")


def run(code, **environment):
    """Run code in a new Python."""
    result = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(result.stdout)


def test_the_whole_registry_comes_back_without_torch_npu():
    """Every line of every operator of torch alone parses and renders the same."""
    found = run(ROUND_TRIP, TORCH_DEVICE_BACKEND_AUTOLOAD="0")
    assert found["wrong"] == 0
    assert found["npu"] is False
    assert found["operators"] > 3000
    assert found["lines"] > 300_000


@pytest.mark.npu
def test_the_whole_registry_comes_back_with_torch_npu():
    """The same with torch_npu, whose operators without schema are in it."""
    found = run(
        "from npu_dispatch_inspect import standin; standin.load()\n"
        "import torch_npu\n" + ROUND_TRIP
    )
    assert found["wrong"] == 0
    assert found["npu"] is True
    assert found["operators"] > 4000


def test_a_file_that_is_none():
    """Where torch names /dev/null no file is told, and the text comes back."""
    entry = DumpParser(KeyNames(names=("CPU",))).operator(NO_FILE, "")
    (kernel,) = entry.registrations
    assert (kernel.file, kernel.line) == (None, None)
    assert kernel.site == "registered at /dev/null:137"
    assert render_dump(entry) == NO_FILE
