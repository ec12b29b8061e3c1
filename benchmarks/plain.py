"""The yardstick: encoder and training as one would write them with PyG, with no thought given to speed.

`GINEConv` or `GINConv`, an `Embedding` for each column of codes, `BatchNorm1d`, `InstanceNorm`, `Dropout`, PyG's
`DataLoader`, Adam.
"""

# The parts of modules, which are looked into here, have no types in torch.
# mypy: disable-error-code="misc, union-attr, operator, index, arg-type, no-any-return"

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch_geometric.data import Batch as PygBatch
from torch_geometric.data import Data
from torch_geometric.loader import DataLoader
from torch_geometric.nn import GINConv, GINEConv, InstanceNorm, MessagePassing

from mphil.methods.base import Method, Progress
from mphil.nn.encoders.blocks import CodeEmbedding
from mphil.nn.encoders.gin import GIN
from mphil.nn.rationale import Scorer


class ColumnEmbeddings(nn.Module):
    """Sum of an embedding for every column of codes."""

    def __init__(self, sizes: tuple[int, ...], width: int) -> None:
        super().__init__()
        self.columns = nn.ModuleList(nn.Embedding(size, width) for size in sizes)

    def forward(self, codes: Tensor) -> Tensor:
        total: Tensor = self.columns[0](codes[:, 0])
        for i, column in enumerate(self.columns[1:], start=1):
            total = total + column(codes[:, i])
        return total


def embedding(ours: nn.Module, width: int) -> nn.Module:
    """The plain counterpart of what embeds codes; anything else passes values on."""
    if not isinstance(ours, CodeEmbedding):
        return nn.Identity()
    sizes = tuple(after - before for before, after in pairwise([*ours.starts.flatten().tolist(), len(ours.table)]))
    return ColumnEmbeddings(sizes, width)


def network(before: int, width: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Linear(before, 2 * width), nn.BatchNorm1d(2 * width), nn.ReLU(), nn.Linear(2 * width, width)
    )


