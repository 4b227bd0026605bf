# SPDX-License-Identifier: BSD-3-Clause
"""A trace or a report as one HTML page that needs nothing else."""

from __future__ import annotations

import base64
import hashlib
import os
import re
from collections.abc import Callable
from functools import cache
from importlib import resources
from typing import Any, TypeAlias

from npu_dispatch_inspect.errors import RecordError, UsageError
from npu_dispatch_inspect.export._html_graphs import page_of_graph, page_of_graphs
from npu_dispatch_inspect.export._html_logs import page_of_logs
from npu_dispatch_inspect.export._html_model import Page, packed
from npu_dispatch_inspect.export._html_ops import page_of_report, page_of_trace
from npu_dispatch_inspect.export._html_overview import overview, text_of
from npu_dispatch_inspect.export._html_tables import page_of_table
from npu_dispatch_inspect.export._replacing import replacing
from npu_dispatch_inspect.records.graphs import CapturedGraph
from npu_dispatch_inspect.traces._deferred import Deferred
from npu_dispatch_inspect.traces.graphs import GraphSet
from npu_dispatch_inspect.traces.logs import LogTrace
from npu_dispatch_inspect.traces.ops import OpTrace
from npu_dispatch_inspect.traces.report import DispatchReport
from npu_dispatch_inspect.traces.tables import DispatchTable

__all__ = ["html_report", "write_html"]

SCRIPTS = ("data.js", "details.js", "table.js", "tree.js", "charts.js", "report.js")
Shown: TypeAlias = (
    DispatchReport | OpTrace | LogTrace | GraphSet | CapturedGraph | DispatchTable
)
_PAGES: tuple[tuple[type, Callable[[Any], Page]], ...] = (
    (DispatchReport, page_of_report),
    (OpTrace, page_of_trace),
    (LogTrace, page_of_logs),
    (GraphSet, page_of_graphs),
    (CapturedGraph, page_of_graph),
    (DispatchTable, page_of_table),
)


def html_report(x: Shown) -> str:
    """A page for a browser: the verdict, a module tree, and a table to search.

    The page is one file. It loads nothing, and a policy inside it forbids the
    browser to: it can be sent to a colleague and opened from a folder. Names from
    the program are only ever shown as text.

    Args:
        x: a report, an operator trace, torch_npu's log lines, captured
            graphs, or the dispatcher's tables.

    Returns:
        The page, pure ASCII.

    Raises:
        UsageError: there is no page for such an object.

    Example:
        >>> from npu_dispatch_inspect import Environment, OpTrace
        >>> from npu_dispatch_inspect.export.htmlpage import html_report
        >>> here = Environment(tool="0.1", python="3.11", platform="linux-x86_64")
        >>> html_report(OpTrace(environment=here))[:15]
        '<!doctype html>'
    """
    if isinstance(x, Deferred):
        # Inside a block that still runs, all of the page is about one moment.
        x = x._now()
    for kind, page_of in _PAGES:
        if isinstance(x, kind):
            return _written(page_of(x))
    msg = (
        "html_report takes a DispatchReport, an OpTrace, a LogTrace, a GraphSet, a "
        f"CapturedGraph or a DispatchTable, not {type(x).__name__}."
    )
    raise UsageError(msg)


def write_html(x: Shown, path: str | os.PathLike[str]) -> None:
    """Write `html_report` to a file.

    Args:
        x: what `html_report` takes.
        path: the file; one that is there is replaced.

    Raises:
        UsageError: there is no page for such an object.
        RecordError: the file cannot be written.
    """
    page = html_report(x)
    try:
        with replacing(os.fspath(path)) as file:
            file.write(page.encode("ascii"))
    except OSError as error:
        msg = f"{os.fspath(path)} cannot be written: {error.strerror}."
        raise RecordError(msg) from error


def _written(page: Page) -> str:
    style = _static("report.css")
    script = _script()
    parts = {
        "policy": (
            f"default-src 'none'; style-src {_hash(style)}; script-src {_hash(script)}; "
            "base-uri 'none'; form-action 'none'"
        ),
        "title": text_of(page.title),
        "style": style,
        "overview": overview(page),
        "data": packed(page),
        "script": script,
    }
    # In one pass: what is put in may contain what looks like a mark.
    return re.sub(
        r"\{\{ (\w+) \}\}", lambda mark: parts[mark[1]], _static("report.html")
    )


@cache
def _script() -> str:
    """The scripts as one: they share their names and nobody else sees them."""
    inside = "\n".join(_static(name) for name in SCRIPTS)
    return f'"use strict";\n{{\n{inside}}}\n'


@cache
def _static(name: str) -> str:
    home = resources.files("npu_dispatch_inspect.export") / "static"
    return (home / name).read_text(encoding="ascii")


def _hash(text: str) -> str:
    """By its hash alone the browser runs a script; no other can slip in."""
    digest = hashlib.sha256(text.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"
