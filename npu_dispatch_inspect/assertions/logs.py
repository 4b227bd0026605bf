# SPDX-License-Identifier: BSD-3-Clause
"""Assertions on log lines."""

from __future__ import annotations

import difflib
import operator
import re
from collections import Counter
from collections.abc import Callable, Iterable
from fnmatch import fnmatchcase
from typing import Any

from npu_dispatch_inspect.assertions._look import fail
from npu_dispatch_inspect.assertions._settings import SETTINGS
from npu_dispatch_inspect.display.places import capped
from npu_dispatch_inspect.errors import UsageError

__all__ = ["assert_log", "assert_no_logs"]

__unittest = True

_LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")
_LEVEL = re.compile(r"(>=|<=|==|>|<)?\s*(\w+)")
_COMPARE: dict[str, Callable[[int, int], bool]] = {
    ">=": operator.ge,
    "<=": operator.le,
    "==": operator.eq,
    ">": operator.gt,
    "<": operator.lt,
}
_SHOWN = 200


def assert_log(
    logs: object,
    *,
    level: str | None = None,
    message: str | re.Pattern[str] | None = None,
    logger: str | None = None,
    count: int | None = None,
) -> None:
    """A line like this was logged.

    Args:
        logs: a `LogTrace`, or a report with one.
        level: ``"WARNING"``, or a comparison: ``">=WARNING"``.
        message: a glob over the whole message, or a regular expression that is
            found in it.
        logger: a glob over the logger's name.
        count: exactly so many times; once or more where it is left out.

    Raises:
        AssertionError: it was not.

    Example:
        >>> from npu_dispatch_inspect import assert_log, read_logs
        >>> log = read_logs("tests/data/logs/v2.13.0-linear.log")
        >>> assert_log(log, message="*aclnnReduceSum*", level="INFO")
    """
    __tracebackhide__ = True
    records = _records(logs)
    fits, wanted = _condition(level, message, logger)
    found = [each for each in records if fits(each)]
    if found if count is None else len(found) == count:
        return
    if count is None:
        lines = [f"no log line{wanted} (captured {len(records)})"]
    else:
        head = f"expected {_lines(count)}{wanted}, captured {len(found)}"
        lines = [f"{head} (of {len(records)})"]
    if found:
        lines += _shown(found)
    elif records:
        levels = Counter(each.level or "no level" for each in records)
        told = ", ".join(f"{number} {each}" for each, number in levels.most_common())
        lines += [f"  captured: {told}", *_nearest(records, message)]
    else:
        lines += ["  nothing was captured", *_missing(logs)]
    fail(lines)


def assert_no_logs(
    logs: object,
    *,
    level: str | None = None,
    message: str | re.Pattern[str] | None = None,
    logger: str | None = None,
) -> None:
    """No line like this was logged; without conditions, none at all.

    Args:
        logs: a `LogTrace`, or a report with one.
        level: ``"WARNING"``, or a comparison: ``">=ERROR"``.
        message: a glob over the whole message, or a regular expression that is
            found in it.
        logger: a glob over the logger's name.

    Raises:
        AssertionError: one was.

    Example:
        >>> from npu_dispatch_inspect import assert_no_logs, read_logs
        >>> log = read_logs("tests/data/logs/v2.13.0-linear.log")
        >>> assert_no_logs(log, level=">=ERROR")
    """
    __tracebackhide__ = True
    records = _records(logs)
    fits, wanted = _condition(level, message, logger)
    found = [each for each in records if fits(each)]
    if found:
        unexpected = _lines(len(found)).replace(" ", " unexpected ", 1)
        fail([f"{unexpected}{wanted} (captured {len(records)})", *_shown(found)])


def _condition(
    level: str | None, message: str | re.Pattern[str] | None, logger: str | None
) -> tuple[Callable[[Any], bool], str]:
    """Does a line fit, and the same in words."""
    for word, value in (("message", message), ("logger", logger)):
        text = value.pattern if isinstance(value, re.Pattern) else value
        if text is not None and not isinstance(text, str):
            msg = f"{word}= takes text, not {value!r}."
            raise UsageError(msg)
    compare, number = _level(level) if level is not None else (None, 0)

    def fits(record: Any) -> bool:
        if compare is not None and (
            record.level not in _LEVELS
            or not compare(_LEVELS.index(record.level), number)
        ):
            return False
        if logger is not None and not fnmatchcase(record.logger or "", logger):
            return False
        if isinstance(message, re.Pattern):
            return message.search(record.message) is not None
        return message is None or fnmatchcase(record.message, message)

    words = []
    if level is not None:
        words.append(f"of level {level}")
    if logger is not None:
        words.append(f"of logger {logger}")
    if message is not None:
        text = message.pattern if isinstance(message, re.Pattern) else message
        words.append(f"with {text!r}")
    return fits, "".join(f" {each}" for each in words)


def _level(text: str) -> tuple[Callable[[int, int], bool], int]:
    match = _LEVEL.fullmatch(text.strip()) if isinstance(text, str) else None
    name = match[2].upper() if match else ""
    if match is None or name not in _LEVELS:
        msg = (
            f"level= is one of {', '.join(_LEVELS)}, also as '>=WARNING', not {text!r}."
        )
        raise UsageError(msg)
    return _COMPARE[match[1] or "=="], _LEVELS.index(name)


def _records(logs: object) -> tuple[Any, ...]:
    logs = getattr(logs, "logs", logs)
    records = tuple(getattr(logs, "records", ()))
    if not hasattr(logs, "records") or not all(
        hasattr(each, "level") for each in records
    ):
        msg = f"{type(logs).__name__} has no log lines: give a LogTrace, as from capture_logs()."
        raise UsageError(msg)
    return records


def _lines(number: int) -> str:
    return f"{number} log line{'' if number == 1 else 's'}"


def _shown(records: Iterable[Any]) -> list[str]:
    rows = []
    for each in records:
        text = each.message
        if len(text) > _SHOWN:
            text = f"{text[:_SHOWN]}..."
        rows.append(f"#{each.index} {each.level or '-'} {each.logger or '-'}: {text}")
    return [f"  {each}" for each in capped(rows, SETTINGS.rows, "lines")]


def _nearest(
    records: tuple[Any, ...], message: str | re.Pattern[str] | None
) -> list[str]:
    if not isinstance(message, str):
        return []
    first = {each.message: each for each in reversed(records)}
    near = difflib.get_close_matches(message.strip("*"), first, n=3, cutoff=0.4)
    return ["  similar:", *_shown(first[each] for each in near)] if near else []


def _missing(logs: object) -> list[str]:
    return [
        f"  {each.what}: {each.reason} {each.remedy}"
        for each in getattr(logs, "missing", ())
    ]
