# SPDX-License-Identifier: BSD-3-Clause
"""The example notebooks run from top to bottom and give what is stored in them."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent.parent / "docs" / "notebooks"
NOTEBOOKS = sorted(path.stem for path in FOLDER.glob("*.ipynb"))
pytest.importorskip("nbclient")
nbformat = pytest.importorskip("nbformat")
VERSIONS = re.compile(r"torch(?:_npu)? [\w.+]+")


def execute_module():
    """``docs/notebooks/execute.py``, which makes the stored outputs."""
    spec = importlib.util.spec_from_file_location("execute", FOLDER / "execute.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def stored(name):
    """A notebook as it is kept."""
    return nbformat.read(FOLDER / f"{name}.ipynb", as_version=4)


def texts(notebook):
    """The plain text of every output, with versions left out."""
    found = []
    for cell in notebook.cells:
        for output in cell.get("outputs", ()):
            data = output.get("data", {})
            text = output.get("text") or data.get("text/plain", "")
            found.append(VERSIONS.sub("torch", text))
    return found


@pytest.mark.npu
@pytest.mark.parametrize("name", NOTEBOOKS)
def test_runs_and_gives_the_same(name, monkeypatch):
    """A new kernel runs every cell without an error; the outputs are those stored."""
    import torch

    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    for variable in ("TASK_QUEUE_ENABLE", "PYTEST_CURRENT_TEST"):
        monkeypatch.delenv(variable, raising=False)
    notebook = execute_module().executed(FOLDER / f"{name}.ipynb")
    assert [
        output
        for cell in notebook.cells
        for output in cell.get("outputs", ())
        if output.output_type == "error"
    ] == []
    # Which operators a layer is made of differs between versions of torch.
    if f"torch {torch.__version__.partition('+')[0]}" in json.dumps(stored(name)):
        assert texts(notebook) == texts(stored(name))


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_clean(name):
    """Stored in order, with outputs, without what belongs to one run or machine."""
    notebook = stored(name)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1))
    assert all(cell.metadata == {} for cell in notebook.cells)
    assert set(notebook.metadata) == {"kernelspec", "language_info"}
    outputs = [output for cell in code for output in cell.outputs]
    assert [output for output in outputs if output.get("name") == "stderr"] == []
    text = json.dumps(notebook)
    assert re.search(r"/(?:home|root|tmp|work|Users)/", text) is None
    assert "ipykernel_" not in text


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_shows_tables(name):
    """Traces and reports are stored as HTML as well as text."""
    shown = [
        output.data
        for cell in stored(name).cells
        for output in cell.get("outputs", ())
        if "data" in output and 'class="ndi"' in output.data.get("text/html", "")
    ]
    assert len(shown) >= 4
    assert all("text/plain" in data for data in shown)
