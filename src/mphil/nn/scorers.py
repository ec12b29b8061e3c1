"""A number for every node or edge of a graph, from the features of its nodes; soft masks of both together."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Literal, NamedTuple, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from mphil.graphs.store import Batch
from mphil.nn.dropout import Dropout
from mphil.nn.encoders.blocks import BatchNorm
from mphil.nn.fast.groups import normalise_by_group
from mphil.nn.fast.linear import Linear
from mphil.nn.fast.normalise import Steps
from mphil.nn.masks import share_penalty

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
        self.linears = nn.ModuleList(Linear(before, after, bias=norm != "graph") for before, after in pairwise(sizes))
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
        if self.of == "node":
            (h, other), ends, owner = (first(nodes), None), None, batch.batch
        else:
            (h, other), ends, owner = halves(first, nodes), batch.edge_index, edge_graph(batch)
        for norm, linear in zip(self.norms, others, strict=True):
            draws = self.dropout.draw(owner.numel(), h.shape[1], h)
            steps = Steps(relu=True, draws=draws, least=self.dropout.least, kept=self.dropout.kept)
            if self.norm == "graph":
                h = normalise_by_group(h, owner, batch.ptr.numel() - 1, steps, other=other, ends=ends)
            else:
                h = join(h, other, ends)
                h = norm(h, steps=steps) if self.norm == "batch" else steps(h)
            h, other, ends = linear(h), None, None
        return join(h, other, ends).squeeze(1)


def halves(linear: nn.Linear, nodes: Tensor) -> tuple[Tensor, Tensor]:
    r"""A linear map of both ends of an edge, :math:`W [h_u \,\|\, h_v] + b = (W_1 h_u + b) + W_2 h_v`, before the sum.

    There are fewer nodes than edges, so each half is applied to the nodes: (n_nodes, width) -> twice (n_nodes, after).
    """
    of_source, of_target = linear.weight.chunk(2, dim=1)
    return F.linear(nodes, of_source, linear.bias), F.linear(nodes, of_target)


def join(begin: Tensor, end: Tensor | None, ends: Tensor | None) -> Tensor:
    """(n_edges, d) the sum of what the two (2, n_edges) ends of each edge have; `begin` itself when there is no end."""
    if end is None or ends is None:
        return begin
    return begin.index_select(0, ends[0]) + end.index_select(0, ends[1])


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


class Masks(NamedTuple):
    """Masks between 0 and 1: (N,) of nodes and (E,) of edges."""

    nodes: Tensor
    edges: Tensor

    def complement(self) -> Masks:
        """What these masks hide."""
        return Masks(1 - self.nodes, 1 - self.edges)

    def joined(self, other: Masks) -> Masks:
        """What these masks show, and of the rest what the other masks show."""
        return Masks(*(own + (1 - own) * theirs for own, theirs in zip(self, other, strict=True)))

    def share_gap(self, batch: Batch, nodes: float, edges: float) -> Tensor:
        """How far the mean masks of a graph are from those wanted for nodes and edges: summed over both, a scalar."""
        n_graphs = batch.ptr.numel() - 1
        node_gap = share_penalty(self.nodes, batch.batch, n_graphs, nodes)
        return node_gap + share_penalty(self.edges, edge_graph(batch), n_graphs, edges)


class Masker(nn.Module):
    """Masks the nodes and edges of graphs by scores of their features.

    Args:
        backbone: from a batch to (N, width) node features.
        width: of its features.
        halvings: hidden layers of the scorers, each half as wide as the one before, with batch normalisation.
    """

    def __init__(self, backbone: nn.Module, width: int, halvings: int = 0) -> None:
        super().__init__()
        self.backbone = backbone
        self.nodes = Scorer(width, "node", hidden=_halved(width, halvings), norm="batch")
        self.edges = Scorer(width, "edge", hidden=_halved(2 * width, halvings), norm="batch")

    def forward(self, batch: Batch) -> Masks:
        h = self.backbone(batch)
        return Masks(self.nodes(h, batch).sigmoid(), self.edges(h, batch).sigmoid())


def see_through(encoder: nn.Module, x: Tensor, batch: Batch, masks: Masks) -> Tensor:
    """(N, d) what an encoder makes of masked node features (N, w), with masked messages."""
    nodes: Tensor = encoder(batch, x=x * masks.nodes.unsqueeze(1), edge_weight=masks.edges)
    return nodes


def _halved(width: int, times: int) -> list[int]:
    return [max(1, width >> time) for time in range(1, times + 1)]
