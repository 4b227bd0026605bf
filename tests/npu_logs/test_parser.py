# SPDX-License-Identifier: BSD-3-Clause
"""Any text becomes records, and the records give back the text."""

from __future__ import annotations

import gzip
import io
import os
import random

import pytest
from samples import (
    ARGUMENTS,
    GLOG,
    GLOG_RANK,
    PLAIN,
    RECORDINGS,
    THREADED,
    launch,
    wrapped,
)

from npu_dispatch_inspect import RecordError, UsageError
from npu_dispatch_inspect.npu_logs import (
    LogParser,
    join_records,
    parse_arguments,
    parse_logs,
    read_logs,
)
from npu_dispatch_inspect.npu_logs.grammar import RECORD
from npu_dispatch_inspect.records import (
    AclnnRecord,
    AsyncErrorRecord,
    DetailRecord,
    DroppedRecord,
    ExecutionRecord,
    FallbackWarning,
    LogRecord,
    LogStyle,
    OpPluginCall,
    QueueAction,
    QueueRecord,
    TaskKind,
)

ENQUEUE = (
    b"V1129 19:01:40.047346 666 ../torch_npu/csrc/core/npu/NPUQueue.cpp:572] "
    b"Enqueue: start, the current working operator name is aclnnAddmm, device = 0, "
    b"write_idx = 7, read_idx = 6, status = 1\n"
)
RUN = b"V1129 19:01:40.047400 666 ../torch_npu/csrc/framework/OpParamMaker.cpp:546] "


def only(text):
    """The one record of a text, which it must give back."""
    (record,) = records(text)
    return record


def records(text):
    """The records of a text, which they must give back."""
    found = list(parse_logs(text))
    assert text == join_records(found)
    return found


class TestPrefixes:
    def test_glog(self):
        """The glog style has a process, and of a launch no file."""
        record = only(launch(GLOG_RANK))

        origin = record.origin
        assert (LogStyle.GLOG, "INFO", 666, None, 1, None) == (
            origin.style, origin.level, origin.pid, origin.tid, origin.rank, origin.file,
        )  # fmt: skip
        assert ("1129 19:01:40.046838", 68500046838) == (
            record.time,
            record.microseconds,
        )
        assert "torch_npu.op_plugin" == record.logger
        assert (0, 24, 48, 1) == (
            record.stream, record.aic_num, record.aiv_num, record.task_queue,
        )  # fmt: skip

    def test_glog_with_a_file(self):
        """The file tells the logger."""
        record = only(ENQUEUE)

        assert "torch_npu.dispatch" == record.logger
        assert ("../torch_npu/csrc/core/npu/NPUQueue.cpp", 572) == (
            record.origin.file, record.origin.line,
        )  # fmt: skip

    def test_glog_of_another_library(self):
        """A file that is not torch_npu's makes a foreign line."""
        record = only(b"I1129 19:01:40.046838 666 absl/flags.cc:12] hello\n")

        assert (None, True, "hello") == (record.logger, record.foreign, record.message)

    def test_threaded(self):
        """Process, thread, rank, logger and level are all printed."""
        record = only(launch(THREADED))

        origin = record.origin
        assert (LogStyle.THREADED, 81234, 81290, 3) == (
            origin.style, origin.pid, origin.tid, origin.rank,
        )  # fmt: skip
        assert ("torch_npu.op_plugin", "INFO") == (record.logger, record.level)
        assert "2026-01-15 11:20:31:045" == record.time

    def test_plain(self):
        """The oldest style has neither process nor thread."""
        origin = only(launch(PLAIN)).origin

        assert (LogStyle.PLAIN, None, None, 3) == (
            origin.style, origin.pid, origin.tid, origin.rank,
        )  # fmt: skip

    def test_all_in_one_file(self):
        """The style is recognised for each record."""
        found = records(launch(PLAIN) + launch(GLOG) + launch(THREADED) + launch(GLOG))

        assert ["plain", "glog", "threaded", "glog"] == [
            each.origin.style.value for each in found
        ]
        assert {"aclnnAddmm"} == {each.name for each in found}
        assert [0, 1, 2, 3] == [each.index for each in found]

    def test_plog(self):
        """CANN's own file: the queue's state at an error."""
        record = only(
            b"[ERROR] APP(8549,python):2026-01-02-10:11:12.123.456 [log_inner.cpp:77]"
            b'8550 operator():123: "[PTA]:"device = 0, write_idx = 3834, '
            b'read_idx = 3721, status = 1, ret = 100000""\n'
        )

        assert (0, 3834, 3721, 1, 100000) == record.state
        assert (LogStyle.PLOG, 8549, 8550) == (
            record.origin.style, record.origin.pid, record.origin.tid,
        )  # fmt: skip
        assert "2026-01-02-10:11:12.123.456" == record.time

    def test_plog_of_the_consumer(self):
        """The function stands in the prefix there."""
        record = only(
            b"[INFO] APP(5,python):2026-01-02-10:11:12.123.456 [OpParamMaker.cpp:9]5 "
            b"ExecFunc: [PTA]:Op aclnnAdd Run.\n"
        )

        assert isinstance(record, ExecutionRecord)
        assert ("ExecFunc", "aclnnAdd") == (record.run.function, record.name)

    def test_torch(self):
        """A warning of PyTorch is not torch_npu's line."""
        record = only(
            b"[W1129 19:01:40.215523490 NPUCachingAllocator.cpp:168] Warning: hi\n"
        )

        assert (LogStyle.TORCH, True) == (record.origin.style, record.foreign)
        assert ("Warning: hi", "1129 19:01:40.215523490") == (
            record.message,
            record.time,
        )


