"""Cutting graphs in two by the scores of their edges: the part that is to decide, and the rest."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from torch import Tensor, nn

from mphil.config import EncoderConfig
from mphil.errors import UsageError
from mphil.graphs.store import Batch
from mphil.nn.encoders import build_encoder
from mphil.nn.masks import node_share_of_edges, subgraph, top_share
from mphil.nn.scorers import Scorer, edge_graph

EXTRACTOR_LAYERS = 2


class Part(NamedTuple):
    """A part of every graph of a batch.

    Attributes:
        graphs: the parts as a batch, as many as there were graphs.
        nodes: (n_kept,) where their nodes are in the whole graphs.
        edge_weight: (n_kept_edges,) how much each of their edges belongs to the part.
    """

    graphs: Batch
    nodes: Tensor
    edge_weight: Tensor


def cut(batch: Batch, weight: Tensor, kept: Tensor) -> tuple[Part, Part]:
    """The kept edges with their weight w, and the others with 1 - w: hard parts through which scores still learn.

    Args:
        batch: the graphs.
        weight: (n_edges,) in [0, 1], how much an edge belongs to the first part.
        kept: (n_edges,) bool, which edges are in it.

    Returns:
        Both parts of every graph.
    """
    return Part(*subgraph(batch, kept), weight[kept]), Part(*subgraph(batch, ~kept), 1 - weight[~kept])


class Selection(NamedTuple):
    """The edges that are to decide.

    Attributes:
        nodes: (n_nodes, width) features that edges were scored by.
        weight: (n_edges,) in [0, 1], how much an edge is wanted.
        kept: (n_edges,) bool, which edges are kept.
    """

    nodes: Tensor
    weight: Tensor
    kept: Tensor


class Extractor(nn.Module):
    r"""A GNN and a linear map, or an MLP, score edges; of each graph the best are kept, with weight :math:`\sigma(s)`.

    Args:
        config: settings of the GNN.
        share: how many are kept, rounded up.
        hidden: sizes of the hidden layers of the MLP; none = a linear map.
    """

    def __init__(self, config: EncoderConfig, share: float, hidden: Sequence[int] = ()) -> None:
        super().__init__()
        self.share = require_share(share)
        self.encoder = build_encoder(config)
        self.scorer = Scorer(config.width, "edge", hidden=hidden)

    def forward(self, batch: Batch) -> Selection:
        nodes = self.encoder(batch)
        scores = self.scorer(nodes, batch)
        kept = top_share(scores, edge_graph(batch), batch.ptr.numel() - 1, self.share)
        return Selection(nodes, scores.sigmoid(), kept)


def require_share(share: float) -> float:
    """The share, if something can be kept by it."""
    if not 0 < share <= 1:
        raise UsageError(f"share is the part of the edges that is kept: above 0 and at most 1, not {share}")
    return share


def node_importance(weight: Tensor, kept: Tensor, batch: Batch) -> Tensor:
    """(n_nodes,) mean weight of the edges of each node, edges that are not kept counting 0."""
    return node_share_of_edges(weight * kept, batch).detach()


def split_layers(config: EncoderConfig) -> tuple[EncoderConfig, EncoderConfig]:
    """Settings of the two networks that an encoder is divided into, as in the GOOD benchmark.

    The first two layers, without dropout, make the features that edges are scored by; a classifier goes on from there
    with the others. A virtual node needs three layers and is left out of what is shorter.
    """
    rest = max(1, config.layers - EXTRACTOR_LAYERS)
    second = config if rest > EXTRACTOR_LAYERS else config.plain()
    return extractor_config(config), second.model_copy(update={"layers": rest})


def extractor_config(config: EncoderConfig) -> EncoderConfig:
    """Settings of the short network whose features edges are scored by: two layers, no dropout, no virtual node."""
    return config.plain(layers=EXTRACTOR_LAYERS, dropout=0.0)


@contextmanager
def unmoved_statistics(module: nn.Module) -> Iterator[None]:
    """Inside, batch normalisation goes by the batch as ever, and its running statistics stay as they are.

    For passes over graphs unlike those of prediction: mixed into the running statistics, they would make the same
    graph look different in training and at prediction.
    """
    norms = [norm for norm in module.modules() if isinstance(norm, nn.BatchNorm1d)]
    momenta = [norm.momentum for norm in norms]
    for norm in norms:
        norm.momentum = 0.0
    try:
        yield
    finally:
        for norm, momentum in zip(norms, momenta, strict=True):
            norm.momentum = momentum
