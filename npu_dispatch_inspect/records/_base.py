# SPDX-License-Identifier: BSD-3-Clause
"""What every record is: a frozen, slotted, keyword-only attrs class.

Records hold plain values, tuples and enums only. No tensor, module, frame or
torch object is ever inside one, so a record can be pickled, hashed, compared,
stored and read where torch is not installed.
"""

from __future__ import annotations

from typing import TypeVar, dataclass_transform

import attrs

__all__ = ["record"]

_C = TypeVar("_C", bound=type)


@dataclass_transform(frozen_default=True, kw_only_default=True)
def record(cls: _C) -> _C:
    """Make ``cls`` a record: frozen, slotted, keyword-only, hashable by value."""
    made: _C = attrs.frozen(kw_only=True, slots=True)(cls)
    return made
