"""A graph transformer: messages along edges, and attention between all nodes of a graph."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor, nn

from mphil.config import EncoderConfig
from mphil.graphs.features import Features
from mphil.graphs.store import Batch
from mphil.nn.encoders.blocks import BatchNorm, embed_edges, embed_to_width, mlp, pad_by_size
from mphil.nn.encoders.encoder import Encoder, message_weight, register_encoder
from mphil.nn.encoders.gat import heads_for
from mphil.nn.fast.aggregate import aggregate
from mphil.nn.fast.linear import BlasLinear
from mphil.nn.randomness import Dropout


class AttentionGroup(NamedTuple):
    """Nodes side by side that may attend to each other.

    Attributes:
        nodes: (g, n) row of each node in the batch.
        allowed: (g, 1 or n, n) whom each node may attend to; every node may attend to one at least.
        slots: (m,) which of the g * n places are really nodes.
        rows: (m,) their rows in the batch.
    """

    nodes: Tensor
    allowed: Tensor
    slots: Tensor
    rows: Tensor


def attention_groups(batch: Batch) -> list[AttentionGroup]:
    """The nodes of every graph among themselves, graphs of about the same size together."""
    made = []
    for padded in pad_by_size(batch.ptr):
        slots = padded.present.flatten().nonzero().squeeze(1)
        made.append(AttentionGroup(padded.nodes, padded.present.unsqueeze(1), slots, padded.nodes.flatten()[slots]))
    return made


class GlobalAttention(nn.Module):
    r"""Self-attention between the nodes of each graph, with heads side by side.

    .. math:: h'_v = W_o \sum_{u \in G} \alpha_{uv} V h_u + b, \qquad
              \alpha_{uv} \propto w_u \exp\big(\langle Q h_v, K h_u \rangle / \sqrt{d}\big)

    with the width d of a head. A node attends to itself with weight 1, whatever its own weight :math:`w_v` is. Keys
    and values have no bias: a softmax would not see the one, and the bias b includes the other.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.heads = heads_for(width)
        self.scale = (width // self.heads) ** -0.5
        self.query, self.out = BlasLinear(width, width), BlasLinear(width, width)
        self.key, self.value = (BlasLinear(width, width, bias=False) for _ in range(2))

    def forward(self, h: Tensor, groups: list[AttentionGroup], weight: Tensor | None = None) -> Tensor:
        """Attend: (n_nodes, width) -> (n_nodes, width).

        Args:
            h: node features.
            groups: who may attend to whom.
            weight: (n_nodes,) how much each node counts for the others; 1 when left out.
        """
        query, key, value = self.query(h) * self.scale, self.key(h), self.value(h)
        gathered = torch.zeros_like(h)
        for group in groups:
            q, k, v = (self._split(rows[group.nodes]) for rows in (query, key, value))
            scores = (q @ k.transpose(-1, -2)).masked_fill(~group.allowed.unsqueeze(1), -math.inf)
            share = scores.softmax(-1)
            if weight is not None:
                own = torch.eye(scores.shape[-1], dtype=torch.bool, device=h.device)
                share = share * torch.where(own, 1.0, weight[group.nodes].unsqueeze(1)).unsqueeze(1)
                share = share / share.sum(-1, keepdim=True)
            mixed = share @ v
            gathered = gathered.index_add(0, group.rows, mixed.transpose(1, 2).flatten(2).flatten(0, 1)[group.slots])
        out: Tensor = self.out(gathered)
        return out

    def _split(self, rows: Tensor) -> Tensor:
        """(g, n, width) -> (g, heads, n, width / heads)."""
        return rows.view(*rows.shape[:2], self.heads, -1).transpose(1, 2)


class GPSLayer(nn.Module):
    r"""One layer (Rampasek et al., 2022).

    .. math:: h_l = \mathrm{BN}(h + \mathrm{GIN}(h)), \quad h_g = \mathrm{BN}(h + \mathrm{Attention}(h)), \quad
              h' = \mathrm{BN}\big(h_l + h_g + \mathrm{MLP}(h_l + h_g)\big)

    with dropout on the result of GIN, attention and MLP.
    """

    def __init__(self, width: int, edge: Features, dropout: float) -> None:
        super().__init__()
        self.edge = embed_edges(edge, width)
        self.local, self.mix = mlp(width, 2 * width, width), mlp(width, 2 * width, width)
        self.attention = GlobalAttention(width)
        self.local_norm, self.attention_norm, self.norm = (BatchNorm(width) for _ in range(3))
        self.dropout = Dropout(dropout)

    def forward(
        self, h: Tensor, batch: Batch, groups: list[AttentionGroup], weight: Tensor | None, node_weight: Tensor | None
    ) -> Tensor:
        """(n_nodes, width) -> (n_nodes, width); `weight` (n_edges,) multiplies messages."""
        bond = None if self.edge is None else self.edge(batch.edge_attr)
        heard = aggregate(h, batch.edge_index[0], batch.edge_index[1], bond=bond, weight=weight)
        local = self.local_norm(h + self.dropout(self.local(heard)))
        both = local + self.attention_norm(h + self.dropout(self.attention(h, groups, node_weight)))
        out: Tensor = self.norm(both + self.dropout(self.mix(both)))
        return out


@register_encoder("gps")
class GPS(Encoder):
    """Graph transformer: GIN messages along edges, and self-attention between all nodes of a graph."""

    def __init__(self, config: EncoderConfig, *, embedded: bool = False) -> None:
        super().__init__(config)
        self.embed = None if embedded else embed_to_width(config.node, config.width)
        self.layers = nn.ModuleList(GPSLayer(config.width, config.edge, config.dropout) for _ in range(config.layers))

    def forward(
        self,
        batch: Batch,
        *,
        x: Tensor | None = None,
        edge_weight: Tensor | None = None,
        node_weight: Tensor | None = None,
    ) -> Tensor:
        weight = message_weight(batch, edge_weight, node_weight)
        h, neighbours = self.begin(batch, x), attention_groups(batch)
        for layer in self.layers:
            h = layer(h, batch, neighbours, weight, node_weight)
        return h
