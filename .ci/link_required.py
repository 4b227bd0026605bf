# SPDX-License-Identifier: BSD-3-Clause
"""Link what this library requires, extras left out, into the folder that is named.

Run by the Python of an environment in which the library and all of that is installed.
torch is too large to be installed twice.
"""

from __future__ import annotations

import sys
from importlib.metadata import distribution
from pathlib import Path

from pip._vendor.packaging.requirements import Requirement

OURS = "npu-dispatch-inspect"


def main(target: Path) -> None:
    """Follow the requirements from distribution to distribution."""
    waiting, seen = [OURS], {OURS}
    while waiting:
        found = distribution(waiting.pop())
        for text in found.requires or ():
            wanted = Requirement(text)
            needed = wanted.marker is None or wanted.marker.evaluate({"extra": ""})
            if needed and wanted.name not in seen:
                seen.add(wanted.name)
                waiting.append(wanted.name)
        if found.name == OURS:
            continue
        for part in {each.parts[0] for each in found.files or ()} - {
            "..",
            "__pycache__",
        }:
            link = target / part
            if not link.is_symlink():
                link.symlink_to(found.locate_file(part))


main(Path(sys.argv[1]))
