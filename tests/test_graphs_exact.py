# SPDX-License-Identifier: BSD-3-Clause
"""Captured graphs compute what the program computes, bit for bit on the CPU."""

from __future__ import annotations

import pytest
import torch

from npu_dispatch_inspect import capture_graphs
from tests.graph_cases import (
    CASES,
    clone_case,
    find,
    leaves,
    run_eager,
    run_graphs,
    same,
    tangent_for,
)


@pytest.mark.parametrize("partition", ["default", "min_cut"])
@pytest.mark.parametrize("name", CASES)
def test_graphs_compute_the_same(name, partition):
    """Results, gradients and written inputs are those of eager execution."""
    eager, case = clone_case(CASES[name]()), CASES[name]()
    expected = run_eager(eager)

    with capture_graphs(partition=partition) as graphs:
        captured = graphs.capture(case[0], *case[1], **case[2])

    assert captured.failures == ()
    results, gradients, written = run_graphs(captured, case)
    assert len(results) == len(expected)
    for a, b in zip(results.values(), expected, strict=True):
        assert same(a, b.detach())
    for key, value in gradients.items():
        assert same(value, find(key.partition("|")[0], *eager).grad), key
    for key, value in written.items():
        assert same(value, find(key, *eager).detach()), key


@pytest.mark.parametrize("name", CASES)
def test_compiled_function_computes_the_same(name):
    """A compiled function gives results, gradients and side effects of the eager one."""
    eager, case = clone_case(CASES[name]()), CASES[name]()
    expected = run_eager(eager)

    with capture_graphs() as graphs:
        compiled = graphs.compile(case[0])
        torch.manual_seed(3)
        result = compiled(*case[1], **case[2])
        returned = leaves(result)
        wanted = [each for each in returned if each.requires_grad]
        if wanted:
            torch.autograd.backward(wanted, [tangent_for(each) for each in wanted])

    assert graphs.failures == ()
    assert [each.requires_grad for each in returned] == [
        each.requires_grad for each in expected
    ]
    for a, b in zip(returned, expected, strict=True):
        assert same(a.detach(), b.detach())
    for record in graphs.captured[0].inputs:
        for key in record.names:
            if record.kind.value in {"parameter", "buffer", "argument"}:
                mine, theirs = find(key, *case), find(key, *eager)
                assert same(mine.detach(), theirs.detach()), key
                assert (mine.grad is None) == (theirs.grad is None), key
                assert mine.grad is None or same(mine.grad, theirs.grad), key
