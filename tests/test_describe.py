# SPDX-License-Identifier: BSD-3-Clause
"""Every kind of value is described, and describing it changes nothing."""

from __future__ import annotations

import io
import pickle
import random
from collections import deque
from itertools import count

import pytest
import torch
from torch import nn
from torch.testing._internal.two_tensor import TwoTensor

from npu_dispatch_inspect import Constant, trace_ops
from npu_dispatch_inspect._torch_private.modes import storage_address
from npu_dispatch_inspect.capture import _describe


def tensors(trace):
    """The inputs of the last call."""
    return trace[-1].input_tensors


@pytest.fixture
def library():
    """An operator library of the test's own, with one operator that takes anything."""
    with torch.library._scoped_library("npu_inspect_test", "DEF") as made:
        made.define(
            "anything(Tensor?[] several, *, Tensor? maybe=None, Generator? generator=None,"
            " ScalarType? dtype=None, MemoryFormat? format=None, Layout? layout=None,"
            " Device? device=None, str? text=None, float[]? numbers=None, bool[2] flags=[True, False])"
            " -> (Tensor, Tensor[], int)"
        )
        made.impl(
            "anything",
            lambda several, **_: (torch.ones(1), [torch.ones(2), torch.ones(3)], 7),
            "CompositeExplicitAutograd",
        )
        yield torch.ops.npu_inspect_test.anything


def test_every_plain_kind_of_argument(library):
    """Lists, missing tensors, generators, dtypes, formats, devices, text, numbers."""
    with trace_ops() as trace:
        library(
            [torch.ones(2), None],
            generator=torch.Generator(),
            dtype=torch.float16,
            format=torch.channels_last,
            layout=torch.sparse_coo,
            device=torch.device("meta"),
            text="text",
            numbers=[1.0, 2.5],
        )
    record = trace.find("npu_inspect_test::anything")[0]
    several = record.argument("several")
    assert (str(several[0]), several[1]) == ("f32[2]", None)
    assert record.argument("maybe") is None
    assert record.argument("generator") == Constant(kind="generator", text="cpu")
    assert record.argument("dtype") == Constant(kind="dtype", text="float16")
    assert record.argument("format") == Constant(
        kind="memory_format", text="channels_last"
    )
    assert record.argument("layout") == Constant(kind="layout", text="sparse_coo")
    assert record.argument("device") == Constant(kind="device", text="meta")
    assert record.argument("text") == "text"
    assert record.argument("numbers") == (1.0, 2.5)
    assert record.argument("flags") == (True, False)
    assert [each.name for each in record.inputs if each.default] == ["maybe", "flags"]
    first, rest, number = record.outputs
    assert (str(first), [str(each) for each in rest], number) == (
        "f32[1]",
        ["f32[2]", "f32[3]"],
        7,
    )
    assert pickle.loads(pickle.dumps(record)) == record


def test_lists_with_missing_tensors():
    """index(x, [None, i]) has the None where it stands."""
    x, i = torch.ones(2, 3), torch.tensor([0, 1])
    with trace_ops() as trace:
        x[:, i]
    indices = trace.find("aten::index.Tensor")[0].argument("indices")
    assert indices[0] is None
    assert str(indices[1]) == "i64[2]"


def test_scalars_keep_their_kind():
    """Numbers are what the program gave: int, float, bool and complex."""
    x = torch.ones(2, dtype=torch.complex64)
    with trace_ops() as trace:
        for each in (1, 1.5, True, 2 + 1j):
            x.add(torch.ones(2), alpha=1) if each is True else x.fill_(each)
    values = [record.argument("value") for record in trace.find("aten::fill_*")]
    assert values == [1, 1.5, 2 + 1j]
    assert [type(each) for each in values] == [int, float, complex]


def test_a_long_list_is_cut_and_says_so():
    """No more than 1024 items are kept, the rest is counted."""
    with trace_ops() as trace:
        torch.empty([1] * 3)
        torch.cat([torch.ones(1)] * 1500)
    items = trace.find("aten::cat")[0].argument("tensors")
    assert len(items) == 1025
    assert items[-1] == Constant(kind="cut", text="... 476 more")


