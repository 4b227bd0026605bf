# SPDX-License-Identifier: BSD-3-Clause
"""Questions to a report, and its text."""

from __future__ import annotations

import copy
import pickle
from collections import Counter

import attrs
import pytest

from npu_dispatch_inspect import OpTrace, Phase, UsageError, Verdict
from npu_dispatch_inspect.chains import join
from npu_dispatch_inspect.traces.report import DispatchReport
from tests.report_examples import CPU, call, failed, tensor, training_step


@pytest.fixture(scope="module")
def report():
    """Two layers, a fallback, a gradient, an unknown call and a lost launch."""
    return training_step()


class TestQueries:
    def test_find(self, report):
        """Globs match operators with and without their overload."""
        assert [node.op.index for node in report.find("aten::linear")] == [0, 2, 4, 6]
        assert [node.op.index for node in report.find("aten::digamma.out")] == [8]
        assert report.find("aten::nothing") == ()

    @pytest.mark.parametrize(
        ("to", "way"),
        [
            ("aclnnAddmm", ("aten::linear", "aten::linear", "aten::addmm", "RegisterNPU.cpp:34325", "aclnnAddmm")),
            ("aten::addmm", ("aten::linear", "aten::linear", "aten::addmm")),
            ("RegisterNPU.cpp:*", ("aten::linear", "aten::_to_copy", "RegisterNPU.cpp:34325")),
        ],
    )  # fmt: skip
    def test_path(self, report, to, way):
        """The first way down to a launch, an operator or a kernel's site."""
        assert report.path("aten::linear", to=to) == way

    def test_path_that_is_not_there(self, report):
        """The message says which half is missing and what comes nearest."""
        with pytest.raises(UsageError) as error:
            report.path("aten::liner", to="*")
        assert str(error.value) == "aten::liner was not called; near it: aten::linear."
        with pytest.raises(UsageError) as error:
            report.path("aten::linear", to="aclnnAddm")
        assert str(error.value) == (
            "aten::linear was called and did not reach aclnnAddm; near it: aclnnAddmm."
        )

    def test_launches(self, report):
        """All launches in order; those of unknown calls stand apart."""
        assert [launch.name for launch in report.launches] == [
            "aclnnInplaceCopy", "aclnnAddmm", "aclnnInplaceCopy", "aclnnAddmm", "aclnnMm",
        ]  # fmt: skip
        assert [record.name for record in report.unattributed] == ["aclnnLost"]

    def test_by_module(self, report):
        """Each module with what it did itself, forward and backward."""
        shares = report.by_module()
        assert list(shares) == ["fc1", "fc2", None]
        assert shares["fc2"].launches == Counter(
            ["aclnnInplaceCopy", "aclnnAddmm", "aclnnMm"]
        )
        assert sum(share.calls for share in shares.values()) == 12
        assert shares[None].verdicts == Counter(
            [Verdict.CPU_FALLBACK, Verdict.COPY, Verdict.UNKNOWN]
        )

    def test_copies_and_casts(self, report):
        """Each with its kind, its cause and its line."""
        assert [
            (each.kind, each.cause, each.source.line)
            for each in report.copies_and_casts
        ] == [
            ("dtype cast", "autocast of aten::linear", 5),
            ("dtype cast", "autocast of aten::linear", 6),
            ("device to host", "CPU fallback of aten::digamma.out", 7),
        ]

    def test_fallbacks(self, report):
        """Calls that the CPU did."""
        assert [node.op.name for node in report.fallbacks] == ["aten::digamma"]

    @pytest.mark.parametrize(
        ("pattern", "indices"),
        [
            ("aten::addmm", [3, 7]),
            ("aclnnMm", [10]),
            ("fc1", [0]),
            ("*", [0, 4, 8, 10, 11]),
            ("nothing", []),
        ],
    )
    def test_only(self, report, pattern, indices):
        """A part begins at the outermost calls that match."""
        assert [node.op.index for node in report.only(pattern).chains] == indices

    def test_missing_lines_make_it_incomplete(self, report):
        """What is missing is listed, and the report does not call itself complete."""
        assert [each.what for each in report.missing] == ["dispatch"]
        assert not report.complete

    def test_value(self, report):
        """Reports compare by value, hash, pickle and copy."""
        assert report == training_step()
        assert hash(report) == hash(training_step())
        assert report != failed()
        assert report != "report"
        assert pickle.loads(pickle.dumps(failed())) == failed()
        assert copy.deepcopy(report) == report
        assert repr(report) == "DispatchReport(12 calls, 5 launches)"


