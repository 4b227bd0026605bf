# SPDX-License-Identifier: BSD-3-Clause
"""Captures in a real Jupyter kernel, where the kernel itself holds descriptor 2."""

from __future__ import annotations

import os
import sys
import textwrap

import pytest

nbclient = pytest.importorskip("nbclient")
nbformat = pytest.importorskip("nbformat")
pytestmark = pytest.mark.npu

CELLS = (
    """
    from npu_dispatch_inspect import standin; standin.load()
    import os, sys, torch
    from npu_dispatch_inspect import capture_logs, inspect_dispatch
    linear = torch.nn.Linear(4, 2).npu(); x = torch.ones(1, 4).npu()
    """,
    """
    with capture_logs() as logs:
        linear(x)
        os.write(2, b"written to the descriptor\\n")
        print("printed to stderr", file=sys.stderr)
        print("printed to stdout")
    print(logs.names, [each.what for each in logs.missing])
    """,
    """
    with inspect_dispatch() as seen:
        linear(x)
    print(seen.path("aten::linear", to="aclnnAddmm"))
    print([each.reason for each in seen.missing])
    """,
)


def run_cells(monkeypatch, *cells):
    """The cells' streams as (stdout, stderr) of each cell."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    monkeypatch.delenv("TASK_QUEUE_ENABLE", raising=False)
    # A kernel that finds this does not watch its descriptors, as it does for users.
    monkeypatch.delenv("PYTEST_CURRENT_TEST", raising=False)
    notebook = nbformat.v4.new_notebook()
    notebook.cells = [
        nbformat.v4.new_code_cell(textwrap.dedent(each).strip()) for each in cells
    ]
    nbclient.NotebookClient(notebook, timeout=240, kernel_name="python3").execute()
    return [
        tuple(
            "".join(
                output["text"] for output in cell.outputs if output.get("name") == name
            )
            for name in ("stdout", "stderr")
        )
        for cell in notebook.cells
    ]


def test_capture_in_a_kernel(monkeypatch):
    """Launches are captured, the rest is shown in the cell, and the missing queue explained."""
    _, (log_out, log_err), (report_out, _) = run_cells(monkeypatch, *CELLS)
    assert "printed to stdout" in log_out
    assert "('aclnnAddmm',) ['dispatch']" in log_out
    assert "printed to stderr" in log_err
    assert "written to the descriptor" in log_err
    assert "EXEC_NPU_CMD" not in log_err
    assert "('aten::linear', 'aten::addmm', 'RegisterNPU.cpp:" in report_out
    assert "TASK_QUEUE_ENABLE=0" in report_out
