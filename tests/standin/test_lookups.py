# SPDX-License-Identifier: BSD-3-Clause
"""A function that torch_npu looks up at run time and does not find is named."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.npu

# What is looked for in the wheel is narrowed, as if a new way to spell a name had come
# that the search does not know.
BLIND = """
from npu_dispatch_inspect.standin import build
def blind(*folders, see=build.discover):
    import attrs
    needs = see(*folders)
    hidden = {name + end for name in ("aclnnAddmm", "aclnnSwiGlu")
              for end in ("", "GetWorkspaceSize")}
    return attrs.evolve(needs, symbols=[n for n in needs.symbols if n not in hidden])
build.discover = blind
"""


def sentence(name):
    """What is said about a function that was asked for in vain."""
    return (
        f"npu_dispatch_inspect: torch_npu asked for the CANN function {name} at run "
        "time, which the stand-in lacks, so it may fail or take another path than on a "
        "device; please report this name and your torch_npu version."
    )


def test_a_missing_operator_is_named(run, tmp_path):
    """Standard error names it, whether torch_npu then fails or takes another path."""
    done = run(
        BLIND
        + """
from npu_dispatch_inspect import standin
standin.load()
import torch, torch_npu
x = torch.randn(2, 4).npu()
torch.nn.Linear(4, 4).npu()(x)  # goes through aclop instead
try:
    torch_npu.npu_swiglu(x)
except RuntimeError as error:
    print(str(error).split(",")[0])
torch.npu.synchronize()
print(*[name for name in standin.missing_functions() if name.startswith("acl")])
""",
        NPU_DISPATCH_INSPECT_CACHE=tmp_path,
    )
    assert done.lines() == [
        "aclnnSwiGlu or aclnnSwiGluGetWorkspaceSize not in libopapi.so",
        "aclnnAddmmGetWorkspaceSize aclnnAddmm aclnnSwiGluGetWorkspaceSize aclnnSwiGlu",
    ]
    said = done.err.splitlines()
    for name in done.lines()[-1].split():
        assert said.count(sentence(name)) == 1


def test_nothing_public_is_missing_in_ordinary_use(run_on_npu):
    """On a whole build only optional extras are looked up in vain."""
    done = run_on_npu("""
        nn.Linear(4, 4).npu()(torch.randn(2, 4).npu()).sum().backward()
        torch.npu.synchronize()
        print([n for n in standin.missing_functions() if n.startswith(("acl", "Hccl"))])
    """)
    assert done.lines() == ["[]"]
    assert done.unexpected == []
