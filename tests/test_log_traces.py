# SPDX-License-Identifier: BSD-3-Clause
"""LogTrace: queries, and tasks from the lines of two threads."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path

import pytest

from npu_dispatch_inspect import LogTrace, RecordError, read_logs
from npu_dispatch_inspect.records import TaskKind

DATA = Path(__file__).parent / "data" / "logs"


@pytest.fixture(name="trace")
def _trace():
    """Forward and backward of one linear layer."""
    return read_logs(DATA / "v2.13.0-linear.log")


def glog(
    text, pid=666, place="../torch_npu/csrc/core/npu/NPUQueue.cpp:1", time="40.000000"
):
    """One line of the dispatch logger."""
    return f"V1129 19:01:{time} {pid} {place}] {text}\n"


def written(name, slot, **more):
    """The line of the thread that writes."""
    return glog(
        f"WriteQueue: write success, the current working operator name is {name}, "
        f"device = 0, write_idx = {slot}, read_idx = 0, status = 1",
        **more,
    )


def was_read(name, slot, **more):
    """The line of the thread that reads."""
    return glog(
        f"ReadQueue: read success, the current working operator name is {name}, "
        f"device = 0, write_idx = 0, read_idx = {slot}, status = 1",
        **more,
    )


def ran(name, ret=0):
    """The lines of the thread that runs."""
    return glog(f"ExecFuncOpApi: Op {name} Run.") + glog(
        f"ExecFuncOpApi: Op {name} Run, ret = {ret}."
    )


def tasks(*lines):
    """The tasks of a text."""
    return read_logs("".join(lines).encode()).tasks


class TestTasks:
    def test_one_task(self):
        """Writing, running, reading and the time between."""
        (task,) = tasks(
            written("aclnnMm", 4095, time="40.000010"),
            ran("aclnnMm"),
            was_read("aclnnMm", 4095, time="40.000250"),
        )

        assert (TaskKind.OPERATOR, "aclnnMm", 4095, 240, 0) == (
            task.kind, task.name, task.slot, task.queued_us, task.ret,
        )  # fmt: skip
        assert (0, 1, 2, 3) == (task.written, task.started, task.finished, task.read)

    def test_slots_come_round(self):
        """The ring has 4096 slots: a slot's second task is another task."""
        first, second = tasks(
            written("aclnnA", 0), was_read("aclnnA", 0),
            written("aclnnB", 0), was_read("aclnnB", 0),
        )  # fmt: skip

        assert ((0, 1), (2, 3)) == (
            (first.written, first.read),
            (second.written, second.read),
        )

    def test_read_line_before_the_write_line(self):
        """The threads write their lines in any order."""
        (task,) = tasks(was_read("aclnnA", 7), written("aclnnA", 7))

        assert (1, 0) == (task.written, task.read)

    def test_log_that_begins_in_the_middle(self):
        """A read without write stays alone, also when its slot comes round."""
        filler = [glog("MakeSureQueueEmpty: start") for _ in range(300)]

        first, second = tasks(was_read("aclnnA", 7), *filler, written("aclnnA", 7))

        assert (None, 0) == (first.written, first.read)
        assert (301, None) == (second.written, second.read)

    def test_task_that_was_not_read(self):
        """It is there, not executed as far as the log goes."""
        (task,) = tasks(written("aclnnA", 7))

        assert not task.executed

    def test_processes_do_not_mix(self):
        """The same slot in two processes is two tasks."""
        first, second = tasks(
            written("aclnnA", 0, pid=1), written("aclnnB", 0, pid=2),
            was_read("aclnnB", 0, pid=2), was_read("aclnnA", 0, pid=1),
        )  # fmt: skip

        assert (("aclnnA", 3), ("aclnnB", 2)) == (
            (first.name, first.read),
            (second.name, second.read),
        )

    def test_one_slot_in_two_queues(self):
        """With a queue per stream the name decides."""
        first, second = tasks(
            written("aclnnA", 0), written("aclnnB", 0),
            was_read("aclnnB", 0), was_read("aclnnA", 0),
        )  # fmt: skip

        assert (3, 2) == (first.read, second.read)

    def test_failed_task(self):
        """The result is that of the run, or of the line that says it failed."""
        (task,) = tasks(
            written("aclnnA", 0),
            glog(
                "ReadQueue: read failed, the current working operator name is aclnnA, "
                "device = 0, write_idx = 1, read_idx = 0, status = 1, ret = 100000"
            ),
        )

        assert 100000 == task.ret

    def test_name_of_the_reader_wins(self):
        """2.1 writes an operator as if it were an event and reads it by name."""
        trace = read_logs(DATA / "v2.1.0-linear.log")

        assert trace.names == tuple(task.name for task in trace.tasks)
        assert {TaskKind.OPERATOR} == {task.kind for task in trace.tasks}

    def test_copies_and_events(self):
        """A stream's events and copies are tasks, too."""
        trace = read_logs(DATA / "v2.13.0-streams.log")

        kinds = [task.kind.value for task in trace.tasks]
        assert (2, 4, 1) == tuple(map(kinds.count, ("operator", "event", "copy")))
        (task,) = (task for task in trace.tasks if task.kind is TaskKind.COPY)
        assert (16, 16, 1) == task.copy
        assert task.finished is not None

    def test_over_midnight(self):
        """The glog style has no date."""
        before = written("aclnnA", 0).replace("19:01:40.000000", "23:59:59.999999")
        after = was_read("aclnnA", 0).replace("19:01:40.000000", "00:00:00.000001")

        (task,) = tasks(before, after)

        assert 2 == task.queued_us