TEXT = """\
device: stand-in (Ascend910B1), nothing is computed · torch 2.13.0 · torch_npu 2.13.0 · jit_compile off · TASK_QUEUE_ENABLE=1

fc1 (Linear), net.py:5
  aten::linear            composite     AutocastPrivateUse1 AutoCastOps.cpp:28      f32[2, 8], f32[8, 8] -> f32[2, 8]
  ├─ aten::_to_copy       aclnn         PrivateUse1 RegisterNPU.cpp:34325           f32[2, 8] -> f16[2, 8]
  │  └─ aclnnInplaceCopy  launch        stream 0                                    f16[2, 8], f32[2, 8]
  └─ aten::linear         composite     RegisterComposi...grad_0.cpp:5218           f16[2, 8], f32[8, 8] -> f32[2, 8]
     └─ aten::addmm       aclnn         PrivateUse1 RegisterNPU.cpp:34325           f16[2, 8], f32[8, 8] -> f32[2, 8]
        └─ aclnnAddmm     launch        stream 0                                    f16[2, 8], f32[8, 8], f32[2, 8]
fc2 (Linear), net.py:6: as fc1 (Linear), net.py:5
no module, net.py:7
  aten::digamma.out       CPU fallback  PrivateUse1 VariableFallbackKernel.cpp:240  f32[2, 8], f32[2, 8] -> f32[2, 8]  (1 call inside)
fc2 (Linear), backward
  aten::mm                aclnn         PrivateUse1 RegisterNPU.cpp:34325           f32[2, 8], f32[8, 8] -> f32[2, 8]
  └─ aclnnMm              launch        stream 0                                    f32[2, 8], f32[8, 8], f32[2, 8]
no module, net.py:8
  aten::abs               unknown       PrivateUse1 RegisterNPU.cpp:34325           f32[2, 8] -> f32[2, 8]

12 calls, 5 aclnn launches
      5  aclnn
      4  composite
      1  CPU fallback
      1  copy
      1  unknown
fallbacks to the CPU: 1
  aten::digamma.out: The tables give it the PrivateUse1 backend fallback at VariableFallbackKernel.cpp:240.  net.py:7
copies and casts: 3
  dtype cast: f32[2, 8] -> f16[2, 8], autocast of aten::linear  net.py:5
  dtype cast: f32[2, 8] -> f16[2, 8], autocast of aten::linear  net.py:6
  device to host: f32[2, 8], CPU fallback of aten::digamma.out  net.py:7
unknown: 1
  aten::abs: It reached the PrivateUse1 kernel at RegisterNPU.cpp:34325 and no launch was seen; dispatch lines are missing.  net.py:8
launches of which the call is not known: 1
  aclnnLost: no traced call around it
missing: dispatch lines. It is off. Turn it on."""

FAILED = """\
the block died of RuntimeError: The Inner error is
  reported operator: aclnnAddmm, error 507015
  The device works behind the host: the cause may be an earlier launch. ASCEND_LAUNCH_BLOCKING=1 makes it surface where it is.
  the last launches before it, latest last:
    aclnnInplaceCopy  net.py:5
    aclnnAddmm        net.py:6
missing: dispatch lines. It is off. Turn it on.
note: Something was not seen."""


