# SPDX-License-Identifier: BSD-3-Clause
"""The text that torch_npu prints: nothing else of this package knows it."""

from npu_dispatch_inspect.npu_logs.index import LogIndex, index_logs
from npu_dispatch_inspect.npu_logs.parallel import map_logs, summarize_logs
from npu_dispatch_inspect.npu_logs.parser import (
    LogParser,
    join_records,
    parse_arguments,
    parse_logs,
)
from npu_dispatch_inspect.npu_logs.reading import read_logs

__all__ = [
    "LogIndex",
    "LogParser",
    "index_logs",
    "join_records",
    "map_logs",
    "parse_arguments",
    "parse_logs",
    "read_logs",
    "summarize_logs",
]
