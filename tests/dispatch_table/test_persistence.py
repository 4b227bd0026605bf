# SPDX-License-Identifier: BSD-3-Clause
"""Tables as files."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys

import pytest

from npu_dispatch_inspect import (
    RecordError,
    load_table,
    read_dispatch_table,
    save_table,
)
from npu_dispatch_inspect.dispatch_table.persistence import (
    SCHEMA,
    VERSION,
    from_dict,
    to_dict,
)


@pytest.fixture(scope="module")
def table():
    """Operators of every kind."""
    return read_dispatch_table(
        "aten::linear",
        "aten::add",
        "aten::dropout",
        "prim::device",
        "higher_order::cond",
    )


@pytest.mark.parametrize("name", ["table.json", "table.json.gz"])
def test_a_table_comes_back(table, tmp_path, name):
    """Entries, keys and environment, packed or not."""
    path = tmp_path / name
    save_table(table, path)
    loaded = load_table(path)
    assert loaded == table
    assert loaded.keys == table.keys
    assert loaded.environment == table.environment
    assert (
        loaded["aten::add.Tensor"].computed["NPU"]
        == table["aten::add.Tensor"].computed["NPU"]
    )


def test_a_whole_registry_comes_back(tmp_path):
    """Small enough to keep in a repository, and the same bytes every time."""
    table = read_dispatch_table()
    paths = tmp_path / "a.json.gz", tmp_path / "b.json.gz"
    for path in paths:
        save_table(table, path)
    assert paths[0].read_bytes() == paths[1].read_bytes()
    assert paths[0].stat().st_size < 2_000_000
    loaded = load_table(paths[0])
    assert loaded == table
    assert loaded.complete
    assert loaded.counts("NPU") == table.counts("NPU")


def test_a_table_loads_where_torch_is_not(table, tmp_path):
    """Reading a file needs neither torch nor torch_npu."""
    path = tmp_path / "table.json"
    save_table(table, path)
    code = (
        "import sys; from npu_dispatch_inspect import load_table; "
        f"print(len(load_table({str(path)!r})), 'torch' in sys.modules)"
    )
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert run.stdout.split() == [str(len(table)), "False"]


def test_the_file_says_what_it_is(table):
    """Name and version of the format come first."""
    assert list(to_dict(table))[:2] == ["schema", "version"]
    assert (to_dict(table)["schema"], to_dict(table)["version"]) == (SCHEMA, VERSION)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"schema": "something/else"}, "is not a saved dispatch table"),
        ({"version": VERSION + 1}, "update npu_dispatch_inspect"),
        ({"version": "1"}, "update npu_dispatch_inspect"),
        ({"files": "RegisterCPU.cpp"}, "is damaged"),
        ({"files": []}, "is damaged"),
        ({"more": 1}, "is damaged"),
        ({"operators": [{"name": 3}]}, r"is damaged: .*operators\[0\]"),
    ],
)
def test_what_is_no_table_is_refused(table, change, sentence):
    """One sentence, with the place where the damage is."""
    with pytest.raises(RecordError, match=sentence) as caught:
        from_dict({**to_dict(table), **change})
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("missing.json", None),
        ("text.json", b"not json"),
        ("cut.json.gz", gzip.compress(b"{}", mtime=0)[:-4]),
        ("plain.json.gz", b"{}"),
        ("table.csv", b"{}"),
        ("list.json", b"[]"),
    ],
)
def test_a_file_that_cannot_be_read_is_refused(tmp_path, name, content):
    """Whatever is wrong with it."""
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(RecordError):
        load_table(path)


def test_an_odd_number_of_winners_is_refused(table):
    """Winners are pairs."""
    data = json.loads(json.dumps(to_dict(table)))
    data["operators"][0]["kernels"].append(0)
    with pytest.raises(RecordError, match="is damaged"):
        from_dict(data)
