"""From node features to one vector a graph."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import torch
from torch import Tensor, nn

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
