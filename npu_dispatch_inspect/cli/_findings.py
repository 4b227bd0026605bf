# SPDX-License-Identifier: BSD-3-Clause
"""What `doctor` finds without running anything: packages, switches, folders."""

from __future__ import annotations

import os
import re
import sys
import tempfile
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, requires, version
from importlib.util import find_spec
from pathlib import Path

from attrs import frozen

__all__ = [
    "Finding",
    "cuda_of_torch",
    "folders",
    "installed_version",
    "packages",
    "release",
    "switches",
]

OURS = "npu-dispatch-inspect"
OLDEST_TORCH = (2, 6)
EXTRAS = {
    "rich": "colours and progress bars",
    "npu": "NPU kernels and log lines",
    "standin": "running torch_npu without an NPU",
    "pytest": "the fixtures for tests",
}
"""What an extra is good for, where the name does not say it."""


@frozen(kw_only=True)
class Finding:
    """One fact, and what to do about it."""

    level: str
    """``"ok"``, ``"note"`` (nothing needs doing) or ``"do"`` (something does)."""
    what: str
    """What was looked at: ``"torch"``, ``"TASK_QUEUE_ENABLE"``."""
    told: str
    """What was found, without an end."""
    action: str | None = None
    """What to do, without an end."""

    def __str__(self) -> str:
        """One line."""
        action = f" -> {self.action}" if self.action else ""
        return f"{self.level:4}  {self.what}: {self.told}{action}"


