# SPDX-License-Identifier: BSD-3-Clause
"""Hand-made reports that several tests look at."""

from __future__ import annotations

from npu_dispatch_inspect.chains import join
from npu_dispatch_inspect.records import (
    AclnnRecord,
    Argument,
    Environment,
    ExceptionRecord,
    KernelChoice,
    LoggedArgument,
    MissingReason,
    OpRecord,
    Phase,
    SourceLocation,
    TensorSpec,
)
from npu_dispatch_inspect.records.chains import Failure, Launch
from npu_dispatch_inspect.traces.logs import LogTrace
from npu_dispatch_inspect.traces.ops import OpTrace
from npu_dispatch_inspect.traces.report import DispatchReport

__all__ = ["NET", "failed", "training_step"]

NET = "/home/user/net.py"
DEVICE = Environment(
    tool="0.1",
    python="3.11",
    platform="linux-x86_64",
    torch="2.13.0",
    torch_npu="2.13.0",
    device="stand-in",
    values="none",
    soc="Ascend910B1",
    jit_compile=False,
    switches=(("TASK_QUEUE_ENABLE", "1"),),
)


def kernel(key, site, kind="kernel"):
    """One kernel on a call's way."""
    return KernelChoice(key=key, kind=kind, site=site)


AUTOCAST = (kernel("AutocastPrivateUse1", "AutoCastOps.cpp:28"),)
LINEAR = (
    kernel(
        "AutogradPrivateUse1",
        "RegisterCompositeImplicitAutograd_0.cpp:5218",
        "math kernel",
    ),
)
NPU = (
    kernel("AutogradPrivateUse1", "VariableType_0.cpp:1"),
    kernel("PrivateUse1", "RegisterNPU.cpp:34325"),
)
FALLBACK = (
    kernel("PrivateUse1", "VariableFallbackKernel.cpp:240", "backend fallback"),
)
CPU = (kernel("CPU", "RegisterCPU_0.cpp:7"),)


def tensor(storage, *shape, dtype="float32", device="npu:0", stride=None):
    """A tensor by its storage and shape."""
    return TensorSpec(
        dtype=dtype,
        device=device,
        shape=shape,
        stride=stride,
        storage_id=storage,
        id=storage,
    )


def call(index, name, path, inputs, outputs, *, line=None, **more):
    """One call; the inputs by name, written ones with an exclamation mark."""
    return OpRecord(
        index=index,
        name=name,
        path=path,
        inputs=tuple(
            Argument(name=key.rstrip("_"), value=value, written=key.endswith("_"))
            for key, value in inputs.items()
        ),
        outputs=tuple(outputs),
        source=None
        if line is None
        else SourceLocation(file=NET, line=line, function="step"),
        root=None if more.get("module") is None else "Net",
        **more,
    )


def launch(index, name, op, *tensors):
    """One launch of a call."""
    return AclnnRecord(
        index=index,
        offset=index,
        text=f"{name}\n",
        name=name,
        command="EXEC_NPU_CMD",
        stream=0,
        arguments=tuple(
            LoggedArgument(name=f"a{n}", value=each, kind="Tensor")
            for n, each in enumerate(tensors)
        ),
        op=op,
        attribution="inside the call" if op is not None else "no traced call around it",
    )


def training_step():
    """Two layers that are alike, under autocast, then a fallback and a gradient."""
    x, w, y = tensor(1, 2, 8), tensor(2, 8, 8), tensor(3, 2, 8)
    half = tensor(4, 2, 8, dtype="float16")
    calls, lines = [], []
    for number, (module, line) in enumerate([("fc1", 5), ("fc2", 6)]):
        start = 4 * number
        where = {"module": module, "module_type": "Linear", "line": line}
        calls += [
            call(start, "aten::linear", AUTOCAST, {"input": x, "weight": w}, [y], **where),
            call(start + 1, "aten::_to_copy", NPU, {"self": x}, [half],
                 parent=start, depth=1, **where),
            call(start + 2, "aten::linear", LINEAR, {"input": half, "weight": w}, [y],
                 parent=start, depth=1, **where),
            call(start + 3, "aten::addmm", NPU, {"self": half, "mat1": w}, [y],
                 parent=start + 2, depth=2, **where),
        ]  # fmt: skip
        lines += [
            launch(2 * number, "aclnnInplaceCopy", start + 1, half, x),
            launch(2 * number + 1, "aclnnAddmm", start + 3, half, w, y),
        ]
    host = tensor(9, 2, 8, device="cpu")
    calls += [
        call(8, "aten::digamma", FALLBACK, {"self": y, "out_": y}, [y],
             overload="out", line=7),
        call(9, "aten::copy_", NPU, {"self_": host, "src": y}, [host], parent=8, depth=1, line=7),
        call(10, "aten::mm", NPU, {"self": y, "mat2": w}, [x], module="fc2",
             module_type="Linear", phase=Phase.BACKWARD, autograd_node="AddmmBackward0"),
        call(11, "aten::abs", NPU, {"self": y}, [tensor(20, 2, 8)], line=8),
    ]  # fmt: skip
    lines += [launch(4, "aclnnMm", 10, y, w, x), launch(5, "aclnnLost", None)]
    trace = OpTrace(records=calls, environment=DEVICE, engine="dispatcher")
    logs = LogTrace(
        records=lines,
        environment=DEVICE,
        missing=(
            MissingReason(what="dispatch", reason="It is off.", remedy="Turn it on."),
        ),
    )
    return DispatchReport(chains=join(trace, logs).chains, trace=trace, logs=logs)


def failed():
    """A block that an error of the device ended."""
    step = training_step()
    before = tuple(
        (Launch(record=each), SourceLocation(file=NET, line=line, function="step"))
        for line, each in enumerate(step.logs.launches[:2], 5)
    )
    return DispatchReport(
        chains=step.chains[:1],
        trace=step.trace,
        logs=step.logs,
        failure=Failure(
            exception=ExceptionRecord(
                type="RuntimeError", message="The Inner error is\nmore"
            ),
            reported="aclnnAddmm",
            code=507015,
            asynchronous=True,
            before=before,
        ),
        notes=("Something was not seen.",),
    )
