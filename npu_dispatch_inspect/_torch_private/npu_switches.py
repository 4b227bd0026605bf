# SPDX-License-Identifier: BSD-3-Clause
"""What decides, inside torch_npu, which of its implementations runs."""

from __future__ import annotations

import functools
import sys
from pathlib import Path
from types import ModuleType

__all__ = ["implementations", "internal_format_allowed", "jit_compile"]


def jit_compile() -> bool | None:
    """Tell whether aclop kernels are compiled per shape; None where not known.

    It is decided when the device is initialised, and asking would initialise
    it. Seen in torch_npu 2.5 to 2.13.
    """
    torch_npu = _loaded()
    if torch_npu is None or not torch_npu.npu.is_initialized():
        return None
    return not torch_npu.npu.is_jit_compile_false()


def internal_format_allowed() -> bool | None:
    """Tell whether tensors may be in a private NPU format; None where not known.

    Seen in torch_npu 2.13 (`_npu_getOption`).
    """
    torch_npu = _loaded()
    read = getattr(getattr(torch_npu, "_C", None), "_npu_getOption", None)
    if read is None:
        return None
    return {b"enable": True, b"disable": False}.get(read("ALLOW_INTERNAL_FORMAT"))


def implementations(operator: str) -> tuple[str, ...] | None:
    """Name the families that implement an operator: ``("acl_op", "op_api")``.

    From the list that torch_npu's own code was generated from, which its wheel
    carries. None where it is not in the list. Seen in torch_npu 2.6 to 2.13.
    """
    return _implementations().get(operator.partition("::")[2])


def _loaded() -> ModuleType | None:
    return sys.modules.get("torch_npu")


@functools.cache
def _implementations() -> dict[str, tuple[str, ...]]:
    torch_npu = _loaded()
    if torch_npu is None or torch_npu.__file__ is None:
        return {}
    try:
        import yaml  # torch_npu brings it
    except ImportError:
        return {}
    path = Path(torch_npu.__file__).parent / (
        "csrc/aten/npu_native_functions_by_codegen.yaml"
    )
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        sections = yaml.load(path.read_text("utf-8"), Loader=loader)  # noqa: S506 - it is a safe one
    except (OSError, yaml.YAMLError):
        return {}
    return {
        entry["func"].partition("(")[0]: tuple(
            each.strip() for each in entry["impl_ns"].split(",")
        )
        for section in sections.values()
        if isinstance(section, list)
        for entry in section
        if isinstance(entry, dict) and "func" in entry and "impl_ns" in entry
    }
