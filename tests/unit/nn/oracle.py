"""The encoder once more, written the ordinary PyG way: one `Embedding` a column, `GINConv`, `GINEConv`, pools."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch_geometric.nn import GINConv, GINEConv, MessagePassing, global_add_pool

from mphil.config import EncoderConfig
from mphil.graphs.features import Features
from mphil.graphs.store import Batch
from mphil.nn.encoders import Encoder


class ColumnEmbeddings(nn.Module):
    """Sum of an embedding for every column of codes."""

    def __init__(self, sizes: tuple[int, ...], width: int) -> None:
        super().__init__()
        self.columns = nn.ModuleList(nn.Embedding(size, width) for size in sizes)

    def forward(self, codes: Tensor) -> Tensor:
        return torch.stack([column(codes[:, i]) for i, column in enumerate(self.columns)]).sum(0)


class WeightedGIN(MessagePassing):
    """GIN whose messages carry a weight, which PyG's own layers do not have."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__(aggr="add")
        self.network = network

    def forward(self, x: Tensor, edge_index: Tensor, edge_attr: Tensor | None, edge_weight: Tensor) -> Tensor:
        return self.network(x + self.propagate(edge_index, x=x, edge_attr=edge_attr, edge_weight=edge_weight))

    def message(self, x_j: Tensor, edge_attr: Tensor | None, edge_weight: Tensor) -> Tensor:
        message = x_j if edge_attr is None else torch.relu(x_j + edge_attr)
        return edge_weight.view(-1, 1) * message


def network(before: int, hidden: int, after: int) -> list[nn.Module]:
    return [nn.Linear(before, hidden), nn.BatchNorm1d(hidden), nn.ReLU(), nn.Linear(hidden, after)]


class PlainEncoder(nn.Module):
    """What `mphil.nn.encoders.gin.GIN` must agree with."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        width = config.width
        self.with_edges, self.with_virtual_node = config.edge.kind != "none", config.kind == "vgin"
        before = config.node.width
        self.node = None
        if config.node.kind == "categorical":
            self.node, before = ColumnEmbeddings(config.node.sizes, width), width
        elif self.with_edges:
            self.node, before = nn.Sequential(*network(before, width, width)), width
        self.edges, self.convs, self.norms = nn.ModuleList(), nn.ModuleList(), nn.ModuleList()
        for _ in range(config.layers):
            inner = nn.Sequential(*network(before, 2 * width, width))
            self.convs.append(GINEConv(inner) if self.with_edges else GINConv(inner))
            self.norms.append(nn.BatchNorm1d(width))
            if self.with_edges:
                self.edges.append(_edge_layer(config.edge, before))
            before = width
        if self.with_virtual_node:
            self.virtual = nn.Embedding(1, width)
            self.virtual_network = nn.Sequential(
                *network(width, 2 * width, width), nn.BatchNorm1d(width), nn.ReLU(), nn.Dropout(config.dropout)
            )
        self.dropout = nn.Dropout(config.dropout)

    def forward(
        self,
        batch: Batch,
        x: Tensor | None = None,
        edge_weight: Tensor | None = None,
        node_weight: Tensor | None = None,
    ) -> Tensor:
        if node_weight is not None:
            ones = torch.ones_like(node_weight[batch.edge_index[0]])
            edge_weight = (ones if edge_weight is None else edge_weight) * node_weight[batch.edge_index[0]]
        if x is None:
            x = batch.x if self.node is None else self.node(batch.x)
        n_graphs, n_layers = len(batch.ptr) - 1, len(self.convs)
        if self.with_virtual_node:
            virtual = self.virtual(torch.zeros(n_graphs, dtype=torch.long))
        for i in range(n_layers):
            if self.with_virtual_node and i >= 1:
                x = x + virtual[batch.batch]
            x = self.norms[i](self._convolve(i, x, batch, edge_weight))
            if i < n_layers - 1 or n_layers == 1:
                x = torch.relu(x)
            x = self.dropout(x)
            if self.with_virtual_node and 1 <= i <= n_layers - 2:
                visible = x if node_weight is None else node_weight.view(-1, 1) * x
                virtual = self.virtual_network(global_add_pool(visible, batch.batch, n_graphs) + virtual)
        return x

    def _convolve(self, i: int, x: Tensor, batch: Batch, edge_weight: Tensor | None) -> Tensor:
        edge_attr = self.edges[i](batch.edge_attr) if self.with_edges else None
        if edge_weight is not None:
            return WeightedGIN(self.convs[i].nn)(x, batch.edge_index, edge_attr, edge_weight)
        if self.with_edges:
            return self.convs[i](x, batch.edge_index, edge_attr)
        return self.convs[i](x, batch.edge_index)


def _edge_layer(edge: Features, width: int) -> nn.Module:
    return ColumnEmbeddings(edge.sizes, width) if edge.kind == "categorical" else nn.Linear(edge.width, width)


def counterparts(ours: Encoder, plain: PlainEncoder) -> list[tuple[nn.Module, nn.Module]]:
    """Modules that do the same in the two encoders."""
    pairs = [(ours.embed, plain.node)] if plain.node is not None else []
    for layer, conv in zip(ours.layers, plain.convs, strict=True):
        pairs.append((layer.mlp, conv.nn))
    pairs += [(layer.edge, edge) for layer, edge in zip(ours.layers, plain.edges, strict=False)]
    pairs += zip(ours.norms, plain.norms, strict=True)
    return pairs + ([(ours.virtual.mlp, plain.virtual_network)] if plain.with_virtual_node else [])


def parameter_pairs(ours: Encoder, plain: PlainEncoder) -> list[tuple[nn.Parameter, list[nn.Parameter]]]:
    """Each of our parameters with those of the plain encoder that make it up, one below the other."""
    pairs = [(ours.virtual.state, [plain.virtual.weight])] if plain.with_virtual_node else []
    for mine, theirs in counterparts(ours, plain):
        if isinstance(theirs, ColumnEmbeddings):
            pairs.append((mine.table, [column.weight for column in theirs.columns]))
        else:
            pairs += [(a, [b]) for a, b in zip(mine.parameters(), theirs.parameters(), strict=True)]
    return pairs


def statistics(module: nn.Module) -> list[Tensor]:
    """Running means and variances, in order."""
    return [value for name, value in module.state_dict().items() if "running" in name]


@torch.no_grad()
def plain_copy(ours: Encoder, config: EncoderConfig) -> PlainEncoder:
    """A plain encoder with our weights, running statistics, mode and precision."""
    plain = PlainEncoder(config).to(next(ours.parameters()).dtype).train(ours.training)
    pairs = parameter_pairs(ours, plain)
    assert {id(a) for a, _ in pairs} == {id(a) for a in ours.parameters()}, "a weight has no counterpart"
    for mine, theirs in pairs:
        for rows, part in zip(mine.split([len(p) for p in theirs]), theirs, strict=True):
            part.copy_(rows)
    for mine, theirs in counterparts(ours, plain):
        for a, b in zip(statistics(mine), statistics(theirs), strict=True):
            b.copy_(a)
    return plain
