"""Readouts, and the nodes that a prediction rests on."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch_geometric.nn import AttentionalAggregation

from mphil.nn.readout import Readout, decision_margin, node_contribution, readout
from mphil.task import Task
from tests.graphs import TASKS
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


PTR = torch.tensor([0, 3, 4, 9])


def curved_head(task):
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, task.n_outputs)).double()


@pytest.mark.parametrize("kind", TASKS)
@pytest.mark.parametrize("how", ["mean", "sum", "max"])
def test_is_the_slope_along_the_size_of_a_node(kind, how):
    """c_v is how fast the margin grows when h_v is made longer; central differences see the same."""
    task = TASKS[kind]
    network = curved_head(task)

    def head(h):
        return network(readout(h, PTR, how))

    nodes = torch.randn(9, 4, dtype=torch.float64)
    step = 1e-6
    expected = []
    for v in range(9):
        longer, shorter = nodes.clone(), nodes.clone()
        longer[v] *= 1 + step
        shorter[v] *= 1 - step
        rise = decision_margin(head(longer), task).sum() - decision_margin(head(shorter), task).sum()
        expected.append(rise.item() / (2 * step))
    expected = torch.tensor(expected, dtype=torch.float64)
    torch.testing.assert_close(node_contribution(nodes, head, task), expected, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("kind", TASKS)
def test_a_linear_head_is_shared_out_completely(kind):
    """Without bias, the contributions of the nodes of a graph add up to its margin."""
    task = TASKS[kind]
    linear = nn.Linear(4, task.n_outputs, bias=False).double()
    nodes = torch.randn(9, 4, dtype=torch.float64)
    shares = node_contribution(nodes, lambda h: linear(readout(h, PTR)), task)
    margins = decision_margin(linear(readout(nodes, PTR)), task)
    torch.testing.assert_close(torch.stack([part.sum() for part in shares.tensor_split(PTR[1:-1])]), margins)


def test_a_node_that_is_not_used_has_no_share():
    nodes = torch.randn(9, 4)
    used = torch.ones(9, 1)
    used[4] = 0
    linear = nn.Linear(4, 3)
    shares = node_contribution(nodes, lambda h: linear(readout(h * used, PTR)), TASKS["multiclass"])
    assert shares[4] == 0
    assert (shares[used.squeeze(1) > 0] != 0).all()


def test_works_without_gradients_and_leaves_none():
    linear = nn.Linear(4, 3)
    nodes = torch.randn(9, 4, requires_grad=True)
    with torch.no_grad():
        shares = node_contribution(nodes, lambda h: linear(readout(h, PTR)), TASKS["multiclass"])
    assert not shares.requires_grad
    assert linear.weight.grad is None
    assert nodes.grad is None


def test_margin_by_hand():
    multiclass = decision_margin(torch.tensor([[3.0, 0.0, 0.0], [1.0, 1.0, 1.0]]), TASKS["multiclass"])
    assert multiclass.tolist() == [2.0, 0.0]
    assert decision_margin(torch.tensor([[-2.0], [0.5]]), TASKS["binary"]).tolist() == [2.0, 0.5]
    assert decision_margin(torch.tensor([[-2.0, 1.0, 0.0, 1.0]]), TASKS["multitask"]).tolist() == [1.0]


def test_of_a_regression_a_node_adds_to_the_predicted_value_with_its_sign():
    task = Task("regression", 2, "rmse")
    assert decision_margin(torch.tensor([[-3.0, 1.0]]), task).tolist() == [-1.0]
