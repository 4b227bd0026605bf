# SPDX-License-Identifier: BSD-3-Clause
"""What load() refuses, with which words, and what it leaves behind."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.npu

TRY = """
from npu_dispatch_inspect import standin
from npu_dispatch_inspect.errors import StandInError
{before}
try:
    standin.load({arguments})
except StandInError as error:
    print(error)
else:
    print("loaded")
"""


@pytest.fixture(name="refusal")
def refusal_fixture(run):
    """Return what load() says when it refuses, in a process of its own."""

    def refusal(before="", arguments="", **options):
        code = TRY.replace("{before}", before).replace("{arguments}", arguments)
        return run(code, **options).out.strip()

    return refusal


def test_torch_must_not_be_imported_yet(refusal):
    """After import torch it is too late, and the message says what comes first."""
    said = refusal(
        "import sys, types; sys.modules['torch'] = types.ModuleType('torch')"
    )
    assert said == (
        "torch is already imported, and the stand-in must come first; call "
        "npu_dispatch_inspect.standin.load() before the first import of torch."
    )


def test_torch_npu_must_be_installed(refusal):
    """Without torch_npu the message names the extra to install."""
    said = refusal("import sys; sys.modules['torch_npu'] = None")
    assert said == (
        "The stand-in runs the real torch_npu, which is not installed here; install it "
        "with: pip install 'npu-dispatch-inspect[npu,standin]'"
    )


def test_only_linux_will_do(refusal):
    """Elsewhere the message says where torch_npu exists."""
    said = refusal("import sys; sys.platform = 'darwin'")
    assert said.startswith("The stand-in runs on Linux only")
    assert "this is darwin" in said


def test_torch_and_torch_npu_must_fit(refusal, tmp_path):
    """A torch of another version is refused before it is imported."""
    for name, text in {
        "torch/__init__.py": "raise SystemExit('must not be imported')",
        "torch-2.9.1.dist-info/METADATA": "Metadata-Version: 2.1\nName: torch\nVersion: 2.9.1",
    }.items():
        path = tmp_path / "other" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    said = refusal(f"import sys; sys.path.insert(0, {str(tmp_path / 'other')!r})")
    assert "but torch 2.9.1 is installed; install the two together" in said
    assert "pip install torch==" in said


@pytest.mark.parametrize("variable", ["ASCEND_HOME_PATH", "ASCEND_TOOLKIT_HOME"])
def test_a_cann_named_in_the_environment_is_respected(refusal, tmp_path, variable):
    """Where CANN's variables lead to a folder, only force=True loads the stand-in."""
    said = refusal(**{variable: tmp_path})
    assert said.startswith(f"A real CANN is on this machine ({variable}={tmp_path})")
    assert "standin.load(force=True)" in said
    assert refusal(arguments="force=True", **{variable: tmp_path}) == "loaded"


def test_a_cann_on_the_library_path_is_respected(refusal, tmp_path):
    """A libascendcl.so that the loader would find is a real CANN."""
    (tmp_path / "libascendcl.so").touch()
    said = refusal(LD_LIBRARY_PATH=tmp_path)
    assert f"({tmp_path / 'libascendcl.so'})" in said


def test_a_cann_in_its_usual_place_is_respected(refusal, tmp_path):
    """CANN's default folder, or its libraries in the loader's cache, count as well."""
    patch = "from npu_dispatch_inspect.standin import checks; from pathlib import Path;"
    said = refusal(f"{patch} checks._CANN_FOLDER = Path({str(tmp_path)!r})")
    assert f"({tmp_path})" in said
    (tmp_path / "cache").write_bytes(b"x\0libascendcl.so\0/opt/libascendcl.so\0")
    said = refusal(f"{patch} checks._LOADER_CACHE = Path({str(tmp_path / 'cache')!r})")
    assert "libascendcl.so in " in said


