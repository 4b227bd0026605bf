# SPDX-License-Identifier: BSD-3-Clause
"""Assertions on registrations: what passes, and the whole text of what fails."""

from __future__ import annotations

import re

import pytest

from npu_dispatch_inspect import (
    DispatchTable,
    OpTrace,
    UnknownNameError,
    UsageError,
    assert_kernel,
    assert_no_fallback,
    read_dispatch_table,
)
from npu_dispatch_inspect.assertions._settings import SETTINGS, Settings
from npu_dispatch_inspect.traces.tables import EntrySource
from tests.table_examples import KEYS, TABLE, entry, winner
from tests.training_trace import HERE, TRACE, record


@pytest.fixture(autouse=True)
def _settings(monkeypatch):
    """Texts as long as they are without the plugin, whatever -v says here."""
    for name, value in vars(Settings()).items():
        monkeypatch.setattr(SETTINGS, name, value)


EMPTY = DispatchTable(EntrySource([]), keys=KEYS)
HUGE = DispatchTable(
    EntrySource(
        [
            entry(
                f"aten::op_{number}",
                {"PrivateUse1": winner("backend fallback", "Fallback.cpp:4")},
                [(f"Key{key}", f"/src/Register_{key}.cpp") for key in range(100)],
            )
            for number in range(1000)
        ]
    ),
    keys=KEYS,
)
MISSING_IN_EMPTY = (
    "There is no operator 'aten::mm': write it as torch does, 'aten::relu', and load "
    "the library that has it."
)


@pytest.mark.parametrize(
    "check",
    [
        lambda: assert_kernel(TABLE, "aten::mm"),
        lambda: assert_kernel(TABLE, "aten::mm", "NPU", file="RegisterNPU.cpp"),
        lambda: assert_kernel(TABLE, "aten::mm", key="CPU", file="RegisterCPU"),
        lambda: assert_kernel(TABLE, "aten::linear", state="composite"),
        lambda: assert_kernel(TABLE, "npu::gone", state="missing"),
        lambda: assert_kernel(TABLE, "aten::lgamma.out", state="backend fallback"),
        lambda: assert_kernel(TABLE, "aten::full", state="default backend kernel"),
        lambda: assert_kernel(HUGE, "aten::op_999", state="backend fallback"),
        lambda: assert_no_fallback(TABLE, "aten::mm", "aten::linear"),
        lambda: assert_no_fallback(TABLE, key="CPU"),
        lambda: assert_no_fallback(HUGE, key="CPU"),
        lambda: assert_no_fallback(EMPTY),
        lambda: assert_no_fallback(TABLE, OpTrace(environment=HERE)),
    ],
)
def test_pass(check):
    """What is as it should be says nothing."""
    assert check() is None


FAILURES = [
    (
        lambda: assert_kernel(TABLE, "aten::linear"),
        "aten::linear has no own kernel for PrivateUse1: composite at Composite.cpp:2",
    ),
    (
        lambda: assert_kernel(TABLE, "aten::mm", state="composite"),
        """\
aten::mm has no composite for PrivateUse1: own kernel at RegisterNPU.cpp:1
  registered for CPU at RegisterCPU_0.cpp:1
  registered for PrivateUse1 at RegisterNPU.cpp:1""",
    ),
    (
        lambda: assert_kernel(TABLE, "aten::mm", file="RegisterOther"),
        """\
aten::mm has its own kernel for PrivateUse1 from RegisterNPU.cpp:1, not from RegisterOther
  registered for CPU at RegisterCPU_0.cpp:1
  registered for PrivateUse1 at RegisterNPU.cpp:1""",
    ),
    (
        lambda: assert_kernel(TABLE, "npu::gone", key="NPU"),
        "npu::gone has no own kernel for NPU: missing",
    ),
    (
        lambda: assert_kernel(TABLE, "aten::lgamma.out"),
        (
            "aten::lgamma.out has no own kernel for PrivateUse1: "
            "backend fallback at Fallback.cpp:4"
        ),
    ),
    (
        lambda: assert_kernel(TABLE, "aten::skip"),
        "aten::skip has no own kernel for PrivateUse1: fallthrough at F.cpp:5",
    ),
    (
        lambda: assert_kernel(HUGE, "aten::op_1"),
        "\n".join(
            [
                (
                    "aten::op_1 has no own kernel for PrivateUse1: "
                    "backend fallback at Fallback.cpp:4"
                ),
                *(
                    f"  registered for Key{key} at Register_{key}.cpp:1"
                    for key in range(20)
                ),
                "  ... 80 more registrations",
            ]
        ),
    ),
    (
        lambda: assert_no_fallback(TABLE),
        """\
1 operator falls back for PrivateUse1: aten::lgamma.out (of 7)
  fallback registered at Fallback.cpp:4
  aten::lgamma.out""",
    ),
    (
        lambda: assert_no_fallback(HUGE, "aten::op_1", "aten::op_2"),
        """\
2 operators fall back for PrivateUse1: aten::op_1, aten::op_2 (of 2)
  fallback registered at Fallback.cpp:4
  aten::op_1
  aten::op_2""",
    ),
    (
        lambda: assert_no_fallback(HUGE),
        "\n".join(
            [
                (
                    "1000 operators fall back for PrivateUse1: "
                    "aten::op_0, aten::op_1, aten::op_2 and 997 more (of 1000)"
                ),
                "  fallback registered at Fallback.cpp:4",
                *(f"  aten::op_{number}" for number in range(20)),
                "  ... 980 more operators",
            ]
        ),
    ),
    (
        lambda: assert_no_fallback(
            TABLE,
            OpTrace(
                records=[record(0, "aten::lgamma", overload="out")], environment=HERE
            ),
        ),
        """\
1 operator falls back for PrivateUse1: aten::lgamma.out (of 1)
  fallback registered at Fallback.cpp:4
  aten::lgamma.out""",
    ),
]