def installed_version(package: str) -> str | None:
    """The version that is installed, None where there is none; nothing is imported."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def release(text: str) -> tuple[int, ...]:
    """``(2, 7, 1)`` for 2.7.1.post2 and 2.7.1+cpu."""
    return tuple(map(int, re.findall(r"\d+", text.partition("+")[0])[:3]))


def packages() -> Iterator[Finding]:
    """This library, torch, torch_npu, whether they fit, and the extras."""
    python = ".".join(map(str, sys.version_info[:3]))
    ours = installed_version(OURS) or "not installed as a package"
    yield Finding(level="ok", what=OURS, told=f"{ours}, Python {python}")
    yield from _torch()
    yield from _torch_npu()
    yield from _extras()


def _torch() -> Iterator[Finding]:
    there = installed_version("torch")
    if there is None or find_spec("torch") is None:
        yield Finding(
            level="do",
            what="torch",
            told="not installed; only logs, show, diff and export work without it",
            action="pip install torch",
        )
    elif release(there) < OLDEST_TORCH:
        yield Finding(
            level="do",
            what="torch",
            told=f"{there} is too old: this library needs 2.6 or newer",
            action="pip install 'torch>=2.6'",
        )
    else:
        cuda = cuda_of_torch()
        build = f", built for CUDA {cuda}" if cuda else ""
        yield Finding(level="ok", what="torch", told=f"{there}{build}")


def cuda_of_torch() -> str | None:
    """The CUDA that torch was built for, None for a CPU build; torch is not imported."""
    spec = find_spec("torch")
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        try:
            text = (Path(folder) / "version.py").read_text(encoding="utf-8")
        except OSError:
            continue
        found = re.search(r"^cuda\b[^=]*= *['\"]([^'\"]+)['\"]", text, re.MULTILINE)
        return found[1] if found else None
    return None


def _torch_npu() -> Iterator[Finding]:
    there = installed_version("torch_npu")
    torch = installed_version("torch")
    if there is None:
        yield Finding(
            level="note",
            what="torch_npu",
            told="not installed, so there is no NPU to look at",
            action="on Linux: pip install 'npu-dispatch-inspect[npu,standin]'",
        )
        return
    if torch is not None and release(torch) != release(there):
        wanted = ".".join(map(str, release(there)))
        yield Finding(
            level="do",
            what="torch_npu",
            told=f"{there} needs torch {wanted}, and torch {torch} is installed",
            action=f"pip install torch=={wanted} torch_npu=={there}",
        )
        return
    yield Finding(level="ok", what="torch_npu", told=f"{there}, which fits torch")


def _extras() -> Iterator[Finding]:
    try:
        wanted = requires(OURS) or ()
    except PackageNotFoundError:
        return
    missing: dict[str, list[str]] = {}
    there: set[str] = set()
    for line in wanted:
        wants = re.search(r"extra\s*==\s*['\"]([\w-]+)['\"]", line)
        name = re.match(r"[\w.-]+", line)
        if wants is None or name is None or name[0].startswith(OURS):
            continue
        if "platform" in line and sys.platform != "linux":
            continue
        found = installed_version(name[0])
        if found is None:
            missing.setdefault(wants[1], []).append(name[0])
        else:
            there.add(f"{name[0]} {found}")
    if there:
        told = ", ".join(sorted(there))
        yield Finding(level="ok", what="extras", told=told)
    for extra, names in missing.items():
        good = EXTRAS.get(extra)
        yield Finding(
            level="note",
            what=f"extra [{extra}]",
            told=f"{', '.join(names)} not installed"
            + (f" (for {good})" if good else ""),
            action=f"pip install '{OURS}[{extra}]'",
        )


@frozen
class _Switch:
    """What a variable does where it is set."""

    name: str
    harmless: str
    """The value that changes nothing."""
    told: str
    action: str | None = None
    level: str = "note"
    only: str | None = None
    """The one value that this is about."""


_SWITCHES = (
    _Switch(
        "TASK_QUEUE_ENABLE",
        "1",
        "operators run without the queue, and no line about tasks is printed",
        "unset TASK_QUEUE_ENABLE, or set it to 1",
        "do",
        only="0",
    ),
    _Switch(
        "TASK_QUEUE_ENABLE",
        "1",
        "the queue's own thread prepares operators as well",
        only="2",
    ),
    _Switch(
        "ASCEND_LAUNCH_BLOCKING",
        "0",
        "every operator is waited for, and no line about tasks is printed",
        "unset ASCEND_LAUNCH_BLOCKING, unless an error is being looked for",
        "do",
    ),
    _Switch(
        "TORCH_NPU_LOGS_FILTER",
        "",
        "torch_npu leaves out lines, so launches may be missing",
        "unset TORCH_NPU_LOGS_FILTER",
        "do",
    ),
    _Switch(
        "TORCH_LOGS",
        "",
        "switches none of torch_npu's loggers on, and keeps set_logs from doing so",
        "use TORCH_NPU_LOGS for them",
    ),
    _Switch(
        "TORCH_NPU_LOGS",
        "",
        "torch_npu prints from its import on; captures here add to it",
    ),
    _Switch(
        "TORCH_DEVICE_BACKEND_AUTOLOAD",
        "1",
        "import torch does not import torch_npu",
        "import torch_npu where it is needed",
    ),
    _Switch(
        "PER_STREAM_QUEUE",
        "0",
        "each stream has a queue, so the slots that lines name are not unique",
    ),
    _Switch(
        "TORCH_NPU_FALLBACK_CPU_DISABLE",
        "0",
        "an operator without an NPU kernel raises instead of running on the CPU",
    ),
    _Switch(
        "TORCH_NPU_USE_COMPATIBLE_IMPL",
        "0",
        "some operators take another implementation",
    ),
    _Switch("TORCH_NPU_LAZY_FUSION", "0", "operators may be fused"),
    _Switch("TORCH_NPU_COMPACT_ERROR_OUTPUT", "0", "errors have another form"),
    _Switch(
        "TORCH_NPU_SANITIZER",
        "0",
        "torch_npu looks at every operator itself, which shows in traces",
    ),
    _Switch(
        "ASCEND_SLOG_PRINT_TO_STDOUT",
        "0",
        "CANN prints its own lines to standard output",
    ),
)


def switches() -> Iterator[Finding]:
    """The environment variables that are set and change routes or silence logs."""
    found = False
    for switch in _SWITCHES:
        value = os.environ.get(switch.name, switch.harmless)
        if value == switch.harmless or switch.only not in (None, value):
            continue
        found = True
        yield Finding(
            level=switch.level,
            what=f"{switch.name}={value}",
            told=switch.told,
            action=switch.action,
        )
    if not found:
        yield Finding(
            level="ok",
            what="switches",
            told="none is set that changes routes or silences logs",
        )


def folders() -> Iterator[Finding]:
    """Whether a capture has room for a temporary file."""
    try:
        with tempfile.TemporaryFile():
            pass
    except OSError as error:
        yield Finding(
            level="do",
            what="temporary files",
            told=f"none can be made ({error.strerror}), so no log lines can be captured",
            action="set TMPDIR to a folder that can be written",
        )
