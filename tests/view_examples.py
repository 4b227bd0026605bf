# SPDX-License-Identifier: BSD-3-Clause
"""One object of every kind that prints itself, from records made by hand."""

from __future__ import annotations

from attrs import evolve

from npu_dispatch_inspect import Environment, LogTrace, OpRecord, OpTrace, compare
from npu_dispatch_inspect.dispatch_table.compare import compare_tables
from npu_dispatch_inspect.records import (
    Argument,
    Constant,
    ExceptionRecord,
    Phase,
    SourceLocation,
    TensorSpec,
)
from npu_dispatch_inspect.records.coverage import Coverage, CoveredCall
from npu_dispatch_inspect.records.graphs import (
    CapturedGraph,
    FailureKind,
    GraphBreak,
    GraphFailure,
    GraphInput,
    GraphNode,
    GraphOutput,
    GraphStage,
    InputKind,
    NodeKind,
    OutputKind,
    SavedTensor,
)
from npu_dispatch_inspect.records.logs import (
    AclnnRecord,
    AsyncErrorRecord,
    FallbackWarning,
    LoggedArgument,
    LogOrigin,
    LogStyle,
    MissingReason,
    QueueAction,
    QueueRecord,
    QueueState,
    QueueTask,
    TaskKind,
)
from npu_dispatch_inspect.records.paths import (
    BackendChoice,
    DtypeProbe,
    Explanation,
    PathStep,
    PredictedCall,
    StepAction,
)
from npu_dispatch_inspect.records.registrations import (
    KernelRegistration,
    KernelState,
    OverloadGroup,
    PythonKernel,
)
from npu_dispatch_inspect.records.traced_registrations import (
    RegisteredCall,
    RegistrationTrace,
)
from npu_dispatch_inspect.traces.graphs import GraphSet
from tests.report_examples import failed, training_step
from tests.table_examples import COMPOSITE, CPU, OWN, TABLE, entry, winner

__all__ = ["HERE", "examples", "long_trace"]

HERE = Environment(tool="0.1.0", python="3.11.7", platform="linux", torch="2.13.0")


def tensor(*shape, dtype="float32", id=None):  # noqa: A002 - the field's name
    """A tensor on the NPU."""
    return TensorSpec(dtype=dtype, device="npu:0", shape=shape, id=id)


def op(index, name, inputs, outputs, *, line=None, **more):
    """One call, its inputs by name."""
    return OpRecord(
        index=index,
        name=name,
        inputs=tuple(Argument(name=key, value=each) for key, each in inputs.items()),
        outputs=outputs,
        source=None
        if line is None
        else SourceLocation(file="/home/me/net.py", line=line, function="forward"),
        root=None if more.get("module") is None else "Net",
        **more,
    )


def op_trace():
    """A layer, the calls inside it, a gradient and a call that raised."""
    where = {"module": "mlp.fc1", "module_type": "Linear", "line": 12}
    x, w, b = tensor(32, 128, id=1), tensor(64, 128, id=2), tensor(64, id=3)
    wt, y = tensor(128, 64, id=4), tensor(32, 64, id=5)
    return OpTrace(
        label="step",
        engine="dispatcher",
        environment=HERE,
        notes=("A thread was not seen.",),
        records=[
            op(0, "aten::linear", {"input": x, "weight": w, "bias": b}, (y,), **where),
            op(1, "aten::t", {"self": w}, (wt,), parent=0, depth=1, **where),
            op(2, "aten::addmm", {"self": b, "mat1": x, "mat2": wt}, (y,),
               parent=0, depth=1, **where),
            op(3, "aten::gelu", {"self": y, "approximate": "none"}, (tensor(32, 64, id=6),),
               module="mlp", module_type="MLP", line=13),
            op(4, "aten::mm", {"self": wt, "mat2": y}, (tensor(128, 64, id=7),),
               phase=Phase.BACKWARD, module="mlp.fc1", module_type="Linear"),
            op(5, "aten::sum", {"self": y, "dim": (0, 1, 2, 3, 4, 5), "dtype": Constant(kind="dtype", text="float16")},
               None, overload="dim_IntList", line=21, phase=Phase.OTHER,
               exception=ExceptionRecord(type="IndexError", message="no")),
        ],
    )  # fmt: skip


def long_trace(count=1000):
    """Many calls of one kind."""
    records = [OpRecord(index=each, name="aten::t") for each in range(count)]
    return OpTrace(records=records, environment=HERE)


