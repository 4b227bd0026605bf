# SPDX-License-Identifier: BSD-3-Clause
"""What captured graphs say: operators, names, places, links, and their options."""

from __future__ import annotations

import copy
import inspect
import pickle

import pytest
import torch
from torch import nn

from npu_dispatch_inspect import (
    AOTGraphCapture,
    CapturedGraph,
    GraphStage,
    UsageError,
    assert_has_ops,
    assert_no_ops,
    assert_ops,
    capture_graphs,
)
from npu_dispatch_inspect.records.graphs import (
    FailureKind,
    InputKind,
    NodeKind,
    OutputKind,
)
from tests.graph_cases import CASES, Block, Tied, module, sine, tensor


def grads(*shape, device="cpu"):
    """A tensor that needs a gradient."""
    return torch.ones(*shape, device=device).requires_grad_()


def edges(graph):
    """Variable, operator and what it takes, for every node."""
    return [
        (each.variable, each.qualified_name, *each.takes)
        for each in graph.nodes
        if each.kind is NodeKind.OPERATOR
    ]


def said(records):
    """The sentences of inputs or outputs."""
    return [str(each) for each in records]


SINE_BACKWARD = [
    ("mul_1", "aten::mul.Tensor", "tangents_1", "cos"),
    ("mul_2", "aten::mul.Tensor", "tangents_1", "primals_2"),
    ("sin_1", "aten::sin", "sin"),
    ("neg", "aten::neg", "sin_1"),
    ("mul_3", "aten::mul.Tensor", "mul_2", "neg"),
    ("cos_1", "aten::cos", "primals_1"),
    ("mul_4", "aten::mul.Tensor", "mul_3", "cos_1"),
]
SINE_FORWARD = [
    ("sin", "aten::sin", "primals_1"),
    ("cos", "aten::cos", "sin"),
    ("mul", "aten::mul.Tensor", "cos", "primals_2"),
]


class TestExpectation:
    """The two examples, as one would write them by hand."""

    def test_sine_default_partition(self, device):
        """The default partition saves the sine and the cosine."""
        with capture_graphs() as graphs:
            captured = graphs.capture(sine, *(grads(3, device=device) for _ in "ab"))

        assert edges(captured.joint) == SINE_FORWARD + SINE_BACKWARD
        assert edges(captured.forward) == SINE_FORWARD
        assert edges(captured.backward) == SINE_BACKWARD
        assert said(captured.forward.inputs) == [
            "primals_1: argument a",
            "primals_2: argument b",
        ]
        assert said(captured.forward.outputs) == [
            "output: mul",
            "saved primals_1: primals_1",
            "saved primals_2: primals_2",
            "saved sin: sin",
            "saved cos: cos",
        ]
        assert said(captured.backward.inputs) == [
            "primals_1: argument a",
            "primals_2: argument b",
            "sin: saved sin",
            "cos: saved cos",
            "tangents_1: gradient of output",
        ]
        assert said(captured.backward.outputs) == [
            "gradient of a: mul_4",
            "gradient of b: mul_1",
        ]
        assert captured.forward.saved_bytes == 2 * 3 * 4
        assert captured.backward.recomputed == ()
        assert {each.value.device for each in captured.joint.inputs} == {device}

    def test_sine_min_cut(self, device):
        """The min-cut partition saves inputs alone and computes the rest again."""
        with capture_graphs(partition="min_cut") as graphs:
            captured = graphs.capture(sine, *(grads(3, device=device) for _ in "ab"))

        assert edges(captured.forward) == SINE_FORWARD
        again = SINE_FORWARD[:2]
        assert sorted(edges(captured.backward)) == sorted(again + SINE_BACKWARD)
        assert [each.variable for each in captured.backward.recomputed] == [
            "sin",
            "cos",
        ]
        assert [
            (each.variable, each.input) for each in captured.forward.saved_for_backward
        ] == [("primals_1", "a"), ("primals_2", "b")]
        assert captured.forward.saved_bytes == 0

    @pytest.mark.parametrize("partition", ["default", "min_cut"])
    def test_linear(self, device, partition):
        """A linear layer names its parameters and their gradients."""
        with capture_graphs(partition=partition) as graphs:
            captured = graphs.capture(
                nn.Linear(4, 3).to(device), torch.ones(2, 4, device=device)
            )

        assert edges(captured.forward) == [
            ("t", "aten::t", "primals_1"),
            ("addmm", "aten::addmm", "primals_2", "primals_3", "t"),
        ]
        assert edges(captured.backward) == [
            ("t_1", "aten::t", "tangents_1"),
            ("mm", "aten::mm", "t_1", "primals_3"),
            ("t_2", "aten::t", "mm"),
            ("sum_1", "aten::sum.dim_IntList", "tangents_1"),
            ("view", "aten::view", "sum_1"),
            ("t_3", "aten::t", "t_2"),
        ]
        assert said(captured.joint.inputs) == [
            "primals_1: parameter weight",
            "primals_2: parameter bias",
            "primals_3: argument input",
            "tangents_1: gradient of output",
        ]
        assert said(captured.joint.outputs) == [
            "output: addmm",
            "gradient of weight: t_3",
            "gradient of bias: view",
            "gradient of input: None",
        ]
        assert captured.forward.input("weight").value.subclass == "Parameter"
        assert captured.forward.input("weight").value.requires_grad


