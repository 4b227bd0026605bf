# SPDX-License-Identifier: BSD-3-Clause
"""The pytest plugin: fixtures, markers and options.

Loaded in every run of pytest where this library is installed, so it imports
nothing but pytest before a test asks for something.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Generator
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, TypeVar

import pytest

from npu_dispatch_inspect import _pytest_reports as reports
from npu_dispatch_inspect.assertions._settings import SETTINGS, Settings

if TYPE_CHECKING:
    from npu_dispatch_inspect.capture.inspector import DispatchInspector
    from npu_dispatch_inspect.capture.logs import LogCapture
    from npu_dispatch_inspect.capture.ops import OpTracer
    from npu_dispatch_inspect.traces.tables import DispatchTable

C = TypeVar("C")

STAND_IN_VARIABLE = "NPU_DISPATCH_INSPECT_STANDIN"

_MARKERS = {
    "forbid_ops(*patterns, phase=None, module=None)": (
        "fail if the test calls one of these operators."
    ),
    "max_ops(number, phase=None, module=None, ignore=())": (
        "fail if the test calls more operators."
    ),
    "no_cpu_fallback": (
        "fail if the test calls an operator on the NPU that torch_npu leaves to the CPU."
    ),
    "requires_npu(stand_in=True)": (
        "skip where there is no NPU; with stand_in=False the host stand-in is none."
    ),
}
_ROWS = {-1: 5, 0: 20, 1: 100}
"""Rows of failure texts by verbosity; all of them from -vv on."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options and the ini keys of the same name."""
    group = parser.getgroup("npu-inspect", "traces of operators (npu_dispatch_inspect)")
    group.addoption(
        "--npu-inspect-stand-in",
        action="store_true",
        help="Load the host stand-in for CANN before torch is imported "
        f"(also {STAND_IN_VARIABLE}=1).",
    )
    group.addoption(
        "--npu-inspect-trace",
        choices=("off", "failed", "all"),
        help="Show the traces of failing tests (failed, the default), of all tests "
        "(see -rA), or none.",
    )
    group.addoption(
        "--npu-inspect-save",
        metavar="DIR",
        help="Save the traces of failing tests in this folder.",
    )
    parser.addini(
        "npu_inspect_stand_in", "As --npu-inspect-stand-in.", type="bool", default=False
    )
    parser.addini("npu_inspect_trace", "As --npu-inspect-trace.", default="failed")
    parser.addini("npu_inspect_save", "As --npu-inspect-save.", default="")
    parser.addini(
        "verbosity_npu_inspect",
        "Verbosity of traces and failed assertions; as -v says by default.",
        default="auto",
    )


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """Load the stand-in before a conftest.py can import torch."""
    options = early_config.known_args_namespace
    if _wants_stand_in(early_config, options):
        _load_stand_in()


def pytest_configure(config: pytest.Config) -> None:
    """Register the markers, check the options, set how long texts are."""
    for marker, meaning in _MARKERS.items():
        config.addinivalue_line("markers", f"{marker}: {meaning}")
    if _wants_stand_in(config, config.option):
        # Only a plugin named in a conftest.py comes this late.
        _load_stand_in()
    choice = reports.trace_choice(config)
    if choice not in ("off", "failed", "all"):
        msg = f"npu_inspect_trace is off, failed or all, not {choice!r}."
        raise pytest.UsageError(msg)
    level = _verbosity(config)
    SETTINGS.rows = None if level > 1 else _ROWS[max(level, -1)]
    SETTINGS.more = "more rows: -v; the whole trace: --npu-inspect-save=DIR"


def pytest_unconfigure() -> None:
    """Put the length of texts back, for runs of pytest inside this process."""
    SETTINGS.__dict__.update(Settings().__dict__)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip what needs an NPU where there is none."""
    for marker in item.iter_markers("requires_npu"):
        reason = _why_no_npu(**marker.kwargs)
        if reason is not None:
            pytest.skip(reason)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, Any]:
    """Trace a test that has one of the markers, and check it when it has passed."""
    from npu_dispatch_inspect._pytest_markers import checks_of

    checks = checks_of(item)
    if not checks:
        return (yield)
    tracers = {}
    for engine in dict.fromkeys(check.engine for check in checks):
        # Both engines see the same calls; the later one must be left first.
        tracers[engine] = _tracer_class(item)(f"{item.name}, {engine}", engine=engine)
    with contextlib.ExitStack() as stack:
        traces = {
            engine: stack.enter_context(tracer) for engine, tracer in tracers.items()
        }
        result = yield
    for check in checks:
        check.run(traces[check.engine])
    return result


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add the traces of a test to its report, and save them."""
    report = yield
    reports.add_traces(item, report)
    return report


