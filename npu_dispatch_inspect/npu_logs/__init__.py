# SPDX-License-Identifier: BSD-3-Clause
"""The text that torch_npu prints, and nothing else knows it."""

from npu_dispatch_inspect.npu_logs.parser import (
    LogParser,
    join_records,
    parse_arguments,
    parse_logs,
)

__all__ = ["LogParser", "join_records", "parse_arguments", "parse_logs"]
