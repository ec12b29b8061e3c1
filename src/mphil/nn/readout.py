"""From node features to one vector a graph, from it to logits, and back to the nodes that a prediction rests on."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Literal

import torch
from torch import Tensor, nn

from mphil.nn.encoders.blocks import BatchNorm
from mphil.nn.randomness import Dropout
from mphil.task import Task

Pooling = Literal["mean", "sum", "max", "attention"]
Fixed = Literal["mean", "sum", "max"]


def readout(nodes: Tensor, ptr: Tensor, how: Fixed = "mean") -> Tensor:
    """Pool the nodes of each graph: (n_nodes, d) -> (n_graphs, d). A graph without nodes gives zeros.

    Args:
        nodes: features, graph after graph.
        ptr: (n_graphs + 1,) where each graph begins.
        how: `mean`, `sum` or `max`.

    Example:
        >>> readout(torch.tensor([[1.0], [3.0], [5.0]]), torch.tensor([0, 2, 3])).squeeze(1).tolist()
        [2.0, 5.0]
    """
    counts, owner = ptr.diff(), owners(ptr, nodes.shape[0])
    pooled = nodes.new_zeros(counts.numel(), nodes.shape[1])
    if how == "max":
        return pooled.scatter_reduce(0, owner.unsqueeze(1).expand_as(nodes), nodes, "amax", include_self=False)
    pooled = pooled.index_add(0, owner, nodes)
    return pooled / counts.clamp_min(1).unsqueeze(1) if how == "mean" else pooled


class Readout(nn.Module):
    r"""Pools the nodes of each graph: (n_nodes, width) -> (n_graphs, width). A graph without nodes gives zeros.

    `mean`, `sum` and `max` have no parameters; `attention` weighs the nodes of a graph (Li et al., 2016),

    .. math:: h_G = \sum_v \alpha_v h_v, \qquad \alpha = \mathrm{softmax}_{v \in G}(\langle a, h_v \rangle)

    Args:
        how: which of them.
        width: of the node features.
    """

    def __init__(self, how: Pooling, width: int) -> None:
        super().__init__()
        self.how = how
        self.score = nn.Linear(width, 1, bias=False) if how == "attention" else None

    if TYPE_CHECKING:

        def __call__(self, nodes: Tensor, ptr: Tensor) -> Tensor: ...

    def forward(self, nodes: Tensor, ptr: Tensor) -> Tensor:
        """Pool features that come graph after graph; `ptr` (n_graphs + 1,) says where each begins."""
        if self.how != "attention":
            return readout(nodes, ptr, self.how)
        share = self.attention(nodes, ptr)
        return readout(nodes * share.unsqueeze(1), ptr, "sum")

    def attention(self, nodes: Tensor, ptr: Tensor) -> Tensor:
        """(n_nodes,) how much each node counts; 1 in sum over the nodes of a graph."""
        assert self.score is not None
        scores, owner = self.score(nodes).squeeze(1), owners(ptr, nodes.shape[0])
        empty = scores.new_zeros(ptr.shape[0] - 1)
        most = empty.scatter_reduce(0, owner, scores.detach(), "amax", include_self=False)
        share = (scores - most[owner]).exp()
        shares: Tensor = share / empty.index_add(0, owner, share)[owner]
        return shares


def grouped_softmax(scores: Tensor, group: Tensor, groups: int) -> Tensor:
    """(n,) softmax of the (n,) scores among those of the same group.

    Args:
        scores: any real numbers.
        group: (n,) from 0.
        groups: how many there are.

    Example:
        >>> grouped_softmax(torch.tensor([0.0, 5.0, 0.0]), torch.tensor([0, 1, 0]), 2).tolist()
        [0.5, 1.0, 0.5]
    """
    empty = scores.new_zeros(groups)
    most = empty.scatter_reduce(0, group, scores.detach(), "amax", include_self=False)
    share = (scores - most.index_select(0, group)).exp()
    total = empty.scatter_add(0, group, share) + 1e-16
    return share / total.index_select(0, group)


def owners(ptr: Tensor, nodes: int) -> Tensor:
    """(nodes,) the graph of each node.

    As quick as repeat_interleave, which no exporter translates: every border adds one to the number of the graph.
    """
    borders = ptr.new_zeros(nodes + 1).index_add(0, ptr[1:], torch.ones_like(ptr[1:]))
    return borders.cumsum(0)[:-1]


Head = Literal["linear", "mlp"]


def perceptron(before: int, hidden: int, after: int, dropout: float) -> nn.Sequential:
    """Linear, batch normalisation, ReLU, dropout, linear: (n, before) -> (n, after)."""
    return nn.Sequential(
        nn.Linear(before, hidden), BatchNorm(hidden), nn.ReLU(), Dropout(dropout), nn.Linear(hidden, after)
    )


def two_layers(width: int, outputs: int) -> nn.Sequential:
    """A hidden layer with ReLU, twice as wide as the input, and a linear one: (n, width) -> (n, outputs)."""
    return nn.Sequential(nn.Linear(width, 2 * width), nn.ReLU(), nn.Linear(2 * width, outputs))


def three_layers(width: int, outputs: int) -> nn.Sequential:
    """Two hidden layers with ReLU, as wide as the input, and a linear one: (n, width) -> (n, outputs)."""
    return nn.Sequential(
        nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, outputs)
    )


def classifier(kind: Head, width: int, outputs: int, dropout: float) -> nn.Module:
    """A linear map, or a perceptron with a hidden layer of twice the width: (n, width) -> (n, outputs)."""
    return nn.Linear(width, outputs) if kind == "linear" else perceptron(width, 2 * width, outputs, dropout)


def node_contribution(nodes: Tensor, head: Callable[[Tensor], Tensor], task: Task) -> Tensor:
    r"""First-order share of every node in the decision.

    .. math:: c_v = \Big\langle \frac{\partial f}{\partial h_v},\, h_v \Big\rangle

    Args:
        nodes: (n_nodes, d) node features.
        head: from node features to (n_graphs, outputs) logits.
        task: says how logits become the margin :math:`f` of the decision.

    Returns:
        (n_nodes,) contributions.
    """
    with torch.enable_grad():
        nodes = nodes.detach().requires_grad_()
        margin = decision_margin(head(nodes), task)
        (gradient,) = torch.autograd.grad(margin.sum(), nodes)
    return (gradient * nodes).sum(1).detach()


def decision_margin(logits: Tensor, task: Task) -> Tensor:
    """(n_graphs,) how far the decision is from tipping.

    Multi-class: the winning logit above the mean of all; binary: the distance from 0, averaged over tasks. Of a
    regression, which decides nothing, the predicted value itself, averaged over tasks.
    """
    if task.kind == "regression":
        return logits.mean(1)
    if task.kind == "multiclass":
        return logits.amax(1) - logits.mean(1)
    return logits.abs().mean(1)


def margin_slope(logits: Tensor, task: Task) -> Tensor:
    """(n_graphs, outputs) slope of the margin of the decision, which is linear in the logits until it tips.

    Example:
        >>> margin_slope(torch.tensor([[3.0], [-1.0]]), Task("binary", 1, "accuracy")).tolist()
        [[1.0], [-1.0]]
    """
    with torch.enable_grad():
        logits = logits.detach().requires_grad_()
        (slope,) = torch.autograd.grad(decision_margin(logits, task).sum(), logits)
    return slope
