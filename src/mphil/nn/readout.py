"""From node features to one vector a graph."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

Readout = Literal["mean", "sum", "max"]


def readout(nodes: Tensor, ptr: Tensor, how: Readout = "mean") -> Tensor:
    """Pool the nodes of each graph: (n_nodes, d) -> (n_graphs, d). A graph without nodes gives zeros.

    Args:
        nodes: features, graph after graph.
        ptr: (n_graphs + 1,) where each graph begins.
        how: `mean`, `sum` or `max`.

    Example:
        >>> readout(torch.tensor([[1.0], [3.0], [5.0]]), torch.tensor([0, 2, 3])).squeeze(1).tolist()
        [2.0, 5.0]
    """
    counts = ptr.diff()
    # As quick as repeat_interleave, which no exporter translates: every border adds one to the number of the graph.
    borders = ptr.new_zeros(nodes.shape[0] + 1).index_add(0, ptr[1:], torch.ones_like(counts))
    owner = borders.cumsum(0)[:-1]
    pooled = nodes.new_zeros(counts.numel(), nodes.shape[1])
    if how == "max":
        return pooled.scatter_reduce(0, owner.unsqueeze(1).expand_as(nodes), nodes, "amax", include_self=False)
    pooled = pooled.index_add(0, owner, nodes)
    return pooled / counts.clamp_min(1).unsqueeze(1) if how == "mean" else pooled
