"""The fast path of GIN: `fast_gin` is a drop-in for the rounds of `gin.py`, with the same results up to rounding.

A round is the sum of messages, the MLP, batch normalisation, ReLU and dropout. It takes one of four paths:

plain torch
    `Layered.round`, with a row for each node. On a GPU, without compiled loops (no C compiler, `MPHIL_FAST=0`), and
    when a model is traced to be exported: `fast_gin` is None.
node rows
    Compiled loops, with a row for each node: one pass over the edges for the messages and their sum, one over bands of
    rows for the MLP, one for normalisation, ReLU and dropout.
shared rows
    The same loops, with a row for each class of nodes that look alike (`nn/fast/environments.py`): the last round of
    this kind copies its rows to the nodes. For rounds that treat such nodes alike: the first when there is dropout
    or a virtual node, otherwise all, and none when messages have weights; as long as there are few classes.
sparse product
    Node rows, with the first linear map of the MLP before the sum of messages instead of after it: after ReLU and
    dropout most of what is summed is 0, and the product leaves zeros out. In training, without edge features.

Steps that the loops cannot do (statistics over several processes, gradients in evaluation mode) are left to torch by
`MLP`, `BatchNorm` and `aggregate` themselves, one by one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from torch import Tensor

from mphil.graphs.store import Batch
from mphil.nn.encoders.blocks import MLP, BatchNorm
from mphil.nn.fast.aggregate import aggregate
from mphil.nn.fast.environments import WORTHWHILE, Wiring, kinds, share_wiring
from mphil.nn.fast.library import kernels
from mphil.nn.fast.linear import sparse_linear
from mphil.nn.fast.normalise import Steps

if TYPE_CHECKING:
    from mphil.nn.encoders.gin import GIN, GINLayer

MOSTLY_ZERO = 0.6
"""Share kept by dropout up to which what a ReLU and dropout leave counts as mostly 0."""


@dataclass(frozen=True)
class FastGIN:
    """The rounds of a GIN on one batch.

    Attributes:
        encoder: the network.
        rows: (n_rows, before) what the first round takes.
        wirings: which rows each round takes and gives.
        weight: (n_edges,) factor of every message, or None.
        nodes: number of nodes.
    """

    encoder: GIN
    rows: Tensor
    wirings: Sequence[Wiring]
    weight: Tensor | None
    nodes: int

    def round(self, number: int, h: Tensor) -> Tensor:
        """One layer, its normalisation, ReLU and dropout."""
        encoder, wiring = self.encoder, self.wirings[number]
        layer, norm = cast("GINLayer", encoder.layers[number]), cast("BatchNorm", encoder.norms[number])
        dropout = encoder.dropout
        draws = dropout.draw(self.nodes, encoder.width, h)
        steps = Steps(encoder.relu_after(number), wiring.expand, draws, dropout.least, dropout.kept)
        mapped = self._mostly_zero(number) and self._sparse_product(layer, norm, h, wiring, steps)
        h = sparse_linear(h, layer.mlp.parts[0].weight) if mapped else h
        bond = None if layer.edge is None else layer.edge(wiring.bonds)
        known = aggregate(
            h, wiring.source, wiring.target, own=wiring.own, bond=bond, code=wiring.code, weight=self.weight
        )
        out: Tensor = layer.mlp(known, wiring.counts, (norm, steps), begun=mapped)
        return out

    def _mostly_zero(self, number: int) -> bool:
        """Whether a round takes what a ReLU and dropout have left, to which nothing was added."""
        dropout = self.encoder.dropout
        return number > 0 and dropout.active and dropout.kept <= MOSTLY_ZERO and self.encoder.virtual is None

    def _sparse_product(self, layer: GINLayer, norm: BatchNorm, h: Tensor, wiring: Wiring, steps: Steps) -> bool:
        """Whether the first linear map may come before the sum of messages."""
        return layer.edge is None and norm.training and layer.mlp.compiled(h, wiring.counts, (norm, steps))


def fast_gin(
    encoder: GIN, batch: Batch, x: Tensor | None, weight: Tensor | None, bonds: Tensor | None, code: Tensor | None
) -> FastGIN | None:
    """The rounds of an encoder on a batch with compiled loops, or None when plain torch has to do.

    Args:
        encoder: the network.
        batch: the graphs.
        x: what to go on from in place of the input layer's output.
        weight: (n_edges,) factor of every message.
        bonds: (n_bonds, columns) what edges carry.
        code: (n_edges,) the row of `bonds` of each edge; row e for edge e when None.
    """
    if kernels(next(encoder.parameters())) is None:
        return None
    nodes = _node_wiring(batch, bonds, code)
    shared = None if x is not None or weight is not None else _shared_rows(encoder, batch, nodes)
    rows, early = shared or (encoder.begin(batch, x), [])
    return FastGIN(encoder, rows, early + [nodes] * (len(encoder.layers) - len(early)), weight, len(batch.batch))


def _node_wiring(batch: Batch, bonds: Tensor | None, code: Tensor | None) -> Wiring:
    """A row for each node; bonds that are alike share a row if that pays."""
    source, target = batch.edge_index
    if bonds is not None and code is None and not bonds.requires_grad:
        kind, first = kinds(bonds)
        if len(first) <= WORTHWHILE * len(kind):
            bonds, code = bonds[first], kind
    return Wiring(source, target, bonds, code)


def _shared_rows(encoder: GIN, batch: Batch, nodes: Wiring) -> tuple[Tensor, list[Wiring]] | None:
    """A row for each class of nodes that look alike and the wirings of the rounds that can work on them, or None."""
    if encoder.embed is None or batch.x.requires_grad or (nodes.bonds is not None and nodes.code is None):
        return None
    alike = not encoder.dropout.active and encoder.virtual is None
    found = share_wiring(batch.x, nodes, len(encoder.layers) if alike else 1)
    if found is None:
        return None
    first, counts, wirings = found
    rows = batch.x[first]
    rows = encoder.embed(rows, counts) if isinstance(encoder.embed, MLP) else encoder.embed(rows)
    return rows, wirings
