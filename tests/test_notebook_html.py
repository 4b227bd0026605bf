# SPDX-License-Identifier: BSD-3-Clause
"""What a notebook shows: HTML that is whole, escaped, capped and needs no network."""

from __future__ import annotations

import re
import sys
from html.parser import HTMLParser

import pytest

from npu_dispatch_inspect import (
    CallNode,
    LogTrace,
    OpRecord,
    OpTrace,
    SourceLocation,
)
from npu_dispatch_inspect.display.document import Counts, Line, Listing, Title, span
from npu_dispatch_inspect.display.notebook import html
from npu_dispatch_inspect.records import LogRecord
from tests.view_examples import HERE, examples, long_trace

EXAMPLES = examples()
VOID = {"br", "hr", "img", "input", "meta", "link"}


class Page(HTMLParser):
    """The tags, attributes and text of some HTML; fails where a tag is left open."""

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.attributes, self.said = [], [], [], []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if "style" not in self.open:
            self.said.append(data)

    @property
    def text(self):
        """The words, a space between any two pieces."""
        return " ".join(" ".join(self.said).split())


def page_of(shown):
    """The HTML of an object, parsed."""
    return Page(shown._repr_mimebundle_()["text/html"])


@pytest.mark.parametrize("name", EXAMPLES)
def test_whole_and_alone(name):
    """Every tag is closed, and nothing is loaded, run or linked."""
    text = EXAMPLES[name]._repr_mimebundle_()["text/html"]
    page = Page(text)
    assert {"script", "img", "link", "iframe", "a"} & set(page.tags) == set()
    assert {key for key, _ in page.attributes} <= {
        "class", "style", "open", "title", "colspan",
    }  # fmt: skip
    assert re.search(r"https?:|url\(|@import|javascript:", text) is None


@pytest.mark.parametrize("name", EXAMPLES)
def test_both_forms(name):
    """Plain text goes along for a viewer that shows no HTML; include and exclude count."""
    shown = EXAMPLES[name]
    assert sorted(shown._repr_mimebundle_()) == ["text/html", "text/plain"]
    assert shown._repr_mimebundle_()["text/plain"] == str(shown)
    assert list(shown._repr_mimebundle_(include={"text/plain"})) == ["text/plain"]
    assert list(shown._repr_mimebundle_(exclude=["text/plain"])) == ["text/html"]


def words_of(text):
    """The names in a text that a reader would look for."""
    return set(re.findall(r"(?:aten|npu)::[\w.]+|aclnn\w+|net\.py:\d+", text))


@pytest.mark.parametrize("name", sorted(set(EXAMPLES) - {"long_trace"}))
def test_nothing_of_the_text_is_missing(name):
    """Every operator, launch and line of the text is in the HTML as well."""
    assert words_of(str(EXAMPLES[name])) <= words_of(page_of(EXAMPLES[name]).text)


def test_everything_is_escaped():
    """Names, modules, files and labels are text, whatever is in them."""
    evil = "<script>alert(1)</script>&\"'"
    record = OpRecord(
        index=0,
        name=f"aten::{evil}",
        module=evil,
        module_type="<b>",
        source=SourceLocation(file=f"/a/{evil}.py", line=1, function=evil),
    )
    trace = OpTrace(records=[record], environment=HERE, label=evil, notes=(evil,))
    for shown in (trace, trace.tree(), trace.flow(record), CallNode(record=record)):
        page = page_of(shown)
        assert "script" not in page.tags
        assert evil in page.text
    text = html((
        Title(name=evil, facts=(evil,)),
        Counts(title=evil, items=((evil, 1, ""),)),
        Listing(title=evil, count=1, entries=(Line(spans=(span(evil),)),)),
    ))  # fmt: skip
    assert Page(text).text.count(evil) == 6
    assert "<script" not in text


def test_rows_are_capped():
    """A thousand calls are shown as a hundred and eighty rows and a number."""
    page = page_of(long_trace())
    assert page.tags.count("tr") == 1 + 150 + 1 + 30
    assert "... 820 more" in page.text
    assert "1000 operator calls" in page.text
    assert len(long_trace(100_000)._repr_mimebundle_()["text/html"]) < 60_000


def test_deep_trees_are_shown():
    """Calls nested deeper than Python's own limit can be shown, as far as rows go."""
    depth = sys.getrecursionlimit() + 500
    records = [
        OpRecord(index=n, name="aten::t", parent=n - 1 if n else None, depth=n)
        for n in range(depth)
    ]
    trace = OpTrace(records=records, environment=HERE)
    tree = page_of(trace.tree())
    assert tree.tags.count("details") == 500
    assert "... 1 more" in tree.text
    assert page_of(trace).tags.count("details") > 150


def test_calls_fold():
    """A call with calls inside is a `details`, open; the others are plain rows."""
    page = page_of(EXAMPLES["call_tree"])
    assert page.tags.count("details") == 1
    assert ("open", None) in page.attributes


def test_log_lines_are_not_obeyed():
    """Escape codes and markup of a log's foreign lines reach nobody."""
    lines = [LogRecord(index=0, offset=0, text="\x1b[2J<img src=x>\n")]
    text = LogTrace(records=lines)._repr_mimebundle_()["text/html"]
    assert "\x1b" not in text
    assert "img" not in Page(text).tags


def test_both_themes():
    """Colours follow what the page says of its theme, else what the system prefers."""
    text = EXAMPLES["trace"]._repr_mimebundle_()["text/html"]
    for theme in (
        "@media (prefers-color-scheme: dark)",
        '[data-jp-theme-light="true"] .ndi',
        '[data-jp-theme-light="false"] .ndi',
        '[data-theme="dark"] .ndi',
        ".vscode-dark .ndi",
    ):
        assert theme in text
    used = set(re.findall(r"var\((--ndi-[\w-]+)", text))
    blocks = re.findall(r"\{([^{}]*--ndi-fg:[^{}]*)\}", text)
    assert len(blocks) == 4
    for block in blocks:
        assert used == set(re.findall(r"(--ndi-[\w-]+):", block))