class TestNodes:
    """What is known of one node."""

    def test_arguments_have_schema_names(self):
        """Inputs have the names of the schema; defaults say that they are."""
        with capture_graphs() as graphs:
            graph = graphs.capture(nn.Linear(4, 3), torch.ones(2, 4)).forward

        addmm = graph.node("addmm")
        assert [(each.name, each.default) for each in addmm.inputs] == [
            ("self", False),
            ("mat1", False),
            ("mat2", False),
            ("beta", True),
            ("alpha", True),
        ]
        assert addmm.inputs[1].value == graph.input("input").value
        assert str(addmm.outputs[0]) == "f32[2, 3]"
        assert addmm.inputs[2].value.stride == (1, 4)

    def test_ids_are_edges(self):
        """A value has one id, in the node that makes it and in those that take it."""
        with capture_graphs() as graphs:
            graph = graphs.capture(nn.LayerNorm(4), torch.ones(2, 4)).joint

        norm = graph.node("native_layer_norm")
        (item,) = (each for each in graph.nodes if each.variable == "getitem")
        assert item.kind is NodeKind.GETITEM
        assert item.outputs[0] == norm.outputs[0]
        ids = [value.id for node in graph.operators for value in node.outputs if value]
        assert len(ids) == len(set(ids))

    def test_places(self):
        """A node knows its module and line, a backward node those of its forward."""
        block = module(Block)
        with capture_graphs() as graphs:
            captured = graphs.capture(block, tensor(2, 6))

        gelu = captured.forward.node("gelu")
        assert (gelu.module, gelu.module_type) == ("", "Block")
        lines, first = inspect.getsourcelines(Block.forward)
        assert gelu.source.file == inspect.getsourcefile(Block)
        assert "F.gelu" in lines[gelu.source.line - first]
        addmm = captured.forward.node("addmm")
        assert (addmm.module, addmm.module_type) == ("up", "Linear")
        backward = captured.backward.node("gelu_backward")
        assert backward.forward_node == "gelu"
        assert backward.sequence == gelu.sequence
        assert (backward.module, backward.source) == ("", gelu.source)

    def test_two_captures_are_equal(self):
        """Nothing in a record depends on what the process did before."""
        block, x = module(Block), tensor(2, 6)
        with capture_graphs() as graphs:
            first = graphs.capture(block, x)
            second = graphs.capture(block, x)

        assert [each.nodes for each in first] == [each.nodes for each in second]
        assert first.joint.code == second.joint.code
        assert [each.index for each in graphs] == [0, 0, 0, 1, 1, 1]

    def test_derivative_of_ones_own(self):
        """A backward that the user wrote has its own lines."""
        function, args, _ = CASES["own derivative"]()
        with capture_graphs() as graphs:
            graph = graphs.capture(function, *args).backward

        lines = {each.variable: each.source for each in graph.nodes if each.source}
        assert {each.function.rpartition("Cube.")[2] for each in lines.values()} == {
            "backward",
            "own_derivative",
        }

    def test_decomposed_from(self):
        """A node of a decomposition names the operator that was taken apart."""
        with capture_graphs(decompositions=["aten::gelu"]) as graphs:
            graph = graphs.capture(torch.nn.functional.gelu, grads(3)).forward

        assert {each.decomposed_from for each in graph.operators} == {"aten::gelu"}
        assert_has_ops(graph, "aten::erf")
        assert_no_ops(graph, "aten::gelu")
        assert graph.decompositions == "table of 2"

    def test_accumulated_gradients(self):
        """What adds up gradients belongs to no operator of the forward pass."""
        with capture_graphs() as graphs:
            graph = graphs.capture(lambda x: x.sin() + x.cos(), grads(3)).backward

        add = graph.node("add_1")
        assert (add.forward_node, add.sequence, add.source) == (None, None, None)

    def test_branches(self):
        """A higher-order operator is one node, and its branches are in the code."""

        def choose(x):
            return torch.cond(x.sum() > 0, torch.sin, torch.cos, (x,))

        with capture_graphs() as graphs:
            graph = graphs.capture(choose, torch.ones(3)).inference

        (cond,) = (each for each in graph.nodes if each.kind is NodeKind.HIGHER_ORDER)
        assert cond.name == "higher_order::cond"
        assert "torch.ops.aten.cos.default" in graph.code


