# SPDX-License-Identifier: BSD-3-Clause
"""One call followed down to what it launched, and the error a block died of."""

from __future__ import annotations

import enum
from collections.abc import Iterator

from attrs import frozen

from npu_dispatch_inspect.records import (
    AclnnRecord,
    ExceptionRecord,
    OpPluginCall,
    OpRecord,
    SourceLocation,
    TaskRecord,
)
from npu_dispatch_inspect.records.printed import Printed

__all__ = ["ChainNode", "Failure", "Launch", "NativeCall", "Verdict"]


class Verdict(enum.Enum):
    """What a call came to. Each value reads as the answer to "how did it run?".

    Example:
        >>> import torch
        >>> from npu_dispatch_inspect import Verdict, inspect_dispatch
        >>> x = torch.ones(2, 3).npu()
        >>> with inspect_dispatch() as seen:
        ...     y = torch.digamma(x @ x.t())
        >>> [node.verdict.name for node in seen.find("aten::*matmul")]
        ['ACLNN']
        >>> seen.fallbacks[0].verdict is Verdict.CPU_FALLBACK
        True
    """

    ACLNN = "aclnn"
    """Its own kernel launched aclnn operators."""
    ACLNN_VIA = "aclnn through another operator"
    """Its own kernel called other operators, and those launched."""
    ACLOP = "aclop"
    """It ran as an aclop (OpCommand), itself or through an operator it called."""
    CPU_FALLBACK = "CPU fallback"
    """No NPU kernel: the registered fallback copies to the CPU and back."""
    HIDDEN_CPU = "computed on CPU inside the kernel"
    """It has an NPU kernel, and that kernel computed on the CPU."""
    NO_LAUNCH = "view or no launch"
    """It returned a view, or memory that nothing was computed for."""
    COMPOSITE = "composite"
    """It has no kernel of its own for this backend: other operators do the work."""
    KERNEL = "kernel"
    """A kernel of another backend (CPU, CUDA, ...) ran."""
    COPY = "copy"
    """Data moved between host and device, or within it, without an aclnn launch."""
    UNKNOWN = "unknown"
    """What was recorded does not decide it."""


@frozen(kw_only=True)
class Launch:
    """One aclnn launch and what the queue made of it.

    Example:
        >>> import torch
        >>> from npu_dispatch_inspect import inspect_dispatch
        >>> x = torch.ones(3).npu()
        >>> with inspect_dispatch() as seen:
        ...     y = x.exp()
        >>> (launch,) = seen.launches
        >>> launch.name, launch.record.stream, launch.task.ret
        ('aclnnExp', 0, 0)
    """

    record: AclnnRecord
    task: TaskRecord | None = None
    """None where the queue is off or its lines were not captured."""

    @property
    def name(self) -> str:
        """``"aclnnAddmm"``."""
        return self.record.name


@frozen(kw_only=True)
class NativeCall:
    """An operator of CANN that torch_npu named to the profiler as it launched it.

    Example:
        >>> from npu_dispatch_inspect import NativeCall
        >>> NativeCall(name="aclnnAddmm", op=3)
        NativeCall(name='aclnnAddmm', op=3)
    """

    name: str
    """``"aclnnAddmm"``, or the type of an aclop: ``"MatMul"``."""
    op: int | None = None
    """Index of the traced call around it, None where it is not known."""


@frozen(kw_only=True)
class ChainNode(Printed):
    """One call, what it called, and what it launched itself.

    Example:
        >>> import torch
        >>> from npu_dispatch_inspect import inspect_dispatch
        >>> layer, x = torch.nn.Linear(4, 2).npu(), torch.ones(3, 4).npu()
        >>> with inspect_dispatch() as seen:
        ...     y = layer(x)
        >>> for node in seen.chains[0].walk():
        ...     print(node.op.name, node.verdict.value, [each.name for each in node.launches])
        aten::linear composite []
        aten::t view or no launch []
        aten::transpose view or no launch []
        aten::as_strided view or no launch []
        aten::addmm aclnn ['aclnnAddmm']
    """

    op: OpRecord
    verdict: Verdict
    why: str
    """The fact that decided the verdict, as one sentence."""
    op_plugin: tuple[OpPluginCall, ...] = ()
    """op_plugin functions that this call entered itself."""
    launches: tuple[Launch, ...] = ()
    """Launches that this call made itself, not those of the calls inside it."""
    aclops: tuple[TaskRecord, ...] = ()
    """What this call ran as aclop: tasks that the log runs by ``ExecFunc``, or, without
    a slot, what only the profiler named."""
    children: tuple[ChainNode, ...] = ()

    def walk(self) -> Iterator[ChainNode]:
        """This call and everything below it, in the order of the calls."""
        pending = [self]
        while pending:
            node = pending.pop()
            yield node
            pending.extend(reversed(node.children))

    def all_launches(self) -> tuple[Launch, ...]:
        """Launches of this call and of everything inside it, in order."""
        found = [launch for node in self.walk() for launch in node.launches]
        return tuple(sorted(found, key=lambda launch: launch.record.index))


@frozen(kw_only=True)
class Failure:
    """The error the block died of, and the launches before it.

    The device works behind the host: an error surfaces at a later call, so the
    operator that is named need not be the one at fault.

    Example:
        >>> from npu_dispatch_inspect import ExceptionRecord, Failure
        >>> failure = Failure(
        ...     exception=ExceptionRecord(type="RuntimeError", message="error code is 507015"),
        ...     reported="aclnnInplaceUniform",
        ...     code=507015,
        ...     asynchronous=True,
        ...     before=(),
        ... )
        >>> failure.reported, failure.code
        ('aclnnInplaceUniform', 507015)
    """

    exception: ExceptionRecord
    reported: str | None
    """The aclnn or aclop operator that the error names."""
    code: int | None = None
    """``507015``; None where the error has none."""
    asynchronous: bool
    """The error came from the device, so an earlier launch may be its cause."""
    before: tuple[tuple[Launch, SourceLocation | None], ...]
    """The last launches before it, oldest first, with the user's lines."""
