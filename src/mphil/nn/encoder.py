"""Graph isomorphism networks: the two encoders of the paper, for any kind of node and edge features."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from mphil.config import EncoderConfig
from mphil.data.features import Features
from mphil.data.store import Batch
from mphil.nn.dropout import Dropout


class BatchNorm(nn.BatchNorm1d):
    """Batch normalisation that takes its running statistics when a batch has a single row."""

    def forward(self, x: Tensor) -> Tensor:
        if self.training and x.shape[0] < 2:
            return F.batch_norm(x, self.running_mean, self.running_var, self.weight, self.bias, False, 0.0, self.eps)
        return super().forward(x)


class CodeEmbedding(nn.Module):
    """Sum of one learned vector per column: (n, columns) integer codes -> (n, width).

    All columns share one table, so that a row costs a single lookup. Xavier-uniform, column by column.
    """

    def __init__(self, sizes: tuple[int, ...], width: int) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.empty(sum(sizes), width))
        for rows in torch.split(self.table.detach(), list(sizes)):
            bound = math.sqrt(6 / (rows.shape[0] + width))
            rows.uniform_(-bound, bound)
        self.starts: Tensor
        starts = [sum(sizes[:i]) for i in range(len(sizes))]
        self.register_buffer("starts", torch.tensor(starts), persistent=False)

    def forward(self, codes: Tensor) -> Tensor:
        return F.embedding_bag(codes + self.starts, self.table, mode="sum")


def mlp(before: int, hidden: int, after: int) -> nn.Sequential:
    """Linear, batch normalisation, ReLU, linear."""
    return nn.Sequential(nn.Linear(before, hidden), BatchNorm(hidden), nn.ReLU(), nn.Linear(hidden, after))


def embed_nodes(node: Features, edge: Features, width: int) -> tuple[nn.Module, int]:
    """The input layer and the width it gives.

    Codes are embedded. Floats are embedded when messages must be added to edge features of the same width, and
    otherwise, like constants, go into the first layer as they are.
    """
    if node.kind == "categorical":
        return CodeEmbedding(node.sizes, width), width
    if edge.kind != "none":
        return mlp(node.width, width, width), width
    return nn.Identity(), node.width


def embed_edges(edge: Features, width: int) -> nn.Module | None:
    if edge.kind == "none":
        return None
    return CodeEmbedding(edge.sizes, width) if edge.kind == "categorical" else nn.Linear(edge.width, width)


class GINLayer(nn.Module):
    r"""One round of messages (Xu et al., 2019; with edges as in Hu et al., 2020).

    .. math:: h'_v = \mathrm{MLP}\Big(h_v + \sum_{u \to v} w_{uv}\, m_{uv}\Big), \qquad
              m_{uv} = \mathrm{ReLU}(h_u + e_{uv}) \text{ with edge features, } h_u \text{ without}
    """

    def __init__(self, before: int, width: int, edge: Features) -> None:
        super().__init__()
        self.edge = embed_edges(edge, before)
        self.mlp = mlp(before, 2 * width, width)

    def forward(self, h: Tensor, edge_index: Tensor, edge_attr: Tensor | None, weight: Tensor | None) -> Tensor:
        source, target = edge_index
        message = h.index_select(0, source)
        if self.edge is not None:
            message = (message + self.edge(edge_attr)).relu()
        if weight is not None:
            message = message * weight.unsqueeze(1)
        out: Tensor = self.mlp(h.index_add(0, target, message))
        return out


class VirtualNode(nn.Module):
    """A node joined to all others: it adds its state to every node and gathers the sum of them.

    The first layer runs without it; one MLP serves all layers (Gilmer et al., 2017, as in the GOOD benchmark).
    """

    def __init__(self, width: int, dropout: float) -> None:
        super().__init__()
        self.state = nn.Parameter(torch.randn(1, width))
        self.mlp = nn.Sequential(*mlp(width, 2 * width, width), BatchNorm(width), nn.ReLU(), Dropout(dropout))

    def gather(self, h: Tensor, state: Tensor, owner: Tensor, node_weight: Tensor | None) -> Tensor:
        said = h if node_weight is None else h * node_weight.unsqueeze(1)
        out: Tensor = self.mlp(state.index_add(0, owner, said))
        return out


class Encoder(nn.Module):
    """A GIN, with or without a virtual node: a batch of graphs -> (n_nodes, width) node features.

    After every layer: batch normalisation, ReLU (not after the last of several), dropout.

    Args:
        config: its settings.
        embedded: it goes on from node features of its own width, given as `x`, and has no input layer.
    """

    def __init__(self, config: EncoderConfig, *, embedded: bool = False) -> None:
        super().__init__()
        self.width = config.width
        self.embed: nn.Module | None
        if embedded:
            self.embed, before = None, config.width
        else:
            self.embed, before = embed_nodes(config.node, config.edge, config.width)
        widths = [before] + [config.width] * (config.layers - 1)
        self.layers = nn.ModuleList(GINLayer(w, config.width, config.edge) for w in widths)
        self.norms = nn.ModuleList(BatchNorm(config.width) for _ in widths)
        self.dropout = Dropout(config.dropout)
        self.virtual = VirtualNode(config.width, config.dropout) if config.kind == "vgin" else None

    def forward(
        self,
        batch: Batch,
        *,
        x: Tensor | None = None,
        edge_weight: Tensor | None = None,
        node_weight: Tensor | None = None,
    ) -> Tensor:
        """Encode a batch.

        Args:
            batch: the graphs.
            x: (n_nodes, width) node features to go on from in place of the batch's own.
            edge_weight: (n_edges,) factor of every message.
            node_weight: (n_nodes,) factor of everything a node says to others: 0 hides it from them, while its own
                row remains and the readout decides whether it counts.

        Returns:
            (n_nodes, width) node features.
        """
        weight = edge_weight
        if node_weight is not None:
            said = node_weight.index_select(0, batch.edge_index[0])
            weight = said if weight is None else weight * said
        h = self._input(batch, x)
        state = None if self.virtual is None else self.virtual.state.expand(batch.ptr.numel() - 1, -1)
        last = len(self.layers) - 1
        for number, (layer, norm) in enumerate(zip(self.layers, self.norms, strict=True)):
            if state is not None and number > 0:
                h = h + state.index_select(0, batch.batch)
            h = norm(layer(h, batch.edge_index, batch.edge_attr, weight))
            if number < last or last == 0:
                h = h.relu()
            h = self.dropout(h)
            if self.virtual is not None and state is not None and 0 < number < last:
                state = self.virtual.gather(h, state, batch.batch, node_weight)
        return h

    def _input(self, batch: Batch, x: Tensor | None) -> Tensor:
        if x is not None:
            return x
        if self.embed is None:
            raise ValueError("an encoder without an input layer needs x")
        embedded: Tensor = self.embed(batch.x)
        return embedded
