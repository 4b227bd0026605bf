# SPDX-License-Identifier: BSD-3-Clause
"""Which description belongs to which object, and the ways to show it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any

from npu_dispatch_inspect.display.document import Document
from npu_dispatch_inspect.display.layout import Styled, lines, plain_text

__all__ = ["describe", "html_of", "knows", "styled_lines", "text_of"]

VIEWS = {
    "CallNode": "ops.call_tree",
    "CapturedGraph": "graphs.graph",
    "CallTree": "ops.call_tree",
    "ChainNode": "reports.chain",
    "Comparison": "comparisons.comparison",
    "Coverage": "paths.coverage",
    "DispatchReport": "reports.report",
    "DispatchTable": "tables.table",
    "Explanation": "paths.explanation",
    "Flow": "ops.flow",
    "GraphSet": "graphs.graph_set",
    "LogSummary": "logs.summary",
    "LogTrace": "logs.log_trace",
    "OpTrace": "ops.op_trace",
    "OperatorEntry": "tables.entry",
    "OverloadGroup": "tables.overloads",
    "PredictedCall": "paths.predicted",
    "RegistrationTrace": "paths.registration_trace",
    "TableChanges": "tables.changes",
}
"""Class and the function that describes it, in this package."""


def describe(shown: Any, *, html: bool = False) -> Document:
    """The parts that make up the text of an object.

    Args:
        shown: an object that prints itself.
        html: with the parts that only a notebook has room for.
    """
    module, _, function = _view(type(shown)).rpartition(".")
    package = __name__.rpartition(".")[0]
    view: Callable[..., Document] = getattr(
        import_module(f"{package}.{module}"), f"{function}_document"
    )
    return view(shown, html=html)


def _view(kind: type) -> str:
    for each in kind.__mro__:
        view = VIEWS.get(each.__name__)
        if view is not None:
            return view
    msg = f"nothing here describes a {kind.__name__}"
    raise TypeError(msg)


def knows(shown: object) -> bool:
    """Whether an object has a description."""
    return any(each.__name__ in VIEWS for each in type(shown).__mro__) and hasattr(
        shown, "_repr_mimebundle_"
    )


def text_of(shown: Any, *, width: int | None = None) -> str:
    """The plain text of an object."""
    return plain_text(describe(shown), width=width)


def styled_lines(shown: Any, width: int) -> Iterator[Styled]:
    """The lines for a terminal of some width."""
    return lines(describe(shown), width, wrap=True)


def html_of(shown: Any) -> str:
    """The HTML for a notebook."""
    from npu_dispatch_inspect.display.notebook import html

    return html(describe(shown, html=True))
