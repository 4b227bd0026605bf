# SPDX-License-Identifier: BSD-3-Clause
"""A file that is there whole or not at all."""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
from collections.abc import Iterator
from typing import BinaryIO

__all__ = ["replacing"]


@contextlib.contextmanager
def replacing(path: str) -> Iterator[BinaryIO]:
    """Open a file for writing; it takes the place of another one at the end.

    Where the block raises or the disk is full, what was there stays as it was. What
    is not an ordinary file (a pipe, a device) is written as it is, and so is a file
    in a folder where no other can be made.

    Raises:
        OSError: it cannot be written.
    """
    # A link stays one.
    target = os.path.realpath(path)
    try:
        mode: int | None = os.stat(target).st_mode
    except FileNotFoundError:
        mode = None
    if mode is not None and not (stat.S_ISREG(mode) and os.access(target, os.W_OK)):
        with open(target, "wb") as file:
            yield file
        return
    folder, name = os.path.split(target)
    # Short enough for a name that is as long as names may be.
    beside = os.path.join(folder, f".{name[:80]}.{secrets.token_hex(8)}")
    try:
        descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    except PermissionError:
        with open(target, "wb") as file:
            yield file
        return
    try:
        with open(descriptor, "wb") as file:
            if mode is not None:
                os.chmod(descriptor, stat.S_IMODE(mode))
            yield file
        os.replace(beside, target)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(beside)
        raise