class TestWrappers:
    @pytest.mark.parametrize(
        ("mark", "source"),
        [
            (b"[rank0]:", "rank0"),
            (b"[default1]: ", "default1"),
            (b"(Worker pid=1341, ip=10.0.0.1) ", "Worker pid=1341, ip=10.0.0.1"),
            (b"\x1b[36m(Worker pid=9)\x1b[0m ", "Worker pid=9"),
            (b"2026-11-29T19:01:57.123456789Z stderr F ", None),
            (b"2026-11-29T19:01:57Z [rank7]:", "rank7"),
            (b"worker-1  | ", "worker-1"),
        ],
    )
    def test_mark_in_front_of_every_line(self, mark, source):
        """The record is whole, and the mark is its source."""
        found = records(wrapped(mark, launch() + ENQUEUE))

        assert [AclnnRecord, QueueRecord] == [type(each) for each in found]
        assert (source, None) == (found[0].origin.source, found[0].truncated)
        assert ["self", "beta"] == [each.name for each in found[0].arguments]
        assert found[0].message.startswith("aclnnAddmm EXEC_NPU_CMD")
        assert "1129 19:01:40.046838" == found[0].time

    def test_lines_of_two_ranks_mixed(self):
        """Each record gathers its own lines and knows where they lie."""
        first = wrapped(b"[rank0]:", launch()).splitlines(keepends=True)
        second = wrapped(b"[rank1]:", launch(name=b"aclnnMul")).splitlines(
            keepends=True
        )
        mixed = b"".join(
            line for pair in zip(first, second, strict=True) for line in pair
        )

        found = records(mixed)

        assert [("rank0", "aclnnAddmm", 2), ("rank1", "aclnnMul", 2)] == [
            (each.origin.source, each.name, len(each.arguments)) for each in found
        ]
        assert b"".join(first) == found[0].text.encode()
        assert 4 == len(found[0].runs)

    def test_program_line_ends_the_record(self):
        """What the same rank prints in between is kept as its line."""
        head, *rest = wrapped(b"[rank0]:", launch()).splitlines(keepends=True)

        found = records(head + b"[rank0]: loss 3\n" + b"".join(rest))

        assert "no closing line" == found[0].truncated
        assert "loss 3" == found[1].message.strip()


