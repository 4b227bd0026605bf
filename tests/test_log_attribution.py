# SPDX-License-Identifier: BSD-3-Clause
"""Which call a line is given, decided on positions alone."""

from __future__ import annotations

import pytest

from npu_dispatch_inspect.capture._attribution import attribute
from npu_dispatch_inspect.capture._streams import STREAM_BITS, CallSpan, Reading
from npu_dispatch_inspect.npu_logs import parse_logs

LINE = b"I1129 19:01:40.046838 666] aclnnX EXEC_NPU_CMD with task_queue = 1\n\n"
SIZE = len(LINE)
STREAM = 5 << STREAM_BITS


class Tracer:
    """Notes of a tracer."""

    def __init__(self, spans):
        self._spans = spans

    def call_spans(self):
        """As they were given."""
        return self._spans


def ops(spans, *, lines=3):
    """The calls that so many launches in a row are given."""
    reading = Reading()
    reading.base = STREAM
    if spans is not None:
        spans = [
            CallSpan(
                STREAM + start * SIZE,
                None if end is None else STREAM + end * SIZE,
                op,
                thread,
            )
            for start, end, op, thread in spans
        ]
    reading.tracers = [Tracer(spans)]
    records = attribute(list(parse_logs(LINE * lines)), reading)
    return [(each.op, each.attribution) for each in records]


IN = "inside the call"
OUT = (None, "no traced call around it")
SEVERAL = (None, "calls of several threads around it")


@pytest.mark.parametrize(
    ("spans", "expected"),
    [
        ([(0, 1, 7, 1), (1, 2, 8, 1), (2, 3, 9, 1)], [(7, IN), (8, IN), (9, IN)]),
        ([(0, 3, 7, 1)], [(7, IN)] * 3),
        ([(1, 2, 7, 1)], [OUT, (7, IN), OUT]),
        ([(0, 3, 7, 1), (1, 2, 8, 1)], [(7, IN), (8, IN), (7, IN)]),
        ([(0, 0, 7, 1), (0, 1, 8, 1), (1, 1, 9, 1)], [(8, IN), OUT, OUT]),
        ([(0, 3, 7, 1), (0, 0, 8, 1)], [(7, IN)] * 3),
        ([(0, 2, 7, 1), (1, 3, 8, 2)], [(7, IN), SEVERAL, (8, IN)]),
        ([(1, None, 7, 1)], [OUT, (7, IN), (7, IN)]),
        ([], [OUT] * 3),
        (None, [(None, None)] * 3),
    ],
    ids=[
        "one after the other",
        "one for all",
        "before and after a call",
        "a call inside a call",
        "calls that write nothing",
        "a silent call inside a call",
        "two threads",
        "a call that still runs",
        "a tracer that saw nothing",
        "a tracer that notes no ends",
    ],
)
def test_calls(spans, expected):
    """The innermost call around a line, if it is one thread's."""
    assert expected == ops(spans)


def test_call_of_an_earlier_stream_has_ended():
    """A call whose end was not noted does not reach into the next capture."""
    reading = Reading()
    reading.base = STREAM
    reading.tracers = [Tracer([CallSpan((4 << STREAM_BITS) + 3, None, 7, 1)])]

    (record,) = attribute(list(parse_logs(LINE)), reading)

    assert OUT == (record.op, record.attribution)
