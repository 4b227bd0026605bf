# SPDX-License-Identifier: BSD-3-Clause
"""Tables and registration traces of this process as files."""

from __future__ import annotations

import pytest
import torch

from npu_dispatch_inspect import (
    compare_tables,
    load,
    read_dispatch_table,
    save,
    trace_registrations,
)


@pytest.mark.parametrize("name", ["table.json", "table.jsonl.gz"])
def test_a_table_comes_back(tmp_path, name):
    """Operators of every kind, with keys and environment."""
    table = read_dispatch_table(
        "aten::linear",
        "aten::add",
        "aten::dropout",
        "prim::device",
        "higher_order::cond",
    )
    table.save(tmp_path / name)
    loaded = load(tmp_path / name)
    assert loaded == table
    assert loaded.keys == table.keys
    assert loaded.environment == table.environment
    add = table["aten::add.Tensor"]
    assert loaded["aten::add.Tensor"].computed["NPU"] == add.computed["NPU"]


def test_a_whole_registry_comes_back(tmp_path):
    """Small enough to keep in a repository, and the same bytes every time."""
    table = read_dispatch_table()
    paths = tmp_path / "a.jsonl.gz", tmp_path / "b.jsonl.gz"
    for path in paths:
        table.save(path)
    assert paths[0].read_bytes() == paths[1].read_bytes()
    assert paths[0].stat().st_size < 2_000_000
    loaded = load(paths[0])
    assert compare_tables(loaded, table, exact=True) == ()
    assert loaded.complete
    assert loaded.counts("NPU") == table.counts("NPU")


def test_a_registration_trace_comes_back(tmp_path):
    """Every call with its entry, each entry written once."""
    net = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 4))
    trace = trace_registrations(net, torch.ones(1, 4))
    save(trace, tmp_path / "trace.json")
    loaded = load(tmp_path / "trace.json")
    assert loaded == trace
    assert loaded.calls[0].entry.keys == trace.calls[0].entry.keys
