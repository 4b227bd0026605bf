# SPDX-License-Identifier: BSD-3-Clause
"""Sets of captured graphs compared: by hand, and CPU against NPU."""

from __future__ import annotations

import pytest
import torch
from attrs import evolve
from torch.nn import functional

from npu_dispatch_inspect import GraphSet, capture_graphs, compare
from npu_dispatch_inspect.records.comparisons import Difference, Place
from npu_dispatch_inspect.records.graphs import GraphStage
from tests.versions import since_torch, since_torch_npu
from tests.view_examples import graph_set

SET = graph_set()
(FORWARD,) = SET.graphs
JOINT = evolve(FORWARD, stage=GraphStage.JOINT)
BACKWARD = evolve(FORWARD, stage=GraphStage.BACKWARD)


def of(*graphs, failures=()):
    """A set of graphs."""
    return GraphSet(graphs=graphs, failures=failures, environment=SET.environment)


class TestByHand:
    """Which graph is compared with which."""

    def test_the_same(self):
        """Equal sets differ in nothing, failures included."""
        found = compare(SET, graph_set())
        assert found.same
        assert str(found) == "no difference: forward graph 0"

    def test_each_stage_with_its_own(self):
        """A graph is compared with the one of its stage; the joint one says it twice."""
        empty = evolve(BACKWARD, nodes=())
        found = compare(
            of(JOINT, FORWARD, BACKWARD), of(JOINT, FORWARD, empty), names=("a", "b")
        )
        assert found.sizes == (3, 3)
        assert [(title, part.same) for title, part in found.parts] == [
            ("forward graph", True),
            ("backward graph", False),
        ]
        assert found.differences == (
            Difference(
                kind="only left",
                left=Place(
                    name="aten::mm",
                    index=0,
                    phase="forward",
                    module="fc",
                    line="net.py:4",
                ),
                right=None,
                graph="backward graph",
            ),
        )
        assert (
            str(found)
            == """\
forward graph is the same; backward graph differs

backward graph
  op sequence differs: 1 only in a (a 1, b 0)
    first difference: aten::mm at #0 in fc only in a
                      net.py:4

    (- a, + b)
    - #0  fwd  aten::mm  f32[1, 2], f32[4, 2]  fc (Linear)  net.py:4"""
        )

    def test_joint_graphs_where_there_are_no_halves(self):
        """Sets of joint graphs alone are compared by them."""
        found = compare(of(JOINT), of(evolve(JOINT, nodes=())))
        assert [title for title, _ in found.parts] == ["joint graph"]
        assert len(found) == 1

    def test_a_graph_without_a_partner(self):
        """A stage that one side does not have is a difference."""
        found = compare(of(FORWARD), of(FORWARD, BACKWARD), names=("a", "b"))
        assert found.differences == (
            Difference(
                kind="only right",
                what="graph",
                left=None,
                right=Place(name="backward graph"),
            ),
        )
        assert str(found) == "backward graph only in b; forward graph is the same"

    def test_a_failure_on_one_side(self):
        """What could not be captured is named once, with its line, not its graphs."""
        failure = evolve(SET.failures[0], index=0)
        found = compare(of(FORWARD), of(failures=(failure,)), names=("cpu", "npu"))
        assert found.differences == (
            Difference(
                kind="only right",
                what="failure",
                left=None,
                right=Place(name="npu::odd", line="net.py:9"),
            ),
        )
        assert str(found) == "capture fails only in npu: npu::odd (net.py:9)"

    def test_captures_are_paired_by_their_turn(self):
        """The first capture with the first one, whatever their numbers."""
        later = [evolve(each, index=5) for each in (FORWARD, BACKWARD)]
        found = compare(
            of(FORWARD, evolve(FORWARD, index=1)),
            of(later[0], evolve(later[0], index=7)),
        )
        assert [title for title, _ in found.parts] == [
            "forward graph 0",
            "forward graph 1",
        ]
        assert found.same

    def test_nothing(self):
        """Two empty sets do not differ."""
        assert str(compare(of(), of())) == "no difference: no graphs"


def captured(function, shapes, device):
    """The graphs of a function of tensors that need a gradient."""
    inputs = [torch.rand(*shape).to(device).requires_grad_() for shape in shapes]
    with capture_graphs() as graphs:
        return graphs.capture(function, *inputs)


def kl_div(x, target):
    """kl_div by its sum; its mean warns."""
    return functional.kl_div(x, target.detach(), reduction="sum")


def kl_div_of_both(x, target):
    """The same with a gradient for the target as well."""
    return functional.kl_div(x, target, reduction="sum")