def log_trace():
    """A launch whose task ran, one that failed, a copy, warnings, an error."""
    origin = LogOrigin(style=LogStyle.GLOG, logger="torch_npu.dispatch")

    def launch(index, name, op, **more):
        return AclnnRecord(
            index=index, offset=index, origin=origin, text=f"{name}\n", name=name, stream=0,
            command="EXEC_NPU_CMD", op=op,
            arguments=tuple(
                LoggedArgument(name="a", value=each, kind="Tensor")
                for each in (tensor(2, 8), tensor(8, 4), tensor(2, 4), 0)
            ), **more,
        )  # fmt: skip

    def queue(index, action, task, slot, ret=None):
        return QueueRecord(
            index=index, offset=index, origin=origin, text="queue\n", action=action, task=task,
            state=QueueState(device=0, write_idx=slot, read_idx=slot, status=1, ret=ret),
        )  # fmt: skip

    addmm = QueueTask(kind=TaskKind.OPERATOR, name="aclnnAddmm")
    gelu = QueueTask(kind=TaskKind.OPERATOR, name="aclnnGelu")
    copy = QueueTask(kind=TaskKind.COPY, copy=(64, 64, 1))
    return LogTrace(
        label="step",
        environment=HERE,
        incomplete=("The log begins in the middle.",),
        missing=(MissingReason(what="dispatch", reason="It is off.", remedy="Turn it on."),),
        records=[
            launch(0, "aclnnAddmm", 3),
            queue(1, QueueAction.WRITE, addmm, 7),
            queue(2, QueueAction.READ, addmm, 7, ret=0),
            launch(3, "aclnnGelu", None),
            queue(4, QueueAction.WRITE, gelu, 8),
            queue(5, QueueAction.READ_FAILED, gelu, 8, ret=507015),
            queue(6, QueueAction.WRITE, copy, 9),
            FallbackWarning(index=7, offset=7, origin=origin, text="CAUTION\n", operator="aten::digamma.out"),
            AsyncErrorRecord(index=8, offset=8, origin=origin, text="error\n", operator="aclnnGelu", code=507015,
                             preceding=("aclnnAddmm", "aclnnGelu")),
        ],
    )  # fmt: skip


def explanation():
    """A composite with two calls inside, one of them not followed."""
    mm = PredictedCall(
        name="aten::mm",
        inputs=(Argument(name="self", value=tensor(2, 3)),),
        steps=(
            PathStep(key="AutogradPrivateUse1", action=StepAction.PASSES_ON, kernel=CPU),
            PathStep(key="PrivateUse1", action=StepAction.RUNS, kernel=OWN),
        ),
        notes=("Hooks may change it.",),
    )  # fmt: skip
    item = PredictedCall(name="aten::item", unknown="It reads a value.")
    linear = PredictedCall(
        name="aten::linear",
        inputs=(Argument(name="input", value=tensor(2, 3)),),
        steps=(PathStep(key="AutogradPrivateUse1", action=StepAction.DECOMPOSES, kernel=COMPOSITE),),
        calls=(mm, item),
    )  # fmt: skip
    return Explanation(
        calls=(linear,),
        unknown="The function branches on a value.",
        backend=(
            BackendChoice(operator="aten::mm", backend="NPU", route="aclnn",
                          reasons=("jit_compile is off",), unobserved=("what CANN does",)),
        ),
        dtypes=(
            DtypeProbe(dtype="float16", outcome="supported", results=("float16",), certain=False),
            DtypeProbe(dtype="complex64", outcome="refused", message="not implemented"),
        ),
    )  # fmt: skip


def covered():
    """Calls with a kernel, without one, left to the CPU, and one at risk."""

    def call(operator, state, site, **more):
        return CoveredCall(
            operator=operator, state=state, site=site, module="fc", **more
        )

    return Coverage(
        key="PrivateUse1",
        source="trace",
        complete=False,
        calls=(
            call("aten::addmm", KernelState.OWN_KERNEL, "RegisterNPU.cpp:1"),
            call("aten::addmm", KernelState.OWN_KERNEL, "RegisterNPU.cpp:1"),
            call("aten::std.correction", KernelState.OWN_KERNEL, "RegisterNPU.cpp:1",
                 risk="with a correction that is no integer"),
            call("aten::digamma", KernelState.FALLBACK, "Fallback.cpp:4", through="aten::digamma.out"),
            call("npu::gone", KernelState.MISSING, ""),
        ),
    )  # fmt: skip


