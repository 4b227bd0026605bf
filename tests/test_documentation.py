# SPDX-License-Identifier: BSD-3-Clause
"""Every code block of every page and every docstring's example runs."""

from __future__ import annotations

import doctest
import inspect
import pkgutil
import re
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest

import npu_dispatch_inspect
from npu_dispatch_inspect import Verdict, records

pytest.importorskip("sybil", reason="sybil is not installed")
from tests import documents

ROOT = documents.ROOT
PAGES = documents.pages()
# Pages that only show what other tests run, or what nobody can run here.
NOT_RUN = {
    "README.md": ["run by .ci/run on a fresh machine"] * 2,
    "docs/colleagues_log.md": ["needs an NPU"],
    "docs/contributing.md": [
        "run by .ci/run on a fresh machine",
        "rewrites the page",
    ],
    "docs/getting_started.md": ["installs packages"],
    "docs/standin.md": ["installs packages"],
    "docs/zh/quickstart.md": ["installs packages", "needs an NPU"],
}
NEEDS_NPU = re.compile(r"\bnpu\(\)|npu:\d|torch_npu|stand-in|standin")


def _text(page):
    return (ROOT / page).read_text(encoding="utf-8")


OWN_PROCESS = [page for page in PAGES if documents.OWN_PROCESS in _text(page)]


def _code(page):
    return "\n".join(
        source for language, source, _ in documents.blocks(page) if language != "text"
    )


def _marked(name, code):
    """A test's parameter; it carries the mark npu where the code needs one."""
    marks = [pytest.mark.npu] if NEEDS_NPU.search(code) else []
    return pytest.param(name, marks=marks)


@pytest.mark.parametrize(
    "page", [_marked(each, _code(each)) for each in PAGES if each not in OWN_PROCESS]
)
def test_page(page, tmp_path, monkeypatch):
    """The blocks of a page run in order and print what it shows; few are left out."""
    pytest.importorskip("torch")
    documents.prepare(tmp_path)
    monkeypatch.chdir(tmp_path)
    assert documents.run(page) == NOT_RUN.get(page, [])


@pytest.mark.npu
def test_pages_in_new_processes(tmp_path):
    """So do those of pages that load the stand-in, or show numbers of a process."""
    expected = {page: NOT_RUN.get(page, []) for page in OWN_PROCESS}
    assert documents.run_in_new_processes(OWN_PROCESS, tmp_path) == expected


def test_files_on_pages_are_used():
    """A block that a page writes to a file is used by a command or test of it."""
    for page in PAGES:
        blocks = documents.blocks(page)
        commands = "".join(
            source for language, source, _ in blocks if language in ("bash", "console")
        )
        named = {
            marks["file"].partition(",")[0].strip()
            for _, _, marks in blocks
            if "file" in marks
        }
        # tests/test_unittest_use.py runs the files of that page.
        if page != "docs/testing.md":
            assert {each for each in named if each not in commands} == set(), page


def _anchors(text):
    """The anchors that a browser of repositories and MyST give to headings."""
    headings = re.findall(
        r"^#+ (.+)$", re.sub(r"(?s)```.*?```", "", text), re.MULTILINE
    )
    return {
        re.sub(r"[^\w\- ]", "", each.lower().replace("`", "")).replace(" ", "-")
        for each in headings
    }


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page):
    """Every link to a file leads to one of this project, and its anchor is there."""
    text = re.sub(r"(?s)^```.*?^```", "", _text(page), flags=re.MULTILINE)
    lost = []
    for link in re.findall(r"\]\((?!https?:|mailto:)([^)\s]+)\)", text):
        file, _, anchor = link.partition("#")
        target = (ROOT / page).parent / file if file else ROOT / page
        if not target.exists() or (
            anchor and anchor not in _anchors(target.read_text(encoding="utf-8"))
        ):
            lost.append(link)
    assert lost == []


def test_every_room_is_described():
    """The architecture page lists each package and module once, and none that is gone."""
    text = _text("docs/architecture.md")
    package = Path(npu_dispatch_inspect.__file__).parent
    listed = [
        room.rstrip("/")
        for row in re.findall(r"^\| (`.+?) \|", text, re.MULTILINE)
        for room in re.findall(r"`(.+?)`", row)
    ]
    rooms = [
        each.name
        for each in package.iterdir()
        if each.name != "__pycache__" and (each.is_dir() or each.suffix == ".py")
    ]
    found = [each.name for room in listed for each in package.glob(room)]
    assert sorted(each for each in found if each in rooms) == sorted(rooms)
    named = [*listed, *re.findall(r"`([\w/]+\.py)`", text)]
    places = (
        package,
        package / "capture",
        package / "display",
        package / "export",
        ROOT,
    )
    assert [
        each for each in named if not any(any(place.glob(each)) for place in places)
    ] == []