class TestDamage:
    def test_line_ends_of_windows(self):
        """A carriage return is no part of a value."""
        found = records((launch() + ENQUEUE).replace(b"\n", b"\r\n"))

        assert (1, None) == (found[0].argument("beta").value, found[0].truncated)
        assert 6 == found[1].state.read_idx

    def test_text_before_a_record_on_its_line(self):
        """A progress bar does not hide the record behind it."""
        bar, record = records(b" 10%|#   | 1/10\r" + launch())

        assert (" 10%|#   | 1/10\r", "aclnnAddmm") == (bar.text, record.name)

    def test_zero_int8(self):
        """It is a NUL: torch_npu's text ends there."""
        record, after = records(
            launch(arguments=ARGUMENTS + b"cube_math_type: int8_t: \n", end=b"") + b"\n"
        )

        assert (0, "cut at a NUL byte") == (
            record.argument("cube_math_type").value,
            record.truncated,
        )
        assert "\n" == after.text

    @pytest.mark.parametrize("limit", [1023, 4095])
    def test_cut_at_the_limit_of_old_releases(self, limit):
        """The half of an argument belongs to the record, and it says so."""
        whole = launch(PLAIN, arguments=ARGUMENTS * 60)
        text = whole[: len(PLAIN) + limit] + b"\n"

        record, after = records(text + b"the program\n")

        assert f"cut after {limit} bytes" == record.truncated
        assert "the program\n" == after.text
        assert not read_logs(text).complete

    def test_file_that_ends_in_the_middle(self):
        """The last record has the arguments that are there."""
        record = only(launch()[:-30])

        assert ("no closing line", 1) == (record.truncated, len(record.arguments))

    def test_invalid_utf_8_and_nul(self):
        """Bytes that are no text are kept."""
        record = only(b"\xff\x00 \xc3\xa9 program\n")

        assert "\udcff\x00 é program" == record.message

    def test_start_counts_characters(self):
        """The message begins where it does, also behind bytes of several."""
        text = b"I1129 19:01:40.046838 666 ../torch_npu/csrc/\xc3\xa9.cpp:1] hello \xc3\xa9\n"

        assert "hello é" == only(text).message

    def test_woven_lines(self):
        """Half a record in front of another is kept as a line of its own."""
        half, record = records(PLAIN[:40] + launch())

        assert (LogStyle.BARE, "aclnnAddmm") == (half.origin.style, record.name)

    def test_no_line_end_for_long(self):
        """Megabytes without a line end do not stop the reading."""
        text = b"x" * 9_000_000 + b"\n" + launch()

        *_, last = records(text)

        assert "aclnnAddmm" == last.name


