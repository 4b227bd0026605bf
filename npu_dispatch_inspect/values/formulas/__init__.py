# SPDX-License-Identifier: BSD-3-Clause
"""Reference formulas, by operator, for what the CPU has no kernel for.

Two kinds of operators need one: those of torch_npu's own (``npu::``), and those of
torch whose results have another form on an NPU, as a dropout's mask. A formula is
called with every argument by its name in the schema, with CPU tensors, and returns
results as torch_npu's kernel has them, None for one that it says nothing about.
Each module registers its own; see `formula`.
"""

from __future__ import annotations

# ruff: noqa: F401 - the modules register what they have
import npu_dispatch_inspect.values.formulas.activations
import npu_dispatch_inspect.values.formulas.attention
import npu_dispatch_inspect.values.formulas.casts
import npu_dispatch_inspect.values.formulas.dropout
import npu_dispatch_inspect.values.formulas.gradients
import npu_dispatch_inspect.values.formulas.norms
import npu_dispatch_inspect.values.formulas.other_forms
import npu_dispatch_inspect.values.formulas.quantization
import npu_dispatch_inspect.values.formulas.recurrent
from npu_dispatch_inspect.values.formulas._registry import (
    find_formula,
    known_operators,
)

__all__ = ["find_formula", "known_operators"]
