# SPDX-License-Identifier: BSD-3-Clause
"""Large reports for HTML pages, what a page holds, and a browser to open it in."""

from __future__ import annotations

import json
import os
import re
import shutil
from contextlib import contextmanager
from html import unescape

from npu_dispatch_inspect.chains import join
from npu_dispatch_inspect.records import Phase
from npu_dispatch_inspect.traces.logs import LogTrace
from npu_dispatch_inspect.traces.ops import OpTrace
from npu_dispatch_inspect.traces.report import DispatchReport
from tests.report_examples import (
    AUTOCAST,
    DEVICE,
    FALLBACK,
    LINEAR,
    NPU,
    call,
    launch,
    tensor,
)

__all__ = [
    "CHROMIUM",
    "browser",
    "data_of",
    "details_of",
    "large_report",
    "rows_of",
    "words_of",
]

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
"""Debian's browser; None where it is not installed."""

ARGUMENTS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
MODULES = (
    ("self_attn.q_proj", "Linear"),
    ("self_attn.o_proj", "Linear"),
    ("mlp.up_proj", "Linear"),
    ("input_layernorm", "RMSNorm"),
)
LAYERS = 32


def data_of(page):
    """The table that a page holds."""
    text = re.search(
        r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL
    )[1]
    return json.loads(text)


def rows_of(page):
    """Each row as texts by column."""
    data = data_of(page)
    return [
        {
            column["key"]: data["strings"][column["ids"][row]]
            for column in data["columns"]
        }
        for row in range(len(data["number"]))
    ]


def details_of(page, row):
    """What is told about one row: title and texts."""
    data = data_of(page)
    strings = data["strings"]
    return [
        (strings[title], [[strings[text] for text in item] for item in items])
        for title, _, items in (data["parts"][part] for part in data["details"][row])
    ]


def words_of(page):
    """The upper part of a page as one line of plain text."""
    inside = re.search(
        r'<div class="overview">(.*?)</div>\n<p id="scriptless"', page, re.DOTALL
    )
    return unescape(re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", inside[1])))


@contextmanager
def browser():
    """Chromium, closed at the end."""
    from playwright.sync_api import sync_playwright

    # A folder of the user's own is not there in a container.
    environment = {**os.environ, "DBUS_SESSION_BUS_ADDRESS": "disabled:"}
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(
            executable_path=CHROMIUM, args=list(ARGUMENTS), env=environment
        )
        try:
            yield chromium
        finally:
            chromium.close()


def large_report(calls):
    """A report of so many calls: layers of modules, forward and backward, launches."""
    records, lines = [], []
    step = 0
    while len(records) + 6 <= calls:
        layer = step // len(MODULES) % LAYERS
        name, kind = MODULES[step % len(MODULES)]
        records += _step(
            len(records), step, f"model.layers.{layer}.{name}", kind, lines
        )
        step += 1
    while len(records) < calls:
        records.append(call(len(records), "aten::abs", NPU, {"self": tensor(1, 2)}, []))
    trace = OpTrace(records=records, environment=DEVICE, engine="dispatcher")
    logs = LogTrace(records=lines, environment=DEVICE)
    return DispatchReport(chains=join(trace, logs).chains, trace=trace, logs=logs)


def _step(start, step, module, kind, lines):
    """One module forward under autocast, a fallback now and then, one backward call."""
    rows = 8 + step % 50
    x, w, y = tensor(1, rows, 64), tensor(2, 64, 64), tensor(3, rows, 64)
    half = tensor(4, rows, 64, dtype="float16")
    where = {"module": module, "module_type": kind, "line": 5 + step % 60}
    inside = {"parent": start, "depth": 1, **where}
    lines += [
        launch(len(lines), "aclnnInplaceCopy", start + 1, half, x),
        launch(len(lines) + 1, "aclnnAddmm", start + 3, half, w, y),
        launch(len(lines) + 2, "aclnnMm", start + 5, y, w, x),
    ]
    seldom = (FALLBACK, "aten::digamma") if step % 500 == 7 else (NPU, "aten::silu")
    return [
        call(start, "aten::linear", AUTOCAST, {"input": x, "weight": w}, [y], **where),
        call(start + 1, "aten::_to_copy", NPU, {"self": x}, [half], **inside),
        call(start + 2, "aten::linear", LINEAR, {"input": half, "weight": w}, [y], **inside),
        call(start + 3, "aten::addmm", NPU, {"self": half, "mat1": w}, [y],
             parent=start + 2, depth=2, **where),
        call(start + 4, seldom[1], seldom[0], {"self": y}, [x], **where),
        call(start + 5, "aten::mm", NPU, {"self": y, "mat2": w}, [x], module=module,
             module_type=kind, phase=Phase.BACKWARD, forward_index=start + 3),
    ]  # fmt: skip
