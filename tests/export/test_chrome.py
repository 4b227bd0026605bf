# SPDX-License-Identifier: BSD-3-Clause
"""Chrome traces: valid by the Trace Event Format, and honest about their times."""

from __future__ import annotations

import gzip
import json
from collections import defaultdict
from pathlib import Path

import attrs
import pytest
from hypothesis import HealthCheck, given, settings

from npu_dispatch_inspect import OpRecord, OpTrace, UsageError, read_logs, save
from npu_dispatch_inspect.chains import join
from npu_dispatch_inspect.export.chrome import chrome_trace
from npu_dispatch_inspect.records import (
    AclnnRecord,
    LogOrigin,
    LogStyle,
    QueueAction,
    QueueRecord,
    QueueState,
    QueueTask,
    TaskKind,
)
from npu_dispatch_inspect.records.coverage import Coverage
from npu_dispatch_inspect.traces.logs import LogTrace
from npu_dispatch_inspect.traces.report import DispatchReport
from tests.report_examples import DEVICE, training_step
from tests.serialization.examples import ENVIRONMENT, THINGS

LOGS = Path(__file__).parents[1] / "data" / "logs"
NEEDED = {
    "X": {"ts", "dur", "name", "cat", "args"},
    "M": {"name", "args"},
    "i": {"ts", "s", "name"},
    "s": {"ts", "id", "name", "cat"},
    "f": {"ts", "id", "name", "cat", "bp"},
    "b": {"ts", "id", "name", "cat"},
    "e": {"ts", "id", "name", "cat"},
}
"""Fields of each kind of event, besides those that all have."""
METADATA = {
    "process_name": "name",
    "process_sort_index": "sort_index",
    "thread_name": "name",
}


def events_of(thing):
    """The checked content of a trace: what the format asks of every event."""
    content = json.loads("".join(chrome_trace(thing)))
    assert set(content) == {"traceEvents", "displayTimeUnit", "otherData"}
    assert content["displayTimeUnit"] in ("ms", "ns")
    named = set()
    for event in content["traceEvents"]:
        assert NEEDED[event["ph"]] <= set(event)
        assert type(event["pid"]) is type(event["tid"]) is int
        if event["ph"] == "M":
            assert METADATA[event["name"]] in event["args"]
            named.add((event["pid"], event["name"]))
        else:
            assert event["ts"] >= 0
            assert (event["pid"], "process_name") in named
        assert event.get("dur", 0) >= 0
        assert event.get("s", "t") in ("g", "p", "t", None)
    check_nesting(content["traceEvents"])
    check_pairs(content["traceEvents"])
    return content


def check_nesting(events):
    """Complete events of one thread lie inside each other or apart."""
    tracks = defaultdict(list)
    for event in events:
        if event["ph"] == "X":
            tracks[event["pid"], event["tid"]].append(event)
    for track in tracks.values():
        open_until = []
        for event in sorted(track, key=lambda each: each["ts"]):
            end = round((event["ts"] + event["dur"]) * 1000)
            while open_until and open_until[-1] <= round(event["ts"] * 1000):
                open_until.pop()
            assert not open_until or end <= open_until[-1]
            open_until.append(end)


def check_pairs(events):
    """Every arrow and every asynchronous event has its two ends, in order."""
    for start, end in (("s", "f"), ("b", "e")):
        starts = {(e["cat"], e["id"]): e["ts"] for e in events if e["ph"] == start}
        ends = {(e["cat"], e["id"]): e["ts"] for e in events if e["ph"] == end}
        assert set(starts) == set(ends)
        assert all(starts[key] <= ends[key] for key in starts)
    # An arrow is tied to what is open at its time on its track.
    spans = [
        (e["pid"], e["tid"], e["ts"], e["ts"] + e["dur"])
        for e in events
        if e["ph"] == "X"
    ]
    for event in events:
        if event["ph"] in "sf":
            assert any(
                (pid, tid) == (event["pid"], event["tid"])
                and start <= event["ts"] <= end
                for pid, tid, start, end in spans
            )


def timed(trace, step=1000):
    """The trace with host times: each call 100 ns after the one before it began."""
    ends = {}
    for call in reversed(trace.records):
        end = max(ends.pop(call.index, 0), call.index * 100 + 90)
        ends[call.index] = end
        if call.parent is not None:
            ends[call.parent] = max(ends.get(call.parent, 0), end + 5)
    records = [
        attrs.evolve(
            each,
            start_ns=each.index * 100,
            duration_ns=ends[each.index] - each.index * 100,
        )
        for each in trace.records
    ]
    return OpTrace(records=records, environment=DEVICE, engine=trace.engine)


def complete(content, process=1):
    """The complete events of a process, by name."""
    return [
        event
        for event in content["traceEvents"]
        if event["ph"] == "X" and event["pid"] == process
    ]


