# SPDX-License-Identifier: BSD-3-Clause
"""What ``pip install npu-dispatch-inspect`` without extras has to give.

Run by the Python of an environment with the library and what it requires, nothing
else: text, JSON, HTML and the command line work, and what needs a package more says
in one sentence which.
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

EXTRAS = "rich elftools platformdirs ziglang pyarrow pandas polars pytest torch_npu numpy IPython"
PROGRAM = """\
import torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(8, 4)

    def forward(self, x):
        return torch.lgamma(self.fc(x))

if __name__ == "__main__":
    Net()(torch.ones(2, 8)).sum().backward()
    print("done")
"""
LOG = """\
[812] [2026-01-15 11:20:31:045] torch_npu.op_plugin: [INFO] [890] aclnnMm EXEC_NPU_CMD with task_queue = 1
self: Tensor size: [2, 3], stride: [3, 1], offset: 0, dtype: float, device ID: 0, data_ptr: 0x7f0000001000

"""


def command(*words: str, status: int = 0, says: str = "") -> None:
    """Run the installed command; its exit status and a part of what it writes."""
    program = Path(sys.executable).with_name("npu-dispatch-inspect")
    done = subprocess.run(  # noqa: S603 - the words are below
        [program, *words], capture_output=True, text=True, check=False
    )
    told = done.stdout + done.stderr
    assert done.returncode == status, (words, done.returncode, told)
    assert "Traceback" not in told, (words, told)
    assert says in told, (words, told)


def here(*words: str, says: str) -> None:
    """Do the same in this process, which has imported torch already."""
    from npu_dispatch_inspect.cli import main

    told = io.StringIO()
    with contextlib.redirect_stdout(told):
        assert main(words) == 0, words
    assert says in told.getvalue(), (words, told.getvalue())


def in_process() -> None:
    """Text, JSON and HTML of traces, reports and graphs."""
    import torch

    from npu_dispatch_inspect import (
        assert_ops,
        capture_graphs,
        inspect_dispatch,
        load,
        show,
        to_pandas,
        to_rows,
        trace_ops,
    )

    layer, x = torch.nn.Linear(8, 4), torch.ones(2, 8)
    with trace_ops() as trace:
        layer(x)
    with inspect_dispatch() as report:
        layer(x)
    with capture_graphs() as graphs:
        graphs.capture(layer, x)

    assert_ops(trace, ["aten::t", "aten::addmm"])
    assert "aten::addmm  f32[4], f32[2, 8], f32[8, 4] -> f32[2, 4]  Linear" in str(
        trace
    )
    assert "aten::linear" in str(report)
    assert [each["name"] for each in to_rows(trace)] == ["aten::t", "aten::addmm"]
    for thing in (trace, report, graphs.captured):
        page = thing._repr_mimebundle_()["text/html"]
        assert "aten::addmm" in page
        shown = io.StringIO()
        show(thing, file=shown)
        assert "aten::addmm" in shown.getvalue()
        for suffix in ["json", "jsonl", "json.gz"]:
            thing.save(f"thing.{suffix}")
            assert load(f"thing.{suffix}") == thing, (thing, suffix)
        for suffix in ["html", "txt", "csv", "dot", "mmd"]:
            thing.save(f"thing.{suffix}")
            assert "aten::addmm" in Path(f"thing.{suffix}").read_text("utf-8")
    missing(lambda: to_pandas(trace), "[pandas]")
    missing(lambda: trace.save("thing.parquet"), "[arrow]")


def missing(what: Callable[[], object], extra: str) -> None:
    """What needs a package more says which extra has it."""
    from npu_dispatch_inspect.errors import InspectError

    told = None
    try:
        what()
    except InspectError as error:
        told = str(error)
    assert extra in str(told), (extra, told)


def on_the_command_line() -> None:
    """Every command."""
    Path("net.py").write_text(PROGRAM, "utf-8")
    Path("small.log").write_text(LOG, "utf-8")
    command("--version", says="npu-dispatch-inspect ")
    command("run", "--save", "report.json", "net.py", says="aten::lgamma")
    command("show", "report.json", says="aten::addmm")
    command("export", "report.json", "report.html")
    assert "aten::lgamma" in Path("report.html").read_text("utf-8")
    command("diff", "report.json", "report.json", says="no difference")
    here("demo", says="aten::addmm")
    here("table", "aten::addmm.out", says="aten::addmm.out")
    call = "explain", "aten::addmm", "f32[4]", "f32[2,3]", "f32[3,4]"
    here(*call, says="AutogradCPU passes on -> CPU runs")
    here("coverage", "net.py:Net", "f32[2,8]", "--key", "CPU", says="aten::lgamma")
    here("graph", "net.py:Net", "f32[2,8]", says="forward graph 0")
    command("logs", "small.log", says="aclnnMm(f32[2, 3])")
    command("logs", "small.log", "--json", says='"launch_count": 1')
    command("doctor", "--quick", says="torch_npu")
    command("export", "report.json", "r.parquet", status=2, says="[arrow]")
    command("run", "--stand-in", "net.py", status=2, says="torch_npu")


if __name__ == "__main__":
    present = [name for name in EXTRAS.split() if importlib.util.find_spec(name)]
    assert not present, f"This environment has what it must do without: {present}"
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        in_process()
        on_the_command_line()
    print("without extras: text, JSON, HTML and the command line work")
