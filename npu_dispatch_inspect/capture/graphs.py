# SPDX-License-Identifier: BSD-3-Clause
"""Capture AOTAutograd's graphs: `AOTGraphCapture` and its shortcut `capture_graphs`."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any

from npu_dispatch_inspect._torch_private import aot, tracing
from npu_dispatch_inspect.capture import _graph_dynamo
from npu_dispatch_inspect.capture._graph_compile import Compiled, Entry
from npu_dispatch_inspect.capture._graph_failures import failure, unsupported
from npu_dispatch_inspect.capture._graph_options import read_options
from npu_dispatch_inspect.capture._graph_places import Watch, dynamo_places
from npu_dispatch_inspect.capture._graph_program import Program
from npu_dispatch_inspect.capture._graph_recording import Recording
from npu_dispatch_inspect.capture._graph_records import Now, Pending
from npu_dispatch_inspect.capture._graph_trace import trace_program
from npu_dispatch_inspect.environment import read_environment
from npu_dispatch_inspect.errors import UsageError
from npu_dispatch_inspect.records.graphs import (
    CapturedGraph,
    GraphBreak,
    GraphFailure,
)
from npu_dispatch_inspect.traces.graphs import GraphSet

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["AOTGraphCapture", "capture_graphs"]

Decompositions = str | Mapping[Any, Callable[..., Any]] | Iterable[Any] | None


class AOTGraphCapture:
    """Capture the joint, forward and backward graphs of functions and modules.

    A context manager with three ways to a graph: `capture` traces and executes
    nothing, `compile` gives a function that runs its graphs, and `backend` is a
    backend for `torch.compile`. What was captured is in `captured`, also while the
    block runs.

    Args:
        joint: keep joint graphs as well.
        partition: how a joint graph is cut: ``"default"`` saves what backward needs,
            ``"min_cut"`` computes some of it again, or a partition function.
        decompositions: operators to take apart: ``"core_aten"``, a table, or a list
            of operators for which torch has a decomposition.
        dynamic: leave the sizes of arguments open, as symbols.
        fw_compiler: gets each forward or inference graph with its example inputs, and
            returns what is to run instead.
        bw_compiler: the same for backward graphs; `fw_compiler` where it is left out.

    Raises:
        UsageError: an argument is not one of those above, or the capture is used
            outside its block.

    Example:
        >>> import torch
        >>> from npu_dispatch_inspect import AOTGraphCapture
        >>> def f(a, b):
        ...     return torch.sin(a).cos() * b
        >>> a, b = torch.ones(2, requires_grad=True), torch.ones(2)
        >>> with AOTGraphCapture() as graphs:
        ...     captured = graphs.capture(f, a, b)
        >>> captured.forward.names
        ('aten::sin', 'aten::cos', 'aten::mul')
        >>> [each.name for each in captured.backward.outputs]
        ['a', 'b']
    """

    def __init__(
        self,
        *,
        joint: bool = True,
        partition: str | Callable[..., Any] = "default",
        decompositions: Decompositions = None,
        dynamic: bool = False,
        fw_compiler: Callable[..., Any] | None = None,
        bw_compiler: Callable[..., Any] | None = None,
    ) -> None:
        self._options = read_options(
            joint=joint,
            partition=partition,
            decompositions=decompositions,
            dynamic=dynamic,
            fw_compiler=fw_compiler,
            bw_compiler=bw_compiler,
        )
        self._lock = threading.Lock()
        self._active = False
        self._begin()

    def _begin(self) -> None:
        self._environment = read_environment()
        self._graphs: list[Pending] = []
        self._failures: list[GraphFailure] = []
        self._breaks: list[GraphBreak] = []
        self._notes: dict[str, None] = {}
        self._count = 0
        self._why = _graph_dynamo.Breaks()

    def __enter__(self) -> Self:
        """Begin to capture."""
        if self._active:
            msg = (
                "This capture is already running; make a second one with "
                "capture_graphs() inside its block."
            )
            raise UsageError(msg)
        self._begin()
        self._active = True
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End: compiled functions run on, and what is new to them is not captured."""
        self._active = False

    def capture(
        self, function: Callable[..., Any], /, *args: Any, **kwargs: Any
    ) -> GraphSet:
        """Capture the graphs of one call without executing it.

        Parameters, buffers, attributes of modules and random numbers stay as they
        are. Python code of the function does run, on tensors without values.

        Args:
            function: a function or a module.
            args: its arguments.
            kwargs: its keyword arguments.

        Returns:
            The graphs of this call: joint, forward and backward, or inference where
            nothing needs a gradient. Where something cannot be captured, `failures`
            says why.
        """
        self._check_active()
        program = Program(function, args, kwargs)
        recording, _ = self._trace(program, sys._getframe(1), eager_backward=True)
        hidden = program.results.hidden
        if hidden is not None:
            self._note(
                f"Tensors inside {hidden} are not among the outputs: register the "
                f"class with torch.utils._pytree to see them."
            )
        return self._captured(recording.index)

    def compile(
        self, function: Callable[..., Any], /, *, eager_backward: bool = False
    ) -> Callable[..., Any]:
        """A function that runs for real, on the captured graphs.

        Every new signature is captured: other sizes, dtypes, devices, Python values,
        training or grad mode. The backward graph appears when it is compiled, which
        is at the first backward pass. Where capturing fails, the function itself runs.

        Args:
            function: a function or a module.
            eager_backward: compile backward graphs together with forward graphs.
        """
        self._check_active()
        if not callable(function):
            msg = f"Give a function or a module to compile, not {function!r}."
            raise UsageError(msg)

        def trace(program: Program, frame: FrameType | None) -> Entry | None:
            if not self._active:
                return None
            recording, entry = self._trace(
                program, frame, eager_backward=eager_backward
            )
            refused = unsupported(program.results, recording)
            if entry.run is not None and refused is not None:
                self._fail(refused)
                return Entry(run=None, results=program.results)
            return entry

        return Compiled(function, trace, dynamic=self._options.dynamic, note=self._note)

    def backend(
        self, graph_module: Any, example_inputs: Sequence[Any], **options: Any
    ) -> Callable[..., Any]:
        """A backend for `torch.compile`: ``torch.compile(f, backend=graphs.backend)``.

        Each of Dynamo's graphs is one capture, and where Dynamo ends a graph early,
        `breaks` says why. A graph that cannot be captured runs as Dynamo made it.
        """
        del options  # those of torch.compile(options=...) are inductor's
        if not self._active:
            return _graph_dynamo.plain(graph_module)
        recording = self._recording(
            flat=_graph_dynamo.flat_inputs(graph_module),
            results=_graph_dynamo.results(graph_module),
            places=dynamo_places,
        )
        found = self._why.ended(graph_module, recording.index)
        if found is not None:
            with self._lock:
                self._breaks.append(found)
        # Dynamo notes places itself; this is for what was traced before a failure.
        watch = Watch(None)
        try:
            with tracing.quietly(), watch.watching():
                return aot.dynamo_compile(
                    graph_module, example_inputs, **recording.compilers()
                )
        except Exception as error:
            if aot.is_restart(error):
                self._forget(recording.index)
                raise
            self._fail(failure(error, recording, watch.graph, None))
            return _graph_dynamo.plain(graph_module)

    @property
    def captured(self) -> GraphSet:
        """All graphs captured so far."""
        return self._captured(None)

    def _captured(self, index: int | None) -> GraphSet:
        """What there is now, to be built when somebody looks."""

        def wanted(each: Any) -> bool:
            return index is None or each.index == index

        with self._lock:
            return GraphSet.of_source(
                Now(
                    pending=list(filter(wanted, self._graphs)),
                    failures=list(filter(wanted, self._failures)),
                    breaks=list(filter(wanted, self._breaks)),
                    notes=list(self._notes),
                    environment=self._environment,
                )
            )

    @property
    def joint(self) -> CapturedGraph:
        """The joint graph; see `GraphSet.joint`."""
        return self.captured.joint

    @property
    def forward(self) -> CapturedGraph:
        """The forward graph; see `GraphSet.forward`."""
        return self.captured.forward

    @property
    def backward(self) -> CapturedGraph:
        """The backward graph; see `GraphSet.backward`."""
        return self.captured.backward

    @property
    def inference(self) -> CapturedGraph:
        """The inference graph; see `GraphSet.inference`."""
        return self.captured.inference

    @property
    def failures(self) -> tuple[GraphFailure, ...]:
        """What could not be captured."""
        return self.captured.failures

    @property
    def breaks(self) -> tuple[GraphBreak, ...]:
        """Where Dynamo ended graphs early."""
        return self.captured.breaks

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader must know, a sentence each."""
        return self.captured.notes

    def at(self, index: int) -> GraphSet:
        """The graphs of one capture; see `GraphSet.at`."""
        return self.captured.at(index)

    def to_text(self) -> str:
        """The graphs captured so far as text; see `GraphSet`."""
        return self.captured.to_text()

    def __str__(self) -> str:
        """The same."""
        return str(self.captured)

    def __len__(self) -> int:
        """How many graphs were captured so far."""
        return len(self._graphs)

    def __iter__(self) -> Iterator[CapturedGraph]:
        """The graphs captured so far."""
        return iter(self.captured)

    def __repr__(self) -> str:
        """Short and code-like."""
        return f"AOTGraphCapture({self.captured!r})"

    def _check_active(self) -> None:
        if not self._active:
            msg = "Graphs are captured inside a block: with capture_graphs() as graphs:"
            raise UsageError(msg)

    def _recording(self, **facts: Any) -> Recording:
        with self._lock:
            index = self._count
            self._count += 1
        return Recording(
            index=index,
            options=self._options,
            environment=self._environment,
            add=self._add,
            fail=lambda at, error: self._fail(failure(error, at, None, None)),
            **facts,
        )

    def _note(self, *sentences: str) -> None:
        with self._lock:
            self._notes.update(dict.fromkeys(sentences))

    def _add(self, graph: Pending) -> None:
        with self._lock:
            self._graphs.append(graph)

    def _fail(self, record: GraphFailure) -> None:
        with self._lock:
            self._failures.append(record)

    def _forget(self, index: int) -> None:
        """Take back what was captured of a graph that Dynamo makes once more."""
        with self._lock:
            self._count = index
            self._graphs = [each for each in self._graphs if each.index != index]
            self._breaks = [each for each in self._breaks if each.index != index]

    def _trace(
        self, program: Program, frame: FrameType | None, *, eager_backward: bool
    ) -> tuple[Recording, Entry]:
        """Capture a program; a failure becomes a record and an entry without graphs."""

        def start(**facts: Any) -> Recording:
            return self._recording(eager_backward=eager_backward, **facts)

        recording, traced = trace_program(program, start, frame)
        self._note(*traced.notes)
        if traced.failure is not None:
            self._fail(traced.failure)
        return recording, Entry(
            run=traced.run, results=program.results, holds=traced.holds
        )


def capture_graphs(
    *,
    joint: bool = True,
    partition: str | Callable[..., Any] = "default",
    decompositions: Decompositions = None,
    dynamic: bool = False,
    fw_compiler: Callable[..., Any] | None = None,
    bw_compiler: Callable[..., Any] | None = None,
) -> AOTGraphCapture:
    """Capture AOTAutograd's graphs in a block; see `AOTGraphCapture`.

    Args:
        joint: keep joint graphs as well.
        partition: ``"default"``, ``"min_cut"``, or a partition function.
        decompositions: ``"core_aten"``, a table, or a list of operators.
        dynamic: leave the sizes of arguments open, as symbols.
        fw_compiler: gets each forward or inference graph with its example inputs.
        bw_compiler: the same for backward graphs.

    Returns:
        A capture to enter; its graphs are in ``captured``.

    Raises:
        UsageError: an argument is not one of those above.

    Example:
        >>> import torch
        >>> from npu_dispatch_inspect import capture_graphs
        >>> with capture_graphs() as graphs:
        ...     captured = graphs.capture(torch.nn.Linear(4, 2), torch.ones(1, 4))
        >>> [str(each) for each in captured.forward.inputs]
        ['primals_1: parameter weight', 'primals_2: parameter bias', 'primals_3: argument input']
    """
    return AOTGraphCapture(
        joint=joint,
        partition=partition,
        decompositions=decompositions,
        dynamic=dynamic,
        fw_compiler=fw_compiler,
        bw_compiler=bw_compiler,
    )