def pytest_assertrepr_compare(
    config: pytest.Config,  # noqa: ARG001 - pytest's name
    op: str,
    left: object,
    right: object,
) -> list[str] | None:
    """Explain ``trace == other``: what differs first, in few lines."""
    traces = sys.modules.get("npu_dispatch_inspect.traces.ops")
    if (
        op != "=="
        or traces is None
        or not isinstance(left, traces.OpTrace)
        or not isinstance(right, traces.OpTrace)
    ):
        return None
    from npu_dispatch_inspect.display.diff import equality_lines

    return equality_lines(left, right)


@pytest.fixture
def op_tracer(request: pytest.FixtureRequest) -> Callable[..., OpTracer]:
    """Tracers whose traces are shown if the test fails.

    Use it as `OpTracer`::

        with op_tracer() as trace:
            ...
    """
    return _tracer_class(request.node)


@pytest.fixture
def npu_log_capture(request: pytest.FixtureRequest) -> Callable[..., LogCapture]:
    """Captures of torch_npu's log whose lines are shown if the test fails.

    Use it as `LogCapture`::

        with npu_log_capture() as logs:
            ...
    """
    _need_torch("npu_log_capture")
    from npu_dispatch_inspect.capture.logs import LogCapture

    return _keeping(LogCapture, request.node)


@pytest.fixture
def dispatch_inspector(
    request: pytest.FixtureRequest,
) -> Callable[..., DispatchInspector]:
    """Inspectors whose reports are shown if the test fails.

    Use it as `DispatchInspector`::

        with dispatch_inspector() as seen:
            ...
    """
    _need_torch("dispatch_inspector")
    from npu_dispatch_inspect.capture.inspector import DispatchInspector

    return _keeping(DispatchInspector, request.node)


@pytest.fixture(scope="session")
def dispatch_table() -> DispatchTable:
    """The dispatcher's tables of this process, read once."""
    _need_torch("dispatch_table")
    from npu_dispatch_inspect.dispatch_table.reader import read_dispatch_table

    return read_dispatch_table()


def _tracer_class(item: pytest.Item) -> Callable[..., OpTracer]:
    _need_torch("op_tracer")
    from npu_dispatch_inspect.capture.ops import OpTracer

    return _keeping(OpTracer, item)


def _keeping(capture: type[C], item: pytest.Item) -> Callable[..., C]:
    """A capture's class, with everything it makes kept for the test's report."""
    traces = reports.traces_of(item)

    class Kept(capture):  # type: ignore[misc, valid-type]
        def __enter__(self) -> Any:
            trace = super().__enter__()
            traces.append(trace)
            return trace

    return Kept


def _need_torch(fixture: str) -> None:
    reason = _why_no_torch()
    if reason is not None:
        pytest.fail(f"{fixture} needs torch: {reason}", pytrace=False)


def _why_no_torch() -> str | None:
    """Why torch cannot be imported; None where it can."""
    if find_spec("torch") is None:
        return "it is not installed."
    try:
        import torch  # noqa: F401
    except Exception as error:  # noqa: BLE001 - backends raise anything while they load
        first = str(error).strip().split("\n")[0].rstrip(".")
        return (
            f"importing it fails ({first}); where there is torch_npu but no CANN, run "
            f"pytest with --npu-inspect-stand-in, or set TORCH_DEVICE_BACKEND_AUTOLOAD=0."
        )
    return None


def _why_no_npu(*, stand_in: bool = True) -> str | None:
    """Why there is no NPU to run a test on; None where there is."""
    if find_spec("torch_npu") is None:
        return "needs an NPU: torch_npu is not installed"
    reason = _why_no_torch()
    if reason is not None:
        return f"needs an NPU: {reason}"
    import torch

    npu = getattr(torch, "npu", None)
    if npu is None or not npu.is_available():
        return "needs an NPU: torch_npu sees none (--npu-inspect-stand-in stands in)"
    if not stand_in:
        from npu_dispatch_inspect import standin

        if standin.is_loaded():
            return "needs a real NPU: this is the stand-in"
    return None


def _wants_stand_in(config: pytest.Config, options: Any) -> bool:
    return bool(
        getattr(options, "npu_inspect_stand_in", False)
        or config.getini("npu_inspect_stand_in")
        or os.environ.get(STAND_IN_VARIABLE, "0") not in ("", "0")
    )


def _load_stand_in() -> None:
    from npu_dispatch_inspect import standin
    from npu_dispatch_inspect.errors import StandInError

    if standin.is_loaded():
        return
    try:
        standin.load()
    except StandInError as error:
        raise pytest.UsageError(str(error)) from None


def _verbosity(config: pytest.Config) -> int:
    try:
        return config.get_verbosity("npu_inspect")
    except ValueError as error:
        msg = f"verbosity_npu_inspect is a whole number or auto ({error})."
        raise pytest.UsageError(msg) from None
