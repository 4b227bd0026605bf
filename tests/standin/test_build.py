# SPDX-License-Identifier: BSD-3-Clause
"""Building: once, with any compiler, safe against kills, crowds and damage."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.command_line import PATIENCE, wait_until

from .conftest import clean_environment

pytestmark = pytest.mark.npu

LOAD = "from npu_dispatch_inspect import standin; print(standin.load().folder)"

TRY = """
from npu_dispatch_inspect import standin
from npu_dispatch_inspect.errors import StandInError
from npu_dispatch_inspect.standin import build
{before}
try:
    standin.load()
except StandInError as error:
    print(error)
else:
    print("loaded")
"""


@pytest.fixture(name="cache")
def cache_fixture(tmp_path):
    """An empty cache folder."""
    return tmp_path / "cache"


@pytest.fixture(name="built")
def built_fixture(run, cache):
    """The folder of a finished build in the cache, copied from the usual one."""
    usual = Path(run(LOAD).out.strip())
    folder = cache / "standin" / usual.name
    shutil.copytree(usual, folder)
    return folder


@pytest.fixture(name="attempt")
def attempt_fixture(run, cache):
    """Return what load() says with an empty cache."""

    def attempt(before="", **env):
        env = {"NPU_DISPATCH_INSPECT_CACHE": cache, **env}
        return run(TRY.replace("{before}", before), **env).out.strip()

    return attempt


def script(path, text):
    """Write an executable shell script and return its path."""
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def builds(cache):
    """Names of what lies in the cache: finished builds, and what is being built."""
    names = {path.name for path in (cache / "standin").iterdir()} - {".lock"}
    return (
        [name for name in names if name.startswith("torch_npu-")],
        [name for name in names if not name.startswith("torch_npu-")],
    )


def test_a_build_is_made_once_and_found_again(run, cache):
    """The second process uses the first one's build, without any compiler."""
    first = run(LOAD, NPU_DISPATCH_INSPECT_CACHE=cache)
    second = run(LOAD, NPU_DISPATCH_INSPECT_CACHE=cache, PATH="/nowhere")
    assert first.out == second.out
    finished, left = builds(cache)
    assert len(finished) == 1
    assert left == []


def test_a_changed_build_is_another_one(run, cache, built):
    """The build's name follows from all that went into it, so nothing stale is used."""
    change = "from npu_dispatch_inspect.standin import build; build._FLAGS += ('-DX',);"
    changed = run(change + LOAD, NPU_DISPATCH_INSPECT_CACHE=cache)
    assert changed.out.strip() != str(built)
    assert len(builds(cache)[0]) == 2


def test_the_manifest_says_what_is_provided(built):
    """Every function torch_npu asks for is listed next to the libraries."""
    manifest = json.loads((built / "manifest.json").read_text(encoding="utf-8"))
    assert {"aclrtMalloc", "aclnnAddmm", "HcclAllReduce"} <= set(manifest["symbols"])
    assert {"libascendcl.so", "libhccl.so", "libopapi.so"} <= set(manifest["libraries"])


