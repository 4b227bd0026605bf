# SPDX-License-Identifier: BSD-3-Clause
"""How Sphinx builds these pages: ``sphinx-build -n -W -b html docs build/html``."""

from __future__ import annotations

import os
from importlib.metadata import version as installed_version
from pathlib import Path
from typing import Any

# Reading docstrings must not need a device, where torch_npu is installed.
os.environ.setdefault("TORCH_DEVICE_BACKEND_AUTOLOAD", "0")

project = "npu_dispatch_inspect"
copyright = "the npu_dispatch_inspect authors"  # noqa: A001 - Sphinx names it so
version = release = installed_version("npu-dispatch-inspect")

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["_build"]
# `name` in a docstring is code, as in Markdown.
default_role = "code"
# Links to headings work in these pages as in a browser of repositories.
myst_heading_anchors = 4

autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
autodoc_default_options = {"members": True}
# A record has as many arguments as fields: one line each.
maximum_signature_line_length = 80
# The page's own list of names is its table of contents; methods would drown it.
toc_object_entries_show_parents = "hide"
napoleon_numpy_docstring = False

nitpick_ignore_regex = [
    # Their inventories would have to be fetched from the network to link to them.
    ("py:.*", r"(torch|os|re|collections|types|pathlib|array|pd|pl|pa)(\..*)?"),
    # Names for types, and type variables: the signature says what they stand for.
    (
        "py:class",
        r"(.*\.)?(T|Alignment|Ignored|Level|LogSource|Key|Value|Words|_WithArguments)",
    ),
    # Private classes: what patterns, comparisons and tables are made of inside.
    ("py:class", r"npu_dispatch_inspect\..*\b_\w+(\.\w+)?"),
]

html_theme = "furo"
pygments_dark_style = "github-dark"
html_title = "npu_dispatch_inspect"
html_static_path = ["_static"]
html_css_files = ["wide.css"]
html_show_sourcelink = False
html_copy_source = False


# Stands for a colon while napoleon looks at a docstring; no docstring has it.
COLON = "\ue000"


def _hide_colons(
    _app: Any, what: str, _name: str, _object: Any, _options: Any, lines: list[str]
) -> None:
    """Keep napoleon from taking the words before a colon for a type.

    Types are in the signatures; a docstring gives none, neither of an attribute
    nor of what is returned.
    """
    inside = is_value = what in ("attribute", "property", "data")
    for number, line in enumerate(lines):
        if not is_value and line[:1].strip():
            inside = line in ("Returns:", "Yields:")
        elif inside:
            lines[number] = line.replace(":", COLON)


def _show_colons(
    _app: Any, _what: str, _name: str, _object: Any, _options: Any, lines: list[str]
) -> None:
    """Put back what `_hide_colons` took away."""
    lines[:] = [line.replace(COLON, ":") for line in lines]


def _put_changelog(_app: Any, docname: str, source: list[str]) -> None:
    """The page that links to the changelog becomes the changelog."""
    if docname == "changelog":
        changelog = Path(__file__).parent.parent / "CHANGELOG.md"
        source[0] = changelog.read_text(encoding="utf-8")


def setup(app: Any) -> None:
    """Connect the functions above."""
    # Napoleon comes in between, at 500.
    app.connect("autodoc-process-docstring", _hide_colons, priority=400)
    app.connect("autodoc-process-docstring", _show_colons, priority=600)
    app.connect("source-read", _put_changelog)
