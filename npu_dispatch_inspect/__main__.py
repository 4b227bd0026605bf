# SPDX-License-Identifier: BSD-3-Clause
"""``python -m npu_dispatch_inspect``."""

from __future__ import annotations

import sys

from npu_dispatch_inspect.cli import main

if __name__ == "__main__":
    sys.exit(main())
