# SPDX-License-Identifier: BSD-3-Clause
"""Every recording of a real torch_npu is understood, counted independently."""

from __future__ import annotations

import re

import pytest
from samples import DATA, RECORDINGS

from npu_dispatch_inspect.npu_logs import join_records, parse_logs, read_logs
from npu_dispatch_inspect.records import (
    AclnnRecord,
    LoggedArgument,
    LogStyle,
    OpPluginCall,
    QueueAction,
    QueueRecord,
    TensorSpec,
)

PROGRAM_LINES = {
    "v2.1.0-args_zoo": ["GetCANNInfo.cpp", "VariableFallbackKernel.cpp"],
    "v2.1.0-encoder_train": ["GetCANNInfo.cpp"],
    "v2.1.0-linear": ["GetCANNInfo.cpp"],
    "v2.13.0-args_zoo": ["NPUCachingAllocator.cpp", "VariableFallbackKernel.cpp"],
    "v2.13.0-encoder_train": ["NPUCachingAllocator.cpp"],
    "v2.13.0-linear": ["NPUCachingAllocator.cpp"],
    "v2.13.0-rank1-linear": [],
    "v2.13.0-streams": ["NPUCachingAllocator.cpp"],
    "v2.6.0-rank2-linear": [],
}
"""The warnings of PyTorch in each recording: nothing else is not torch_npu's."""

recordings = pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.stem)


def lines_with(path, text):
    """An independent count: lines of the file that hold a text."""
    return sum(text in line for line in path.read_bytes().split(b"\n"))


def arguments(records):
    """All arguments of all calls and launches."""
    return [
        argument
        for each in records
        if isinstance(each, (AclnnRecord, OpPluginCall))
        for argument in each.arguments
    ]


@recordings
def test_counts_are_those_of_grep(path):
    """As many records of each kind as lines with its words."""
    records = list(parse_logs(path))

    def count(kind, action=None):
        return sum(
            isinstance(each, kind) and (action is None or each.action is action)
            for each in records
        )

    assert lines_with(path, b"exec aten") == count(OpPluginCall)
    assert lines_with(path, b"EXEC_NPU_CMD") == count(AclnnRecord)
    assert lines_with(path, b"WriteQueue: write success") == count(
        QueueRecord, QueueAction.WRITE
    )
    assert lines_with(path, b"ReadQueue: read success") == count(
        QueueRecord, QueueAction.READ
    )


@recordings
def test_every_tensor_line_is_a_tensor(path):
    """Each line with a tensor's sizes is an argument with exactly these sizes."""
    lines = re.findall(
        rb"^([^\n:]*): Tensor size: \[([\d, ]*)\]", path.read_bytes(), re.MULTILINE
    )
    expected = [
        (name.decode(), tuple(int(each) for each in sizes.split(b",") if each.strip()))
        for name, sizes in lines
    ]

    seen = [
        (each.name, each.value.shape)
        for each in arguments(parse_logs(path))
        if each.kind == "Tensor"
    ]

    assert expected == seen


@recordings
def test_every_argument_is_understood(path):
    """What has no value is what torch_npu itself could not print."""
    for each in arguments(parse_logs(path)):
        assert isinstance(each, LoggedArgument)
        assert each.known or each.value.text.startswith("unknown dtype, please report")


@recordings
def test_dtypes_are_those_of_torch(path):
    """No tensor keeps the C++ name of its dtype."""
    for each in arguments(parse_logs(path)):
        if isinstance(each.value, TensorSpec):
            assert "dtype" not in each.value.unknown
            assert each.value.dtype in {
                "float32", "float16", "bfloat16", "float64", "int64", "uint8", "bool",
            }  # fmt: skip


@recordings
def test_only_the_known_warnings_are_not_torch_npus(path):
    """Everything else has a prefix of torch_npu and a message that is understood."""
    records = list(parse_logs(path))

    foreign = [each.origin.file for each in records if each.foreign]

    assert PROGRAM_LINES[path.stem] == foreign
    assert LogStyle.BARE not in {each.origin.style for each in records}
    assert QueueAction.OTHER not in {
        each.action for each in records if isinstance(each, QueueRecord)
    }


@recordings
def test_the_records_give_back_the_file(path):
    """Nothing is lost between the records."""
    assert path.read_bytes() == join_records(parse_logs(path))


@recordings
def test_every_task_is_whole(path):
    """Each write has its read and its run, and each launch its task."""
    trace = read_logs(path)
    if path.stem == "v2.6.0-rank2-linear":
        # This release prints no lines about the queue.
        assert () == trace.tasks
        return

    assert all(task.written is not None for task in trace.tasks)
    assert all(task.read is not None for task in trace.tasks)
    assert {0} == {task.ret for task in trace.tasks}
    assert [each.index for each in trace.launches] == [
        task.launch for task in trace.tasks if task.launch is not None
    ]
    for task in trace.tasks:
        if task.launch is not None:
            assert trace[task.launch].name == task.name


@recordings
def test_every_recording_is_complete(path):
    """A record that ends at a zero int8_t is complete as far as torch_npu goes."""
    assert () == read_logs(path).incomplete


LINEAR = (
    "aclnnAddmm",
    "aclnnReduceSum",
    "aclnnInplaceFillScalar",
    "aclnnMm",
    "aclnnReduceSum",
)
RENAMED = {"aclnnCast": "aclnnInplaceCopy", "aclnnTopkV2": "aclnnTopk"}
"""What one version of torch_npu launches where another launches the other."""


def test_all_styles_give_the_same_linear():
    """Four recordings in three prefix styles, one program."""
    names = {
        path.stem: read_logs(path).names
        for path in RECORDINGS
        if path.stem.endswith("linear")
    }

    assert dict.fromkeys(names, LINEAR) == names
    assert 4 == len(names)


def test_the_first_step_of_the_encoder_is_the_same():
    """Up to the optimizer 2.1 adds only two zeroed buffers to each LayerNorm."""
    old, new = (
        read_logs(DATA / f"{version}-encoder_train.log").names
        for version in ("v2.1.0", "v2.13.0")
    )
    old = old[: old.index("aclnnInplaceMuls")]
    new = new[: new.index("aclnnForeachMulScalarV2")]

    zeroed = " aclnnInplaceZero aclnnInplaceZero aclnnLayerNormBackward"
    expected = " ".join(new)
    seen = " ".join(old).replace(zeroed, " aclnnLayerNormBackward")

    assert expected == seen
    assert 80 < len(new)


def test_the_single_calls_are_the_same():
    """The versions differ in two names and in how `ones` is filled."""
    old, new = (
        [
            RENAMED.get(name, name)
            for name in read_logs(DATA / f"{version}-args_zoo.log").names
        ]
        for version in ("v2.1.0", "v2.13.0")
    )
    place = old.index("aclnnInplaceOne")
    assert ["aclnnInplaceOne", "aclnnInplaceZero"] == old[place : place + 2]
    del old[place : place + 2]

    assert old == new
