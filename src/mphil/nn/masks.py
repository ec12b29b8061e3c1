"""Choosing a part of every graph: soft and hard masks over nodes or edges, and the subgraph they leave.

Members (nodes or edges) belong to groups (graphs), told by an integer for each.
"""

from __future__ import annotations

import copy

import torch
from torch import Tensor

from mphil.graphs.store import Batch

EPS = 1e-6
"""Added where a logarithm would otherwise be of 0."""

ROUNDING = 1e-9
"""Taken off before rounding up, so that 0.28 of 25 is 7 and not 8."""

GRID = {torch.float32: 2.0**20, torch.float64: 2.0**36}
"""Different scores in a unit, well above what rounding does to numbers around 1."""


def concrete(logits: Tensor, temperature: float = 1.0, training: bool = True) -> Tensor:
    r"""Relaxed Bernoulli draws (Maddison et al., 2017), or the plain probabilities when not training.

    .. math:: \sigma\big((s + \log u - \log(1-u)) / \tau\big), \qquad u \sim U(0, 1)
    """
    if not training:
        return logits.sigmoid()
    noise = torch.rand_like(logits).logit(torch.finfo(logits.dtype).eps)
    return ((logits + noise) / temperature).sigmoid()


def straight_through(hard: Tensor, soft: Tensor) -> Tensor:
    """A hard mask, exactly 0 or 1, with the gradient of a soft one (Bengio et al., 2013).

    Args:
        hard: (n,) bool.
        soft: (n,) what the hard mask was made of.

    Example:
        >>> straight_through(torch.tensor([True, False]), torch.tensor([0.9, 0.3])).tolist()
        [1.0, 0.0]
    """
    return hard.to(soft.dtype) + (soft - soft.detach())


def group_sizes(group: Tensor, n_groups: int) -> Tensor:
    """(n_groups,) members of each group."""
    return torch.bincount(group, minlength=n_groups)


def keep_first(order: Tensor, group: Tensor, wanted: Tensor) -> Tensor:
    """Mask of the first `wanted[g]` members of each group g, in an order that has groups one after the other."""
    sizes = group_sizes(group, wanted.numel())
    starts = sizes.cumsum(0) - sizes
    place = torch.arange(group.numel(), device=group.device) - starts[group[order]]
    mask = torch.zeros_like(group, dtype=torch.bool)
    mask[order] = place < wanted[group[order]]
    return mask


def levels(scores: Tensor) -> Tensor:
    """Scores on a grid, so that members which are the same by symmetry are equal, whatever rounding did to them.

    In graphs without features many edges are images of each other. Which of them is kept must be their order's choice,
    not that of the last bit, which changes from one processor to another.
    """
    return (scores.detach() * GRID[scores.dtype]).round()


def top_share(scores: Tensor, group: Tensor, n_groups: int, share: float) -> Tensor:
    """The members with the highest scores: a share of each group, rounded up.

    Sorted by score, then stably by group: right for scores of any size, and of equals the first is taken.

    Args:
        scores: (n,) of the members.
        group: (n,) which group each belongs to.
        n_groups: how many groups there are, empty ones included.
        share: between 0 and 1.

    Returns:
        (n,) bool.

    Example:
        >>> top_share(torch.tensor([0.1, 9.0, 0.3, 5.0]), torch.tensor([0, 1, 0, 1]), 2, 0.5).tolist()
        [False, True, True, False]
    """
    wanted = (group_sizes(group, n_groups).double() * share - ROUNDING).ceil().long()
    return keep_first(_sorted(scores, group), group, wanted)