def test_parameters_are_known_as_such():
    """nn.Parameter is named, a plain tensor has no class."""
    weight = nn.Parameter(torch.ones(2))
    with trace_ops() as trace:
        weight * torch.ones(2)
    left, right = tensors(trace)
    assert (left.subclass, left.requires_grad) == ("Parameter", True)
    assert (right.subclass, right.requires_grad) == (None, False)


@pytest.mark.parametrize(
    "dtype",
    [
        torch.bool,
        torch.uint8,
        torch.int8,
        torch.int16,
        torch.int32,
        torch.int64,
        torch.uint16,
        torch.uint32,
        torch.uint64,
        torch.float16,
        torch.bfloat16,
        torch.float32,
        torch.float64,
        torch.complex32,
        torch.complex64,
        torch.complex128,
        torch.float8_e4m3fn,
        torch.float8_e5m2,
        torch.float8_e4m3fnuz,
        torch.float8_e5m2fnuz,
        torch.float8_e8m0fnu,
    ],
    ids=str,
)
@pytest.mark.filterwarnings("ignore")
def test_every_dtype(dtype):
    """The dtype has torch's name, and a short one in text."""
    x = torch.empty(2, 3, dtype=dtype)
    with trace_ops() as trace:
        x.view(6)
    (spec,) = tensors(trace)
    assert f"torch.{spec.dtype}" == str(dtype)
    assert (spec.shape, spec.stride, spec.offset) == ((2, 3), (3, 1), 0)
    assert str(spec).startswith(spec.abbreviated_dtype)


def test_views_have_their_strides_and_offsets():
    """A slice of a transposed tensor is described as it lies in memory."""
    x = torch.ones(4, 6).t()[2:, 1:]
    with trace_ops() as trace:
        x.sin()
    (spec,) = tensors(trace)
    assert (spec.shape, spec.stride, spec.offset) == ((4, 3), (1, 6), 8)


def test_many_views_of_one_storage_are_looked_at_once_each(monkeypatch):
    """Live views of a storage share its number, at the same cost for each of them."""
    asked = []

    class Counting(_describe.Reference):
        def __call__(self):
            asked.append(self)
            return super().__call__()

    monkeypatch.setattr(_describe, "Reference", Counting)
    describe = _describe.describer()
    base = torch.zeros(2)
    views = [base[:1] for _ in range(2000)]
    for _ in range(2000):
        describe.tensor(base[1:])
    rows = [describe.tensor(each) for each in views]
    assert {row[1] for row in rows} == {describe.tensor(base)[1]}
    assert len({row[0] for row in rows}) == 2000
    assert 4000 < len(asked) < 10 * 4000


class Kind(torch.Tensor):
    """A subclass, whose tensors are described anew each time."""


@pytest.mark.parametrize("seed", range(20))
def test_numbers_of_storages_follow_the_memory(monkeypatch, seed):
    """Tensors that share memory share a number, through views, deaths and moves."""
    monkeypatch.setattr(_describe, "ROOM", 30)
    choose = random.Random(seed)
    describe = _describe.describer()
    memories = count()
    alive = []  # [tensor, which memory it is on, its number where it has been described]
    memory_of = {}
    for _ in range(1000):
        what = choose.random()
        if what < 0.3 or not alive:
            kind = choose.choice([torch.Tensor, Kind])
            alive.append([torch.zeros(6).as_subclass(kind), next(memories), None])
        elif what < 0.6:
            base, memory, _ = choose.choice(alive)
            alive.append([base[:: choose.choice([1, 2, 3])], memory, None])
        elif what < 0.7:
            moved, to = choose.choice(alive), choose.choice(alive)
            moved[0].data = to[0]
            moved[1] = to[1]
        else:
            alive.pop(choose.randrange(len(alive)))
        there = {}
        for each in choose.sample(alive, min(4, len(alive))):
            tensor, memory, known = each
            number, storage, *_ = describe.tensor(tensor)
            if type(tensor) is Kind:
                storage = dict(storage)["storage_id"]
            assert known in (None, number)
            each[2] = number
            assert there.setdefault(memory, storage) == storage
            assert memory_of.setdefault(storage, memory) == memory
    numbers = [number for _, _, number in alive if number is not None]
    assert len(set(numbers)) == len(numbers) > 1
    assert len(memory_of) > 100