class TestMessages:
    def test_op_plugin_call(self):
        """The entry of a function of op-plugin."""
        record = only(
            GLOG[:-2] + b" ../third_party/op-plugin/op_plugin/OpInterface_24.cpp:658] "
            b"addmm exec aten with\n" + ARGUMENTS + b"\n"
        )

        assert isinstance(record, OpPluginCall)
        assert ("addmm", 2) == (record.name, len(record.arguments))

    @pytest.mark.parametrize(
        ("command", "synchronous"),
        [
            (b"EXEC_NPU_CMD with task_queue = 2", False),
            (b"EXEC_NPU_NO_FORMAT_CHECK_CMD with task_queue = 2", False),
            (b"EXEC_UPDATE_NPU_NO_FORMAT_CHECK_CMD with task_queue = 2", False),
            (b"EXEC_NPU_CMD_SYNC with", True),
        ],
    )
    def test_commands(self, command, synchronous):
        """Every word that op-plugin has for a launch."""
        record = only(GLOG + b"aclnnNonzero " + command + b"\n" + ARGUMENTS + b"\n")

        assert (synchronous, command.split()[0].decode()) == (
            record.synchronous,
            record.command,
        )
        assert (None if synchronous else 2) == record.task_queue

    def test_command_without_arguments(self):
        """The question for a workspace is whole without any."""
        record = only(GLOG + b"aclnnX EXEC_GET_MAX_WORKSPACE_CMD with task_queue = 1\n")

        assert ((), None) == (record.arguments, record.truncated)

    def test_detail(self):
        """The debug level adds a block of its own."""
        record = only(
            b"V" + GLOG[1:] + b"aclnnAddmm Detail info:\n"
            b"self: Tensor npu_format: 2, base_sizes: [64], base_strides: [1], "
            b"storage_sizes: [64]\nbeta: No extra debug info for this param\n\n"
        )

        assert isinstance(record, DetailRecord)
        assert ("beta", "No extra debug info for this param") == record.details[1]

    @pytest.mark.parametrize(
        ("words", "action"),
        [
            (b"Enqueue: start", QueueAction.ENQUEUE),
            (b"WriteQueue: write success", QueueAction.WRITE),
            (b"ReadQueue: read success", QueueAction.READ),
            (b"ReadQueue: read failed", QueueAction.READ_FAILED),
        ],
    )
    @pytest.mark.parametrize(
        ("what", "kind"),
        [
            (b"operator name is aclnnAdd", TaskKind.OPERATOR),
            (b"event is 0x7f", TaskKind.EVENT),
        ],
    )
    def test_queue(self, words, action, what, kind):
        """Lines about one task."""
        record = only(
            RUN + words + b", the current working " + what + b", device = 1, "
            b"write_idx = 7, read_idx = 6, status = 1, ret = 3\n"
        )

        assert (action, kind, (1, 7, 6, 1, 3)) == (
            record.action,
            record.task.kind,
            record.state,
        )

    def test_copy_task(self):
        """A copy has sizes and a direction."""
        record = only(
            RUN + b"WriteQueue: write success, the current copy params are srclen=64, "
            b"dstlen=64, kind=3, device = 0, write_idx = 7, read_idx = 6, status = 1\n"
        )

        assert (TaskKind.COPY, (64, 64, 3)) == (record.task.kind, record.task.copy)

    @pytest.mark.parametrize(
        ("words", "action"),
        [
            ("WriteQueue: taskqueue is full", QueueAction.FULL),
            ("Enqueue: taskqueue is full, wait for efd_write", QueueAction.FULL_WAIT),
            (
                "Enqueue: taskqueue is full, wait for efd_write end",
                QueueAction.FULL_WAIT_END,
            ),
            (
                "Dequeue: taskqueue is empty, wait for efd_read end",
                QueueAction.IDLE_WAIT_END,
            ),
            ("MakeSureQueueEmpty: clearing successful", QueueAction.DRAIN_END),
            ("Something: new", QueueAction.OTHER),
        ],
    )
    def test_queue_without_a_task(self, words, action):
        """Waits and their ends."""
        record = only(
            RUN + words.encode() + b", device = 0, write_idx = 7, read_idx = 6, "
            b"status = 1\n"
        )

        assert (action, None, None) == (record.action, record.task, record.name)

    @pytest.mark.parametrize(
        ("words", "expected"),
        [
            ("ExecFuncOpApi: Op aclnnAdd Run.", ("aclnnAdd", None, False, None)),
            ("ExecFuncOpApi: Op aclnnAdd Run, ret = 0.", ("aclnnAdd", None, True, 0)),
            (
                "ExecFunc: Op Mul Run with aclopCompileAndExecute, ret = 7.",
                ("Mul", "aclopCompileAndExecute", True, 7),
            ),
            (
                "ExecFuncOpApi: Op aclnnX Run, custom hand is nullptr.",
                ("aclnnX", "custom hand is nullptr", False, None),
            ),
            ("MemcopyAsyncFunc Run, ret = 0.", (None, None, True, 0)),
            (
                "RecordEventFunc Run, stream = 0x5, event = 0x6.",
                (None, None, False, None),
            ),
        ],
    )
    def test_execution(self, words, expected):
        """The consumer begins and ends a task."""
        record = only(RUN + words.encode() + b"\n")

        assert isinstance(record, ExecutionRecord)
        assert expected == (
            record.name, record.run.how, record.finished, record.run.ret,
        )  # fmt: skip

    def test_enqueue_duration_has_a_logger_of_its_own(self):
        """It shares its file with the lines of another logger."""
        record = only(
            b"I1129 19:01:40.04 666".replace(b".04 ", b".040000 ")
            + b" ../torch_npu/csrc/framework/OpCommand.cpp:256] "
            b"enQueue duration is (ns): 192275\n"
        )

        assert "torch_npu.dispatch.time" == record.logger

    def test_fallback(self):
        """The warning names the operator."""
        record = only(
            b"[W1129 19:01:49.986669543 VariableFallbackKernel.cpp:230] Warning: CAUTION: "
            b"The operator 'aten::digamma.out' is not currently supported on the NPU "
            b"backend and will fall back to run on the CPU.\n"
        )

        assert isinstance(record, FallbackWarning)
        assert "aten::digamma.out" == record.operator

    def test_dropped_record(self):
        """A record that was too long makes the trace incomplete."""
        text = launch() + b"Failed to generate log message.\n"

        assert isinstance(records(text)[1], DroppedRecord)
        assert not read_logs(text).complete

    @pytest.mark.parametrize(
        ("line", "operator", "code"),
        [
            (
                b"the current working operator name is aclnnInplaceUniform. Since",
                "aclnnInplaceUniform",
                None,
            ),
            (
                b"NPU function error: call aclnnX failed, error code is 561103",
                "aclnnX",
                561103,
            ),
            (b"[ERROR] 2026 (PID:1) ERR00100 PTA call acl api failed", None, None),
            (
                b"aclnnX or aclnnXGetWorkspaceSize not in libopapi.so, or libopapi.sonot found.",
                "aclnnX",
                None,
            ),
        ],
    )
    def test_error(self, line, operator, code):
        """An error names the launches before it, latest last."""
        text = launch(name=b"aclnnA") + launch(name=b"aclnnB") + line + b"\n"

        *_, error = records(text)

        assert isinstance(error, AsyncErrorRecord)
        assert (operator, code) == (error.operator, error.code)
        assert ("aclnnA", "aclnnB") == error.preceding