def test_a_variable_that_leads_nowhere_is_no_cann(refusal):
    """A left-over variable does not keep the stand-in from loading."""
    assert refusal(ASCEND_HOME_PATH="/nowhere/at/all") == "loaded"


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ("device_name=910", "device_name must be a name like 'Ascend910B1', not 910"),
        ("device_name=''", "device_name must be a name like 'Ascend910B1', not ''"),
        ("device_count=0", "device_count must be a whole number from 1 to 64, not 0"),
        (
            "device_count='2'",
            "device_count must be a whole number from 1 to 64, not '2'",
        ),
        (
            "device_count=True",
            "device_count must be a whole number from 1 to 64, not True",
        ),
        ("'Ascend910B11'", "knows no device 'Ascend910B11'; did you mean Ascend910B1"),
        ("'Hopper'", "knows no device 'Hopper'; it knows: "),
    ],
)
def test_arguments_are_checked(refusal, arguments, complaint):
    """What can be no device is refused with what it could have been."""
    assert complaint in refusal(arguments=arguments)


def test_loading_twice_is_one_loading(run):
    """The same arguments again change nothing; other ones are refused."""
    done = run("""
        from npu_dispatch_inspect import standin
        from npu_dispatch_inspect.errors import StandInError
        print(standin.info(), standin.is_loaded(), standin.missing_functions())
        first = standin.load("Ascend910B4", 2)
        assert standin.load("Ascend910B4", device_count=2) is first
        assert standin.info() is first and standin.is_loaded()
        try:
            standin.load("Ascend910B1")
        except StandInError as error:
            print(error)
    """)
    before, refused = done.lines()
    assert before == "None False ()"
    assert refused == (
        "The stand-in is already loaded as 2 x Ascend910B4, and a process can have one "
        "only; start a new process for 1 x Ascend910B1."
    )


def test_loading_imports_neither_torch_nor_much_else(run):
    """The record says what was loaded, torch stays out, and a warm start is quick."""
    done = run("""
        import sys, time
        from npu_dispatch_inspect import standin
        standin.load()
        print({"torch", "torch_npu", "elftools"} & set(sys.modules))
        info = standin.info()
        print(info.device_name, info.device_count, info.values)
        from importlib.metadata import version
        from pathlib import Path
        print(info.torch_npu_version == version("torch_npu"), Path(info.folder).is_dir())
        try:
            info.values = "real"
        except AttributeError:
            print("frozen")
    """)
    assert done.lines() == ["set()", "Ascend910B1 1 none", "True True", "frozen"]


def test_child_processes_inherit_the_stand_in(run):
    """A child that never heard of the stand-in runs on it, and can find out."""
    done = run("""
        import subprocess, sys
        from npu_dispatch_inspect import standin
        standin.load("Ascend910B4", 2)
        code = '''if True:
            from npu_dispatch_inspect import standin
            print(standin.info())
            import torch
            print(torch.npu.get_device_name(), torch.npu.device_count())
            print(standin.info())
            print(standin.load("Ascend910B4", 2) == standin.info())
        '''
        sys.stdout.flush()
        subprocess.run([sys.executable, "-c", code], check=True)
        print(standin.info())
    """)
    before, device, inside, same, outside = done.lines()
    assert before == "None"
    assert device == "Ascend910B4 2"
    assert inside == outside
    assert same == "True"


@pytest.mark.parametrize("name", ["Ascend910B4", "Ascend910_9391", "Ascend310P3"])
def test_devices_of_other_families_load(run_on_npu, name):
    """Each device says its name, and a linear layer runs on it, aclnn or aclop."""
    done = run_on_npu(
        """
        print(torch.npu.get_device_name())
        nn.Linear(8, 4).npu()(torch.randn(2, 8).npu()).sum().backward()
        torch.npu.synchronize()
        """,
        arguments=repr(name),
        TORCH_NPU_LOGS="+op_plugin,+dispatch",
    )
    assert done.lines() == [name]
    through_aclnn = "aclnnAddmm EXEC_NPU_CMD" in done.err
    assert through_aclnn == (name != "Ascend310P3")


def test_a_library_that_is_not_installed_is_named(refusal):
    """Without pyelftools or platformdirs the message names the extra to install."""
    for module in "elftools.elf.elffile", "platformdirs":
        said = refusal(
            f"import sys; sys.modules[{module!r}] = None",
            NPU_DISPATCH_INSPECT_CACHE="" if module == "platformdirs" else "fresh",
        )
        assert "pip install 'npu-dispatch-inspect[standin]'" in said
