# SPDX-License-Identifier: BSD-3-Clause
"""Traces in files: they read back equal, and nothing else is taken for one."""

from __future__ import annotations

import json

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch.testing._internal.two_tensor import TwoTensor

from npu_dispatch_inspect import (
    Argument,
    Constant,
    Environment,
    ExceptionRecord,
    KernelChoice,
    OpRecord,
    OpTrace,
    Phase,
    RecordError,
    SourceLocation,
    TensorSpec,
    UsageError,
    load,
    save,
    serialization,
    trace_ops,
)

ENVIRONMENT = Environment(tool="0", python="3", platform="x", switches=(("A", "1"),))

text = st.text(max_size=8)
sizes = st.one_of(st.none(), st.tuples(st.one_of(st.integers(0, 9), text)))
specs = st.builds(
    TensorSpec,
    dtype=text,
    device=text,
    shape=sizes,
    stride=sizes,
    offset=st.one_of(st.none(), st.integers(), text),
    requires_grad=st.booleans(),
    id=st.one_of(st.none(), st.integers()),
    subclass=st.one_of(st.none(), text),
    flags=st.tuples(text),
    inner=st.lists(st.builds(Argument, name=text, value=st.integers()), max_size=2).map(
        tuple
    ),
)
values = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.floats(),
        st.complex_numbers(allow_nan=True),
        text,
        specs,
        st.builds(Constant, kind=text, text=text),
    ),
    lambda inner: st.lists(inner, max_size=3).map(tuple),
    max_leaves=6,
)
optional = st.one_of(st.none(), text)
records = st.builds(
    OpRecord,
    index=st.integers(0, 9),
    name=text,
    overload=text,
    parent=st.one_of(st.none(), st.integers()),
    inputs=st.lists(
        st.builds(
            Argument,
            name=text,
            value=values,
            default=st.booleans(),
            written=st.booleans(),
        ),
        max_size=3,
    ).map(tuple),
    outputs=st.one_of(st.none(), st.lists(values, max_size=2).map(tuple)),
    phase=st.sampled_from(Phase),
    module=optional,
    compiled=st.one_of(st.none(), st.booleans()),
    regions=st.lists(text, max_size=2).map(tuple),
    source=st.one_of(
        st.none(),
        st.builds(SourceLocation, file=text, line=st.integers(), function=text),
    ),
    keys=st.one_of(st.none(), st.lists(text, max_size=2).map(tuple)),
    path=st.lists(
        st.builds(KernelChoice, key=text, kind=text, site=text), max_size=2
    ).map(tuple),
    exception=st.one_of(st.none(), st.builds(ExceptionRecord, type=text, message=text)),
)


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(record=records, label=optional, notes=st.lists(text, max_size=2).map(tuple))
def test_every_record_reads_back(record, label, notes, tmp_path):
    """Whatever the fields hold: infinities, odd text, nested lists."""
    trace = OpTrace(
        records=(record,),
        environment=ENVIRONMENT,
        label=label,
        notes=notes,
        engine="dispatcher",
    )
    save(trace, tmp_path / "trace.jsonl")
    # By text: not-a-number is not equal to itself.
    assert repr(load(tmp_path / "trace.jsonl")._key()) == repr(trace._key())


@pytest.mark.parametrize("engine", ["dispatch_mode", "dispatcher"])
def test_a_real_trace_reads_back(engine, tmp_path):
    """A traced program is equal to itself after a round trip."""
    path = tmp_path / "trace.jsonl"
    with trace_ops("step", engine=engine, max_ops=200) as trace:
        net = torch.nn.Linear(2, 2)
        net(torch.ones(1, 2)).sum().backward()
        TwoTensor(torch.ones(2), torch.ones(2)).sin()
        torch.full((2,), float("inf"), dtype=torch.complex64)
        with pytest.raises(RuntimeError):
            torch.ones(2) @ torch.ones(3)
    save(trace, path)
    assert load(path) == trace
    assert load(path).label == "step"


def test_the_first_line_names_schema_and_version(tmp_path):
    """A reader can tell what it has before it reads on."""
    path = tmp_path / "trace.jsonl"
    save(OpTrace(environment=ENVIRONMENT), path)
    header = json.loads(path.read_text().splitlines()[0])
    assert header["schema"] == "npu_dispatch_inspect/op_trace"
    assert header["version"] == "1.0"