def test_new_memory_at_an_old_address_has_a_number_of_its_own():
    """Also where a tensor was there before, left, and comes back to what is there now."""
    describe = _describe.describer()
    x = torch.zeros(6)
    address = storage_address(x)
    first = describe.tensor(x)[1]
    x.data = torch.zeros(6)
    second = describe.tensor(x)[1]
    others = [torch.zeros(6)]
    while storage_address(others[-1]) != address:
        assert len(others) < 10_000, "the address is not used again"
        others.append(torch.zeros(6))
    x.data = others[-1]
    assert len({first, second, describe.tensor(x)[1]}) == 3


def test_two_threads_may_meet_a_tensor_at_once(monkeypatch):
    """Each describes it, before the other has, and it can still change its form."""
    x = torch.zeros(6)

    class Interrupted(_describe.Reference):
        waiting = True

        def __init__(self, tensor):
            if Interrupted.waiting:
                Interrupted.waiting = False
                describe.tensor(tensor)  # as another thread would just here

    monkeypatch.setattr(_describe, "Reference", Interrupted)
    describe = _describe.describer()
    storage = describe.tensor(x)[1]
    x.unsqueeze_(0)
    assert describe.tensor(x)[1] == storage == describe.tensor(x[:, 1:])[1]


@pytest.mark.parametrize("kept", [1, 3, 50])
@pytest.mark.parametrize("moves", [False, True])
@pytest.mark.parametrize("kind", [torch.Tensor, Kind])
def test_what_comes_and_goes_leaves_nothing(monkeypatch, kept, moves, kind):
    """Views of a cache that lives on, or parameters given new memory, cost none."""
    there = [0]

    class Counted(_describe.Reference):
        def __init__(self, *_):
            there[0] += 1

        def __del__(self):
            there[0] -= 1

    monkeypatch.setattr(_describe, "Reference", Counted)
    describe = _describe.describer()
    cache, weight = torch.zeros(4).as_subclass(kind), torch.zeros(4)
    numbers = describe.tensor(cache)[0], describe.tensor(weight)[0]
    window, memories = deque(maxlen=kept), []
    for _ in range(20 * _describe.ROOM):
        window.append(cache[1:])
        describe.tensor(window[-1])
        if moves:
            memories.append(torch.zeros(4))
            weight.data = memories[-1]
        assert (describe.tensor(cache)[0], describe.tensor(weight)[0]) == numbers
    assert 2 < there[0] < 3 * _describe.ROOM


@pytest.mark.parametrize("engine", ["dispatch_mode", "dispatcher"])
def test_what_an_in_place_call_changes_is_in_its_output(engine):
    """Before and after are told apart where shape, stride or requires_grad change."""
    weight = torch.ones(3, requires_grad=True)
    x, other = torch.zeros(3), torch.ones(3)
    with trace_ops(engine=engine) as trace:
        x.add_(other)
        x.unsqueeze_(0)
        x.resize_(2, 3)
        x.sub_(weight)
    calls = [each for each in trace if each.depth == 0]
    assert [
        (each.name, str(each.input_tensors[0]), str(each.output_tensors[0]))
        for each in calls
    ] == [
        ("aten::add_", "f32[3]", "f32[3]"),
        ("aten::unsqueeze_", "f32[3]", "f32[1, 3]"),
        ("aten::resize_", "f32[1, 3]", "f32[2, 3]"),
        ("aten::sub_", "f32[2, 3]", "f32[2, 3]"),
    ]
    assert len({each.output_tensors[0].id for each in calls}) == 1
    # Below autograd nothing requires a gradient yet.
    grows = (False, engine == "dispatcher")
    after = calls[-1].input_tensors[0], calls[-1].output_tensors[0]
    assert tuple(each.requires_grad for each in after) == grows


def test_conjugate_and_negative_views():
    """Lazy views say what is still to be done."""
    x = torch.ones(2, dtype=torch.complex64)
    with trace_ops() as trace:
        x.conj().view(2, 1)
        x.conj().imag.view(2, 1)
    flags = [record.input_tensors[0].flags for record in trace.find("aten::view")]
    assert ("conj",) in flags
    assert ("neg",) in flags