def process_names(content):
    """What the processes are called."""
    return [
        event["args"]["name"]
        for event in content["traceEvents"]
        if event["name"] == "process_name"
    ]


def test_calls_have_the_host_times_that_were_recorded():
    """In microseconds, to the nanosecond; the file says what they are."""
    trace = timed(training_step().trace)
    content = events_of(trace)
    calls = complete(content)
    assert [each["name"] for each in calls] == list(trace.qualified_names)
    assert [round(each["ts"] * 1000) for each in calls] == [r.start_ns for r in trace]
    assert [round(each["dur"] * 1000) for each in calls] == [
        r.duration_ns for r in trace
    ]
    assert content["otherData"]["times"] == "host time of the dispatch, not device time"
    assert "stand-in" in content["otherData"]["environment"]
    assert process_names(content) == [
        "Operator calls on the stand-in (host time of the dispatch, not device time)"
    ]


def test_calls_without_times_have_logical_ones():
    """One unit a call, callers as long as what they call, and called so."""
    content = events_of(training_step().trace)
    assert [(e["name"], e["ts"], e["dur"]) for e in complete(content)[:5]] == [
        ("aten::linear", 0, 4),
        ("aten::_to_copy", 1, 1),
        ("aten::linear", 2, 2),
        ("aten::addmm", 3, 1),
        ("aten::linear", 4, 4),
    ]
    assert content["otherData"]["times"].startswith("logical time")
    assert "logical time" in process_names(content)[0]


def test_one_time_that_is_missing_makes_all_logical():
    """Recorded and made-up times are never mixed."""
    records = [
        *timed(training_step().trace).records,
        OpRecord(index=12, name="aten::late"),
    ]
    content = events_of(OpTrace(records=records, environment=ENVIRONMENT))
    assert content["otherData"]["times"].startswith("logical time")
    assert complete(content)[-1]["ts"] == 12


def test_a_call_that_did_not_end_ends_with_what_it_called():
    """As when the block ended inside it."""
    records = (
        OpRecord(index=0, name="aten::outer", start_ns=0),
        OpRecord(
            index=1, name="aten::inner", parent=0, depth=1, start_ns=10, duration_ns=30
        ),
        OpRecord(index=2, name="aten::alone", start_ns=50),
    )
    content = events_of(OpTrace(records=records, environment=ENVIRONMENT))
    assert [round(each["dur"] * 1000) for each in complete(content)] == [40, 30, 0]


def test_every_thread_has_a_track():
    """Calls of two threads overlap in time and do not meet."""
    records = [
        OpRecord(index=n, name="aten::x", thread=n % 2, start_ns=n, duration_ns=100)
        for n in range(2)
    ]
    content = events_of(OpTrace(records=records, environment=ENVIRONMENT))
    assert [each["tid"] for each in complete(content)] == [1, 2]
    assert [
        each["args"]["name"]
        for each in content["traceEvents"]
        if each["name"] == "thread_name"
    ] == ["thread 0 (the one that traced)", "thread 1"]


def test_what_is_known_of_a_call_is_shown():
    """Arguments, place, kernel and verdict, as texts."""
    content = events_of(training_step())
    digamma = next(e for e in complete(content) if e["name"] == "aten::digamma.out")
    assert digamma["cat"] == "forward"
    assert digamma["args"] == {
        "index": 8,
        "inputs": "f32[2, 8], f32[2, 8]",
        "outputs": "f32[2, 8]",
        "source": "/home/user/net.py:7 in step",
        "kernel": "PrivateUse1 VariableFallbackKernel.cpp:240",
        "verdict": "CPU fallback",
        "why": "The tables give it the PrivateUse1 backend fallback at "
        "VariableFallbackKernel.cpp:240.",
    }


@pytest.mark.parametrize("times", [timed, lambda trace: trace], ids=["host", "logical"])
def test_launches_are_tied_to_their_calls(times):
    """A process of their own, an arrow from each call, no time that was not recorded."""
    step = training_step()
    trace = times(step.trace)
    report = DispatchReport(
        chains=join(trace, step.logs).chains, trace=trace, logs=step.logs
    )
    content = events_of(report)
    launches = complete(content, process=2)
    assert [(each["name"], each["args"]["call"]) for each in launches] == [
        ("aclnnInplaceCopy", 1),
        ("aclnnAddmm", 3),
        ("aclnnInplaceCopy", 5),
        ("aclnnAddmm", 7),
        ("aclnnMm", 10),
    ]
    calls = {each["args"]["index"]: each for each in complete(content)}
    for each in launches:
        call = calls[each["args"]["call"]]
        assert call["ts"] <= each["ts"]
        assert each["ts"] + each["dur"] <= call["ts"] + call["dur"] + 1e-6
    arrows = [e for e in content["traceEvents"] if e["ph"] == "s"]
    assert len(arrows) == 5
    assert "no time of their own" in process_names(content)[1]


