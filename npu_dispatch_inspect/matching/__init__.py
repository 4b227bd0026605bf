# SPDX-License-Identifier: BSD-3-Clause
"""Does a trace fit a pattern, where do they part, and how far did a search come.

The answers are records; `display.diff` writes them for people and `assertions`
raises. Nothing here needs torch.
"""

from npu_dispatch_inspect.matching._align import Alignment, Row, align
from npu_dispatch_inspect.matching._search import Search, SearchStep, search

__all__ = ["Alignment", "Row", "Search", "SearchStep", "align", "search"]