def odd_tensors():
    """Tensors without plain strides, by name; made late, some warn."""
    dense = torch.eye(3)
    coo = dense.to_sparse()
    return {
        "sparse_coo": coo,
        "sparse_csr": dense.to_sparse_csr(),
        "sparse_csc": dense.to_sparse_csc(),
        "sparse_bsr": torch.eye(4).to_sparse_bsr((2, 2)),
        "nested_strided": torch.nested.nested_tensor(
            [torch.ones(2, 3), torch.ones(3, 3)]
        ),
        "nested_jagged": torch.nested.nested_tensor(
            [torch.ones(2, 3), torch.ones(3, 3)], layout=torch.jagged
        ),
        "quantized": torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.qint8),
        "quantized_channels": torch.quantize_per_channel(
            torch.ones(2, 2),
            torch.ones(2),
            torch.zeros(2, dtype=torch.int64),
            0,
            torch.quint8,
        ),
        "meta": torch.ones(2, device="meta"),
        "mkldnn": torch.ones(2, 2).to_mkldnn(),
        "two": TwoTensor(torch.ones(2, 3), torch.zeros(2, 3)),
        "nested_two": TwoTensor(
            TwoTensor(torch.ones(2), torch.zeros(2)),
            TwoTensor(torch.ones(2), torch.zeros(2)),
        ),
    }


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("sparse_coo", {"layout": "sparse_coo", "shape": (3, 3), "stride": None}),
        ("sparse_csr", {"layout": "sparse_csr", "shape": (3, 3), "stride": None}),
        ("sparse_csc", {"layout": "sparse_csc", "shape": (3, 3)}),
        ("sparse_bsr", {"layout": "sparse_bsr", "shape": (4, 4)}),
        (
            "nested_strided",
            {"shape": None, "flags": ("nested",), "unknown": ("shape",)},
        ),
        ("nested_jagged", {"layout": "jagged", "subclass": "NestedTensor"}),
        ("quantized", {"dtype": "qint8", "shape": (2,)}),
        ("quantized_channels", {"dtype": "quint8", "shape": (2, 2)}),
        ("meta", {"device": "meta", "shape": (2,), "stride": (1,)}),
        ("mkldnn", {"layout": "_mkldnn", "shape": (2, 2)}),
        ("two", {"subclass": "TwoTensor", "shape": (2, 3), "stride": (3, 1)}),
        ("nested_two", {"subclass": "TwoTensor", "shape": (2,)}),
    ],
)
def test_odd_tensors_are_described(name, expected):
    """What can be told is told, the rest is named in `unknown`."""
    x = odd_tensors()[name]
    with trace_ops() as trace:
        x.clone()
        x.clone()
    first, second = [
        record for record in trace if record.name == "aten::clone" and record.depth == 0
    ]
    spec = first.input_tensors[0]
    assert {field: getattr(spec, field) for field in expected} == expected
    assert spec.id == second.input_tensors[0].id
    assert first.outputs[0].id not in {None, spec.id}
    assert trace.complete
    assert pickle.loads(pickle.dumps(spec)) == spec
    assert str(spec)


def test_quantized_tensors_say_so():
    """Both quantization schemes have the flag."""
    for name in ("quantized", "quantized_channels"):
        x = odd_tensors()[name]
        with trace_ops() as trace:
            x.dequantize()
        assert "quantized" in trace[0].input_tensors[0].flags


def test_a_wrapper_subclass_is_seen_on_both_levels():
    """The call on the subclass, and inside it the calls on the tensors it holds."""
    x = TwoTensor(torch.ones(2, 3), torch.zeros(2, 3))
    with trace_ops() as trace:
        x.sin()
    (node,) = trace.tree()
    assert node.record.input_tensors[0].subclass == "TwoTensor"
    assert [child.record.name for child in node.children] == ["aten::sin"] * 2
    inner = {each.name: each.value for each in node.record.input_tensors[0].inner}
    assert [child.record.input_tensors[0].id for child in node.children] == [
        inner["a"].id,
        inner["b"].id,
    ]
    assert node.record.outputs[0].subclass == "TwoTensor"


def test_a_jagged_tensor_is_seen_on_both_levels():
    """The inside of NestedTensor's own handler is there as well."""
    x = odd_tensors()["nested_jagged"]
    with trace_ops() as trace:
        x.sin()
    (node,) = [each for each in trace.tree() if each.record.name == "aten::sin"]
    assert "aten::sin" in [child.record.name for child in node.children]
    assert trace.complete


