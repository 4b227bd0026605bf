# SPDX-License-Identifier: BSD-3-Clause
"""Traces of real programs in files, at the end or while the program runs."""

from __future__ import annotations

import json

import pytest
import torch
from torch.testing._internal.two_tensor import TwoTensor

from npu_dispatch_inspect import (
    RecordError,
    UsageError,
    load,
    save,
    trace_ops,
)


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


def test_a_sink_that_cannot_be_opened_is_told_of(tmp_path):
    """Before the program runs."""
    with (
        pytest.raises(UsageError, match="cannot be written"),
        trace_ops(sink=tmp_path / "no" / "trace.jsonl"),
    ):
        pass


def test_the_first_line_of_a_sink_is_that_of_a_saved_trace(tmp_path):
    """Schema and version come first, so a reader can tell what it has."""
    with trace_ops(sink=tmp_path / "sink.jsonl") as trace:
        torch.ones(2)
    trace.save(tmp_path / "saved.jsonl")
    sink, saved = (
        json.loads((tmp_path / name).read_text().splitlines()[0])
        for name in ("sink.jsonl", "saved.jsonl")
    )
    assert sink["schema"] == "npu_dispatch_inspect/op_trace"
    assert sink == {**saved, "in_order": False}


def test_a_trace_can_be_saved_over_its_own_sink(tmp_path):
    """The records are read before the file is replaced."""
    path = tmp_path / "trace.jsonl"
    with trace_ops(sink=path) as trace:
        torch.ones(2).sin()
    trace.save(path)
    assert load(path).names == trace.names == ("aten::ones", "aten::sin")
