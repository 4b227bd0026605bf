# SPDX-License-Identifier: BSD-3-Clause
"""Everything that must be so before the stand-in can be loaded, each with its error."""

from __future__ import annotations

import os
import re
import sys
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from importlib.util import find_spec
from pathlib import Path

import attrs

from npu_dispatch_inspect.errors import StandInError
from npu_dispatch_inspect.standin.build import RUNTIME

__all__ = [
    "Installed",
    "check_arguments",
    "check_can_compute",
    "check_moment",
    "check_no_cann",
    "find_installed",
]

MAX_DEVICES = 64

_CANN_VARIABLES = ("ASCEND_HOME_PATH", "ASCEND_TOOLKIT_HOME")
_CANN_FOLDER = Path("/usr/local/Ascend")
_LOADER_CACHE = Path("/etc/ld.so.cache")

# CANN this torch_npu goes with, if its own description does not say.
_DEFAULT_CANN = "9.1.0"


@attrs.frozen(kw_only=True)
class Installed:
    """The packages the stand-in is made for.

    Attributes:
        torch: folder of the torch package.
        torch_npu: folder of the torch_npu package.
        version: torch_npu's version.
        torch_version: torch's version.
        cann: version of CANN that torch_npu goes with.
    """

    torch: Path
    torch_npu: Path
    version: str
    torch_version: str
    cann: str


_VALUES = (None, "none", "cpu")
_UNKNOWN = ("nan", "zeros", "raise")

# With it Python can call the kernel that another one stands in front of.
_NEEDED_FOR_VALUES = "_dispatch_get_computed_kernel_for_dispatch_key"


def check_arguments(
    device_name: object, device_count: object, values: object, unknown: object
) -> None:
    """Refuse what can be no device name, no number of devices, or no choice of values."""
    if not isinstance(device_name, str) or not re.fullmatch(
        r"[\w-]{1,63}", device_name
    ):
        message = (
            f"device_name must be a name like 'Ascend910B1', not {device_name!r}; "
            "torch.npu.get_device_name() on a real device tells its name."
        )
        raise StandInError(message)
    if (
        not isinstance(device_count, int)
        or isinstance(device_count, bool)
        or not 1 <= device_count <= MAX_DEVICES
    ):
        message = (
            f"device_count must be a whole number from 1 to {MAX_DEVICES}, not "
            f"{device_count!r}."
        )
        raise StandInError(message)
    if values not in _VALUES:
        message = (
            f"values must be 'none' (nothing is computed) or 'cpu' (what the CPU "
            f"computes), not {values!r}."
        )
        raise StandInError(message)
    if unknown is not None and (unknown not in _UNKNOWN or values != "cpu"):
        message = (
            f"unknown must be 'nan', 'zeros' or 'raise', and goes with values='cpu' "
            f"only; here it is {unknown!r} with values={values!r}."
        )
        raise StandInError(message)


def check_can_compute(torch: Path, version: str) -> None:
    """Refuse to compute values with a torch that cannot; it is not imported for it."""
    try:
        names = (torch / "_C" / "__init__.pyi").read_text(encoding="utf-8")
    except OSError:
        return  # no list to look at; what is missing shows when torch_npu is imported
    if _NEEDED_FOR_VALUES not in names:
        message = (
            f"values='cpu' needs torch 2.9 or later, whose kernels can be called from "
            f"Python, and torch {version} is installed; leave it out, or update torch "
            "and torch_npu."
        )
        raise StandInError(message)


def check_moment() -> None:
    """Refuse other systems than Linux, and a process that already has torch."""
    if sys.platform != "linux":
        message = (
            f"The stand-in runs on Linux only (torch_npu exists for no other system), "
            f"and this is {sys.platform}; use a Linux machine or container."
        )
        raise StandInError(message)
    if "torch" in sys.modules:
        message = (
            "torch is already imported, and the stand-in must come first; call "
            "npu_dispatch_inspect.standin.load() before the first import of torch."
        )
        raise StandInError(message)


def find_installed() -> Installed:
    """Find torch and torch_npu without importing them, and check that they fit."""
    torch_npu, torch_npu_meta = _find(
        "torch_npu",
        "The stand-in runs the real torch_npu, which is not installed here; install "
        "it with: pip install 'npu-dispatch-inspect[npu,standin]'",
    )
    torch, torch_meta = _find(
        "torch", "torch is not installed here; install the CPU build torch_npu needs."
    )
    version, torch_version = torch_npu_meta.version, torch_meta.version
    if _release(version) != _release(torch_version):
        wanted = ".".join(_release(version))
        message = (
            f"torch_npu {version} needs torch {wanted}, but torch {torch_version} is "
            f"installed; install the two together: pip install torch=={wanted} "
            f"torch_npu=={version} (torch as a CPU build)."
        )
        raise StandInError(message)
    return Installed(
        torch=torch,
        torch_npu=torch_npu,
        version=version,
        torch_version=torch_version,
        cann=_cann_of(torch_npu_meta.read_text("METADATA") or "", version),
    )


def check_no_cann() -> None:
    """Refuse a machine with a real CANN, where a stand-in would only mislead."""
    found = _find_cann()
    if found is not None:
        message = (
            f"A real CANN is on this machine ({found}); run without the stand-in to "
            "use it, or call standin.load(force=True) to leave it aside."
        )
        raise StandInError(message)


def _find(package: str, message: str) -> tuple[Path, Distribution]:
    try:
        spec = find_spec(package)
        locations = spec.submodule_search_locations if spec else None
        if locations:
            return Path(next(iter(locations))), distribution(package)
    except (PackageNotFoundError, ValueError) as error:
        raise StandInError(message) from error
    raise StandInError(message)


def _release(version: str) -> tuple[str, ...]:
    """Return major, minor and patch: torch_npu 2.7.1.post2 goes with torch 2.7.1+cpu."""
    return tuple(re.findall(r"\d+", version.partition("+")[0])[:3])


def _cann_of(description: str, version: str) -> str:
    """Look CANN's version up in the table torch_npu's description carries."""
    for line in description.splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if version in cells[1:] and cells[0].startswith("CANN "):
            return cells[0].removeprefix("CANN ")
    return _DEFAULT_CANN


def _find_cann() -> str | None:
    """Say where a CANN is that is not a stand-in of a parent process, or None."""
    for variable in _CANN_VARIABLES:
        folder = os.environ.get(variable)
        if folder and Path(folder).is_dir():
            if (Path(folder) / "lib64" / RUNTIME).exists():
                continue
            return f"{variable}={folder}"
    if _CANN_FOLDER.is_dir():
        return str(_CANN_FOLDER)
    for folder in os.environ.get("LD_LIBRARY_PATH", "").split(":"):
        library = Path(folder or ".") / "libascendcl.so"
        if library.exists() and not library.with_name(RUNTIME).exists():
            return str(library)
    try:
        if b"libascendcl.so\0" in _LOADER_CACHE.read_bytes():
            return f"libascendcl.so in {_LOADER_CACHE}"
    except OSError:
        # No cache (musl, or a bare container): the loader would find nothing either.
        return None
    return None