class WeightedGIN(MessagePassing):
    """GIN or GINE whose messages carry a weight, which PyG's own layers do not have."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__(aggr="add")
        self.nn = inner

    def forward(self, x: Tensor, edge_index: Tensor, edge_attr: Tensor | None, weight: Tensor) -> Tensor:
        return self.nn(x + self.propagate(edge_index, x=x, edge_attr=edge_attr, weight=weight))

    def message(self, x_j: Tensor, edge_attr: Tensor | None, weight: Tensor) -> Tensor:
        return weight.view(-1, 1) * (x_j if edge_attr is None else (x_j + edge_attr).relu())


class PlainEncoder(nn.Module):
    """A GIN as one of ours, for codes with code edges or constants without."""

    def __init__(self, ours: GIN) -> None:
        super().__init__()
        if ours.virtual is not None:
            raise ValueError("the plain encoder has no virtual node")
        width, bonds = ours.width, ours.edge.kind == "categorical"
        self.width = width
        self.embed = None if ours.embed is None else embedding(ours.embed, width)
        widths = [layer.mlp[0].in_features for layer in ours.layers]
        self.convs = nn.ModuleList((GINEConv if bonds else GINConv)(network(before, width)) for before in widths)
        self.weighted = [WeightedGIN(conv.nn) for conv in self.convs]
        layers = zip(ours.layers, widths, strict=True)
        self.edges = nn.ModuleList(embedding(layer.edge, before) for layer, before in layers if bonds)
        self.norms = nn.ModuleList(nn.BatchNorm1d(width) for _ in widths)
        self.dropout = nn.Dropout(ours.dropout.rate)
        copy_weights(self, ours)

    def forward(
        self,
        batch: Data,
        *,
        x: Tensor | None = None,
        edge_weight: Tensor | None = None,
        node_weight: Tensor | None = None,
    ) -> Tensor:
        if node_weight is not None:
            said = node_weight[batch.edge_index[0]]
            edge_weight = said if edge_weight is None else edge_weight * said
        h, last = self.embed(batch.x) if x is None else x, len(self.convs) - 1
        for i, norm in enumerate(self.norms):
            edges = self.edges[i](batch.edge_attr) if len(self.edges) else None
            if edge_weight is not None:
                h = self.weighted[i](h, batch.edge_index, edges, edge_weight)
            else:
                h = self.convs[i](h, batch.edge_index, *(() if edges is None else (edges,)))
            h = norm(h)
            h = self.dropout(h.relu() if i < last or last == 0 else h)
        return h


class PlainScorer(nn.Module):
    """A scorer as one of ours: the ends of an edge side by side, `InstanceNorm`, ReLU, `Dropout`."""

    def __init__(self, ours: Scorer) -> None:
        super().__init__()
        self.of, self.norm = ours.of, ours.norm
        self.linears, self.norms = deepcopy(ours.linears), nn.ModuleList()
        for linear in self.linears:
            norms = {"graph": InstanceNorm, "batch": nn.BatchNorm1d, "none": nn.Identity}
            self.norms.append(norms[ours.norm](linear.out_features))
        self.last, self.dropout = deepcopy(ours.last), nn.Dropout(ours.dropout.rate)

    def forward(self, nodes: Tensor, batch: Data) -> Tensor:
        source, target = batch.edge_index
        h = nodes if self.of == "node" else torch.cat([nodes[source], nodes[target]], dim=1)
        owner = batch.batch if self.of == "node" else batch.batch[source]
        for linear, norm in zip(self.linears, self.norms, strict=True):
            # Our own linear map pads its rows; the plain one does not.
            h = functional.linear(h, linear.weight, linear.bias)
            h = norm(h, owner) if self.norm == "graph" else norm(h)
            h = self.dropout(h.relu())
        return self.last(h).squeeze(1)


@torch.no_grad()
def copy_weights(plain: PlainEncoder, ours: GIN) -> None:
    """Give a plain encoder the weights of ours."""
    embeddings = [(ours.embed, plain.embed)]
    embeddings += [(layer.edge, edge) for layer, edge in zip(ours.layers, plain.edges, strict=False)]
    for mine, theirs in embeddings:
        if isinstance(theirs, ColumnEmbeddings):
            sizes = [column.num_embeddings for column in theirs.columns]
            for column, rows in zip(theirs.columns, mine.table.split(sizes), strict=True):
                column.weight.copy_(rows)
    for layer, conv in zip(ours.layers, plain.convs, strict=True):
        conv.nn.load_state_dict(layer.mlp.state_dict())
    for norm, other in zip(ours.norms, plain.norms, strict=True):
        other.load_state_dict(norm.state_dict())


def plain_method(method: Method) -> Method:
    """The same method and weights with plain encoders and scorers; the rest, a few percent of the time, is shared."""
    plain = deepcopy(method)
    for module in list(plain.modules()):
        for name, child in module.named_children():
            if isinstance(child, GIN):
                setattr(module, name, PlainEncoder(child))
            elif isinstance(child, Scorer):
                setattr(module, name, PlainScorer(child))
    return plain


def plain_batches(graphs: list[Data], batch_size: int, shuffle: bool) -> Iterator[PygBatch]:
    return iter(DataLoader(graphs, batch_size=batch_size, shuffle=shuffle))


def plain_epoch(method: Method, graphs: list[Data], batch_size: int, optimizer: torch.optim.Optimizer) -> None:
    """One pass of training."""
    method.train()
    for batch in plain_batches(graphs, batch_size, shuffle=True):
        optimizer.zero_grad()
        method.loss(batch, Progress()).total.backward()  # type: ignore[no-untyped-call]
        optimizer.step()


@torch.no_grad()
def plain_predictions(method: Method, graphs: list[Data], batch_size: int) -> Tensor:
    method.eval()
    return torch.cat([method.predict(batch) for batch in plain_batches(graphs, batch_size, shuffle=False)])