def test_several_launches_of_a_call_follow_each_other():
    """One track per thread, in the order of the lines."""
    call = OpRecord(index=0, name="aten::lstm", start_ns=0, duration_ns=90)
    lines = [
        AclnnRecord(index=n, offset=n, text="", name=f"aclnn{n}", command="E", op=0)
        for n in range(3)
    ]
    trace = OpTrace(records=[call], environment=ENVIRONMENT, engine="dispatcher")
    logs = LogTrace(records=lines)
    report = DispatchReport(chains=join(trace, logs).chains, trace=trace, logs=logs)
    launches = complete(events_of(report), process=2)
    assert [each["name"] for each in launches] == ["aclnn0", "aclnn1", "aclnn2"]
    assert launches[0]["ts"] < launches[1]["ts"] < launches[2]["ts"] < 0.09


@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
@given(trace=THINGS["op_trace"], report=THINGS["dispatch_report"])
def test_whatever_the_records_hold_is_a_trace(trace, report):
    """Odd names, negative times, parents that are not there: it is JSON all the same."""
    for thing in (trace, report):
        content = json.loads("".join(chrome_trace(thing)))
        assert len(complete(content)) == len(thing.trace if thing is report else thing)


@pytest.mark.parametrize("path", sorted(LOGS.glob("*.log")), ids=lambda path: path.stem)
def test_recorded_logs_are_traces(path):
    """Lines at the times they print, tasks from written to run."""
    logs = read_logs(path)
    content = events_of(logs)
    lines = [e for e in content["traceEvents"] if e["ph"] == "i"]
    assert [e["name"] for e in lines if e["cat"] == "AclnnRecord"] == list(logs.names)
    assert content["otherData"]["times"].startswith("time of day as the log prints it")


def test_the_tasks_of_a_log_overlap():
    """Pairs of begin and end, so that a viewer can lay them out."""

    def line(index, action, time, slot):
        prefix = f"[2026-01-15 23:59:{time}] "
        return QueueRecord(
            index=index,
            offset=index,
            text=f"{prefix}x\n",
            start=len(prefix),
            origin=LogOrigin(style=LogStyle.THREADED, pid=7),
            action=action,
            task=QueueTask(kind=TaskKind.OPERATOR, name=f"aclnn{slot}"),
            state=QueueState(device=0, write_idx=slot, read_idx=slot, ret=0),
        )

    logs = LogTrace(
        records=[
            line(0, QueueAction.WRITE, "58:000", 0),
            line(1, QueueAction.WRITE, "58:001", 1),
            line(2, QueueAction.READ, "58:004", 0),
            line(3, QueueAction.READ, "58:005", 1),
        ]
    )
    content = events_of(logs)
    tasks = [
        (e["ph"], e["name"], e["ts"]) for e in content["traceEvents"] if e["ph"] in "be"
    ]
    assert sorted(tasks) == [
        ("b", "aclnn0", 0.0),
        ("b", "aclnn1", 1000.0),
        ("e", "aclnn0", 4000.0),
        ("e", "aclnn1", 5000.0),
    ]
    assert "Lines of 7" in process_names(content)[0]


def test_a_log_without_times_has_logical_ones():
    """The order of its lines, and it says so."""
    lines = [
        AclnnRecord(index=n, offset=n, text="", name="aclnnX", command="E")
        for n in range(3)
    ]
    content = events_of(LogTrace(records=lines))
    assert [e["ts"] for e in content["traceEvents"] if e["ph"] == "i"] == [0, 1, 2]
    assert content["otherData"]["times"].startswith(
        "logical time: the order of the lines"
    )


def test_a_log_goes_on_after_midnight():
    """The time of day begins anew; the trace does not."""
    lines = []
    for n, time in enumerate(["23:59:59.900000", "00:00:00.100000"]):
        prefix = f"I0715 {time} 812 x.cpp:1] "
        lines.append(
            AclnnRecord(
                index=n,
                offset=n,
                text=f"{prefix}m",
                start=len(prefix),
                name="aclnnX",
                command="E",
            )
        )
    content = events_of(LogTrace(records=lines))
    assert [e["ts"] for e in content["traceEvents"] if e["ph"] == "i"] == [0, 200_000]


def test_the_suffix_is_that_of_the_profiler(tmp_path):
    """Perfetto opens it packed as well."""
    save(training_step(), tmp_path / "step.trace.json.gz")
    content = json.loads(
        gzip.decompress((tmp_path / "step.trace.json.gz").read_bytes())
    )
    assert len(complete(content)) == 12


def test_what_has_no_time_is_refused():
    """The sentence names what has."""
    with pytest.raises(UsageError, match="a Coverage has none"):
        chrome_trace(Coverage(key="CPU", source="trace", calls=()))
