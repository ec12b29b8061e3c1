"""Graph isomorphism networks, with and without a virtual node, for any kind of node and edge features."""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor, nn

from mphil.config import EncoderConfig
from mphil.graphs.features import Features
from mphil.graphs.store import Batch
from mphil.nn.dropout import Dropout
from mphil.nn.encoders.base import Encoder, message_weight, register_encoder
from mphil.nn.encoders.blocks import MLP, BatchNorm, embed_edges, embed_nodes, mlp
from mphil.nn.fast.aggregate import aggregate
from mphil.nn.fast.environments import (
    WORTHWHILE,
    Wiring,
    countable,
    every_code,
    kinds,
    number_codes,
    share_wiring,
)
from mphil.nn.fast.library import kernels
from mphil.nn.fast.linear import thin_linear
from mphil.nn.fast.normalise import Steps
from mphil.nn.initial import standard_normal

MOST_KINDS = 1024
"""Combinations of codes up to which all of them are embedded, rather than those of every edge."""
THIN = 0.6
"""Share kept by dropout up to which what a ReLU and dropout leave counts as mostly 0."""


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
        self, h: Tensor, wiring: Wiring, weight: Tensor | None, norm: BatchNorm, steps: Steps, thin: bool
    ) -> Tensor:
        """The round, its normalisation, and the steps that follow.

        If most of h is 0 (`thin`), which a sum over neighbours is not, messages without edge features are multiplied
        before they are added up.
        """
        begun = thin and self.edge is None and norm.training and self.mlp.compiled(h, wiring.counts, (norm, steps))
        h = thin_linear(h, self.mlp.parts[0].weight) if begun else h
        bond = None if self.edge is None else self.edge(wiring.bonds)
        known = aggregate(h, wiring.source, wiring.target, own=wiring.own, bond=bond, code=wiring.code, weight=weight)
        out: Tensor = self.mlp(known, wiring.counts, (norm, steps), begun=begun)
        return out


class VirtualNode(nn.Module):
    """A node joined to all others: it adds its state to every node and gathers the sum of them.

    The first layer runs without it; one MLP serves all layers (Gilmer et al., 2017, as in the GOOD benchmark).
    """

    def __init__(self, width: int, dropout: float) -> None:
        super().__init__()
        self.state = nn.Parameter(standard_normal(1, width))
        self.mlp = nn.Sequential(*mlp(width, 2 * width, width), BatchNorm(width), nn.ReLU(), Dropout(dropout))

    def gather(self, h: Tensor, state: Tensor, owner: Tensor, node_weight: Tensor | None) -> Tensor:
        said = h if node_weight is None else h * node_weight.unsqueeze(1)
        out: Tensor = self.mlp(state.index_add(0, owner, said))
        return out


@register_encoder("gin")
class GIN(Encoder):
    """Graph isomorphism network: messages are summed and pass an MLP.

    After every layer: batch normalisation, ReLU (not after the last of several), dropout.
    """

    virtual_node: ClassVar[bool] = False

    def __init__(self, config: EncoderConfig, *, embedded: bool = False) -> None:
        super().__init__(config)
        if embedded:
            self.embed, before = None, config.width
        else:
            self.embed, before = embed_nodes(config.node, config.edge, config.width)
        widths = [before] + [config.width] * (config.layers - 1)
        self.layers = nn.ModuleList(GINLayer(w, config.width, config.edge) for w in widths)
        self.norms = nn.ModuleList(BatchNorm(config.width) for _ in widths)
        self.dropout = Dropout(config.dropout)
        self.virtual = VirtualNode(config.width, config.dropout) if self.virtual_node else None
        self.node, self.edge = config.node, config.edge
        self.bonds: Tensor | None
        few = config.edge.kind == "categorical" and countable(config.edge.sizes, MOST_KINDS)
        self.register_buffer("bonds", every_code(config.edge.sizes) if few else None, persistent=False)

    def forward(
        self,
        batch: Batch,
        *,
        x: Tensor | None = None,
        edge_weight: Tensor | None = None,
        node_weight: Tensor | None = None,
    ) -> Tensor:
        weight = message_weight(batch, edge_weight, node_weight)
        h, wirings = self._begin(batch, x, alike=weight is None)
        state = None if self.virtual is None else self.virtual.state.expand(batch.ptr.numel() - 1, -1)
        last = len(self.layers) - 1
        thin = self.dropout.active and self.dropout.kept <= THIN and state is None
        for number, (layer, norm, wiring) in enumerate(zip(self.layers, self.norms, wirings, strict=True)):
            if state is not None and number > 0:
                h = h + state.index_select(0, batch.batch)
            steps = self._steps(len(batch.batch), h, relu=number < last or last == 0, expand=wiring.expand)
            h = layer(h, wiring, weight, norm, steps, thin=number > 0 and thin)
            if self.virtual is not None and state is not None and 0 < number < last:
                state = self.virtual.gather(h, state, batch.batch, node_weight)
        return h

    def _steps(self, nodes: int, like: Tensor, relu: bool, expand: Tensor | None) -> Steps:
        """What follows on the normalisation of so many nodes."""
        draws = self.dropout.draw(nodes, self.width, like)
        return Steps(relu, expand, draws, self.dropout.least, self.dropout.kept)

    def _begin(self, batch: Batch, x: Tensor | None, alike: bool) -> tuple[Tensor, list[Wiring]]:
        """The rows that the first layer takes and the wiring of every layer; `alike` nodes may share rows."""
        wirings = [self._wiring(batch)] * len(self.layers)
        if x is not None:
            return x, wirings
        if self.embed is None:
            raise ValueError("an encoder without an input layer needs x")
        # Dropout and the virtual node treat nodes differently that look alike.
        depth = 1 if self.dropout.active or self.virtual is not None else len(self.layers)
        told = alike and self._can_tell(batch.x) and (wirings[0].bonds is None or wirings[0].code is not None)
        shared = share_wiring(batch.x, wirings[0], depth) if told else None
        if shared is None:
            return self.embed(batch.x), wirings
        first, counts, early = shared
        rows = batch.x[first]
        rows = self.embed(rows, counts) if isinstance(self.embed, MLP) else self.embed(rows)
        return rows, early + wirings[len(early) :]

    def _wiring(self, batch: Batch) -> Wiring:
        """Every node for itself; bonds that are alike share a row if that can be told and pays."""
        source, target = batch.edge_index
        if self.edge.kind == "none":
            return Wiring(source, target)
        if self.bonds is not None:
            return Wiring(source, target, self.bonds, number_codes(batch.edge_attr, self.edge.sizes))
        if self._can_tell(batch.edge_attr):
            code, first = kinds(batch.edge_attr)
            if len(first) <= WORTHWHILE * len(code):
                return Wiring(source, target, batch.edge_attr[first], code)
        return Wiring(source, target, batch.edge_attr)

    def _can_tell(self, given: Tensor) -> bool:
        """Whether rows that are alike can be found, and may share a gradient."""
        return kernels(next(self.parameters())) is not None and not given.requires_grad


@register_encoder("vgin")
class VirtualNodeGIN(GIN):
    """GIN with a virtual node joined to all others; needs 3 layers or more."""

    virtual_node = True