def test_the_file_is_strict_json(tmp_path):
    """Every line is JSON that any reader takes: no NaN, no Infinity."""
    path = tmp_path / "trace.jsonl"
    odd = (float("nan"), float("inf"), complex(0, float("-inf")))
    record = OpRecord(index=0, name="a", inputs=(Argument(name="x", value=odd),))
    save(OpTrace(records=(record,), environment=ENVIRONMENT), path)

    def refuse(constant):
        raise AssertionError(constant)

    for line in path.read_text().splitlines():
        json.loads(line, parse_constant=refuse)


@pytest.fixture
def lines(tmp_path):
    """The lines of a good file with two records, and where to write others."""
    path = tmp_path / "trace.jsonl"
    found = tuple(OpRecord(index=index, name=f"aten::op{index}") for index in range(2))
    save(OpTrace(records=found, environment=ENVIRONMENT), path)
    return path.read_text().splitlines(keepends=True), path


def changed(line, **fields):
    return json.dumps({**json.loads(line), **fields}) + "\n"


@pytest.mark.parametrize(
    ("change", "part"),
    [
        (lambda lines: [], "is not a trace"),
        (lambda lines: ["hello\n"], "is not a trace"),
        (lambda lines: ["[1]\n"], "is not a trace"),
        (
            lambda lines: [changed(lines[0], schema="other"), *lines[1:]],
            "is not a trace",
        ),
        (lambda lines: [changed(lines[0], version="2.0"), *lines[1:]], "newer release"),
        (
            lambda lines: [changed(lines[0], version="x"), *lines[1:]],
            "damaged in line 1",
        ),
        (lambda lines: [changed(lines[0], label=3), *lines[1:]], "damaged in line 1"),
        (
            lambda lines: [changed(lines[0], environment=None), *lines[1:]],
            "damaged in line 1",
        ),
        (lambda lines: lines[:-1], "cut off after 2 records"),
        (lambda lines: lines[:2], "cut off after 1 records"),
        (lambda lines: [*lines[:2], lines[2][:9]], "cut off after 1 records"),
        (lambda lines: [lines[0], lines[1], lines[3]], "1 are there"),
        (lambda lines: [*lines, lines[1]], "something follows"),
        (
            lambda lines: [lines[0], "{]\n", *lines[2:]],
            "damaged in line 2: it is no JSON",
        ),
        (
            lambda lines: [lines[0], changed(lines[1], index="0"), *lines[2:]],
            "damaged in line 2",
        ),
        (
            lambda lines: [lines[0], changed(lines[1], colour="red"), *lines[2:]],
            "damaged in line 2",
        ),
        (
            lambda lines: [lines[0], changed(lines[1], phase="odd"), *lines[2:]],
            "damaged in line 2",
        ),
        (
            lambda lines: [
                lines[0],
                changed(lines[1], outputs=[{"nothing": 1}]),
                *lines[2:],
            ],
            "damaged in line 2",
        ),
        (lambda lines: [lines[0], '{"index": 0}\n', *lines[2:]], "damaged in line 2"),
        (lambda lines: [lines[0], "3\n", *lines[2:]], "damaged in line 2"),
    ],
)
def test_a_bad_file_is_refused_with_the_reason(lines, change, part):
    """Foreign, damaged, cut off or newer: one sentence says which."""
    good, path = lines
    path.write_text("".join(change(good)))
    with pytest.raises(RecordError, match=part) as caught:
        load(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_newer_minor_version_is_read(lines):
    """Fields that this release does not know are left out."""
    good, path = lines
    path.write_text(
        "".join(
            [changed(good[0], version="1.7"), changed(good[1], colour="red"), *good[2:]]
        )
    )
    assert load(path).names == ("aten::op0", "aten::op1")


def test_a_file_that_was_cut_off_can_be_read_in_part(lines):
    """What is there is taken, and the trace says that it is not all."""
    good, path = lines
    path.write_text("".join([*good[:2], good[2][:9]]))
    trace = load(path, partial=True)
    assert trace.names == ("aten::op0",)
    assert trace.notes == ("The file was cut off after 1 records.",)


def test_files_that_cannot_be_opened_are_told_of(tmp_path):
    """Missing folders and files, and files that are no text."""
    with pytest.raises(RecordError, match="cannot be read"):
        load(tmp_path / "nothing.jsonl")
    with pytest.raises(RecordError, match="cannot be written"):
        save(OpTrace(environment=ENVIRONMENT), tmp_path / "no" / "trace.jsonl")
    (tmp_path / "bytes").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(RecordError, match="not a text file"):
        load(tmp_path / "bytes")
    with (
        pytest.raises(UsageError, match="cannot be written"),
        trace_ops(sink=tmp_path / "no" / "trace.jsonl"),
    ):
        pass


def work(times=1500):
    """A program whose records go to the file several times, and some at the end."""
    net = torch.nn.Linear(2, 2)
    for _ in range(times // 10):
        net(torch.ones(1, 2)).sum().backward()
        net.zero_grad()


def shape(trace):
    """What two runs of one program have in common."""
    return [
        (each.index, each.name, each.phase, each.module, each.forward_index, each.depth)
        for each in trace
    ]


@pytest.mark.parametrize("engine", ["dispatch_mode", "dispatcher"])
@pytest.mark.parametrize("detail", ["full", "names"])
def test_a_sink_takes_the_same_records(engine, detail, tmp_path):
    """The file has what the trace in memory has; the trace reads it back."""
    path = tmp_path / "trace.jsonl"
    with trace_ops(engine=engine, detail=detail) as kept:
        work()
    with trace_ops("label", engine=engine, detail=detail, sink=path) as trace:
        work()
        written = path.stat().st_size
        inside = len(trace)
    assert written > 1000
    assert inside == len(kept)
    assert shape(trace) == shape(kept)
    assert load(path) == trace
    assert trace.complete


def test_a_sink_under_threads(tmp_path):
    """Every thread's records are in the file, in the order of the calls."""
    import threading

    path = tmp_path / "trace.jsonl"
    with trace_ops(threads="all", sink=path) as trace:
        threads = [threading.Thread(target=work) for _ in range(3)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
    assert [each.index for each in trace] == list(range(len(trace)))
    assert {each.thread for each in trace} == {1, 2, 3}
    assert trace.complete


def test_a_sink_keeps_what_was_recorded_before_an_error(tmp_path):
    """An exception ends the block; the file is whole."""
    path = tmp_path / "trace.jsonl"
    with pytest.raises(ValueError, match="stop"), trace_ops(sink=path):
        torch.ones(2)
        msg = "stop"
        raise ValueError(msg)
    assert load(path).names == ("aten::ones",)


def test_a_program_that_is_killed_leaves_its_records(python, tmp_path):
    """A file without an end can be read in part."""
    path = tmp_path / "trace.jsonl"
    done = python(
        f"""
        import os, torch
        from npu_dispatch_inspect import trace_ops
        with trace_ops(sink={str(path)!r}):
            x = torch.ones(2)
            for _ in range(5000):
                x.add_(1)
            os._exit(3)
        """
    )
    assert done.returncode == 3
    trace = load(path, partial=True)
    assert len(trace) > 1000
    assert trace.environment.torch == torch.__version__
    with pytest.raises(RecordError, match="cut off"):
        load(path)


def test_a_sink_that_fails_stops_the_recording_and_not_the_program(tmp_path):
    """A full disk, say: the program goes on, the trace says what happened."""
    tracer = trace_ops(sink=tmp_path / "trace.jsonl")
    with tracer as trace:
        tracer._run._sink._file.close()
        work(6000)
        result = torch.ones(2).tolist()
    assert result == [1.0, 1.0]
    assert any(
        "could not be written" in note or "not whole" in note for note in trace.notes
    )


def test_a_trace_whose_file_was_written_again_says_so(tmp_path):
    """A second block with the same sink replaces the file of the first."""
    path = tmp_path / "trace.jsonl"
    tracer = trace_ops(sink=path)
    with tracer as first:
        torch.ones(2)
    with tracer as second:
        torch.ones(2).sin()
    assert second.names == ("aten::ones", "aten::sin")
    with pytest.raises(RecordError, match="changed"):
        len(first)


def test_the_schema_has_a_version():
    """The numbers that a reader compares."""
    assert (serialization.MAJOR, serialization.MINOR) == (1, 0)
