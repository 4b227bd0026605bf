# SPDX-License-Identifier: BSD-3-Clause
"""A training step of Linear, GELU, Linear as hand-built records, and log lines."""

from __future__ import annotations

from npu_dispatch_inspect import (
    Argument,
    Environment,
    OpRecord,
    OpTrace,
    Phase,
    SourceLocation,
    TensorSpec,
)
from npu_dispatch_inspect.records import AclnnRecord, LogOrigin, LogRecord, LogStyle
from npu_dispatch_inspect.traces.logs import LogTrace

HERE = Environment(
    tool="0.1.0", python="3.11.7", platform="linux-x86_64", torch="2.13.0", device="cpu"
)
NPU = Environment(
    tool="0.1.0",
    python="3.11.7",
    platform="linux-x86_64",
    torch="2.13.0",
    torch_npu="2.13.0",
    device="npu",
)


def tensor(*shape, dtype="float32"):
    """A tensor on the CPU."""
    return TensorSpec(dtype=dtype, device="cpu", shape=shape)


def record(
    index, name, *inputs, module=None, line=None, phase="forward", overload="default"
):
    """One call."""
    return OpRecord(
        index=index,
        name=name,
        overload=overload,
        inputs=tuple(Argument(name="self", value=each) for each in inputs),
        phase=Phase(phase),
        root="Net",
        module=module,
        source=line
        and SourceLocation(file="/home/me/model.py", line=line, function="forward"),
    )


FC1 = {"module": "mlp.fc1", "line": 31}
ACT = {"module": "mlp.act", "line": 32}
FC2 = {"module": "mlp.fc2", "line": 33}
BACK = {"phase": "backward", "line": 40}
RECORDS = (
    record(0, "aten::t", tensor(8, 8), **FC1),
    record(1, "aten::addmm", tensor(8), tensor(2, 8), tensor(8, 8), **FC1),
    record(2, "aten::gelu", tensor(2, 8), **ACT),
    record(3, "aten::t", tensor(4, 8), **FC2),
    record(4, "npu::npu_format_cast", tensor(4, 8), 29, **FC2),
    record(5, "aten::addmm", tensor(4), tensor(2, 8), tensor(8, 4), **FC2),
    record(6, "aten::sum", tensor(2, 4), line=39),
    record(7, "aten::ones_like", tensor(), **BACK),
    record(8, "aten::expand", tensor(), (2, 4), **BACK),
    record(9, "aten::mm", tensor(2, 4), tensor(4, 8), module="mlp.fc2", **BACK),
    record(
        10,
        "aten::sum",
        tensor(2, 4),
        (0,),
        module="mlp.fc2",
        overload="dim_IntList",
        **BACK,
    ),
    record(
        11, "aten::gelu_backward", tensor(2, 8), tensor(2, 8), module="mlp.act", **BACK
    ),
    record(
        12,
        "aten::mm",
        tensor(8, 2),
        tensor(2, 8, dtype="float16"),
        module="mlp.fc1",
        **BACK,
    ),
)
TRACE = OpTrace(records=RECORDS, environment=HERE)
EMPTY = OpTrace(environment=HERE)
HUGE = OpTrace(
    records=[
        record(each, "aten::add", tensor(4), 1, overload="Tensor")
        for each in range(100_000)
    ],
    environment=HERE,
)
CUT = OpTrace(records=RECORDS[:3], environment=HERE, truncated=True)
NAMES = [each.name for each in RECORDS]


def line(index, level, message, logger="torch_npu.dispatch"):
    """One log line."""
    return LogRecord(
        index=index,
        offset=index * 100,
        text=f"[x] {message}\n",
        start=4,
        origin=LogOrigin(style=LogStyle.THREADED, level=level, logger=logger),
    )


def launch(index, name):
    """One aclnn launch."""
    return AclnnRecord(
        index=index,
        offset=index * 100,
        text=f"[x] EXEC_NPU_CMD {name}\n",
        start=4,
        origin=LogOrigin(
            style=LogStyle.THREADED, level="INFO", logger="torch_npu.op_plugin"
        ),
        name=name,
        command="EXEC_NPU_CMD",
        arguments=(Argument(name="self", value=tensor(2, 8)),),
    )


LOGS = LogTrace(
    records=[
        line(0, "DEBUG", "ReadQueue: read success"),
        launch(1, "aclnnAddmm"),
        line(2, "WARNING", "CAUTION: aten::digamma.out falls back to run on the CPU"),
        launch(3, "aclnnGelu"),
        line(4, "INFO", "x" * 500, logger="torch_npu.memory"),
    ]
)
NO_LOGS = LogTrace()
HUGE_LOGS = LogTrace(records=[launch(each, "aclnnAdd") for each in range(100_000)])
