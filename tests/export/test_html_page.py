# SPDX-License-Identifier: BSD-3-Clause
"""What an HTML page says and holds, looked at without a browser."""

from __future__ import annotations

import base64
import hashlib
import re
from html import unescape

import pytest
from attrs import evolve

from npu_dispatch_inspect.chains import join
from npu_dispatch_inspect.errors import RecordError, UsageError
from npu_dispatch_inspect.export import _html_ops
from npu_dispatch_inspect.export.htmlpage import html_report, write_html
from npu_dispatch_inspect.records import (
    AclnnRecord,
    AsyncErrorRecord,
    ExceptionRecord,
    FallbackWarning,
    LogOrigin,
    LogStyle,
    TaskKind,
    TaskRecord,
)
from npu_dispatch_inspect.records.chains import Launch
from npu_dispatch_inspect.traces.logs import LogTrace
from npu_dispatch_inspect.traces.ops import OpTrace
from npu_dispatch_inspect.traces.report import DispatchReport
from tests.export.html_pages import data_of, details_of, rows_of, words_of
from tests.report_examples import CPU, DEVICE, NPU, call, failed, tensor, training_step
from tests.training_trace import CUT, EMPTY, LOGS, TRACE

NASTY = "aten::</script><script>alert('{{ data }}')</script>&<!--\u2028"


@pytest.fixture(name="step", scope="module")
def _step():
    return html_report(training_step())


class TestVerdict:
    """The first thing a reader sees."""

    def test_fallback_comes_first(self, step):
        """A report with a fallback begins with it, by name."""
        assert "1 call ran on the CPU: aten::digamma.out." in words_of(step)

    def test_call_without_a_line_has_module_and_phase(self):
        """A backward fallback is found by its module, where it has no line."""
        report = training_step()
        fallback, mm, _ = report.chains[2:]
        backward = evolve(fallback, op=mm.op)
        shown = DispatchReport(chains=[backward], trace=report.trace, logs=report.logs)
        told = f"aten::mm: {fallback.why} fc2 (Linear), backward"
        assert told in words_of(html_report(shown))

    def test_stand_in_is_said(self, step):
        """A report made on the stand-in says so and that nothing was computed."""
        assert "stand-in for CANN: nothing was computed" in words_of(step)

    def test_figures_count_calls_and_launches(self, step):
        """The figures are those of the whole report."""
        words = words_of(step)
        assert "12 operator calls 5 aclnn launches 1 on the CPU 2 casts" in words

    def test_casts_are_grouped_with_their_line(self, step):
        """A cast is listed with its cause and the user's line."""
        cast = "dtype cast: f32[2, 8] -> f16[2, 8], autocast of aten::linear net.py:5"
        assert cast in words_of(step)

    def test_equal_findings_are_one_with_a_count(self):
        """What is the same at the same line is listed once and counted."""
        path = (*NPU,)
        cast = {"self": tensor(1, 2)}
        calls = [
            call(index, "aten::_to_copy", path, cast,
                 [tensor(5, 2, dtype="float16")], line=3)
            for index in range(3)
        ]  # fmt: skip
        trace = OpTrace(records=calls, environment=DEVICE, engine="dispatcher")
        assert "f32[2] -> f16[2] net.py:3 3 times" in words_of(html_report(trace))

    def test_what_was_not_seen_is_said(self, step):
        """Missing kinds of lines are named with the remedy, lost launches by name."""
        words = words_of(step)
        assert "dispatch lines are missing. It is off. Turn it on." in words
        assert "aclnnLost: no traced call around it" in words

    def test_failure_comes_before_everything(self):
        """A block that died begins with the error and the launches before it."""
        words = words_of(html_report(failed()))
        assert "The block died of RuntimeError: The Inner error is." in words
        assert "Reported operator: aclnnAddmm, error 507015." in words
        assert "aclnnInplaceCopy net.py:5 aclnnAddmm net.py:6" in words

    def test_a_whole_report_without_fallback_is_good(self):
        """Only where nothing is missing or unknown the verdict is without reserve."""
        x = tensor(1, 2)
        view = call(0, "aten::view", NPU, {"self": x}, [x])
        trace = OpTrace(records=[view], environment=DEVICE, engine="dispatcher")
        report = DispatchReport(chains=join(trace).chains, trace=trace)
        assert 'class="verdict good"' in html_report(report)
        noted = DispatchReport(
            chains=report.chains, trace=trace, notes=("A thread was not seen.",)
        )
        page = html_report(noted)
        assert 'class="verdict warn"' in page
        assert "No call was seen to fall back to the CPU." in words_of(page)
        assert "not everything is known" in words_of(page)

    def test_a_program_without_npu_is_not_praised(self):
        """Where no tensor was on an NPU nothing could fall back, and that is said."""
        add = call(0, "aten::add", CPU, {"self": tensor(1, 2, device="cpu")}, [])
        trace = OpTrace(records=[add], environment=DEVICE, engine="dispatcher")
        assert "No call came near an NPU." in words_of(html_report(trace))

    def test_a_failed_task_and_a_raising_call_are_found(self):
        """A task with an error code, and a call with an exception, are findings."""
        step = training_step()
        node = step.chains[-1]
        raised = evolve(
            node.op, exception=ExceptionRecord(type="ValueError", message="no\nmore")
        )
        task = TaskRecord(index=0, kind=TaskKind.OPERATOR, slot=7, ret=11, written=1)
        line = AclnnRecord(index=1, offset=1, text="x", name="aclnnAbs", command="C")
        chain = evolve(node, op=raised, launches=(Launch(record=line, task=task),))
        page = html_report(DispatchReport(chains=[chain], trace=step.trace))
        assert "aten::abs: ValueError: no net.py:8" in words_of(page)
        assert "aclnnAbs: the task failed with 11" in words_of(page)
        assert ("Raised", [["ValueError"], ["no\nmore"]]) in details_of(page, 0)

    def test_a_trace_says_what_it_cannot_know(self):
        """Without the dispatcher engine no word is said about kernels."""
        words = words_of(html_report(TRACE))
        assert "13 operator calls. The kernels that ran were not observed" in words
        assert "verdict" not in rows_of(html_report(TRACE))[0]

    def test_a_cut_trace_says_so(self):
        """A trace that ended early is not taken for a whole one."""
        assert "max_ops was reached" in words_of(html_report(CUT))

    def test_an_empty_trace_has_a_page(self):
        """Nothing traced is said in words."""
        assert "No operator was called." in words_of(html_report(EMPTY))


