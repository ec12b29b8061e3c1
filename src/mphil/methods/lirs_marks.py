"""A few nodes of every graph, as numbers that fit into a table with a row for each graph."""

from __future__ import annotations

import torch
from torch import Tensor

from mphil.graphs.store import Batch


def rank_in_graph(scores: Tensor, batch: Batch) -> Tensor:
    """(N,) place of each node among those of its graph, the highest score first; of equals the first is first."""
    by_score = scores.argsort(descending=True, stable=True)
    order = by_score[batch.batch[by_score].argsort(stable=True)]
    rank = torch.empty_like(order)
    rank[order] = torch.arange(len(order), device=order.device) - batch.ptr[batch.batch[order]]
    return rank


def top_nodes(scores: Tensor, batch: Batch, slots: int) -> Tensor:
    """(B, slots) numbers, from 1 on and counted inside each graph, of the nodes with the highest (N,) scores; 0 = none.

    Example:
        >>> two = Batch(batch=torch.tensor([0, 0, 0, 1]), ptr=torch.tensor([0, 3, 4]))
        >>> top_nodes(torch.tensor([0.1, 0.9, 0.5, 0.3]), two, 2).tolist()
        [[2, 3], [1, 0]]
    """
    rank = rank_in_graph(scores, batch)
    top = rank < slots
    local = torch.arange(len(rank), device=rank.device) - batch.ptr[batch.batch]
    marks = torch.zeros(batch.ptr.numel() - 1, slots, dtype=torch.long, device=rank.device)
    marks[batch.batch[top], rank[top]] = local[top] + 1
    return marks


def marked(marks: Tensor, batch: Batch) -> Tensor:
    """(N,) True for the nodes that (B, slots) marks number."""
    nodes = batch.ptr[:-1].unsqueeze(1) + marks - 1
    return torch.zeros_like(batch.batch, dtype=torch.bool).index_fill(0, nodes[marks > 0], True)