class TestSources:
    def test_kinds(self, tmp_path):
        """A path, compressed or not, a descriptor, a file and lines are the same."""
        text = launch() + ENQUEUE
        plain, packed = tmp_path / "a.log", tmp_path / "a.log.gz"
        plain.write_bytes(text)
        packed.write_bytes(gzip.compress(text))
        expected = list(parse_logs(text))

        descriptor = os.open(plain, os.O_RDONLY)
        try:
            assert expected == list(parse_logs(descriptor))
        finally:
            os.close(descriptor)
        assert expected == list(parse_logs(plain))
        assert expected == list(parse_logs(str(packed)))
        assert expected == list(parse_logs(io.BytesIO(text)))
        assert expected == list(parse_logs(io.StringIO(text.decode())))
        assert expected == list(parse_logs(text.decode().splitlines()))

    def test_compressed_file_that_is_cut(self, tmp_path):
        """What can be unpacked is there, and the trace says why it ends."""
        packed = tmp_path / "a.log.gz"
        whole = gzip.compress(
            b"".join(launch(name=b"aclnn%d" % n) for n in range(5000))
        )
        packed.write_bytes(whole[: len(whole) // 2])

        trace = read_logs(packed)

        assert "The compressed file ends in the middle." in trace.incomplete
        assert 100 < len(trace.launches) < 5000

    def test_file_that_is_not_there(self, tmp_path):
        """One sentence, no traceback of the system's."""
        with pytest.raises(
            RecordError, match=r"Cannot read the log file .*no such file"
        ):
            list(parse_logs(tmp_path / "none.log"))

    def test_what_is_no_source(self):
        """A number with a fraction has no lines."""
        with pytest.raises(UsageError, match="Cannot read log lines from 'float'"):
            list(parse_logs(1.5))


def test_arguments_can_wait():
    """Records without arguments can have them later."""
    (record,) = parse_logs(launch(), arguments=False)
    (whole,) = parse_logs(launch())

    assert record.arguments is None
    assert whole == parse_arguments(record)


def test_pieces_of_any_size_give_the_same_records():
    """Where the text is cut for reading does not show."""
    text = b"".join(path.read_bytes()[:6000] for path in RECORDINGS)
    text += wrapped(b"[rank0]:", launch()) + b"end"
    whole = list(parse_logs(text))

    for size in (1, 7, 333, 4096):
        parser = LogParser()
        found = []
        for start in range(0, len(text), size):
            found += parser.feed(text[start : start + size])
        assert whole == found + parser.close()


NOISE = [
    b"[rank0]:", b"(Worker pid=1341, ip=10.0.0.1) ", b"2026-01-01T10:00:00.123Z stdout F ",
    b"\r", b"\x00", b"\xff\xfe", b"\n", b"\r\n", b"\x1b[36m", "é".encode(),
    b"[W1129 19:01:40.215523490 x.cpp:168] Warning: hi\n",
    b'[ERROR] APP(8,n):2026-01-02-10:11:12.123.456 [f:12]77 F:33: "[PTA]:"x""\n',
    b"Failed to generate log message.\n", b"int8_t: ", b": ", b"device = 0, write_idx = ",
]  # fmt: skip


def damaged(record, pieces, chance):
    """A record after a few random changes."""
    text = bytearray(record)
    for _ in range(chance.choice((0, 1, 1, 2, 5))):
        place = chance.randrange(len(text) + 1)
        match chance.randrange(7):
            case 0:
                del text[place : place + chance.randrange(1, 20)]
            case 1:
                text[place:place] = chance.randbytes(chance.randrange(1, 8))
            case 2:
                text[place:place] = chance.choice(NOISE)
            case 3:
                del text[place:]
            case 4:
                text = text.replace(b"\n", b"\r\n")
            case 5:
                text = bytearray(wrapped(chance.choice(NOISE[:3]), bytes(text)))
            case 6:
                text[place:place] = chance.choice(pieces)
    return bytes(text)


@pytest.mark.parametrize("seed", range(10))
def test_damaged_records(seed):
    """100,000 damaged records in all: nothing raises, nothing is lost."""
    chance = random.Random(seed)
    pieces = [
        found[0].encode("latin-1")
        for path in RECORDINGS
        for found in RECORD.finditer(path.read_bytes().decode("latin-1"))
    ]
    for size in (1, 3, 50, 400, 9600):
        text = b"".join(
            damaged(chance.choice(pieces), pieces, chance) for _ in range(size)
        )
        trace = read_logs(text)

        assert text == join_records(trace)
        assert all(isinstance(each, LogRecord) for each in trace)
        assert list(range(len(trace))) == [each.index for each in trace]
        assert trace.summary().records == len(trace)
        assert len(trace.tasks) <= len(trace)
