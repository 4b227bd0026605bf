# SPDX-License-Identifier: BSD-3-Clause
"""Make the samples importable."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