ON_NPU = {
    "linear": (functional.linear, [(2, 3, 4), (5, 4), (5,)], {}),
    "matmul": (
        torch.matmul,
        [(2, 3, 4), (2, 4, 5)],
        {
            "forward graph": (
                [
                    "aten::expand",
                    "aten::view",
                    "aten::expand",
                    "aten::view",
                    "aten::bmm",
                    "aten::view",
                ],
                ["aten::matmul"],
            ),
            "backward graph": (
                [
                    "aten::view",
                    "aten::transpose",
                    "aten::bmm",
                    "aten::transpose",
                    "aten::bmm",
                    "aten::view",
                    "aten::view",
                ],
                ["aten::matmul_backward"],
            ),
        },
    ),
    "attention": (
        functional.scaled_dot_product_attention,
        [(2, 2, 8, 16)] * 3,
        {
            "forward graph": (
                ["aten::_scaled_dot_product_flash_attention_for_cpu"],
                ["npu::npu_fusion_attention_v3"],
            ),
            # torch leaves the forward operator in the backward graph, unused.
            "backward graph": (
                [
                    "aten::_scaled_dot_product_flash_attention_for_cpu",
                    "aten::_scaled_dot_product_flash_attention_for_cpu_backward",
                ],
                ["npu::npu_fusion_attention_grad_v3"],
            ),
        },
    ),
    "kl_div": (
        kl_div,
        [(3, 4), (3, 4)],
        {
            "forward graph": (
                ["aten::mul", "aten::xlogy", "aten::sub", "aten::sum"],
                ["aten::kl_div"],
            ),
            "backward graph": (
                ["aten::expand", "aten::neg", "aten::mul"],
                ["npu::kl_div_backward"],
            ),
        },
    ),
    "repeat_interleave": (
        lambda x: torch.repeat_interleave(x, 2, dim=0),
        [(3, 4)],
        {
            "forward graph": (
                ["aten::unsqueeze", "aten::expand", "aten::clone", "aten::view"],
                ["aten::repeat_interleave"],
            ),
            "backward graph": (
                ["aten::view", "aten::sum", "aten::squeeze"],
                ["npu::repeat_interleave_backward_int"],
            ),
        },
    ),
    "weight_norm": (
        lambda v, g: torch._weight_norm(v, g, 0),
        [(3, 4), (3, 1)],
        {
            "forward graph": (
                ["aten::_weight_norm_interface"],
                ["aten::view", "aten::norm", "aten::view", "aten::div", "aten::mul"],
            ),
            "backward graph": (["aten::_weight_norm_interface_backward"], None),
        },
    ),
}


@pytest.mark.npu
@since_torch_npu("2.13", "the NPU operators of a graph and its failures are others")
@pytest.mark.parametrize("name", ON_NPU)
def test_cpu_against_npu(name):
    """torch_npu's own operators come out, forward and backward, and nothing else."""
    function, shapes, expected = ON_NPU[name]
    found = compare(
        captured(function, shapes, "cpu"), captured(function, shapes, "npu")
    )
    assert found.names == ("cpu", "npu:0")
    sides = {}
    for each in found.differences:
        place = each.left if each.kind == "only left" else each.right
        if each.kind == "changed" or place.name == "aten::detach":
            continue
        left, right = sides.setdefault(each.graph, ([], []))
        operator = place.name.partition(".")[0]
        (left if each.kind == "only left" else right).append(operator)
    for graph, (left, right) in expected.items():
        got_left, got_right = sides.pop(graph)
        assert got_left == left
        # The backward of a composite is long; that it is another one is the point.
        assert got_right == right if right is not None else len(got_right) > 5
    assert sides == {}


@pytest.mark.npu
@since_torch_npu("2.13", "the operator without a meta kernel has another name")
def test_what_cannot_be_captured_on_npu_is_a_difference():
    """An operator without a meta kernel is named with the user's line."""
    shapes = [(3, 4), (3, 4)]
    found = compare(
        captured(kl_div_of_both, shapes, "cpu"), captured(kl_div_of_both, shapes, "npu")
    )
    (difference,) = found.differences
    assert (difference.kind, difference.what) == ("only right", "failure")
    assert difference.right.name == "npu::kl_div_target_backward"
    assert difference.right.line.startswith("test_comparison_graphs.py:")
    assert str(found) == (
        f"capture fails only in npu:0: npu::kl_div_target_backward "
        f"({difference.right.line})"
    )


def test_two_partitions():
    """min_cut computes again what the default partition saves."""
    x = torch.rand(3, requires_grad=True)
    sets = []
    for partition in ("default", "min_cut"):
        with capture_graphs(partition=partition) as graphs:
            sets.append(graphs.capture(lambda x: x.sin().cos(), x))
    found = compare(*sets, names=("default", "min_cut"))
    assert [(each.kind, each.graph) for each in found.differences] != []
    assert {each.graph for each in found.differences} <= {
        "forward graph",
        "backward graph",
    }


@since_torch("2.9", "autograd itself takes silu_backward apart while a graph is traced")
def test_two_decomposition_tables():
    """What a table replaces is on the left, what it makes of it on the right."""
    x = torch.rand(2, 3, requires_grad=True)
    sets = []
    for decompositions in (None, "core_aten"):
        with capture_graphs(decompositions=decompositions) as graphs:
            sets.append(graphs.capture(functional.silu, x))
    found = compare(*sets, names=("as it is", "core aten"))
    left = [each.left.name for each in found.differences if each.kind == "only left"]
    right = [each.right.name for each in found.differences if each.kind == "only right"]
    assert left == ["aten::silu", "aten::silu_backward"]
    assert right[0] == "aten::sigmoid"
    assert "aten::mul.Tensor" in right
