"""Graph isomorphism networks, with and without a virtual node, for any kind of node and edge features.

This file is the network in plain torch. On a CPU `fast_gin` does the same rounds with compiled loops; its file lists
the paths that a round may take.
"""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor, nn

from mphil.config import EncoderConfig
from mphil.graphs.features import Features
from mphil.graphs.store import Batch
from mphil.nn.encoders.blocks import BatchNorm, Layered, embed_edges, mlp
from mphil.nn.encoders.encoder import message_weight, register_encoder
from mphil.nn.encoders.fast_gin import fast_gin
from mphil.nn.fast.environments import countable, every_code, number_codes
from mphil.nn.randomness import Dropout, standard_normal

MOST_KINDS = 1024
"""Combinations of codes up to which all of them are embedded, rather than those of every edge."""


class GINLayer(nn.Module):
    r"""One round of messages (Xu et al., 2019; with edges as in Hu et al., 2020).

    .. math:: h'_v = \mathrm{MLP}\Big(h_v + \sum_{u \to v} w_{uv}\, m_{uv}\Big), \qquad
              m_{uv} = \mathrm{ReLU}(h_u + e_{uv}) \text{ with edge features, } h_u \text{ without}
    """

    def __init__(self, before: int, width: int, edge: Features) -> None:
        super().__init__()
        self.edge = embed_edges(edge, before)
        self.mlp = mlp(before, 2 * width, width)

    def forward(
        self, h: Tensor, edge_index: Tensor, weight: Tensor | None, bonds: Tensor | None, code: Tensor | None
    ) -> Tensor:
        """Send messages, add them up, apply the MLP.

        Args:
            h: (n_nodes, before) node features.
            edge_index: (2, n_edges).
            weight: (n_edges,) factor of every message; 1 when left out.
            bonds: (n_bonds, columns) edge features, if there are any.
            code: (n_edges,) the row of `bonds` of each edge; row e for edge e when left out.

        Returns:
            (n_nodes, width).
        """
        source, target = edge_index
        message = h.index_select(0, source)
        if self.edge is not None:
            bond = self.edge(bonds)
            message = (message + (bond if code is None else bond.index_select(0, code))).relu()
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
        self.state = nn.Parameter(standard_normal(1, width))
        self.mlp = nn.Sequential(*mlp(width, 2 * width, width), BatchNorm(width), nn.ReLU(), Dropout(dropout))

    def forward(self, h: Tensor, state: Tensor, owner: Tensor, node_weight: Tensor | None) -> Tensor:
        """The next state: (n_nodes, width), (n_graphs, width) -> (n_graphs, width)."""
        said = h if node_weight is None else h * node_weight.unsqueeze(1)
        out: Tensor = self.mlp(state.index_add(0, owner, said))
        return out


@register_encoder("gin")
class GIN(Layered):
    """Graph isomorphism network: messages are summed and pass an MLP.

    After every layer: batch normalisation, ReLU (not after the last of several), dropout.
    """

    virtual_node: ClassVar[bool] = False

    def __init__(self, config: EncoderConfig, *, embedded: bool = False) -> None:
        super().__init__(config, embedded=embedded)
        self.virtual = VirtualNode(config.width, config.dropout) if self.virtual_node else None
        self.edge = config.edge
        self.all_bonds: Tensor | None
        few = config.edge.kind == "categorical" and countable(config.edge.sizes, MOST_KINDS)
        self.register_buffer("all_bonds", every_code(config.edge.sizes) if few else None, persistent=False)

    def layer(self, before: int, after: int, edge: Features) -> nn.Module:
        return GINLayer(before, after, edge)

    def forward(
        self,
        batch: Batch,
        *,
        x: Tensor | None = None,
        edge_weight: Tensor | None = None,
        node_weight: Tensor | None = None,
    ) -> Tensor:
        weight = message_weight(batch, edge_weight, node_weight)
        bonds, code = self.bonds(batch)
        fast = fast_gin(self, batch, x, weight, bonds, code)
        h = fast.rows if fast else self.begin(batch, x)
        state = None if self.virtual is None else self.virtual.state.expand(batch.ptr.numel() - 1, -1)
        last = len(self.layers) - 1
        for number in range(len(self.layers)):
            if state is not None and number > 0:
                h = h + state.index_select(0, batch.batch)
            h = fast.round(number, h) if fast else self.round(number, h, batch.edge_index, weight, bonds, code)
            if self.virtual is not None and state is not None and 0 < number < last:
                state = self.virtual(h, state, batch.batch, node_weight)
        return h

    def bonds(self, batch: Batch) -> tuple[Tensor | None, Tensor | None]:
        """What edges carry, and the row of it of each edge: few combinations of codes are all embedded, once each."""
        if self.edge.kind == "none":
            return None, None
        if self.all_bonds is None or batch.edge_attr is None:
            return batch.edge_attr, None
        return self.all_bonds, number_codes(batch.edge_attr, self.edge.sizes)


@register_encoder("vgin")
class VirtualNodeGIN(GIN):
    """GIN with a virtual node joined to all others; needs 3 layers or more."""

    virtual_node = True
