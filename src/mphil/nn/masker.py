"""Soft masks of nodes and edges together, from a network that looks at the graph."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor, nn

from mphil.graphs.store import Batch
from mphil.nn.masks import share_penalty
from mphil.nn.scorers import Scorer, edge_graph


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