class TestQueries:
    def test_launches(self, trace):
        """Names in order, and counts."""
        assert (
            "aclnnAddmm", "aclnnReduceSum", "aclnnInplaceFillScalar", "aclnnMm",
            "aclnnReduceSum",
        ) == trace.names  # fmt: skip
        assert {"aclnnReduceSum": 2} == {
            name: count for name, count in trace.counts().items() if count > 1
        }

    def test_part_keeps_its_indexes(self, trace):
        """A position in a part is one in the whole."""
        part = trace.find("aclnnMm")

        assert {"aclnnMm"} == {each.name for each in part}
        assert [trace[each.index] for each in part] == list(part)
        assert 3 == len(trace[2:5])

    def test_filters(self):
        """By logger, rank and process."""
        trace = read_logs(DATA / "v2.13.0-rank1-linear.log")

        assert len(trace) == len(trace.filter(rank=1)) == len(trace.filter(pid=8609))
        assert 0 == len(trace.filter(rank=0))
        assert 42 == len(trace.filter(logger="torch_npu.acl"))
        assert 0 == len(trace.filter(source="rank1"))

    def test_launches_before_a_record(self, trace):
        """The last ones, latest last."""
        last = trace.records[-1]

        assert trace.names[-2:] == trace.launches_before(last, 2).names
        assert () == trace.launches_before(trace[0]).names

    def test_fallbacks(self):
        """One warning, with the operator as it names it."""
        trace = read_logs(DATA / "v2.13.0-args_zoo.log")

        assert ("aten::digamma.out",) == tuple(
            each.operator for each in trace.fallbacks
        )

    def test_lines_of_the_program(self):
        """What has no known shape is kept."""
        trace = read_logs(b"loss 3\n")

        assert ("loss 3\n",) == tuple(each.text for each in trace.unknown)

    def test_no_operator_calls_were_traced(self, trace):
        """A file's launches belong to no call."""
        assert trace.launches == trace.unattributed
        assert {None} == {each.attribution for each in trace.launches}


class TestValue:
    def test_is_one(self, trace):
        """Equal, hashed, pickled and copied by value."""
        again = read_logs(DATA / "v2.13.0-linear.log")

        assert trace == again
        assert hash(trace) == hash(again)
        assert trace == pickle.loads(pickle.dumps(trace))
        assert trace == copy.deepcopy(trace)
        assert trace != list(trace)

    def test_repr(self, trace):
        """Short."""
        assert "LogTrace(78 records, 5 launches)" == repr(trace)

    def test_from_file(self, trace):
        """The class reads a file, too."""
        assert trace == LogTrace.from_file(DATA / "v2.13.0-linear.log")

    def test_from_no_file(self, tmp_path):
        """One sentence."""
        with pytest.raises(RecordError, match="Cannot read the log file"):
            LogTrace.from_file(tmp_path / "none.log")
