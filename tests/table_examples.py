# SPDX-License-Identifier: BSD-3-Clause
"""A small registration table by hand: an operator in each state."""

from __future__ import annotations

from npu_dispatch_inspect import DispatchTable
from npu_dispatch_inspect.records.dispatch_keys import KeyNames
from npu_dispatch_inspect.records.registrations import (
    ComputedKernel,
    Definition,
    KernelRegistration,
    OperatorEntry,
    OperatorKind,
)
from npu_dispatch_inspect.traces.tables import EntrySource

KEYS = KeyNames(
    names=("CPU", "PrivateUse1", "AutogradPrivateUse1", "CompositeImplicitAutograd"),
    private_backend="npu",
)


def winner(kind, site, *, fallthrough=False):
    """A winner at a place such as ``a.cpp:1``."""
    file, _, line = site.partition(":")
    return ComputedKernel(kind=kind, file=file, line=int(line), fallthrough=fallthrough)


def entry(name, kernels=(), registrations=(), **more):
    """An operator by hand: kernels by key, registrations as (key, file)."""
    operator, _, overload = name.partition(".")
    return OperatorEntry(
        name=operator,
        overload=overload or "default",
        definition=Definition(
            operator=name, schema=f"{name}() -> ()", file="/src/Schema.cpp", line=1
        ),
        registrations=tuple(
            KernelRegistration(operator=name, key=key, file=file, line=1)
            for key, file in registrations
        ),
        kernels=tuple(dict(kernels).items()),
        keys=KEYS,
        **more,
    )


OWN = winner("kernel", "RegisterNPU.cpp:1")
COMPOSITE = winner("math kernel", "Composite.cpp:2")
CPU = winner("kernel", "RegisterCPU_0.cpp:3")
TABLE = DispatchTable(
    EntrySource(
        [
            entry(
                "aten::mm",
                {"CPU": CPU, "PrivateUse1": OWN},
                [
                    ("CPU", "/src/RegisterCPU_0.cpp"),
                    ("PrivateUse1", "/npu/RegisterNPU.cpp"),
                ],
            ),
            entry("aten::linear", {"CPU": COMPOSITE, "PrivateUse1": COMPOSITE}),
            entry(
                "aten::matmul",
                {"CPU": COMPOSITE, "PrivateUse1": OWN},
                [
                    ("CompositeImplicitAutograd", "/src/Composite.cpp"),
                    ("PrivateUse1", "/npu/RegisterNPU.cpp"),
                ],
            ),
            entry(
                "aten::lgamma.out",
                {"PrivateUse1": winner("backend fallback", "Fallback.cpp:4")},
            ),
            entry("npu::gone", {"CPU": CPU}),
            entry(
                "aten::skip",
                {
                    "PrivateUse1": winner(
                        "backend fallback", "F.cpp:5", fallthrough=True
                    )
                },
                kind=OperatorKind.DANGLING,
            ),
            entry(
                "aten::full",
                {"PrivateUse1": winner("default backend kernel", "Explicit.cpp:6")},
            ),
        ]
    ),
    keys=KEYS,
)
