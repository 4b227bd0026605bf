# SPDX-License-Identifier: BSD-3-Clause
"""The words for what belongs to a graph: its stage, kinds of nodes and ends, failures."""

from __future__ import annotations

import enum

__all__ = ["FailureKind", "GraphStage", "InputKind", "NodeKind", "OutputKind"]


class GraphStage(enum.Enum):
    """Which of a program's graphs this is.

    Example:
        >>> from npu_dispatch_inspect import GraphStage
        >>> [each.value for each in GraphStage]
        ['joint', 'forward', 'backward', 'inference']
    """

    JOINT = "joint"
    """Forward and backward in one graph, before the partition."""
    FORWARD = "forward"
    BACKWARD = "backward"
    INFERENCE = "inference"
    """The only graph, where nothing needs a gradient."""


class NodeKind(enum.Enum):
    """What a node does."""

    OPERATOR = "operator"
    """Calls an operator: ``aten::addmm``."""
    HIGHER_ORDER = "higher_order"
    """Calls a higher-order operator: ``higher_order::cond``."""
    GETITEM = "getitem"
    """Takes one result of an operator that has several; nothing is called."""
    SYMBOLIC = "symbolic"
    """Computes a size in Python: ``operator::mul`` of two symbolic sizes."""
    CONSTANT = "constant"
    """Stands for something kept on the graph module (``get_attr``)."""
    OTHER = "other"
    """Calls another Python function."""


class InputKind(enum.Enum):
    """What a placeholder stands for."""

    PARAMETER = "parameter"
    BUFFER = "buffer"
    ARGUMENT = "argument"
    TANGENT = "tangent"
    """The gradient that comes in for an output of the forward graph."""
    SAVED = "saved"
    """What the forward graph computed and saved for the backward graph."""
    OTHER = "other"
    """Not known, or of torch's own making: sizes, random seeds, effect tokens."""


class OutputKind(enum.Enum):
    """What a returned value is."""

    RESULT = "result"
    """A result of the captured function."""
    MUTATION = "mutation"
    """The new value of an input that the function writes to."""
    GRADIENT = "gradient"
    SAVED = "saved"
    """Kept for the backward graph."""
    OTHER = "other"
    """Not known, or of torch's own making: view bases, random offsets, tokens."""


class FailureKind(enum.Enum):
    """Why a graph could not be captured."""

    NO_META_KERNEL = "no_meta_kernel"
    """An operator cannot say what its results look like without computing them."""
    DATA_DEPENDENT_VALUE = "data_dependent_value"
    """The program asks for a tensor's value: ``.item()``, ``if x.sum() > 0``."""
    DATA_DEPENDENT_SHAPE = "data_dependent_shape"
    """The size of a result depends on values: ``x[x > 0]``."""
    CLOSED_OVER_TENSOR = "closed_over_tensor"
    """The function uses a tensor that is not among its inputs."""
    UNSUPPORTED_VALUE = "unsupported_value"
    """An argument or a result holds tensors where the capture cannot reach them."""
    PARTITION = "partition"
    """The partition function raised."""
    COMPILER = "compiler"
    """A compiler that was given raised."""
    OTHER = "other"
    """The program or the tracing of it raised something else."""