class TestNames:
    """What inputs and outputs are called."""

    def test_tied_weights(self):
        """One placeholder stands for a tied weight, and has both names."""
        with capture_graphs() as graphs:
            graph = graphs.capture(module(Tied), torch.tensor([1, 2])).joint

        assert graph.inputs[0].names == ("embed.weight", "head.weight")
        assert said(graph.outputs)[1].startswith("gradient of embed.weight|head.weight")

    def test_containers(self):
        """Parts of containers are called as one would write them."""
        function, args, kwargs = CASES["nested containers"]()
        with capture_graphs() as graphs:
            graph = graphs.capture(function, *args, **kwargs).joint

        assert [each.name for each in graph.inputs[:3]] == [
            "batch['x'][0]",
            "batch['x'][1]",
            "batch['more'].a",
        ]

    def test_results(self):
        """Results are called by their place in what the function returns."""
        function, args, _ = CASES["several outputs"]()
        with capture_graphs() as graphs:
            graph = graphs.capture(function, *args).joint

        results = [each for each in graph.outputs if each.kind is OutputKind.RESULT]
        assert [each.name for each in results] == [
            "[0]['sum']",
            "[0]['parts'][0]",
            "[0]['parts'][1][0]",
            "[1]",
        ]
        tangents = [each for each in graph.inputs if each.kind is InputKind.TANGENT]
        assert [each.name for each in tangents] == [each.name for each in results]

    def test_written_inputs(self):
        """The new value of a buffer is an output of its own."""
        function, args, _ = CASES["conv and bn, train"]()
        with capture_graphs() as graphs:
            graph = graphs.capture(function, *args).forward

        assert [
            each.name for each in graph.outputs if each.kind is OutputKind.MUTATION
        ] == ["norm.running_mean", "norm.running_var", "norm.num_batches_tracked"]

    def test_unused(self):
        """A parameter that nothing takes says so, and has no gradient."""
        function, args, _ = CASES["unused and frozen"]()
        with capture_graphs() as graphs:
            graph = graphs.capture(function, *args).joint

        assert not graph.input("unused.weight").used
        assert graph.input("used.weight").used
        assert "gradient of unused.weight: None" in said(graph.outputs)
        assert "gradient of frozen.weight: None" in said(graph.outputs)

    def test_closure(self):
        """Parameters of a module in a closure have its name before theirs."""
        function, args, _ = CASES["a module in a closure"]()
        with capture_graphs() as graphs:
            graph = graphs.capture(function, *args).forward

        assert graph.input("block.up.weight").kind is InputKind.PARAMETER

    def test_assigned_buffer(self):
        """A buffer that is assigned to is shown as written to, and noted."""
        function, args, _ = CASES["assigned buffer"]()
        with capture_graphs() as graphs:
            captured = graphs.capture(function, *args)

        note = "Buffer steps is assigned to; the graphs show it as a write."
        assert note in captured.notes
        assert "new value of steps: copy" in said(captured.forward.outputs)


