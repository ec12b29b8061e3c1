"""A number for every node or edge of a graph, from the features of its nodes."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Literal, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from mphil.data.store import Batch
from mphil.nn.dropout import Dropout
from mphil.nn.encoder import BatchNorm

Norm = Literal["none", "graph", "batch"]


class Scorer(nn.Module):
    r"""An MLP on the features of a node or of both ends of an edge.

    .. math:: s_v = \mathrm{MLP}(h_v) \qquad\text{or}\qquad s_{uv} = \mathrm{MLP}([h_u \,\|\, h_v])

    The two directions of an edge have scores of their own. Hidden layers are linear, normalisation, ReLU, dropout.

    Args:
        width: size of the node features.
        of: what is scored.
        hidden: sizes of the hidden layers; none = a linear map.
        norm: of hidden layers: over the members of each `graph`, over the `batch`, or `none`.
        dropout: of hidden layers.
        outputs: numbers for each node or edge.
    """

    def __init__(
        self,
        width: int,
        of: Literal["node", "edge"],
        *,
        hidden: Sequence[int] = (),
        norm: Norm = "none",
        dropout: float = 0.0,
        outputs: int = 1,
    ) -> None:
        super().__init__()
        self.of, self.norm = of, norm
        sizes = [width if of == "node" else 2 * width, *hidden]
        # A constant added before the mean of the graph is taken away would never be seen.
        self.linears = nn.ModuleList(
            nn.Linear(before, after, bias=norm != "graph") for before, after in pairwise(sizes)
        )
        self.last = nn.Linear(sizes[-1], outputs)
        self.norms = nn.ModuleList(BatchNorm(size) if norm == "batch" else nn.Identity() for size in hidden)
        self.dropout = Dropout(dropout)

    def forward(self, nodes: Tensor, batch: Batch) -> Tensor:
        """Score a batch.

        Args:
            nodes: (n_nodes, width) node features.
            batch: the graphs they belong to.

        Returns:
            (n_nodes,) or (n_edges,) logits; (.., outputs) when there are several.
        """
        first, *others = cast(list[nn.Linear], [*self.linears, self.last])
        h = first(nodes) if self.of == "node" else join_ends(first, nodes, batch)
        owner = batch.batch if self.of == "node" else edge_graph(batch)
        for norm, linear in zip(self.norms, others, strict=True):
            h = normalise_by_group(h, owner, batch.ptr.numel() - 1) if self.norm == "graph" else norm(h)
            h = linear(self.dropout(h.relu()))
        return h.squeeze(1)


def join_ends(linear: nn.Linear, nodes: Tensor, batch: Batch) -> Tensor:
    r"""(n_edges, after) a linear map of both ends, :math:`W [h_u \,\|\, h_v] + b = W_1 h_u + W_2 h_v + b`.

    There are fewer nodes than edges, so each half is applied to the nodes.

    Args:
        linear: a layer from 2 * width features.
        nodes: (n_nodes, width).
        batch: the graphs.
    """
    source, target = batch.edge_index
    of_source, of_target = linear.weight.chunk(2, dim=1)
    begin, end = F.linear(nodes, of_source, linear.bias), F.linear(nodes, of_target)
    return begin.index_select(0, source) + end.index_select(0, target)


def edge_graph(batch: Batch) -> Tensor:
    """(n_edges,) graph of each edge."""
    owner: Tensor = batch.batch[batch.edge_index[0]]
    return owner


def reverse_edges(batch: Batch) -> Tensor:
    """(n_edges,) position of the opposite edge, of its own where there is none.

    Of several edges between the same nodes, the first of one direction belongs to the first of the other, and so on.
    """
    source, target = batch.edge_index
    code, opposite = source * batch.ptr[-1] + target, target * batch.ptr[-1] + source
    codes, order = code.sort(stable=True)
    here = torch.arange(code.numel(), device=code.device)
    copy = torch.empty_like(here)
    copy[order] = here - torch.searchsorted(codes, codes)
    place = torch.searchsorted(codes, opposite) + copy
    found = place < code.numel()
    place = torch.where(found, place, 0)
    found &= codes[place] == opposite
    return torch.where(found, order[place], here)


def normalise_by_group(values: Tensor, group: Tensor, n_groups: int, eps: float = 1e-5) -> Tensor:
    """Instance normalisation: every column of (n, d) values gets mean 0 and variance 1 inside each group.

    A group with one member becomes zeros.
    """
    counts = torch.zeros(n_groups, dtype=values.dtype, device=values.device).index_add(
        0, group, values.new_ones(len(values))
    )
    size = counts.clamp_min(1).unsqueeze(1)

    def mean(of: Tensor) -> Tensor:
        sums = of.new_zeros(n_groups, of.shape[1]).index_add(0, group, of)
        return (sums / size).index_select(0, group)

    centred = values - mean(values)
    return centred * (mean(centred.square()) + eps).rsqrt()
