"""Pooling of nodes against loops."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch_geometric.nn import AttentionalAggregation

from mphil.nn.readout import Readout, readout
from tests.unit.nn import reference

HOW = ("mean", "sum", "max")


def pointer(counts: list[int]) -> torch.Tensor:
    return torch.tensor([0, *counts]).cumsum(0)


@pytest.mark.parametrize("how", HOW)
@settings(max_examples=15, deadline=None, derandomize=True)
@given(counts=st.lists(st.integers(1, 5), min_size=1, max_size=5), width=st.integers(1, 4), seed=st.integers(0, 99))
def test_values(how, counts, width, seed):
    torch.manual_seed(seed)
    nodes = torch.randn(sum(counts), width, dtype=torch.float64)
    owner = [b for b, count in enumerate(counts) for _ in range(count)]
    expected = torch.tensor(reference.readout(nodes.tolist(), owner, len(counts), how), dtype=torch.float64)
    torch.testing.assert_close(readout(nodes, pointer(counts), how), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("how", HOW)
def test_gradient(how):
    nodes = torch.randn(7, 3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda h: readout(h, pointer([2, 1, 4]), how), nodes)


def test_mean_is_the_default():
    nodes, ptr = torch.randn(5, 2), pointer([3, 2])
    assert torch.equal(readout(nodes, ptr), readout(nodes, ptr, "mean"))


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("counts", [[0, 2, 1], [2, 0, 1], [2, 1, 0]])
def test_a_graph_without_nodes_gives_zeros_and_disturbs_no_other(how, counts):
    nodes = -torch.rand(3, 2) - 1
    pooled = readout(nodes, pointer(counts), how)
    empty = counts.index(0)
    assert pooled[empty].tolist() == [0, 0]
    others = [b for b in range(3) if b != empty]
    assert torch.equal(pooled[others], readout(nodes, pointer([c for c in counts if c]), how))


@pytest.mark.parametrize("how", HOW)
def test_the_module_is_the_function_and_has_no_state(how):
    nodes, ptr, pool = torch.randn(5, 2), pointer([3, 2]), Readout(how, 2)
    assert torch.equal(pool(nodes, ptr), readout(nodes, ptr, how))
    assert not pool.state_dict()


class TestAttention:
    @settings(max_examples=15, deadline=None, derandomize=True)
    @given(counts=st.lists(st.integers(0, 5), min_size=1, max_size=5), seed=st.integers(0, 99))
    def test_values(self, counts, seed):
        torch.manual_seed(seed)
        nodes, pool = torch.randn(sum(counts), 3, dtype=torch.float64), Readout("attention", 3).double()
        expected = [
            (pool.score(part).squeeze(1).softmax(0) @ part) if len(part) else torch.zeros(3, dtype=torch.float64)
            for part in nodes.split(counts)
        ]
        torch.testing.assert_close(pool(nodes, pointer(counts)), torch.stack(expected))

    def test_agrees_with_pyg(self):
        nodes, pool = torch.randn(7, 3), Readout("attention", 3)
        other = AttentionalAggregation(pool.score)
        torch.testing.assert_close(pool(nodes, pointer([2, 1, 4])), other(nodes, ptr=pointer([2, 1, 4])))

    def test_gradient(self):
        pool = Readout("attention", 3).double()
        nodes = torch.randn(7, 3, dtype=torch.float64, requires_grad=True)
        assert torch.autograd.gradcheck(lambda h, _: pool(h, pointer([2, 0, 1, 4])), (nodes, pool.score.weight))

    def test_large_scores_do_not_overflow(self):
        assert Readout("attention", 2)(torch.randn(5, 2) * 1e6, pointer([3, 2])).isfinite().all()

    def test_shares_sum_to_one(self):
        nodes, pool = torch.randn(7, 3), Readout("attention", 3)
        share = pool.attention(nodes, pointer([3, 4]))
        torch.testing.assert_close(share.split([3, 4])[1].sum(), torch.tensor(1.0))