class TestOptions:
    """What can be asked for."""

    def test_no_gradient(self):
        """Where nothing needs a gradient there is an inference graph alone."""
        with capture_graphs() as graphs, torch.no_grad():
            captured = graphs.capture(nn.Linear(4, 3), torch.ones(2, 4))

        assert [each.stage for each in captured] == [GraphStage.INFERENCE]
        assert_ops(captured.inference, ["aten::t", "aten::addmm"])
        with pytest.raises(UsageError, match="no backward graph: only inference was"):
            captured.backward  # noqa: B018 - asking is the point

    def test_without_joint(self):
        """joint=False keeps the two parts only."""
        with capture_graphs(joint=False) as graphs:
            captured = graphs.capture(sine, grads(3), grads(3))

        assert [each.stage.value for each in captured] == ["forward", "backward"]
        assert captured.backward.node("mul_4").forward_node == "sin"

    def test_core_aten(self):
        """decompositions="core_aten" takes composed operators apart."""
        with capture_graphs(decompositions="core_aten") as graphs:
            captured = graphs.capture(nn.Linear(4, 3), torch.ones(2, 4))

        assert captured.forward.names == ("aten::permute", "aten::addmm")
        assert captured.forward.node("permute").decomposed_from == "aten::t"

    def test_table(self):
        """A table of the user's own is passed on."""

        def twice(x):
            return x + x

        with capture_graphs(
            decompositions={torch.ops.aten.sin.default: twice}
        ) as graphs:
            captured = graphs.capture(torch.sin, torch.ones(3))

        assert captured.inference.names == ("aten::add",)
        assert captured.inference.node("add").decomposed_from == "aten::sin"

    def test_partition_function(self):
        """A partition function is called as torch calls it, and gives its name."""
        from torch._functorch.partitioners import default_partition

        seen = []

        def cut(joint, inputs, **options):
            seen.append(sorted(options))
            return default_partition(joint, inputs, **options)

        with capture_graphs(partition=cut) as graphs:
            captured = graphs.capture(sine, grads(3), grads(3))

        assert captured.backward.partition == "cut"
        assert "num_fwd_outputs" in seen[0]

    def test_compilers(self):
        """Compilers get the graphs with example inputs, and may write to them."""
        seen = []

        def compiler(name):
            def compile_graph(graph, inputs):
                seen.append((name, len(inputs)))
                for node in graph.graph.nodes:
                    if node.target is torch.ops.aten.cos.default:
                        node.target = torch.ops.aten.tan.default
                return graph

            return compile_graph

        with capture_graphs(
            fw_compiler=compiler("fw"), bw_compiler=compiler("bw")
        ) as g:
            captured = g.capture(sine, grads(3), grads(3))

        assert seen == [("fw", 2), ("bw", 5)]
        assert captured.forward.names == ("aten::sin", "aten::cos", "aten::mul")
        assert "aten.tan" not in captured.forward.graph_module.code

    def test_dynamic(self):
        """With dynamic=True the sizes of arguments are symbols, those of weights not."""
        with capture_graphs(dynamic=True) as graphs:
            captured = graphs.capture(nn.Linear(4, 3), torch.ones(2, 4))

        weight, x = (captured.forward.input(name).value for name in ("weight", "input"))
        assert weight.shape == (3, 4)
        assert isinstance(x.shape[0], str)
        assert captured.forward.node("addmm").outputs[0].shape == (x.shape[0], 3)
        assert captured.forward.dynamic

    @pytest.mark.parametrize(
        ("options", "sentence"),
        [
            ({"partition": "best"}, "partition must be one of 'default', 'min_cut'"),
            ({"decompositions": "all"}, "decompositions must be 'core_aten', a table"),
            ({"decompositions": ["aten::nothing"]}, "'aten::nothing' is no operator"),
            ({"decompositions": ["aten::mm"]}, "torch has no decomposition of aten.mm"),
            ({"fw_compiler": 3}, "fw_compiler must be a function"),
            ({"joint": 1}, "joint must be True or False"),
            ({"dynamic": None}, "dynamic must be True or False"),
        ],
    )
    def test_mistakes(self, options, sentence):
        """A value that is not one of those that can be given is refused."""
        with pytest.raises(UsageError) as error:
            capture_graphs(**options)
        assert sentence in str(error.value)


