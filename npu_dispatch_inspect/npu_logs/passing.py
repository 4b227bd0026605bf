# SPDX-License-Identifier: BSD-3-Clause
"""Which bytes of a captured stream are torch_npu's log and which the program's."""

from __future__ import annotations

from npu_dispatch_inspect.npu_logs.grammar import TORCH_NPU_RUN

__all__ = ["split_foreign"]


def split_foreign(data: bytes, *, last: bool) -> tuple[list[bytes], int]:
    """Take the program's own bytes out of a mixed stream.

    Args:
        data: what was written, from a place where no record is open.
        last: nothing follows. Else a record at the end, and a line that has no
            end yet, are left for the next call: more of them may come.

    Returns:
        The stretches that are not torch_npu's log, in order, and how many bytes
        were done with.
    """
    limit = len(data) if last else data.rfind(b"\n") + 1
    foreign: list[bytes] = []
    position = 0
    for found in TORCH_NPU_RUN.finditer(data, 0, limit):
        start, end = found.span()
        if end == limit and not last:
            line = data.rfind(b"\n", position, start) + 1
            limit = max(line, position)
            break
        if start != position:
            foreign.append(data[position:start])
        position = end
    if position < limit:
        foreign.append(data[position:limit])
    return foreign, limit
