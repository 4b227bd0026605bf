# SPDX-License-Identifier: BSD-3-Clause
"""The package as a whole: light to import, its public names, its metadata."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from importlib.metadata import metadata, requires, version
from pathlib import Path

import pytest

import npu_dispatch_inspect

ROOT = Path(__file__).parent.parent


def run(code):
    """Standard output of ``code`` in a fresh interpreter, started in this folder."""
    return subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
    ).stdout


def test_import_is_light():
    """Importing the package imports neither torch nor torch_npu nor attrs."""
    heavy = run(
        "import sys, npu_dispatch_inspect as n\n"
        "print(*sorted({'torch', 'torch_npu', 'attrs', 'numpy'} & set(sys.modules)))"
    )
    assert heavy.split() == []


def test_records_and_text_need_no_torch():
    """Records, traces and their text work where torch cannot be imported."""
    shown = run(
        "import sys; sys.modules['torch'] = None\n"
        "from npu_dispatch_inspect import OpRecord, OpTrace, Environment\n"
        "e = Environment(tool='0', python='3', platform='x')\n"
        "print(OpTrace(records=[OpRecord(index=0, name='aten::t')], environment=e))"
    )
    assert "aten::t" in shown
    assert shown.endswith("1 operator call\n")


@pytest.mark.parametrize("name", npu_dispatch_inspect.__all__)
def test_every_public_name_loads_and_is_documented(name):
    """Each name of __all__ can be had and says what it is."""
    value = getattr(npu_dispatch_inspect, name)
    if callable(value) or isinstance(value, type):
        assert value.__doc__


def test_public_names_are_listed_once():
    """__all__ and the table of homes hold the same names, and dir() shows them."""
    assert sorted(npu_dispatch_inspect.__all__) == sorted(npu_dispatch_inspect._HOMES)
    assert set(npu_dispatch_inspect.__all__) <= set(dir(npu_dispatch_inspect))


def test_unknown_name():
    """A name that does not exist is an AttributeError, as for any module."""
    with pytest.raises(AttributeError, match="no attribute 'trace_opps'"):
        npu_dispatch_inspect.trace_opps  # noqa: B018


def test_version_is_that_of_the_changelog():
    """The newest entry of the changelog is the installed version."""
    changelog = (ROOT / "CHANGELOG.md").read_text()
    newest = re.search(r"^## \[(.+?)\]", changelog, re.MULTILINE)
    assert newest is not None
    assert newest[1] == version("npu-dispatch-inspect")
    assert npu_dispatch_inspect.__version__ == newest[1]


def test_hard_dependencies_are_few():
    """torch, attrs and cattrs are required, torch_npu never is."""
    hard = {
        re.split(r"[><=;\s\[]", each)[0]
        for each in requires("npu-dispatch-inspect")
        if "extra ==" not in each
    }
    assert hard == {"attrs", "cattrs", "torch"}


def test_torch_has_no_upper_bound():
    """A cap would make pip replace a build the user chose."""
    bounds = [
        each
        for each in requires("npu-dispatch-inspect")
        if each.startswith("torch") and "extra" not in each
    ]
    assert bounds == ["torch>=2.6"]
    assert metadata("npu-dispatch-inspect")["Requires-Python"] == ">=3.10"


def test_modules_are_short():
    """A module that needs more than 400 lines has a second reason to be."""
    package = Path(npu_dispatch_inspect.__file__).parent
    lines = {
        path.relative_to(package).as_posix(): path.read_text("utf-8").count("\n")
        for path in package.rglob("*.py")
    }
    assert [name for name, count in lines.items() if count > 400] == []


def private_torch(tree):
    """Names of torch's private API in a module, operators and their names aside."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            name = ast.unparse(node)
        elif isinstance(node, ast.ImportFrom):
            name = node.module or ""
        elif isinstance(node, ast.Import):
            name = " ".join(each.name for each in node.names)
        else:
            continue
        if name.startswith("torch.ops."):
            continue
        if re.search(r"^torch\.(?:\w+\.)*_[a-zA-Z]", name):
            yield name


def test_private_api_of_torch_is_used_in_one_room():
    """What may change with any release of torch stands in _torch_private alone."""
    package = Path(npu_dispatch_inspect.__file__).parent
    found = {
        (path.relative_to(package).as_posix(), name)
        for path in package.rglob("*.py")
        if "_torch_private" not in path.parts
        for name in private_torch(ast.parse(path.read_text(encoding="utf-8")))
    }
    assert found == set()