class TestLife:
    """The block and the values that come out of it."""

    def test_outside(self):
        """Nothing is captured outside the block."""
        graphs = capture_graphs()
        with pytest.raises(UsageError, match="inside a block"):
            graphs.capture(sine, grads(3), grads(3))
        with graphs:
            graphs.capture(sine, grads(3), grads(3))
        with pytest.raises(UsageError, match="inside a block"):
            graphs.compile(sine)
        assert len(graphs) == 3

    def test_again(self):
        """A capture can be used again; each block begins anew."""
        graphs = AOTGraphCapture()
        with graphs:
            graphs.capture(sine, grads(3), grads(3))
            with pytest.raises(UsageError, match="already running"):
                graphs.__enter__()
        with graphs:
            assert len(graphs) == 0
            assert graphs.capture(sine, grads(3), grads(3)).joint.index == 0

    def test_not_callable(self):
        """Something that cannot be called is refused."""
        with capture_graphs() as graphs:
            for ask in (graphs.capture, graphs.compile):
                with pytest.raises(UsageError, match="Give a function or a module"):
                    ask(3)

    def test_values(self):
        """A set of graphs pickles, copies, compares and hashes, without modules."""
        with capture_graphs() as graphs:
            captured = graphs.capture(sine, grads(3), grads(3))

        for other in (pickle.loads(pickle.dumps(captured)), copy.deepcopy(captured)):
            assert other == captured
            assert hash(other) == hash(captured)
            assert other.forward.graph_module is None
        assert isinstance(captured.forward.graph_module, torch.fx.GraphModule)
        assert isinstance(captured[0], CapturedGraph)
        assert captured[1:].graphs == captured.graphs[1:]
        assert repr(captured) == "GraphSet(joint 0, forward 0, backward 0)"
        assert repr(captured.forward) == "CapturedGraph(forward, index=0, 3 ops)"

    def test_several(self):
        """Of several captures one is chosen by number."""
        with capture_graphs() as graphs:
            graphs.capture(sine, grads(3), grads(3))
            graphs.capture(nn.Linear(2, 2), torch.ones(1, 2))

        with pytest.raises(UsageError, match="2 forward graphs: choose one"):
            graphs.forward  # noqa: B018 - asking is the point
        assert graphs.at(1).forward.names == ("aten::t", "aten::addmm")
        assert graphs.captured.indices == (0, 1)
        with pytest.raises(
            UsageError, match="no capture 7: those of this set are 0, 1"
        ):
            graphs.at(7)
        with pytest.raises(UsageError, match="A stage is one of 'joint'"):
            graphs.captured.stage("sideways")

    def test_code_runs_without_paths(self):
        """The code is Python, and no line of it tells where a file lies."""
        with capture_graphs() as graphs:
            code = graphs.capture(module(Block), tensor(2, 6)).joint.code

        assert "torch.ops.aten.gelu.default" in code
        assert "#" not in code
        compile(code, "code", "exec")

    def test_empty(self):
        """Before anything was captured, asking for a graph says so."""
        with capture_graphs() as graphs, pytest.raises(UsageError, match="nothing was"):
            graphs.joint  # noqa: B018 - asking is the point
        assert graphs.captured.complete
        assert FailureKind("other") is FailureKind.OTHER
