# SPDX-License-Identifier: BSD-3-Clause
"""One operator call as a record."""

from __future__ import annotations

import enum

from attrs import frozen

from npu_dispatch_inspect.records.names import qualified
from npu_dispatch_inspect.records.values import (
    Argument,
    SourceLocation,
    TensorSpec,
    Value,
)

__all__ = ["ExceptionRecord", "KernelChoice", "OpRecord", "Phase", "tensors_in"]


class Phase(enum.Enum):
    """The part of a training step that a call belongs to.

    Example:
        >>> import torch
        >>> from npu_dispatch_inspect import Phase, trace_ops
        >>> x = torch.ones(2, requires_grad=True)
        >>> with trace_ops() as trace:
        ...     x.exp().sum().backward()
        >>> trace.find("aten::exp")[0].phase
        <Phase.FORWARD: 'forward'>
        >>> trace.filter(phase="backward").names == trace.filter(phase=Phase.BACKWARD).names
        True
    """

    FORWARD = "forward"
    BACKWARD = "backward"
    OPTIMIZER = "optimizer"
    OTHER = "other"

    @property
    def short(self) -> str:
        """Three letters for tables."""
        return {"forward": "fwd", "backward": "bwd", "optimizer": "opt"}.get(
            self.value, "oth"
        )


@frozen(kw_only=True)
class ExceptionRecord:
    """The exception with which a call ended.

    Example:
        >>> import torch
        >>> from npu_dispatch_inspect import trace_ops
        >>> with trace_ops() as trace:
        ...     try:
        ...         y = torch.ones(2, 3) @ torch.ones(2, 3)
        ...     except RuntimeError:
        ...         pass
        >>> trace[-1].exception.type, trace[-1].outputs
        ('RuntimeError', None)
    """

    type: str
    """Qualified class name: ``"RuntimeError"``, ``"torch.OutOfMemoryError"``."""
    message: str


@frozen(kw_only=True)
class KernelChoice:
    """The kernel that a dispatcher call reached first.

    Example:
        >>> import torch
        >>> from npu_dispatch_inspect import trace_ops
        >>> with trace_ops(engine="dispatcher") as trace:
        ...     y = torch.zeros(2).exp()
        >>> kernel = trace.find("aten::exp")[0].kernel
        >>> kernel.key, kernel.kind
        ('AutogradCPU', 'autograd kernel')
    """

    key: str
    """The highest dispatch key alive that has a kernel: ``"AutogradPrivateUse1"``."""
    kind: str
    """Why it won: ``"kernel"``, ``"autograd kernel"``, ``"math kernel"``, ..."""
    site: str
    """``"RegisterNPU.cpp:34325"``; empty where the registration names none."""


@frozen(kw_only=True)
class OpRecord:
    """One call of one operator overload.

    The record is made when the call starts, so a call that raised is in the
    trace as well: it then has no outputs and its `exception` is set.

    Example:
        >>> import torch
        >>> from npu_dispatch_inspect import trace_ops
        >>> layer = torch.nn.Linear(4, 2)
        >>> with trace_ops() as trace:
        ...     y = layer(torch.ones(3, 4))
        >>> addmm = trace.find("aten::addmm")[0]
        >>> addmm.qualified_name, addmm.module_type, addmm.phase.value
        ('aten::addmm', 'Linear', 'forward')
        >>> [f"{each.name}={each.value}" for each in addmm.inputs[:3]]
        ['self=f32[2]', 'mat1=f32[3, 4]', 'mat2=f32[4, 2]']
        >>> str(addmm.outputs[0])
        'f32[3, 2]'
    """

    index: int
    """Position in the trace it was recorded in; slices keep it."""
    name: str
    """Namespace and operator: ``"aten::addmm"``."""
    overload: str = "default"
    """``"default"``, ``"Tensor"``, ``"dim_IntList"``."""
    parent: int | None = None
    """Index of the call inside which this one was made, None at the top."""
    depth: int = 0
    inputs: tuple[Argument, ...] = ()
    """In the order of the schema."""
    outputs: tuple[Value, ...] | None = None
    """None where the call raised or where outputs were not recorded."""
    phase: Phase = Phase.FORWARD
    root: str | None = None
    """Class of the outermost module; a second instance of it is ``"Net#2"``."""
    module: str | None = None
    """``"encoder.layers.0.linear1"``, from the root down; empty text for the root
    itself, None outside any module. ``"a|b"`` where one module has two names."""
    module_type: str | None = None
    """Class of that module: ``"Linear"``."""
    forward_index: int | None = None
    """For a backward call, the forward call it is the derivative of."""
    recomputed: bool = False
    """The call ran again inside backward, under activation checkpointing."""
    compiled: bool | None = False
    """The call came out of a torch.compile'd region; None where nobody looked."""
    regions: tuple[str, ...] = ()
    """Names of the `region` blocks around it, outermost first."""
    thread: int = 0
    """0 is the thread that entered the block; others count up as they appear."""
    source: SourceLocation | None = None
    """The nearest line of the user's program."""
    autograd_node: str | None = None
    """Name of the autograd node that made a backward call: ``"AddmmBackward0"``."""
    keys: tuple[str, ...] | None = None
    """Dispatch keys alive, highest first; None where they were not observed."""
    path: tuple[KernelChoice, ...] = ()
    """Kernels in the order in which the call met them; the last one did the work or
    called other operators. Empty where they were not observed."""
    start_ns: int | None = None
    """Host time in nanoseconds since the block began."""
    duration_ns: int | None = None
    """Host time in nanoseconds inside the call: dispatch, not device time."""
    exception: ExceptionRecord | None = None

    @property
    def kernel(self) -> KernelChoice | None:
        """The kernel that the call reached first; None where it was not observed."""
        return self.path[0] if self.path else None

    @property
    def qualified_name(self) -> str:
        """``"aten::addmm"`` or, with an overload, ``"aten::sum.dim_IntList"``."""
        return qualified(self.name, self.overload)

    def argument(self, name: str) -> Value:
        """The value of one argument by its schema name.

        Raises:
            KeyError: the call has no argument of that name.
        """
        for each in self.inputs:
            if each.name == name:
                return each.value
        raise KeyError(name)

    @property
    def written(self) -> tuple[str, ...]:
        """Names of the arguments the call writes to."""
        return tuple(each.name for each in self.inputs if each.written)

    @property
    def input_tensors(self) -> tuple[TensorSpec, ...]:
        """Every tensor among the inputs, lists opened, in schema order."""
        return tensors_in(tuple(each.value for each in self.inputs))

    @property
    def output_tensors(self) -> tuple[TensorSpec, ...]:
        """Every tensor among the outputs, lists opened."""
        return tensors_in(self.outputs or ())


def tensors_in(value: Value) -> tuple[TensorSpec, ...]:
    """All tensors in a value, in order, lists and nested tuples opened."""
    if isinstance(value, TensorSpec):
        return (value,)
    if isinstance(value, tuple):
        return tuple(spec for each in value for spec in tensors_in(each))
    return ()
