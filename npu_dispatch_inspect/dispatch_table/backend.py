# SPDX-License-Identifier: BSD-3-Clause
"""The second stage: what a backend decides once the dispatcher has chosen it."""

from __future__ import annotations

import os
from collections.abc import Iterable

import torch

from npu_dispatch_inspect._torch_private import dispatcher, npu_switches
from npu_dispatch_inspect.records.paths import (
    BackendChoice,
    PathStep,
    PredictedCall,
    StepAction,
)

__all__ = ["backend_choices"]

_ENDS = frozenset({StepAction.RUNS, StepAction.FALLS_BACK})
_CHANGES_ROUTE = ("TORCH_NPU_USE_COMPATIBLE_IMPL", "TORCH_NPU_FALLBACK_CPU_DISABLE")


def backend_choices(calls: Iterable[PredictedCall]) -> tuple[BackendChoice, ...]:
    """One choice for every operator whose way ends in a kernel of a backend."""
    found: dict[tuple[str, str], BackendChoice] = {}
    for top in calls:
        for call in top.walk():
            last = call.last
            if last is None or last.action not in _ENDS:
                continue
            where = call.qualified_name, last.key
            if where not in found:
                found[where] = _choice(call.qualified_name, last)
    return tuple(found.values())


def _choice(operator: str, step: PathStep) -> BackendChoice:
    if step.key == "CPU":
        return _cpu(operator)
    if step.key == "PrivateUse1" and _is_npu():
        return _npu_fallback(operator, step) if _falls(step) else _npu(operator)
    return BackendChoice(
        operator=operator,
        backend=step.key,
        route="unknown",
        unobserved=(f"what {step.key} kernels choose by is not looked at",),
    )


def _falls(step: PathStep) -> bool:
    return step.action is StepAction.FALLS_BACK


def _is_npu() -> bool:
    return dispatcher.private_backend_name() == "npu"


def _cpu(operator: str) -> BackendChoice:
    return BackendChoice(
        operator=operator,
        backend="CPU",
        route=torch.backends.cpu.get_cpu_capability(),
        reasons=(
            (
                "kernels behind a DispatchStub use what the processor can do, "
                "or what ATEN_CPU_CAPABILITY says"
            ),
        ),
        unobserved=(
            "whether this kernel is behind a DispatchStub",
            "whether it hands on to oneDNN or MKL",
        ),
    )


def _npu_fallback(operator: str, step: PathStep) -> BackendChoice:
    site = step.kernel.site if step.kernel is not None else "the backend fallback"
    return BackendChoice(
        operator=operator,
        backend="NPU",
        route="cpu fallback",
        reasons=(
            (
                f"no kernel for PrivateUse1, so {site} copies the tensors to the CPU, "
                f"runs it there and copies the results back"
            ),
            *_set_variables(),
        ),
        unobserved=("whether the CPU has a kernel for these dtypes",),
    )


def _npu(operator: str) -> BackendChoice:
    jit_compile = npu_switches.jit_compile()
    internal = npu_switches.internal_format_allowed()
    families = npu_switches.implementations(operator)
    known = None if families is None else frozenset(families) & {"acl_op", "op_api"}
    reasons = [*_set_variables()]
    unobserved = ["what the implementation itself chooses, by shape or dtype"]
    if not known:
        route = "unknown"
        unobserved.append("it is not in the list of aclnn and aclop implementations")
    elif len(known) == 1:
        route = "aclnn" if "op_api" in known else "aclop"
        reasons.append(f"torch_npu has no implementation of it but {route}")
    elif jit_compile is None:
        route = "unknown"
        unobserved.append("jit_compile, which is decided when the NPU is initialised")
    elif jit_compile:
        route = "aclop"
        reasons.append("jit_compile is on")
    else:
        route = "aclnn"
        reasons.append("jit_compile is off")
        if internal is False:
            reasons.append("private formats are not allowed")
        else:
            unobserved.append("a tensor in a private format would take aclop")
    if route == "aclnn":
        unobserved.append("an aclnn function missing from CANN would take aclop")
    return BackendChoice(
        operator=operator,
        backend="NPU",
        route=route,
        reasons=tuple(reasons),
        unobserved=tuple(unobserved),
    )


def _set_variables() -> list[str]:
    return [
        f"{name}={os.environ[name]}" for name in _CHANGES_ROUTE if name in os.environ
    ]