def test_readme_commands_are_marked():
    """The two commands that CI takes from the README are there, one line each."""
    commands = re.findall(
        r"<!-- command: (\w+) -->\n```bash\n(.+?)\n```", _text("README.md"), re.DOTALL
    )
    assert [name for name, _ in commands] == ["demo", "tests"]
    assert all("\n" not in command for _, command in commands)


def test_every_page_is_in_the_contents():
    """Each page can be reached from the index, as Sphinx asks, and from no other."""
    index = _text("docs/index.md")
    trees = "\n".join(re.findall(r"(?s)```\{toctree\}\n(.*?)```", index))
    listed = re.findall(r"^(?:.*<)?([\w/]+)>?$", trees, re.MULTILINE)
    below = re.findall(
        r"^(?:.*<)?([\w/]+)>?$",
        "\n".join(
            re.findall(
                r"(?s)```\{toctree\}\n(.*?)```", _text("docs/reference/index.md")
            )
        ),
        re.MULTILINE,
    )
    listed += [f"reference/{each}" for each in below]
    wanted = [
        page.removeprefix("docs/").removesuffix(".md")
        for page in PAGES
        if page.startswith("docs/") and page != "docs/index.md"
    ]
    assert sorted(listed) == sorted(wanted)


def test_every_public_name_is_in_the_reference():
    """The reference documents what __all__ names, each name once, and all records."""
    pages = "".join(_text(page) for page in PAGES if "/reference/" in page)
    documented = re.findall(
        r"^\.\. auto\w+:: npu_dispatch_inspect\.([\w.]+)$", pages, re.MULTILINE
    )
    public = [each for each in documented if "." not in each]
    assert sorted(public) == sorted(npu_dispatch_inspect.__all__)
    known = {each.rpartition(".")[2] for each in documented}
    kinds = {
        each for each in records.__all__ if isinstance(getattr(records, each), type)
    }
    assert kinds - known == set()


def test_every_verdict_is_explained():
    """The page about inspection explains each verdict by its name."""
    table = _text("docs/inspect.md").split("## Verdicts")[1].split("##")[0]
    assert {each.name for each in Verdict} <= set(re.findall(r"`(\w+)`", table))


def _modules():
    """Modules of the package in which an example stands."""
    home = Path(npu_dispatch_inspect.__file__).parent
    for each in pkgutil.walk_packages([str(home)], "npu_dispatch_inspect."):
        spec = find_spec(each.name)
        text = Path(spec.origin).read_text(encoding="utf-8")
        if ">>> " in text:
            yield _marked(each.name, "\n".join(re.findall(r"(?:>>>|\.\.\.) .*", text)))


@pytest.mark.parametrize("module", list(_modules()))
def test_docstrings(module, tmp_path, monkeypatch):
    """Each docstring's example runs alone and prints what it shows."""
    pytest.importorskip("torch")
    documents.prepare(tmp_path)
    monkeypatch.chdir(tmp_path)
    told = []
    runner = doctest.DocTestRunner(verbose=False, optionflags=documents.DOCTEST_OPTIONS)
    # Without the module's own names, so that an example shows all it needs.
    found = [
        each
        for each in doctest.DocTestFinder().find(import_module(module), globs={})
        if each.examples
    ]
    for each in found:
        each.globs["__name__"] = "__main__"
        runner.run(each, out=told.append)
    assert found
    assert "".join(told) == ""
    skipped = [each.name for each in found if "+SKIP" in (each.docstring or "")]
    assert skipped == []


def _is_value(name):
    value = getattr(npu_dispatch_inspect, name)
    return not (isinstance(value, type) or callable(value))


@pytest.mark.parametrize(
    "name", [each for each in npu_dispatch_inspect.__all__ if not _is_value(each)]
)
def test_every_public_name_has_an_example(name):
    """What can be called says what it takes, gives and raises, by an example too."""
    value = getattr(npu_dispatch_inspect, name)
    text = inspect.getdoc(value)
    assert ">>> " in text
    if inspect.isfunction(value):
        taken = inspect.signature(value).parameters
        assert [each for each in taken if not re.search(rf"\b{each}:", text)] == []
