"""Graph isomorphism networks: the two encoders of the paper, for any kind of node and edge features."""

from __future__ import annotations

import math
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from mphil.config import EncoderConfig
from mphil.data.features import Features
from mphil.data.store import Batch
from mphil.nn import world
from mphil.nn.dropout import Dropout
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
from mphil.nn.fast.linear import Linear, ours, thin_linear
from mphil.nn.fast.normalise import NO_STEPS, Norm, Steps, scaled, standardised
from mphil.nn.fast.perceptron import frozen_perceptron, perceptron

MOST_KINDS = 1024
"""Combinations of codes up to which all of them are embedded, rather than those of every edge."""
THIN = 0.6
"""Share kept by dropout up to which what a ReLU and dropout leave counts as mostly 0."""


class BatchNorm(nn.BatchNorm1d):
    """Batch normalisation that takes its running statistics when a batch has a single row."""

    running_mean: Tensor
    running_var: Tensor
    num_batches_tracked: Tensor
    momentum: float

    def forward(self, x: Tensor, counts: Tensor | None = None, steps: Steps = NO_STEPS) -> Tensor:
        """Normalise (n_rows, d) features, of which row i stands for `counts[i]` nodes, and go on with `steps`."""
        if self.compiled(x, counts):
            if not self.training:
                return scaled(x, self.scale_and_shift(), steps)
            return standardised(x, self.weight, self.bias, counts, self.state, steps)
        if self.training and (world.size() > 1 or counts is not None):
            return steps(self._together(x, counts))
        if self.training and len(x) < 2:
            h = F.batch_norm(x, self.running_mean, self.running_var, self.weight, self.bias, False, 0.0, self.eps)
            return steps(h)
        return steps(super().forward(x))

    def compiled(self, x: Tensor, counts: Tensor | None) -> bool:
        """Whether compiled loops can normalise these rows."""
        if x.dim() != 2 or kernels(x) is None:
            return False
        if not self.training:
            return not torch.is_grad_enabled()
        return world.size() == 1 and (len(x) > 1 or (counts is not None and int(counts.sum()) > 1))

    def scale_and_shift(self) -> Tensor:
        """(2, d) what normalising by the running statistics comes to: scale * x + shift."""
        scale = self.weight * (self.running_var + self.eps).rsqrt()
        return torch.stack((scale, self.bias - self.running_mean * scale))

    @property
    def state(self) -> Norm:
        """The running statistics, for a batch that will move them."""
        return Norm(self.running_mean, self.running_var, self.num_batches_tracked, self.momentum, self.eps)

    def _together(self, x: Tensor, counts: Tensor | None) -> Tensor:
        """Normalise by the statistics of the rows of all processes that share the batch, or of one."""
        count, mean, variance = world.moments(x, counts)
        if count < 2:
            return F.batch_norm(x, self.running_mean, self.running_var, self.weight, self.bias, False, 0.0, self.eps)
        with torch.no_grad():
            self.num_batches_tracked += 1
            self.running_mean.lerp_(mean, self.momentum)
            self.running_var.lerp_(variance * count / (count - 1), self.momentum)
        return (x - mean) * (variance + self.eps).rsqrt() * self.weight + self.bias


class MLP(nn.Sequential):
    """Linear, batch normalisation, ReLU, linear: (n_rows, before) -> (n_rows, after)."""

    def __init__(self, before: int, hidden: int, after: int) -> None:
        super().__init__(Linear(before, hidden), BatchNorm(hidden), nn.ReLU(), Linear(hidden, after))

    def forward(
        self,
        x: Tensor,
        counts: Tensor | None = None,
        after: tuple[BatchNorm, Steps] | None = None,
        *,
        begun: bool = False,
    ) -> Tensor:
        """Row i stands for `counts[i]` nodes. A normalisation of the result and steps may come after.

        Rows that were `begun` have been multiplied by the first weight already.
        """
        first, norm, last = self.parts
        if not begun and not self.compiled(x, counts, after):
            out: Tensor = last(norm(first(x), counts, Steps(relu=True)))
        elif norm.training:
            maps = (None if begun else first.weight, first.bias), (last.weight, last.bias)
            outer = None if after is None else (after[0].weight, after[0].bias, after[0].state, after[1])
            return perceptron(x, *maps, (norm.weight, norm.bias), counts, norm.state, outer)
        else:
            out = frozen_perceptron(x, (first.weight, first.bias), (last.weight, last.bias), norm.scale_and_shift())
        return out if after is None else after[0](out, counts, after[1])

    def compiled(self, x: Tensor, counts: Tensor | None, after: tuple[BatchNorm, Steps] | None) -> bool:
        """Whether compiled loops can do all of it."""
        first, norm, _ = self.parts
        alike = after is None or after[0].training == norm.training
        return alike and norm.compiled(x, counts) and ours(x, first.weight.T)

    @property
    def parts(self) -> tuple[Linear, BatchNorm, Linear]:
        return cast("tuple[Linear, BatchNorm, Linear]", (self[0], self[1], self[3]))


def mlp(before: int, hidden: int, after: int) -> MLP:
    """Linear, batch normalisation, ReLU, linear."""
    return MLP(before, hidden, after)


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
        if torch.compiler.is_compiling():  # ONNX has no sums of lookups, and would get a loop over the rows instead
            return self.table[codes + self.starts].sum(1)
        return F.embedding_bag(codes + self.starts, self.table, mode="sum")


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