def test_a_build_that_was_killed_is_not_used(run, cache, tmp_path):
    """After SIGKILL in the middle of compiling, the next process builds anew."""
    marker = tmp_path / "compiling"
    slow = script(
        tmp_path / "slow-cc",
        f'for last; do case "$last" in */lib64/*) echo half > "$last"; esac; done\n'
        f"touch {marker}; exec sleep 600",
    )
    process = subprocess.Popen(
        [sys.executable, "-c", LOAD],
        env=clean_environment(NPU_DISPATCH_INSPECT_CACHE=cache, CC=slow),
        start_new_session=True,
    )
    assert wait_until(marker.exists)
    os.killpg(process.pid, signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    finished, left = builds(cache)
    assert finished == []
    assert len(left) == 1
    assert run(LOAD, NPU_DISPATCH_INSPECT_CACHE=cache).out.strip()
    assert len(builds(cache)[0]) == 1


def test_left_overs_of_killed_builds_are_swept(run, cache):
    """A scratch folder nobody has touched for hours goes with the next build."""
    old, new = (cache / "standin" / f".building-{name}" for name in ("old", "new"))
    for folder in old, new:
        folder.mkdir(parents=True)
    os.utime(old, (0, 0))
    run(LOAD, NPU_DISPATCH_INSPECT_CACHE=cache)
    assert not old.exists()
    assert new.exists()


@pytest.mark.parametrize("damage", ["truncate", "remove", "manifest"])
def test_a_damaged_build_is_replaced(run, cache, built, damage):
    """A library or manifest that is not as it was written is built again."""
    library = built / "lib64" / "libhccl.so"
    size = library.stat().st_size
    if damage == "truncate":
        os.truncate(library, 100)
    elif damage == "remove":
        library.unlink()
    else:
        os.truncate(built / "manifest.json", 20)
    assert run(LOAD, NPU_DISPATCH_INSPECT_CACHE=cache).out.strip() == str(built)
    assert library.stat().st_size == size
    assert builds(cache)[1] == []


def test_four_processes_may_build_at_once(cache):
    """Processes that start together with an empty cache all load, and leave one build."""
    crowd = [
        subprocess.Popen(
            [sys.executable, "-c", LOAD],
            env=clean_environment(NPU_DISPATCH_INSPECT_CACHE=cache),
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(4)
    ]
    said = [process.communicate(timeout=PATIENCE)[0] for process in crowd]
    assert [process.returncode for process in crowd] == [0, 0, 0, 0]
    assert len(set(said)) == 1
    assert builds(cache) == ([Path(said[0].strip()).name], [])


def test_without_a_compiler_the_message_says_how_to_get_one(attempt, tmp_path):
    """Neither cc, gcc, clang nor ziglang: one sentence with two ways out."""
    said = attempt("build.find_spec = lambda name: None", PATH=tmp_path)
    assert said == (
        "The stand-in needs a C compiler and found neither cc, gcc nor clang; install "
        "one, or one from PyPI with: pip install ziglang"
    )


def test_ziglang_is_the_compiler_of_last_resort(attempt, tmp_path):
    """With no compiler on the path, an installed ziglang is called as a module."""
    package = tmp_path / "site" / "ziglang"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "__main__.py").write_text(
        "import sys; sys.exit(f'zig got {sys.argv[1]}')"
    )
    said = attempt(
        f"import os, sys; sys.path.append({str(package.parent)!r});"
        f"os.environ['PYTHONPATH'] = {str(package.parent)!r}",
        PATH=tmp_path,
    )
    assert said.startswith("Compiling the stand-in failed")
    assert said.endswith("zig got cc")


def test_cc_names_the_compiler(attempt):
    """A compiler named in CC is used, and one that does not exist is named."""
    said = attempt(CC="no-such-compiler -m64")
    assert "named in CC (no-such-compiler -m64) was not found" in said


def test_what_the_compiler_said_is_passed_on(attempt, tmp_path):
    """A failed compilation shows the command and the compiler's own words."""
    broken = script(tmp_path / "broken-cc", "echo 'ld: no room' >&2; exit 3")
    said = attempt(CC=broken)
    assert said.startswith("Compiling the stand-in failed (set CC to another compiler")
    assert str(broken) in said
    assert said.endswith("ld: no room")


def test_a_compiler_that_leaves_names_out_is_noticed(attempt, tmp_path):
    """A library that lacks functions torch_npu asks for is refused, with their names."""
    careless = script(
        tmp_path / "careless-cc",
        'for a; do case "$a" in */names.c) sed -i "/aclnnAddmm\\b/d" "$a"; esac; done\n'
        'exec cc "$@"',
    )
    said = attempt(CC=careless)
    assert "lacks what torch_npu" in said
    assert "asks for: aclnnAddmm;" in said


def test_an_unwritable_cache_is_named(attempt, tmp_path):
    """Where nothing can be written, the message names folder and variable."""
    blocked = tmp_path / "file"
    blocked.touch()
    said = attempt(NPU_DISPATCH_INSPECT_CACHE=blocked)
    assert said.startswith(f"The stand-in cannot write to its cache folder {blocked}")
    assert "set NPU_DISPATCH_INSPECT_CACHE to a folder that can be written" in said


def test_a_read_only_cache_is_named(attempt, cache):
    """A folder without permission to write is reported like any other failure."""
    cache.mkdir()
    cache.chmod(0o500)
    if os.access(cache, os.W_OK):
        pytest.skip("this user may write everywhere")
    assert "cannot write to its cache folder" in attempt()


def test_the_users_cache_is_the_default(run, tmp_path):
    """Unless told otherwise, builds go below the user's cache folder."""
    done = run(
        "from npu_dispatch_inspect.standin import build; print(build.cache_folder())",
        NPU_DISPATCH_INSPECT_CACHE="",
        XDG_CACHE_HOME=tmp_path,
    )
    assert done.out.strip() == str(tmp_path / "npu-dispatch-inspect" / "standin")