def test_subclasses_in_backward_are_seen_on_both_levels():
    """The levels are kept apart in backward too."""
    x = TwoTensor(torch.ones(2), torch.ones(2)).requires_grad_()
    with trace_ops() as trace:
        x.sin().sum().backward()
    cos = [each for each in trace.backward if each.name == "aten::cos"]
    assert [each.depth for each in cos] == [0, 1, 1]
    assert {each.parent for each in cos[1:]} == {cos[0].index}


def test_nothing_is_recorded_twice_for_parameters():
    """Types that do not handle their operators open no second level."""
    weight = nn.Parameter(torch.ones(2))
    with trace_ops() as trace:
        weight.detach()
        (weight * 2).sum().backward()
    assert {each.depth for each in trace} == {0}


def test_fake_tensors():
    """Fake tensors are traced, with a flag, and their machinery is not."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        x = torch.ones(2, 3)
    with trace_ops() as trace:
        x.sin()
        with FakeTensorMode():
            torch.ones(4).cos()
    sin = trace.find("aten::sin")[0]
    assert sin.input_tensors[0].flags == ("fake",)
    assert sin.input_tensors[0].shape == (2, 3)
    assert len(trace.find("aten::sin")) == len(trace.find("aten::cos")) == 1


def test_symbolic_sizes_are_text():
    """A symbolic size is its expression; looking at it adds no guard."""
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.fx.experimental.symbolic_shapes import (
        DimDynamic,
        ShapeEnv,
        StatelessSymbolicContext,
    )

    shapes, real = ShapeEnv(), torch.ones(5, 3)
    with FakeTensorMode(shape_env=shapes) as fake:
        x = fake.from_tensor(
            real,
            static_shapes=False,
            symbolic_context=StatelessSymbolicContext(
                dynamic_sizes=[DimDynamic.DYNAMIC, DimDynamic.STATIC]
            ),
        )
        size = x.shape[0]
        before = len(shapes.guards)
        with trace_ops() as trace:
            x.sin()
            torch.empty(size, 2)
        assert len(shapes.guards) == before
    spec = trace.find("aten::sin")[0].input_tensors[0]
    assert spec.shape == (str(size), 3)
    made = trace.find("aten::empty*")[0].argument("size")
    assert made[0] == Constant(kind="symint", text=str(size))


def test_transform_wrappers():
    """Tensors inside vmap and grad do not reach the mode, nor does it fail there."""

    def loss(x):
        return (x * 2).sin().sum()

    x = torch.randn(3, 2)
    expected = torch.func.vmap(torch.func.grad(loss))(x)
    with trace_ops() as trace:
        actual = torch.func.vmap(torch.func.grad(loss))(x)
    assert torch.equal(actual, expected)
    assert trace.complete


def test_distributed_tensors():
    """DTensor on a fake process group: the call, its local calls, its collectives."""
    import torch.distributed as dist
    from torch.distributed.tensor import DTensor, Replicate, Shard, init_device_mesh
    from torch.testing._internal.distributed.fake_pg import FakeStore

    dist.init_process_group("fake", rank=0, world_size=2, store=FakeStore())
    try:
        mesh = init_device_mesh("cpu", (2,))
        x = DTensor.from_local(torch.ones(4, 4), mesh, [Shard(0)])
        y = DTensor.from_local(torch.ones(4, 4), mesh, [Replicate()])
        with trace_ops() as trace:
            x @ y
            x.redistribute(mesh, [Replicate()])
    finally:
        dist.destroy_process_group()
    outer = [each for each in trace if each.depth == 0 and each.name == "aten::mm"]
    assert len(outer) == 1
    assert {each.subclass for each in outer[0].input_tensors} == {"DTensor"}
    children = [each.name for each in trace if each.parent == outer[0].index]
    assert "aten::mm" in children
    assert any(name.startswith("_c10d_functional::") for name in trace.names)
    assert trace.complete


def test_torchbind_objects_have_their_class():
    """A scripted object is named by the class it was registered under."""
    x = torch.quantize_per_tensor(torch.ones(1, 2), 0.1, 0, torch.quint8)
    weight = torch.quantize_per_tensor(torch.ones(3, 2), 0.1, 0, torch.qint8)
    with trace_ops() as trace:
        packed = torch.ops.quantized.linear_prepack(weight, None)
        torch.ops.quantized.linear(x, packed, 0.1, 0)
    (made,) = trace.find("quantized::linear_prepack")[0].outputs
    assert made.kind == "torchbind"
    assert made.text.endswith("LinearPackedParamsBase")
    assert trace.find("quantized::linear")[0].argument("W_prepack") == made


class Shouting(torch.Tensor):
    """A subclass that notes every torch function called on it."""

    heard: list[str] = []  # noqa: RUF012 - the test's

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        cls.heard.append(getattr(func, "__name__", str(func)))
        return super().__torch_function__(func, types, args, kwargs or {})


def test_describing_calls_no_torch_function_of_the_user():
    """A subclass with __torch_function__ hears the program's calls and no others."""
    x = torch.ones(2).as_subclass(Shouting)

    def work():
        Shouting.heard.clear()
        x.clone()
        return list(Shouting.heard)

    expected = work()
    with trace_ops():
        assert work() == expected


