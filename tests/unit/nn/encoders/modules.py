"""Networks as users write them, to be named as encoders."""

from __future__ import annotations

import torch
from torch import nn
from torch_geometric.nn import GCNConv

from mphil.nn.encoders import Encoder


class ByConfig(nn.Module):
    """Two convolutions that take weights."""

    def __init__(self, config):
        super().__init__()
        self.first, self.second = (GCNConv(config.width, config.width) for _ in range(2))

    def forward(self, x, edge_index, edge_weight=None):
        return self.second(self.first(x, edge_index, edge_weight).relu(), edge_index, edge_weight)


class MustHaveWeights(ByConfig):
    def forward(self, x, edge_index, edge_weight):
        return super().forward(x, edge_index, edge_weight)


class SeesEverything(nn.Module):
    """Remembers the shapes that it was called with."""

    def __init__(self, in_channels, out_channels):
        super().__init__()
        self.linear = nn.Linear(in_channels, out_channels)

    def forward(self, x, edge_index, edge_attr=None, batch=None):
        self.seen = {"edge_attr": None if edge_attr is None else edge_attr.shape, "batch": batch.tolist()}
        return self.linear(x)


class Graphwise(ByConfig):
    """Pools by itself, as many do."""

    def forward(self, x, edge_index, batch):
        return torch.zeros(int(batch.max()) + 1, x.shape[1])


class Narrow(ByConfig):
    def forward(self, x, edge_index):
        return x[:, :1]


class Pair(ByConfig):
    def forward(self, x, edge_index):
        return x, edge_index


class Fails(ByConfig):
    def forward(self, x, edge_index):
        raise RuntimeError("no luck")


class WantsMore(ByConfig):
    def forward(self, x, edge_index, positions):
        return x


class WantsArguments(nn.Module):
    def __init__(self, in_channels, temperature):
        super().__init__()

    def forward(self, x, edge_index):
        return x


class Own(Encoder):
    """Written for mphil: it has the whole interface, and goes on from nothing."""

    takes_weights = False
    takes_embedded = False

    def __init__(self, config, *, embedded=False):
        super().__init__(config)
        self.embed = nn.Linear(config.node.width, config.width)

    def forward(self, batch, *, x=None, edge_weight=None, node_weight=None):
        return self.begin(batch, x)


class OwnNarrow(Own):
    def forward(self, batch, *, x=None, edge_weight=None, node_weight=None):
        return batch.x[:, :1]


NUMBER = 7


class NoNetwork:
    pass