@pytest.mark.parametrize(("check", "text"), FAILURES)
def test_failure(check, text):
    """The verdict first, then every place that has a part in it."""
    with pytest.raises(AssertionError) as caught:
        check()
    assert str(caught.value) == text


@pytest.mark.parametrize(
    ("check", "error", "text"),
    [
        (lambda: assert_kernel(EMPTY, "aten::mm"), UnknownNameError, MISSING_IN_EMPTY),
        (
            lambda: assert_no_fallback(EMPTY, "aten::mm"),
            UnknownNameError,
            MISSING_IN_EMPTY,
        ),
        (
            lambda: assert_kernel(TABLE, "aten::mmm"),
            UnknownNameError,
            "There is no operator 'aten::mmm': did you mean aten::mm?",
        ),
        (
            lambda: assert_kernel(TABLE, "aten::mm", key="NPUX"),
            UnknownNameError,
            (
                "There is no dispatch key 'NPUX': write it as torch does: CPU, "
                "PrivateUse1, AutogradCPU."
            ),
        ),
        (
            lambda: assert_kernel(TABLE, "aten::mm", state="x"),
            UsageError,
            (
                "state= is one of 'own kernel', 'composite', 'default backend kernel', "
                "'backend fallback', 'fallthrough', 'other', 'missing', not 'x'."
            ),
        ),
        (
            lambda: assert_no_fallback(TRACE),
            UsageError,
            "The first argument is the table of read_dispatch_table(), not OpTrace.",
        ),
    ],
)
def test_mistakes(check, error, text):
    """A mistake in the call itself is told in one sentence."""
    with pytest.raises(error) as caught:
        check()
    assert str(caught.value) == text


def without_lines(text):
    """The text with every place as ``FILE:1``: torch's line numbers vary by build."""
    return re.sub(r"(\w+?)(?:_\d+)?\.cpp:\d+", r"\1.cpp:1", text)


class TestTorch:
    """Registrations of this process."""

    @pytest.fixture
    def table(self):
        """A few operators."""
        return read_dispatch_table(
            "aten::relu", "aten::linear", "aten::add.Tensor", "aten::digamma"
        )

    def test_pass(self, table):
        """Kernels that are there."""
        assert_kernel(table, "aten::relu", key="CPU", file="RegisterCPU")
        assert_kernel(table, "aten::linear", key="CPU", state="composite")
        assert_no_fallback(table, key="CPU")
        assert_no_fallback(table, "aten::relu", key="CPU")

    def test_wrong_state(self, table):
        """The state there is, and every registration."""
        with pytest.raises(AssertionError) as caught:
            assert_kernel(table, "aten::linear", key="CPU")
        lines = without_lines(str(caught.value)).splitlines()
        assert lines[0] == (
            "aten::linear has no own kernel for CPU: "
            "composite at RegisterCompositeImplicitAutograd.cpp:1"
        )
        assert (
            "  registered for CompositeImplicitAutograd at "
            "RegisterCompositeImplicitAutograd.cpp:1"
        ) in lines

    @pytest.mark.npu
    def test_npu_kernels(self, table):
        """On torch_npu: an own kernel passes, a CPU fallback is named."""
        assert_kernel(table, "aten::add.Tensor", key="NPU", file="RegisterNPU.cpp")
        assert_no_fallback(table, "aten::add.Tensor")
        with pytest.raises(AssertionError) as caught:
            assert_no_fallback(table, "aten::digamma")
        assert without_lines(str(caught.value)) == (
            "1 operator falls back for PrivateUse1: aten::digamma.out (of 2)\n"
            "  fallback registered at VariableFallbackKernel.cpp:1\n"
            "  aten::digamma.out"
        )