class TestTable:
    """The rows and what is told about each."""

    def test_rows_stand_in_the_order_of_the_calls(self, step):
        """Every call is a row, those inside a call after it and deeper."""
        data = data_of(step)
        assert data["number"] == list(range(12))
        assert data["depth"] == [0, 1, 1, 2, 0, 1, 1, 2, 0, 1, 0, 0]

    def test_a_row_has_all_that_is_known(self, step):
        """Operator, verdict, launch, shapes, dtypes, module, phase, kernel, line."""
        assert rows_of(step)[3] == {
            "op": "aten::addmm",
            "verdict": "aclnn",
            "aclnn": "aclnnAddmm",
            "shapes": "[2, 8], [8, 8] \u2192 [2, 8]",
            "dtypes": "f16, f32 \u2192 f32",
            "module": "fc1",
            "phase": "forward",
            "kernel": "PrivateUse1 RegisterNPU.cpp:34325",
            "line": "net.py:5",
        }

    def test_a_composite_names_what_was_launched_inside(self, step):
        """The row of a composite leads to its launches."""
        assert rows_of(step)[0]["aclnn"] == "via aclnnInplaceCopy, aclnnAddmm"

    def test_marks(self, step):
        """Fallbacks, casts and copies carry a mark to filter by."""
        data = data_of(step)
        keys = [tag["key"] for tag in data["tags"]]
        marked = {
            key: [row for row, marks in enumerate(data["marks"]) if marks & 1 << bit]
            for bit, key in enumerate(keys)
        }
        assert (marked["fallback"], marked["cast"]) == ([8], [1, 5])
        assert (marked["copy"], marked["launch"]) == ([9], [1, 3, 5, 7, 10])

    def test_details_follow_the_call_down_to_its_launch(self, step):
        """Line, keys and kernels, the launch, arguments and results."""
        details = dict(details_of(step, 3))
        assert details["Kernels on the way"] == [
            ["AutogradPrivateUse1", "kernel", "VariableType_0.cpp:1"],
            ["PrivateUse1", "kernel", "RegisterNPU.cpp:34325"],
        ]
        assert details["Launch"][0] == ["aclnnAddmm", "EXEC_NPU_CMD \u00b7 stream 0"]
        assert details["Arguments"][0] == ["self", "f16[2, 8]", "npu:0"]
        assert details["Source line"] == [["/home/user/net.py:5 in step"]]

    def test_a_backward_call_leads_to_its_forward_call(self):
        """The partner is the number of the forward call."""
        x = tensor(1, 2)
        calls = [
            call(4, "aten::exp", NPU, {"self": x}, [x]),
            call(9, "aten::mul", NPU, {"self": x}, [x], forward_index=4),
        ]
        trace = OpTrace(records=calls, environment=DEVICE, engine="dispatcher")
        assert data_of(html_report(trace))["partner"] == {"1": 4}

    def test_modules_are_a_tree_with_their_classes(self):
        """A place for every part of a module's path, the root first."""
        data = data_of(html_report(TRACE))
        names = [data["strings"][name] for name in data["tree"]["names"]]
        assert names == ["Net", "mlp", "fc1", "act", "fc2", "no module"]
        assert data["tree"]["depths"] == [0, 1, 2, 2, 2, 0]

    def test_too_many_rows_are_cut_and_counted(self, monkeypatch):
        """Beyond the limit rows are left out, and the page knows how many."""
        monkeypatch.setattr(_html_ops, "MAX_ROWS", 5)
        data = data_of(html_report(TRACE))
        assert (len(data["number"]), data["hidden"]) == (5, 8)