def clamp_share(mask: Tensor, scores: Tensor, group: Tensor, n_groups: int, low: float, high: float) -> Tensor:
    """A mask changed as little as possible, so that the share kept of each group lies between two bounds.

    The best of those left out are added, or the worst of those kept are dropped. A group too small for both bounds
    keeps the lower one, rounded up.

    Args:
        mask: (n,) bool, the members kept so far.
        scores: (n,) which member is better.
        group: (n,) which group each belongs to.
        n_groups: how many groups there are, empty ones included.
        low: smallest share.
        high: largest share.

    Returns:
        (n,) bool.
    """
    sizes = group_sizes(group, n_groups).double()
    least = (sizes * low - ROUNDING).ceil().long()
    most = (sizes * high + ROUNDING).floor().long().maximum(least)
    kept = torch.zeros(n_groups, dtype=torch.long, device=group.device).index_add(0, group, mask.long())
    by_score = levels(scores).argsort(descending=True, stable=True)
    kept_first = by_score[mask[by_score].long().argsort(descending=True, stable=True)]
    order = kept_first[group[kept_first].argsort(stable=True)]
    return keep_first(order, group, kept.clamp(least, most))


def share_penalty(mask: Tensor, group: Tensor, n_groups: int, target: float) -> Tensor:
    r"""How far soft masks are from a wanted size: :math:`\frac1G \sum_g \big|\bar m_g - \gamma\big|`, a scalar.

    Groups without members are left out.
    """
    sums = mask.new_zeros(n_groups).index_add(0, group, mask)
    sizes = group_sizes(group, n_groups)
    gaps = (sums / sizes.clamp_min(1) - target).abs()
    present = sizes > 0
    return (gaps * present).sum() / present.sum().clamp_min(1)


def subgraph(batch: Batch, edge_mask: Tensor) -> tuple[Batch, Tensor]:
    """The part of every graph made of some edges and the nodes they touch; isolated nodes disappear.

    No graph is lost: one of which nothing is left has no nodes, and one that never had edges keeps its nodes.

    Args:
        batch: the graphs.
        edge_mask: (n_edges,) bool.

    Returns:
        A batch with as many graphs, whose nodes are numbered anew, and (n_kept,) where its nodes were before.
    """
    n_nodes, n_graphs = batch.batch.numel(), batch.ptr.numel() - 1
    has_edges = torch.zeros(n_graphs, dtype=torch.bool, device=edge_mask.device)
    has_edges[batch.batch[batch.edge_index[0]]] = True
    touched = ~has_edges[batch.batch]
    edge_index = batch.edge_index[:, edge_mask]
    touched[edge_index.flatten()] = True
    nodes = touched.nonzero().squeeze(1)
    number = torch.empty(n_nodes, dtype=torch.long, device=nodes.device)
    number[nodes] = torch.arange(nodes.numel(), device=nodes.device)

    part = copy.copy(batch)
    part.x, part.batch, part.edge_index = batch.x[nodes], batch.batch[nodes], number[edge_index]
    if batch.edge_attr is not None:
        part.edge_attr = batch.edge_attr[edge_mask]
    part.ptr = torch.cat([batch.ptr.new_zeros(1), group_sizes(part.batch, n_graphs).cumsum(0)])
    return part, nodes


def node_share_of_edges(edge_values: Tensor, batch: Batch) -> Tensor:
    """(n_nodes,) mean of the values of the edges that begin or end at each node, 0 where there are none."""
    incident = batch.edge_index.flatten()
    sums = edge_values.new_zeros(batch.batch.numel()).index_add(0, incident, edge_values.repeat(2))
    return sums / group_sizes(incident, sums.numel()).clamp_min(1)


def _sorted(scores: Tensor, group: Tensor) -> Tensor:
    """Positions of the members, group after group, the best of each group first."""
    by_score = levels(scores).argsort(descending=True, stable=True)
    return by_score[group[by_score].argsort(stable=True)]


def information(attention: Tensor, prior: float) -> Tensor:
    """Mean divergence of (M,) Bernoulli attentions from the prior, a scalar; 0 when there are none."""
    kept = attention * (attention / prior + EPS).log()
    dropped = (1 - attention) * ((1 - attention) / (1 - prior + EPS) + EPS).log()
    return (kept + dropped).sum() / max(1, attention.numel())