def test_describing_calls_no_function_mode_of_the_user():
    """A TorchFunctionMode hears the program's calls and no others."""
    from torch.overrides import TorchFunctionMode

    class Mode(TorchFunctionMode):
        def __init__(self):
            super().__init__()
            self.heard = []

        def __torch_function__(self, func, types, args=(), kwargs=None):
            self.heard.append(getattr(func, "__name__", str(func)))
            return func(*args, **(kwargs or {}))

    class Inner(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, grad):
            return grad.clone()

    def work():
        with Mode() as mode:
            x = torch.ones(2, requires_grad=True)
            Inner.apply(x).sum().backward()
            torch.autograd.grad((x * x).sum(), x)
        return mode.heard

    expected = work()
    with trace_ops():
        assert work() == expected


@pytest.mark.parametrize("policy", [None, "sizes"])
def test_describing_is_no_call_of_the_program(policy):
    """A subclass handles the program's calls; what it is asked by us is not recorded.

    One that answers for its own sizes is asked for them, which nothing can avoid.
    """

    class Counting(torch.Tensor):
        calls: list[str] = []  # noqa: RUF012 - the test's

        @staticmethod
        def __new__(cls, inner):
            return torch.Tensor._make_wrapper_subclass(
                cls,
                inner.shape,
                dtype=inner.dtype,
                dispatch_sizes_strides_policy=policy,
            )

        def __init__(self, inner):
            self.inner = inner

        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            cls.calls.append(func.name())
            args = [each.inner if isinstance(each, cls) else each for each in args]
            return func(*args, **(kwargs or {}))

    def work(x):
        Counting.calls.clear()
        x.sin()
        return [each for each in Counting.calls if not each.startswith("aten::sym_")]

    x = Counting(torch.ones(2))
    expected = work(x)
    with trace_ops() as outer, trace_ops() as inner:
        assert work(x) == expected
    if policy is None:
        assert Counting.calls == expected
    assert outer.names == inner.names == ("aten::sin", "aten::sin")
    assert outer[0].input_tensors[0].shape == (2,)


def test_a_tensor_that_cannot_be_described_stops_nobody():
    """The call is recorded without its values and the trace says why."""

    class Strange(dict):
        def items(self):
            msg = "no items"
            raise ValueError(msg)

    recorder_trace = trace_ops()
    with recorder_trace as trace:
        recorder = recorder_trace._run.recorder
        token = recorder.begin(torch.ops.aten.sin.default, (Strange(),), {})
        recorder.end(token, Strange())
        torch.ones(2)
    assert trace.names == ("aten::sin", "aten::ones")
    assert (trace[0].inputs, trace[0].outputs) == ((), None)
    assert "no items" in trace.notes[0]
    assert not trace.complete


def test_records_hold_nothing_of_torch():
    """A pickled trace can be read where torch cannot be imported."""
    x = odd_tensors()["nested_two"]
    with trace_ops() as trace:
        torch.empty(2, dtype=torch.float16).to(torch.int8)
        x.sin()

    class Picky(pickle.Unpickler):
        def find_class(self, module, name):
            assert module.partition(".")[0] in {"npu_dispatch_inspect", "builtins"}
            return super().find_class(module, name)

    assert Picky(io.BytesIO(pickle.dumps(trace))).load() == trace