class TestLogs:
    """A page made of log lines."""

    def test_launches_fallbacks_and_errors_are_rows(self):
        """Lines that name an operator are rows; a fallback is the verdict."""
        origin = LogOrigin(style=LogStyle.THREADED, pid=812, tid=890, rank=1)
        records = [
            *LOGS.records,
            FallbackWarning(index=5, offset=9, text="w", operator="aten::digamma"),
        ]
        trace = LogTrace(records=[evolve(each, origin=origin) for each in records])
        page = html_report(trace)
        kinds = [(row["op"], row["kind"], row["source"]) for row in rows_of(page)]
        assert kinds == [
            ("aclnnAddmm", "launch", "rank 1"),
            ("aclnnGelu", "launch", "rank 1"),
            ("aten::digamma", "fallback", "rank 1"),
        ]
        assert "1 operator warned of a fallback to the CPU: aten::digamma." in (
            words_of(page)
        )

    def test_an_error_is_the_verdict(self):
        """The operator of an error comes first, its launches in the details."""
        error = AsyncErrorRecord(
            index=1,
            offset=0,
            text="E boom\n",
            operator="aclnnMm",
            preceding=("aclnnA",),
        )
        page = html_report(LogTrace(records=[error]))
        assert "1 error: aclnnMm." in words_of(page)
        assert details_of(page, 0)[1][1] == [["aclnnA"]]

    def test_bytes_that_are_no_text_are_kept_out_of_the_way(self):
        """Surrogates from a log do not keep the page from being written."""
        record = evolve(LOGS.launches[0], text="\udcff\n")
        page = html_report(LogTrace(records=[record], label="\udcfe"))
        assert page.isascii()
        assert ("Log line", [["\udcff"]]) in details_of(page, 0)


class TestPage:
    """What holds for every page."""

    @pytest.fixture(name="page")
    def _page(self):
        records = [evolve(TRACE[0], name=NASTY, module=NASTY, root=NASTY)]
        return html_report(OpTrace(records=records, environment=DEVICE, label=NASTY))

    def test_names_cannot_leave_their_place(self, page):
        """Whatever an operator is called, the page's own two scripts stay the only ones."""
        assert page.count("<script") == page.count("</script>") == 2
        assert "<!--" not in page
        assert rows_of(page)[0]["op"] == NASTY

    def test_the_policy_names_the_hashes_of_what_is_inside(self, page):
        """No network and no foreign script: the policy allows these texts alone."""
        policy = unescape(re.search(r'Security-Policy" content="([^"]+)"', page)[1])
        for tag in ("style", "script"):
            text = re.search(rf"<{tag}>(.*?)</{tag}>", page, re.DOTALL)[1]
            digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
            assert f"{tag}-src 'sha256-{digest}'" in policy
        assert policy.startswith("default-src 'none'; ")

    def test_nothing_is_loaded(self, page):
        """There is no address in the page that a browser would ask for."""
        outside = re.sub(r'<script type="application/json".*?</script>', "", page)
        assert not re.findall(r"https?:|url\(|@import|src=|href=\"[^#]", outside)

    def test_the_same_report_gives_the_same_page(self):
        """No time and no random name is in it."""
        assert html_report(training_step()) == html_report(training_step())

    def test_a_block_that_still_runs_is_looked_at_once(self):
        """Inside the block the whole page is about one moment."""
        asked = []

        class Running:
            finished = False

            def snapshot(self):
                asked.append(True)
                return training_step()

        page = html_report(DispatchReport.of_source(Running()))
        assert (page, len(asked)) == (html_report(training_step()), 1)

    def test_written_file_is_the_page(self, tmp_path):
        """`write_html` replaces a file with the page, byte for byte."""
        path = tmp_path / "report.html"
        path.write_text("old")
        write_html(TRACE, path)
        assert path.read_bytes() == html_report(TRACE).encode("ascii")

    def test_a_path_that_cannot_be_written(self, tmp_path):
        """A folder that is not there is said in one sentence."""
        with pytest.raises(RecordError, match="cannot be written: No such file"):
            write_html(TRACE, tmp_path / "no" / "report.html")

    def test_other_objects_are_refused(self):
        """What has no page is named."""
        with pytest.raises(UsageError, match="not int"):
            html_report(3)