def entry_in_full():
    """An operator with everything an entry can have."""
    plain = entry(
        "aten::mm.out",
        {
            "CPU": CPU,
            "PrivateUse1": OWN,
            "AutogradPrivateUse1": winner("autograd kernel", "VariableType_0.cpp:9"),
            "CompositeImplicitAutograd": winner("kernel", "F.cpp:5", fallthrough=True),
        },
        [("CPU", "/src/RegisterCPU_0.cpp"), ("PrivateUse1", "/npu/RegisterNPU.cpp")],
    )
    old = KernelRegistration(operator="aten::mm.out", key="CPU", file="/a/mine.py", line=7, active=False)  # fmt: skip
    python = PythonKernel(operator="aten::mm.out", key="decomposition", function="mm_out", file="/a/decomp.py", line=2)  # fmt: skip
    return evolve(
        plain,
        registrations=(*plain.registrations[:1], old, *plain.registrations[1:]),
        python_kernels=(python,),
    )


def graph_set():
    """A forward graph, a capture that failed and a break."""
    weight, x, y = tensor(4, 2, id=1), tensor(1, 2, id=2), tensor(1, 4, id=3)
    graph = CapturedGraph(
        stage=GraphStage.FORWARD,
        environment=HERE,
        partition="min_cut",
        code="def forward(self, primals_1, primals_2):\n    if 1 < 2: return (mm,)\n",
        notes=("One input was named by its position.",),
        nodes=(
            GraphNode(index=0, variable="mm", name="aten::mm", module="fc", module_type="Linear",
                      inputs=(Argument(name="self", value=x), Argument(name="mat2", value=weight)),
                      outputs=(y,), source=SourceLocation(file="/a/net.py", line=4, function="f")),
            GraphNode(index=1, variable="getitem", kind=NodeKind.GETITEM, name="getitem", recomputed=True),
        ),
        inputs=(
            GraphInput(index=0, variable="primals_1", kind=InputKind.PARAMETER, name="fc.weight",
                       names=("fc.weight",), value=weight),
            GraphInput(index=1, variable="primals_2", kind=InputKind.ARGUMENT, name="x", names=("x",),
                       value=x, used=False, inferred=True),
        ),
        outputs=(GraphOutput(index=0, variable="mm", kind=OutputKind.RESULT, name="", value=y),),
        saved_for_backward=(SavedTensor(variable="mm", value=y, bytes=16),),
    )  # fmt: skip
    return GraphSet(
        environment=HERE,
        graphs=(graph,),
        failures=(
            GraphFailure(index=1, kind=FailureKind.NO_META_KERNEL, stage=GraphStage.JOINT,
                         message="npu::odd cannot say what its result looks like.", operator="npu::odd",
                         source=SourceLocation(file="/a/net.py", line=9, function="f"),
                         exception=ExceptionRecord(type="NotImplementedError", message="no meta"),
                         partial=graph),
        ),
        breaks=(GraphBreak(index=0, reason="print()", source=SourceLocation(file="/a/net.py", line=5, function="f")),),
    )  # fmt: skip


def examples():
    """Every kind by name."""
    trace, report, logs = op_trace(), training_step(), log_trace()
    mine = entry_in_full()
    return {
        "trace": trace,
        "long_trace": long_trace(),
        "call_tree": trace.tree(),
        "call": trace.tree()[0],
        "flow": trace.flow(trace[2]),
        "logs": logs,
        "log_summary": logs.summary(),
        "report": report,
        "failed_report": failed(),
        "chain": report.chains[0],
        "table": TABLE,
        "entry": mine,
        "overloads": OverloadGroup(name="aten::mm", entries=(TABLE.entry("aten::mm"), mine)),
        "table_changes": compare_tables(TABLE.select("aten::mm"), TABLE.select("aten::linear")),
        "no_changes": compare_tables(TABLE, TABLE),
        "explanation": explanation(),
        "predicted_call": explanation().calls[0],
        "coverage": covered(),
        "registration_trace": RegistrationTrace(
            route="make_fx",
            reason="The device is not the CPU.",
            calls=(
                RegisteredCall(operator="aten::mm", module="fc", entry=TABLE.entry("aten::mm")),
                RegisteredCall(operator="npu::gone", module=None, entry=TABLE.entry("npu::gone")),
            ),
        ),
        "graphs": graph_set(),
        "comparison": compare(trace.forward, trace[1:4], names=("before", "after")),
    }  # fmt: skip
