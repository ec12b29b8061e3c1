"""Node contributions against finite differences and by hand."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from mphil.nn.importance import decision_margin, node_contribution
from mphil.nn.readout import readout
from mphil.task import Task
from tests.graphs import TASKS

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
