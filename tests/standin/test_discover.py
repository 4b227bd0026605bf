# SPDX-License-Identifier: BSD-3-Clause
"""What a wheel needs is read from its shared objects."""

from __future__ import annotations

import shutil
import subprocess
from importlib.util import find_spec
from pathlib import Path

import pytest

from npu_dispatch_inspect.errors import StandInError
from npu_dispatch_inspect.standin.discover import discover, exports

needs_cc = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")


def compile_library(path, source, *options):
    """Compile a shared object from a few lines of C."""
    path.parent.mkdir(parents=True, exist_ok=True)
    code = path.with_suffix(".c")
    code.write_text(source)
    subprocess.run(
        ["cc", "-shared", "-fPIC", "-O1", str(code), "-o", str(path),
         f"-Wl,-soname,{path.name}", *map(str, options)],
        check=True,
    )  # fmt: skip


@pytest.fixture(name="wheel")
def wheel_fixture(tmp_path):
    """A wheel in miniature, with the torch and the CANN it was linked against."""
    torch, npu, cann = (tmp_path / name for name in ("torch", "torch_npu", "cann"))
    compile_library(torch / "lib" / "libc10.so", "void c10_warn(void) {}")
    compile_library(cann / "libascendcl.so", "void aclInit(void) {}")
    compile_library(cann / "libgraph.so", "void _ZN2ge8OperatorD1Ev(void) {}")
    compile_library(npu / "lib" / "libhelp.so", "void help(void) {}")
    compile_library(
        npu / "lib" / "libtorch_npu.so",
        """
        #include <dlfcn.h>
        #include <stdio.h>
        void aclInit(void), _ZN2ge8OperatorD1Ev(void), c10_warn(void), help(void);
        void maybe(void) __attribute__((weak));
        const char *names[] = {
            "aclnnFoo", "aclnnFooGetWorkspaceSize", "HcclFoo", "aclrtFoo", "acl",
            "aclnn Foo", "Ascend910B1", "libopapi", "prefix_aclrtBar",
        };
        void *start(const char *name)
        {
            aclInit(); _ZN2ge8OperatorD1Ev(); c10_warn(); help();
            if (maybe) maybe();
            puts(name);
            return dlsym(0, name);
        }
        """,
        "-Wl,--no-as-needed", "-Wl,--allow-shlib-undefined",
        npu / "lib" / "libhelp.so", torch / "lib" / "libc10.so",
        cann / "libascendcl.so", cann / "libgraph.so",
    )  # fmt: skip
    return npu, torch


@needs_cc
def test_libraries_nobody_provides_are_cann(wheel):
    """Neither the wheel's, torch's nor the system's libraries are stood in for."""
    assert discover(*wheel).libraries == (
        "libascendcl.so",
        "libgraph.so",
        "libopapi.so",
    )


@needs_cc
def test_symbols_nobody_defines_and_names_looked_up_are_needed(wheel):
    """Undefined symbols and looked-up names are found; weak and foreign ones are not."""
    assert discover(*wheel).symbols == (
        "HcclFoo",
        "_ZN2ge8OperatorD1Ev",
        "aclInit",
        "aclnnFoo",
        "aclnnFooGetWorkspaceSize",
        "aclrtBar",
        "aclrtFoo",
    )


@needs_cc
def test_device_names_are_found(wheel):
    """The devices a wheel knows are among its constants."""
    assert discover(*wheel).devices == ("Ascend910B1",)


@needs_cc
def test_exports_are_what_others_can_use(wheel):
    """Defined symbols are listed, undefined ones are not."""
    npu, _ = wheel
    names = exports(npu / "lib" / "libtorch_npu.so")
    assert "start" in names
    assert not {"aclInit", "maybe", "dlsym"} & names


def test_an_incomplete_wheel_is_named(tmp_path):
    """Without libtorch_npu.so there is nothing to read, and the message says so."""
    with pytest.raises(StandInError, match=r"No libtorch_npu\.so in .*; reinstall"):
        discover(tmp_path, tmp_path)


@pytest.mark.npu
def test_the_installed_wheel_asks_for_whole_operators():
    """Each operator of the real wheel comes with the function that prepares it."""
    folders = [
        Path(find_spec(name).submodule_search_locations[0])
        for name in ("torch_npu", "torch")
    ]
    needs = discover(*folders)
    operators = {name for name in needs.symbols if name.startswith("aclnn")}
    prepared = {name for name in operators if name + "GetWorkspaceSize" in operators}
    assert len(prepared) > 500
    assert {"aclnnAddmm", "aclnnInplaceCopy", "aclnnFlashAttentionScore"} <= prepared
    assert {"aclInit", "aclrtMalloc", "aclGetViewShape"} <= set(needs.symbols)
    assert not {"dlsym", "memcpy", "PyErr_Occurred", "__gmon_start__"} & set(
        needs.symbols
    )
    assert {"Ascend910B1", "Ascend910B4", "Ascend910_9391", "Ascend310P3"} <= set(
        needs.devices
    )
