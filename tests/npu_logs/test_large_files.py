# SPDX-License-Identifier: BSD-3-Clause
"""Index, parts and summaries of files."""

from __future__ import annotations

import gzip

import pytest
from samples import DATA, GLOG, launch, wrapped

from npu_dispatch_inspect import RecordError, UsageError
from npu_dispatch_inspect.npu_logs import (
    index_logs,
    map_logs,
    parse_logs,
    read_logs,
    summarize_logs,
)
from npu_dispatch_inspect.records import AclnnRecord

ENCODER = DATA / "v2.13.0-encoder_train.log"
OLD_ENCODER = DATA / "v2.1.0-encoder_train.log"


@pytest.fixture(name="large")
def _large(tmp_path):
    """A file of several chunks."""
    path = tmp_path / "large.log"
    path.write_bytes(ENCODER.read_bytes() * 3 + OLD_ENCODER.read_bytes())
    return path


def names(records):
    """What a part has to tell, for another process."""
    return [each.name for each in records if isinstance(each, AclnnRecord)]


class TestIndex:
    def test_finds_what_the_parser_finds(self, large):
        """The same records at the same places."""
        records = [each for each in parse_logs(large) if not each.foreign]
        index = index_logs(large)

        assert len(records) == len(index)
        assert [each.offset for each in records] == [
            each.offset for each in index.records()
        ]

    def test_gives_single_records(self, large):
        """They are those of the parser."""
        expected = [
            each.text
            for each in parse_logs(large)
            if isinstance(each, AclnnRecord) and each.name == "aclnnMm"
        ]

        found = list(index_logs(large).records("aclnnMm EXEC*"))

        assert expected == [each.text for each in found]
        assert {3} == {len(each.arguments) - 1 for each in found}

    def test_counts(self):
        """Launches and entries by name, other lines by their first word."""
        counts = index_logs(ENCODER).counts()

        assert (234, 234) == (counts["WriteQueue"], counts["ReadQueue"])
        assert 186 == sum(
            count for name, count in counts.items() if name.endswith("EXEC_NPU_CMD")
        )

    def test_last_record_without_a_line_end(self, tmp_path):
        """A file that is cut has its last record in the index."""
        path = tmp_path / "cut.log"
        path.write_bytes(launch() + GLOG + b"aclnnX EXEC_NPU_CMD with task_queue = 1")

        assert {"aclnnAddmm EXEC_NPU_CMD": 1, "aclnnX EXEC_NPU_CMD": 1} == (
            index_logs(path).counts()
        )

    def test_foreign_bytes_are_counted(self, tmp_path):
        """What lies between the records is not lost sight of."""
        path = tmp_path / "mixed.log"
        path.write_bytes(b"abc\n" + launch() + b"defg\n")

        assert 9 == index_logs(path).foreign


class TestParts:
    @pytest.mark.parametrize("workers", [1, 2, 3])
    def test_parts_together_are_the_file(self, large, workers):
        """No record is lost or doubled where the file is cut."""
        parts = map_logs(large, names, workers=workers)

        assert workers == len(parts)
        assert list(read_logs(large).names) == [name for part in parts for name in part]

    def test_summary_is_the_same(self, large):
        """Parts add up, but for waits that a cut divides."""
        whole = read_logs(large).summary()
        parts = summarize_logs(large, workers=2)

        for name in ("records", "launches", "signatures", "op_plugin", "casts"):
            assert getattr(whole, name) == getattr(parts, name)

    def test_compressed_file_is_one_part(self, tmp_path):
        """It cannot be cut."""
        path = tmp_path / "a.log.gz"
        path.write_bytes(gzip.compress(launch()))

        assert [["aclnnAddmm"]] == map_logs(path, names, workers=2)

    def test_file_without_records(self, tmp_path):
        """It is one part, too."""
        path = tmp_path / "a.log"
        path.write_bytes(b"nothing\n" * 1000)

        assert [[]] == map_logs(path, names, workers=2)

    def test_no_workers(self, large):
        """Nobody would do the work."""
        with pytest.raises(UsageError, match="workers must be 1 or more, not 0"):
            map_logs(large, names, workers=0)

    def test_file_that_is_not_there(self, tmp_path):
        """One sentence."""
        with pytest.raises(RecordError, match="Cannot read the log file"):
            map_logs(tmp_path / "none.log", names, workers=2)


def test_summary():
    """Counts per operator, per signature, fallbacks, copies, casts and waits."""
    summary = read_logs(DATA / "v2.1.0-args_zoo.log").summary()

    assert (391, 2, 0, 1) == (
        summary.records, summary.foreign, summary.bare, summary.truncated,
    )  # fmt: skip
    assert 6 == summary.launches["aclnnCast"]
    assert 6 == summary.op_plugin["_npu_dtype_cast"]
    assert 1 == summary.signatures["aclnnCat([f32[4, 6], ...], f32[4, 12])"]
    assert {"aten::digamma.out": 1} == summary.fallbacks
    assert {
        "float32 -> float16": 4,
        "float32 -> bfloat16": 1,
        "bfloat16 -> float32": 1,
    } == summary.casts
    assert 2 == summary.copies["device"]
    assert {"idle wait": 26, "drain wait": 2} == summary.waits


def test_summary_of_copies():
    """A copy that passes the queue tells its direction and size."""
    summary = read_logs(DATA / "v2.13.0-streams.log").summary()

    assert {"host to device": 1} == summary.copies
    assert {"host to device": 16} == summary.copied_bytes


def test_summary_of_ranks():
    """Lines behind marks count as well."""
    summary = read_logs(wrapped(b"[rank0]:", launch()) * 2).summary()

    assert {"aclnnAddmm": 2} == summary.launches
