"""Scores of nodes and edges, and graphs cut in two by them: the part that is to decide, and the rest."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import Literal, NamedTuple, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from mphil.config import EncoderConfig
from mphil.errors import UsageError
from mphil.graphs.store import Batch
from mphil.nn.encoders import build_encoder
from mphil.nn.encoders.blocks import BatchNorm
from mphil.nn.fast.linear import Linear
from mphil.nn.fast.normalise import Steps, normalise_by_group
from mphil.nn.masks import node_share_of_edges, share_penalty, subgraph, top_share
from mphil.nn.randomness import Dropout

Norm = Literal["none", "graph", "batch"]


class Scorer(nn.Module):
    r"""An MLP on the features of a node or of both ends of an edge.

    .. math:: s_v = \mathrm{MLP}(h_v) \qquad\text{or}\qquad s_{uv} = \mathrm{MLP}([h_u \,\|\, h_v])

    The two directions of an edge have scores of their own. Hidden layers are linear, normalisation, ReLU, dropout.

    Args:
        width: size of the node features.
        of: what is scored.
        hidden: sizes of the hidden layers; none = a linear map.
        norm: of hidden layers: over the members of each `graph`, over the `batch`, or `none`.
        dropout: of hidden layers.
        outputs: numbers for each node or edge.
    """

    def __init__(
        self,
        width: int,
        of: Literal["node", "edge"],
        *,
        hidden: Sequence[int] = (),
        norm: Norm = "none",
        dropout: float = 0.0,
        outputs: int = 1,
    ) -> None:
        super().__init__()
        self.of, self.norm = of, norm
        sizes = [width if of == "node" else 2 * width, *hidden]
        # A constant added before the mean of the graph is taken away would never be seen.
        self.linears = nn.ModuleList(Linear(before, after, bias=norm != "graph") for before, after in pairwise(sizes))
        self.last = nn.Linear(sizes[-1], outputs)
        self.norms = nn.ModuleList(BatchNorm(size) if norm == "batch" else nn.Identity() for size in hidden)
        self.dropout = Dropout(dropout)

    def forward(self, nodes: Tensor, batch: Batch) -> Tensor:
        """Score a batch.

        Args:
            nodes: (n_nodes, width) node features.
            batch: the graphs they belong to.

        Returns:
            (n_nodes,) or (n_edges,) logits; (.., outputs) when there are several.
        """
        first, *others = cast(list[nn.Linear], [*self.linears, self.last])
        if self.of == "node":
            (h, other), ends, owner = (first(nodes), None), None, batch.batch
        else:
            (h, other), ends, owner = halves(first, nodes), batch.edge_index, edge_graph(batch)
        for norm, linear in zip(self.norms, others, strict=True):
            draws = self.dropout.draw(owner.numel(), h.shape[1], h)
            steps = Steps(relu=True, draws=draws, least=self.dropout.least, kept=self.dropout.kept)
            if self.norm == "graph":
                h = normalise_by_group(h, owner, batch.ptr.numel() - 1, steps, other=other, ends=ends)
            else:
                h = join(h, other, ends)
                h = norm(h, steps=steps) if self.norm == "batch" else steps(h)
            h, other, ends = linear(h), None, None
        return join(h, other, ends).squeeze(1)


def halves(linear: nn.Linear, nodes: Tensor) -> tuple[Tensor, Tensor]:
    r"""A linear map of both ends of an edge, :math:`W [h_u \,\|\, h_v] + b = (W_1 h_u + b) + W_2 h_v`, before the sum.

    There are fewer nodes than edges, so each half is applied to the nodes: (n_nodes, width) -> twice (n_nodes, after).
    """
    of_source, of_target = linear.weight.chunk(2, dim=1)
    return F.linear(nodes, of_source, linear.bias), F.linear(nodes, of_target)


def join(begin: Tensor, end: Tensor | None, ends: Tensor | None) -> Tensor:
    """(n_edges, d) the sum of what the two (2, n_edges) ends of each edge have; `begin` itself when there is no end."""
    if end is None or ends is None:
        return begin
    return begin.index_select(0, ends[0]) + end.index_select(0, ends[1])


def edge_graph(batch: Batch) -> Tensor:
    """(n_edges,) graph of each edge."""
    owner: Tensor = batch.batch[batch.edge_index[0]]
    return owner


def reverse_edges(batch: Batch) -> Tensor:
    """(n_edges,) position of the opposite edge, of its own where there is none.

    Of several edges between the same nodes, the first of one direction belongs to the first of the other, and so on.
    """
    source, target = batch.edge_index
    code, opposite = source * batch.ptr[-1] + target, target * batch.ptr[-1] + source
    codes, order = code.sort(stable=True)
    here = torch.arange(code.numel(), device=code.device)
    copy = torch.empty_like(here)
    copy[order] = here - torch.searchsorted(codes, codes)
    place = torch.searchsorted(codes, opposite) + copy
    found = place < code.numel()
    place = torch.where(found, place, 0)
    found &= codes[place] == opposite
    return torch.where(found, order[place], here)


class Masks(NamedTuple):
    """Masks between 0 and 1: (N,) of nodes and (E,) of edges."""

    nodes: Tensor
    edges: Tensor

    def complement(self) -> Masks:
        """What these masks hide."""
        return Masks(1 - self.nodes, 1 - self.edges)

    def joined(self, other: Masks) -> Masks:
        """What these masks show, and of the rest what the other masks show."""
        return Masks(*(own + (1 - own) * theirs for own, theirs in zip(self, other, strict=True)))

    def share_gap(self, batch: Batch, nodes: float, edges: float) -> Tensor:
        """How far the mean masks of a graph are from those wanted for nodes and edges: summed over both, a scalar."""
        n_graphs = batch.ptr.numel() - 1
        node_gap = share_penalty(self.nodes, batch.batch, n_graphs, nodes)
        return node_gap + share_penalty(self.edges, edge_graph(batch), n_graphs, edges)


class Masker(nn.Module):
    """Masks the nodes and edges of graphs by scores of their features.

    Args:
        backbone: from a batch to (N, width) node features.
        width: of its features.
        halvings: hidden layers of the scorers, each half as wide as the one before, with batch normalisation.
    """

    def __init__(self, backbone: nn.Module, width: int, halvings: int = 0) -> None:
        super().__init__()
        self.backbone = backbone
        self.nodes = Scorer(width, "node", hidden=_halved(width, halvings), norm="batch")
        self.edges = Scorer(width, "edge", hidden=_halved(2 * width, halvings), norm="batch")

    def forward(self, batch: Batch) -> Masks:
        h = self.backbone(batch)
        return Masks(self.nodes(h, batch).sigmoid(), self.edges(h, batch).sigmoid())


def see_through(encoder: nn.Module, x: Tensor, batch: Batch, masks: Masks) -> Tensor:
    """(N, d) what an encoder makes of masked node features (N, w), with masked messages."""
    nodes: Tensor = encoder(batch, x=x * masks.nodes.unsqueeze(1), edge_weight=masks.edges)
    return nodes


def _halved(width: int, times: int) -> list[int]:
    return [max(1, width >> time) for time in range(1, times + 1)]


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