class TestText:
    def test_whole_text(self, report):
        """The tree under its headings, then everything that stands out."""
        assert str(report) == TEXT

    def test_summary_is_its_end(self, report):
        """The summary is the first line and all that follows the tree."""
        first, *rest = report.summary().split("\n")
        assert TEXT.startswith(f"{first}\n\n")
        assert TEXT.endswith("\n".join(rest))

    def test_place_without_a_line(self, report):
        """Of a call that no line of the program made, module and phase are told."""
        fallback, mm, _ = report.chains[2:]
        backward = attrs.evolve(fallback, op=mm.op)
        shown = DispatchReport(chains=[backward], trace=report.trace, logs=None)
        told = shown.summary().splitlines()
        assert told[told.index("fallbacks to the CPU: 1") + 1] == (
            f"  aten::mm: {fallback.why}  fc2 (Linear), backward"
        )

    def test_error(self):
        """What the block died of, and what ran before."""
        assert failed().summary().endswith(FAILED)

    def test_width(self, report):
        """No line of the tree is longer than asked for; what goes beyond is cut."""
        tree = report.to_text(width=80).split("\n\n")[1].splitlines()
        assert max(map(len, tree)) == 80
        assert all(line.endswith("...") for line in tree if len(line) == 80)

    def test_unfolded(self, report):
        """Without folding every call and every repetition is there."""
        text = report.to_text(fold=False)
        assert text.count("aten::linear") - TEXT.count("aten::linear") == 2
        assert "  └─ aten::copy_          copy " in text
        assert "f32[2, 8] cpu, f32[2, 8] npu:0 -> f32[2, 8] cpu" in text
        assert ": as fc1" not in text

    def test_limit(self, report):
        """So many of the program's own calls are shown, the rest is counted."""
        tree = report.to_text(max_chains=1).split("\n\n")[1]
        assert "fc2" not in tree
        assert tree.endswith("... 4 more calls")

    def test_repeated_calls(self, report):
        """A run of equal calls is one line, one of several calls is shown once."""
        fallback, mm, _ = report.chains[2:]

        def tree(*chains):
            part = DispatchReport(chains=chains, trace=report.trace, logs=report.logs)
            return part.to_text().split("\n\n")[1]

        assert "aten::digamma.out  CPU fallback" in tree(*[fallback] * 3)
        assert "VariableFallbackKernel.cpp:240  3 times" in tree(*[fallback] * 3)
        assert tree(*[mm] * 3).count("aclnnMm") == 1
        other = report.find("aten::linear")[3]
        assert other.op.module == "fc2"
        pairs = tree(*[report.find("aten::addmm")[1], other] * 3)
        assert pairs.endswith("  ... the last 2 calls, 3 times in all")
        assert pairs.count("aten::linear") == 1


class TestManyCalls:
    """Where not all calls find room, those outside modules make some."""

    def report(self, module="fc", **outside):
        """Twenty calls outside modules, then two in one."""
        made = [
            call(index, "aten::mm", CPU, {"self": tensor(1, 2, 8)}, [tensor(2, 2)], line=4, **outside)
            for index in range(20)
        ]  # fmt: skip
        made += [
            call(
                20 + index, "aten::relu", CPU, {}, [tensor(3, 2)], module=module, line=5
            )
            for index in range(2)
        ]
        trace = OpTrace(records=made, environment=training_step().environment)
        return DispatchReport(chains=join(trace).chains, trace=trace)

    def tree(self, report, **options):
        """The lines of the tree, without what stands in columns."""
        lines = report.to_text(**options).split("\n\n")[1].splitlines()
        return [line.partition("  ")[0] or line.split()[0] for line in lines]

    def test_they_are_one_line(self):
        """Their number and what became of them is told; the module is shown."""
        assert self.tree(self.report(), max_chains=2) == [
            "no module, net.py:4: 20 calls: 20 kernel",
            "fc, net.py:5",
            "aten::relu",
        ]
        assert self.tree(self.report(), max_chains=1)[-1] == "... 1 more call"

    @pytest.mark.parametrize(
        ("report", "options"),
        [
            ({}, {"max_chains": 22}),
            ({}, {"max_chains": 2, "fold": False}),
            ({"module": None}, {"max_chains": 2}),
            ({"regions": ("load",)}, {"max_chains": 2}),
            ({"phase": Phase.OPTIMIZER}, {"max_chains": 2}),
        ],
    )
    def test_they_are_shown(self, report, options):
        """Room for all, no folding, no module at all, a region or another phase."""
        assert "aten::mm" in self.tree(self.report(**report), **options)
