# SPDX-License-Identifier: BSD-3-Clause
"""``logs``: what log files of torch_npu say, of any size."""

from __future__ import annotations

import argparse
import contextlib
import functools
import json
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from npu_dispatch_inspect.cli._frame import add_json, add_limit, row_limit, show, write
from npu_dispatch_inspect.errors import UsageError

if TYPE_CHECKING:
    from npu_dispatch_inspect.records.logs import LogRecord
    from npu_dispatch_inspect.traces.log_summary import LogSummary

__all__ = ["add_parser", "launch_lines"]

EXAMPLES = """\
examples:
  %(prog)s rank0.log                        summary, then the first launches
  %(prog)s rank*.log.gz --rank 3 --limit 0  summary of what rank 3 wrote
  %(prog)s train.log --name 'aclnnMatmul*' --all
  %(prog)s big.log --jobs 8                 in eight processes
  TORCH_NPU_LOGS=+op_plugin,+dispatch python train.py 2>&1 | %(prog)s -
"""
IN_MEMORY = 1 << 24


def add_parser(commands: Any, summary: str) -> None:
    """Add the command to the parser's ``commands``."""
    parser = commands.add_parser(
        "logs",
        help=summary,
        description="Read what torch_npu wrote to standard error or to a file: counts "
        "of launches, fallbacks, copies, casts and waits, then errors, then the "
        "launches in order. Files are read as a stream and may be compressed.",
        epilog=EXAMPLES,
    )
    parser.add_argument(
        "files", nargs="+", metavar="FILE", help="a log file; - is standard input"
    )
    parser.add_argument(
        "--name", metavar="GLOB", help="only lines about these operators: 'aclnnMm*'"
    )
    parser.add_argument(
        "--logger", metavar="GLOB", help="only lines of these loggers: '*dispatch'"
    )
    parser.add_argument("--rank", type=int, metavar="N", help="only lines of this rank")
    parser.add_argument(
        "--pid", type=int, metavar="N", help="only lines of this process"
    )
    parser.add_argument(
        "--source",
        metavar="GLOB",
        help="only lines with this in front, as launchers write it: 'rank0'",
    )
    parser.add_argument(
        "--jobs",
        type=int,
        default=1,
        metavar="N",
        help="read each file in so many processes (default: %(default)s)",
    )
    add_limit(parser, "launches")
    add_json(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Print the summary, the errors and the launches."""
    limit = row_limit(options)
    if options.jobs < 1:
        msg = f"--jobs must be a whole number from 1 up, not {options.jobs}."
        raise UsageError(msg)
    if options.jobs > 1 and limit is None:
        msg = "--jobs and --all cannot be combined: the launches come from one process."
        raise UsageError(msg)
    from npu_dispatch_inspect.traces.log_summary import LogSummary

    whole = LogSummary()
    errors: list[dict[str, Any]] = []
    notes: list[str] = []
    seen = 0
    several = len(options.files) > 1
    # What is shown after the summary waits in a file where it is much.
    with tempfile.SpooledTemporaryFile(
        IN_MEMORY, "w+", encoding="utf-8", errors="surrogateescape"
    ) as rows:
        for path in options.files:
            for part in _parts(path, options, limit, rows if limit is None else None):
                whole += part.summary
                errors += [
                    _told(each, path if several else None) for each in part.errors
                ]
                room = None if limit is None else max(0, limit - seen)
                for row in part.rows[:room]:
                    rows.write(_line(_told(row, path if several else None)))
                seen += part.launches
                notes += part.notes
        rows.seek(0)
        if options.json:
            _write_json(options.files, whole, errors, rows, seen, notes)
        else:
            _write_text(whole, errors, rows, seen, limit)
            for note in notes:
                write(f"note: {note}")
    return 0


class _Part:
    """What one part of a file says."""

    def __init__(self) -> None:
        self.summary: LogSummary
        self.errors: list[dict[str, Any]] = []
        self.rows: list[dict[str, Any]] = []
        self.notes: list[str] = []
        """Why lines may be missing."""
        self.launches = 0


def _parts(
    path: str,
    options: argparse.Namespace,
    limit: int | None,
    spool: IO[str] | None,
) -> Iterator[_Part]:
    from npu_dispatch_inspect.cli._files import STDIN
    from npu_dispatch_inspect.npu_logs import map_logs

    wanted = _Wanted(options)
    # A packed file is one part in any case.
    if options.jobs > 1 and path != STDIN and not _packed(path):
        read = functools.partial(_read, wanted=wanted, limit=limit)
        yield from map_logs(path, read, workers=options.jobs)
        return
    source: Any = path
    if path == STDIN:
        source = sys.stdin.buffer
    several = path if len(options.files) > 1 else None
    problems: list[str] = []
    part = _read(_records(source, problems), wanted, limit, spool, several)
    name = "standard input" if path == STDIN else path
    part.notes = [f"{name}: {each}." for each in problems]
    yield part


def _records(source: Any, problems: list[str]) -> Iterator[LogRecord]:
    """As `parse_logs`, which does not say why a source ended early."""
    from npu_dispatch_inspect.npu_logs import LogParser
    from npu_dispatch_inspect.npu_logs.sources import open_chunks

    parser = LogParser()
    with open_chunks(source) as chunks:
        for chunk in chunks:
            yield from parser.feed(chunk)
        yield from parser.close()
    if chunks.problem is not None:
        problems.append(chunks.problem)


def _packed(path: str) -> bool:
    with contextlib.suppress(OSError), Path(path).open("rb") as file:
        return file.read(2) == b"\x1f\x8b"
    return False


class _Wanted:
    """The conditions that a line has to fulfil; other processes get a copy."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.name: str | None = options.name
        self.logger: str | None = options.logger
        self.rank: int | None = options.rank
        self.pid: int | None = options.pid
        self.source: str | None = options.source
        self.any = any(
            each is not None
            for each in (self.name, self.logger, self.rank, self.pid, self.source)
        )

    def fits(self, record: LogRecord) -> bool:
        """Whether every condition holds."""
        origin = record.origin
        return (
            (self.rank is None or origin.rank == self.rank)
            and (self.pid is None or origin.pid == self.pid)
            and _matches(origin.source, self.source)
            and _matches(origin.logger, self.logger)
            and _matches(_name(record), self.name)
        )


def _name(record: LogRecord) -> str | None:
    name = getattr(record, "name", None)
    return name if name is not None else getattr(record, "operator", None)


def _matches(text: str | None, glob: str | None) -> bool:
    return glob is None or (text is not None and fnmatchcase(text, glob))


def _read(
    records: Iterable[LogRecord],
    wanted: _Wanted,
    limit: int | None,
    spool: IO[str] | None = None,
    path: str | None = None,
) -> _Part:
    """Read one part in one pass."""
    from npu_dispatch_inspect.records.logs import AclnnRecord, AsyncErrorRecord
    from npu_dispatch_inspect.traces.log_summary import summarize

    part = _Part()

    def passing() -> Iterator[LogRecord]:
        for record in records:
            if wanted.any and not wanted.fits(record):
                continue
            if isinstance(record, AclnnRecord):
                part.launches += 1
                if spool is not None:
                    spool.write(_line(_told(_launch(record), path)))
                elif limit is not None and len(part.rows) < limit:
                    part.rows.append(_launch(record))
            elif isinstance(record, AsyncErrorRecord):
                part.errors.append(_error(record))
            yield record

    part.summary = summarize(passing())
    return part


def _launch(record: Any) -> dict[str, Any]:
    from npu_dispatch_inspect.traces.log_summary import signature

    origin = record.origin
    return {
        "index": record.index,
        "time": record.time,
        "pid": origin.pid,
        "rank": origin.rank,
        "source": origin.source,
        "name": record.name,
        "signature": signature(record),
        "stream": record.stream,
        "truncated": record.truncated,
    }


def _error(record: Any) -> dict[str, Any]:
    return {
        "index": record.index,
        "time": record.time,
        "pid": record.origin.pid,
        "rank": record.origin.rank,
        "source": record.origin.source,
        "operator": record.operator,
        "code": record.code,
        "message": record.message,
        "preceding": list(record.preceding),
    }


def _told(row: dict[str, Any], path: str | None) -> dict[str, Any]:
    """A row with its file in front, where there are several."""
    return row if path is None else {"file": path, **row}


def _line(row: dict[str, Any]) -> str:
    """A row as a line of JSON: text may hold any line end or byte."""
    return json.dumps(row) + "\n"


def _write_json(
    files: list[str],
    summary: LogSummary,
    errors: list[dict[str, Any]],
    rows: IO[str],
    seen: int,
    notes: list[str],
) -> None:
    """As `write_json` writes, but launch by launch: there may be millions."""
    from npu_dispatch_inspect.cli._json import FORMAT, plain

    head = {
        "command": "logs",
        "format": FORMAT,
        "files": files,
        "summary": plain(summary),
        "errors": errors,
        "notes": notes,
        "launch_count": seen,
    }
    text = json.dumps(head, indent=1)
    write(f'{text.removesuffix("}").rstrip()},\n "launches": [')
    before = ""
    for row in rows:
        write(f"{before}  {row.rstrip()}")
        before = ","
    write(" ]\n}")


def _write_text(
    summary: LogSummary,
    errors: list[dict[str, Any]],
    rows: IO[str],
    seen: int,
    limit: int | None,
) -> None:
    show(summary)
    if errors:
        write(f"\nerrors: {len(errors)}")
        for error in errors:
            where = _where(error)
            code = f", error {error['code']}" if error["code"] else ""
            write(f"  {where}{error['operator'] or 'operator not named'}{code}")
            if error["preceding"]:
                write(f"    the launches before it: {', '.join(error['preceding'])}")
    for line in _launch_lines(map(json.loads, rows), seen, limit):
        write(line)


def launch_lines(records: Sequence[Any], limit: int | None) -> Iterator[str]:
    """Launches as text, a line each, as many as the limit lets through."""
    return _launch_lines(map(_launch, records[:limit]), len(records), limit)


def _launch_lines(
    rows: Iterable[dict[str, Any]], seen: int, limit: int | None
) -> Iterator[str]:
    shown = seen if limit is None else min(limit, seen)
    if shown:
        yield ""
        yield "launches:"
    for row in rows:
        end = f"  [{row['truncated']}]" if row["truncated"] else ""
        yield f"  #{row['index']:<7} {_where(row)}{row['signature']}{end}"
    if shown and shown < seen:
        yield f"  ... {seen - shown} more; --all shows them"


def _where(row: dict[str, Any]) -> str:
    told = []
    if row.get("file"):
        told.append(str(row["file"]))
    if row["source"]:
        told.append(str(row["source"]))
    elif row["rank"] is not None:
        told.append(f"rank {row['rank']}")
    return f"{' '.join(told)}: " if told else ""
