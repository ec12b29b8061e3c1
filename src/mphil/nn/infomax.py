"""Self-supervised embeddings of graphs: what two views of a graph say about each other."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from mphil.config import EncoderConfig
from mphil.graphs.features import Features
from mphil.graphs.store import Batch
from mphil.nn.encoders import build_encoder
from mphil.nn.encoders.blocks import BatchNorm, Padded, embed_nodes, mlp, pad_by_size
from mphil.nn.losses import masked_mean
from mphil.nn.randomness import Dropout
from mphil.nn.readout import readout

RESTART = 0.2
"""Probability with which the random walk of the diffusion begins again."""


@dataclass(frozen=True)
class Block:
    """Graphs of about the same size, padded to the largest of them.

    Attributes:
        nodes: (g, n) row of each node in the batch; 0 where there is none.
        present: (g, n) whether there is a node.
        matrix: (g, n, n) how much of each node reaches each other one; a padded node reaches nobody else.
    """

    nodes: Tensor
    present: Tensor
    matrix: Tensor


def diffusion(batch: Batch, dtype: torch.dtype, restart: float = RESTART) -> list[Block]:
    r"""Personalised PageRank inside every graph, exactly, by an inverse of its small matrix.

    .. math:: S = \alpha\,\big(I - (1-\alpha)\, D^{-1/2}(A + I)D^{-1/2}\big)^{-1}
    """
    return [_block(batch, padded, dtype, restart) for padded in pad_by_size(batch.ptr)]


def spread(nodes: Tensor, blocks: list[Block]) -> Tensor:
    """Node features (N, d) after the diffusion: :math:`S H`, graph by graph."""
    out = torch.zeros_like(nodes)
    for block in blocks:
        mixed = block.matrix @ nodes[block.nodes]
        out = out.index_add(0, block.nodes[block.present], mixed[block.present])
    return out


def _block(batch: Batch, padded: Padded, dtype: torch.dtype, restart: float) -> Block:
    chosen, (count, largest), device = padded.chosen, padded.nodes.shape, padded.nodes.device
    number = chosen.cumsum(0) - 1
    graph = batch.batch[batch.edge_index[0]]
    inside = chosen[graph]
    source, target = batch.edge_index[:, inside] - batch.ptr[graph[inside]]
    adjacency = torch.zeros(count, largest, largest, dtype=dtype, device=device)
    where = (number[graph[inside]], target, source)
    adjacency.index_put_(where, torch.ones_like(source, dtype=dtype), accumulate=True)
    identity = torch.eye(largest, dtype=dtype, device=device)
    scale = (adjacency.sum(2) + 1).rsqrt()
    normal = scale.unsqueeze(2) * (adjacency + identity) * scale.unsqueeze(1)
    return Block(padded.nodes, padded.present, restart * torch.linalg.inv(identity - (1 - restart) * normal))


class DiffusedEncoder(nn.Module):
    r"""A GIN that listens to the diffused features, :math:`h' = \mathrm{MLP}(h + S h)`; edge features play no part."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.embed, before = embed_nodes(config.node, Features.none(), config.width)
        widths = [before] + [config.width] * (config.layers - 1)
        self.layers = nn.ModuleList(mlp(w, 2 * config.width, config.width) for w in widths)
        self.norms = nn.ModuleList(BatchNorm(config.width) for _ in widths)
        self.dropout = Dropout(config.dropout)

    def forward(self, batch: Batch) -> Tensor:
        """(n_nodes, width) node features."""
        h: Tensor = self.embed(batch.x)
        blocks = diffusion(batch, h.dtype)
        last = len(self.layers) - 1
        for number, (layer, norm) in enumerate(zip(self.layers, self.norms, strict=True)):
            h = norm(layer(h + spread(h, blocks)))
            h = self.dropout(h.relu() if number < last or last == 0 else h)
        return h


class Projector(nn.Module):
    """Three layers with ReLU, and a linear way around them."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.through = nn.Sequential(*(layer for _ in range(3) for layer in (nn.Linear(width, width), nn.ReLU())))
        self.around = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.through(x) + self.around(x)
        return out


class Infomax(nn.Module):
    r"""Mutual information between the nodes of one view of a graph and the whole of the other (MVGRL).

    The views are the graph itself and its diffusion; with :math:`s = \langle g, h \rangle`,

    .. math:: \mathcal L = \mathbb E_{h \notin g}[\mathrm{softplus}(-s) + s - \log 2]
                         - \mathbb E_{h \in g}[\log 2 - \mathrm{softplus}(-s)],

    averaged over the two ways to pair the views.

    Args:
        config: what nodes and edges carry; both encoders are GINs, and nodes are summed.
        width: of both encoders and of the embedding.
        layers: of both encoders.
        dropout: of both encoders.
    """

    def __init__(self, config: EncoderConfig, *, width: int = 64, layers: int = 5, dropout: float = 0.1) -> None:
        super().__init__()
        config = config.model_copy(update={"kind": "gin", "width": width, "layers": layers, "dropout": dropout})
        self.width = width
        self.plain, self.diffused = build_encoder(config), DiffusedEncoder(config)
        self.node_projector, self.graph_projector = Projector(width), Projector(width)

    def forward(self, batch: Batch) -> tuple[list[Tensor], list[Tensor]]:
        """Projected nodes (N, width) and graphs (B, width), each of the plain and the diffused view."""
        views = [self.plain(batch), self.diffused(batch)]
        nodes = [self.node_projector(view) for view in views]
        graphs = [self.graph_projector(readout(view, batch.ptr, "sum")) for view in views]
        return nodes, graphs

    def loss(self, batch: Batch, hidden: Tensor | None = None) -> Tensor:
        """A scalar; nodes that are `hidden` (N,) count as nodes of other graphs."""
        nodes, graphs = self(batch)
        first = jensen_shannon(graphs[0], nodes[1], batch, hidden)
        return (first + jensen_shannon(graphs[1], nodes[0], batch, hidden)) / 2

    def embed(self, batch: Batch) -> Tensor:
        """(B, width) sum of the two views."""
        _, (plain, diffused) = self(batch)
        both: Tensor = plain + diffused
        return both

    def place(self, part: Iterable[Batch]) -> tuple[Tensor, ...]:
        """Numbers (n,), labels (n, tasks) and embeddings (n, width) of the graphs of a part; nothing if it is empty."""
        placed = [(batch.index, batch.y, self.embed(batch)) for batch in part]
        return tuple(torch.cat(values) for values in zip(*placed, strict=True))


def jensen_shannon(graphs: Tensor, nodes: Tensor, batch: Batch, hidden: Tensor | None = None) -> Tensor:
    """How badly graphs (B, d) tell their own nodes (N, d) from those of others; `hidden` nodes belong to nobody."""
    similarity = graphs @ nodes.T
    own = batch.batch == torch.arange(len(graphs), device=nodes.device).unsqueeze(1)
    if hidden is not None:
        own = own & ~hidden
    below = F.softplus(-similarity)
    return masked_mean(below + similarity - math.log(2), ~own) - masked_mean(math.log(2) - below, own)
