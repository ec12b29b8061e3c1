"""G-Mixup: ERM on the data and on graphs drawn between the classes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from mphil.config import EncoderConfig
from mphil.errors import UsageError
from mphil.graphs.features import Features
from mphil.graphs.store import Batch, GraphBatch, pointer
from mphil.methods.base import Losses, Parts, Progress, register
from mphil.methods.erm import ERM
from mphil.nn.losses import entry_losses, labelled, masked_mean, soft_entry_losses
from mphil.task import Task

MOST_ROWS = 256
"""Feature rows remembered for every class and position: enough to draw from, whatever the size of the data."""


def ranks(batch: Batch) -> Tensor:
    """(n_nodes,) place of each node in its graph by falling degree, from 0; equal degrees keep their order."""
    degree = torch.bincount(batch.edge_index[0], minlength=len(batch.batch))
    order = (-degree).argsort(stable=True)
    order = order[batch.batch[order].argsort(stable=True)]
    place = torch.empty_like(order)
    place[order] = torch.arange(len(order), device=order.device) - batch.ptr[batch.batch[order]]
    return place


def adjacency_sums(batch: Batch, label: Tensor, place: Tensor, classes: int, size: int) -> Tensor:
    """(classes, size, size) how many graphs of each class have an edge between two places.

    Args:
        batch: the graphs.
        label: (n_graphs,) class of each, -1 = unknown.
        place: (n_nodes,) place of each node in its graph; places from `size` on are cropped.
        classes: how many classes.
        size: K, places that are looked at.
    """
    ends = place[batch.edge_index]
    graph = batch.batch[batch.edge_index[0]]
    inside = (ends < size).all(0) & (label[graph] >= 0)
    # An edge that is stored twice is one entry of the adjacency matrix.
    cells = torch.unique(((graph * size + ends[0]) * size + ends[1])[inside])
    owner = label[cells // size**2]
    counted = torch.bincount(owner * size**2 + cells % size**2, minlength=classes * size**2)
    return counted.view(classes, size, size)


def singular_threshold(mean: Tensor, threshold: float) -> Tensor:
    r"""Universal singular-value thresholding (Chatterjee, 2015) of (..., K, K) mean adjacencies.

    .. math:: W = \operatorname{clip}_{[0, 1]} \sum_{i:\, \sigma_i \ge t \sqrt K} \sigma_i u_i v_i^\top
    """
    left, values, right = torch.linalg.svd(mean)
    values = torch.where(values < threshold * mean.shape[-1] ** 0.5, 0.0, values)
    graphon: Tensor = (left * values.unsqueeze(-2)) @ right
    return graphon.clamp(0, 1)


class RowBank:
    """Rows to draw from, by key: a uniform random choice of at most `limit` of all rows that were offered for it."""

    def __init__(self, keys: int, limit: int = MOST_ROWS) -> None:
        self.limit = limit
        self.counts = torch.zeros(keys, dtype=torch.long)
        self.rows, self.keys, self.lots = torch.empty(0), torch.empty(0, dtype=torch.long), torch.empty(0)

    def offer(self, rows: Tensor, keys: Tensor) -> None:
        """Add (n, d) rows with their (n,) keys; of too many, those with the smallest lots stay."""
        if len(self.rows):
            rows, keys = torch.cat([self.rows, rows]), torch.cat([self.keys, keys])
        lots = torch.cat([self.lots, torch.rand(len(rows) - len(self.rows))]).to(keys.device)
        order = lots.argsort()
        order = order[keys[order].argsort(stable=True)]
        counts = torch.bincount(keys, minlength=len(self.counts))
        start = (counts.cumsum(0) - counts)[keys[order]]
        kept = order[torch.arange(len(order), device=order.device) - start < self.limit]
        self.rows, self.keys, self.lots = rows[kept], keys[kept], lots[kept].cpu()
        self.counts = counts.clamp_max(self.limit)

    def draw(self, keys: Tensor) -> Tensor:
        """(n, d) a random row for each of (n,) keys; a key must have rows."""
        counts = self.counts[keys]
        pick = (torch.rand(len(keys)).to(keys.device) * counts).long().minimum(counts - 1)
        return self.rows[(self.counts.cumsum(0) - self.counts)[keys] + pick]


class Recipe(NamedTuple):
    """Which two classes are mixed, item by item.

    Attributes:
        first: (n,) a class.
        second: (n,) another.
        share: (n,) how much of the mixture is of the first.
    """

    first: Tensor
    second: Tensor
    share: Tensor

    @classmethod
    def draw(cls, n: int, classes: Tensor, low: float, high: float) -> Recipe:
        """Random pairs of different classes with uniform shares, from the random numbers of the CPU."""
        first, step = torch.randint(len(classes), (n,)), torch.randint(1, len(classes), (n,))
        share = low + (high - low) * torch.rand(n, dtype=torch.float64)
        return cls(classes[first], classes[(first + step) % len(classes)], share.to(classes.device))

    def of(self, items: Tensor) -> Recipe:
        """The recipes of these items."""
        return Recipe(self.first[items], self.second[items], self.share[items])

    def either(self) -> Tensor:
        """(n,) one of the two classes each, the first with the probability of its share."""
        lots = torch.rand(len(self.share)).to(self.share)
        return torch.where(lots < self.share, self.first, self.second)

    def target(self, classes: int) -> Tensor:
        """(n, classes) the share of every class."""
        first, second = (F.one_hot(chosen, classes) for chosen in (self.first, self.second))
        return second.to(self.share).lerp(first.to(self.share), self.share.unsqueeze(1))


@dataclass(frozen=True)
class Graphons:
    """What is needed to draw graphs of each class.

    Attributes:
        classes: (P,) the classes that can be drawn from: those with an edge.
        weights: (C, K, K) probability of an edge between two places of a graph of the class.
        reach: (C,) nodes of the largest graph of the class, at most K: places beyond have never been seen.
        means: (C, K, d) mean node features of each place, where they are floats.
        nodes: node-feature rows by class and place, where they are codes.
        edges: edge-feature rows by class, where edges carry anything.
    """

    classes: Tensor
    weights: Tensor
    reach: Tensor
    means: Tensor | None
    nodes: RowBank | None
    edges: RowBank | None

    def draw(self, graphs: int, low: float, high: float) -> tuple[Batch, Tensor]:
        r"""Graphs from mixtures of two classes, isolated nodes removed, those without any edge left out.

        .. math:: A_{uv} \sim \mathrm{Bernoulli}\big(\lambda W_a + (1 - \lambda) W_b\big)_{uv}, \quad u < v, \qquad
                  \lambda \sim U(\text{low}, \text{high})

        Args:
            graphs: how many to try.
            low: smallest share of the first class.
            high: largest share of the first class.

        Returns:
            The n graphs, and (n, C) the share of every class in each of them.
        """
        size, device = self.weights.shape[-1], self.weights.device
        recipe = Recipe.draw(graphs, self.classes, low, high)
        rows, columns = torch.triu_indices(size, size, offset=1, device=device)
        cells = self.weights[:, rows, columns]
        chance = cells[recipe.second].lerp(cells[recipe.first], recipe.share.unsqueeze(1))
        graph, pair = (torch.rand(chance.shape).to(chance) < chance).nonzero(as_tuple=True)
        ends = torch.stack([rows[pair], columns[pair]]) + graph * size
        used = torch.unique(ends)  # node k of graph g is number g * K + k, so these are graph after graph
        position = torch.searchsorted(used, ends)
        drawn, owner = torch.unique(used // size, return_inverse=True)
        batch = GraphBatch(
            x=self._node_features(used % size, recipe.of(drawn[owner])),
            edge_index=torch.cat([position, position.flip(0)], dim=1),
            edge_attr=self._edge_features(recipe.of(graph)),
            batch=owner,
            ptr=pointer(torch.bincount(owner, minlength=len(drawn)).cpu()).to(device),
        )
        return batch, recipe.of(drawn).target(len(self.weights))

    def _node_features(self, place: Tensor, recipe: Recipe) -> Tensor:
        """Float means are mixed; codes are those of a node of one of the two classes."""
        if self.means is not None:
            first, second = (self.means[c, place.minimum(self.reach[c] - 1)] for c in (recipe.first, recipe.second))
            return second.lerp(first, recipe.share.unsqueeze(1))
        if self.nodes is None:
            return torch.ones(len(place), 1, device=place.device)
        chosen = recipe.either()
        return self.nodes.draw(chosen * self.weights.shape[-1] + place.minimum(self.reach[chosen] - 1))

    def _edge_features(self, recipe: Recipe) -> Tensor | None:
        """Rows of edges of one of the two classes, the same for both directions."""
        if self.edges is None:
            return None
        rows = self.edges.draw(recipe.either())
        return torch.cat([rows, rows])


class Estimate:
    """Sums over graphs, batch by batch, from which the graphons follow.

    Args:
        classes: C, how many classes there are.
        size: K, places of a graphon.
        node: what the nodes carry.
        edge: what the edges carry.
        device: where the batches live.
    """

    def __init__(self, classes: int, size: int, node: Features, edge: Features, device: torch.device) -> None:
        self.classes, self.size = classes, size
        self.graphs = torch.zeros(classes, dtype=torch.long, device=device)
        self.joined = torch.zeros(classes, size, size, dtype=torch.long, device=device)
        self.reached = torch.zeros(classes * size, dtype=torch.long, device=device)
        width = node.width if node.kind == "float" else 0
        self.features = torch.zeros(classes * size, width, dtype=torch.float64, device=device)
        self.nodes = RowBank(classes * size) if node.kind == "categorical" else None
        self.edges = RowBank(classes) if edge.kind != "none" else None

    def add(self, batch: Batch) -> None:
        """Count the labelled graphs of a batch."""
        label, place = labels(batch), ranks(batch)
        owner = label[batch.batch]
        inside = (owner >= 0) & (place < self.size)
        keys = (owner * self.size + place)[inside]
        self.graphs += torch.bincount(label[label >= 0], minlength=self.classes)
        self.joined += adjacency_sums(batch, label, place, self.classes, self.size)
        self.reached += torch.bincount(keys, minlength=len(self.reached))
        if self.features.shape[1]:
            self.features.index_add_(0, keys, batch.x[inside].double())
        if self.nodes is not None:
            self.nodes.offer(batch.x[inside], keys)
        if self.edges is not None and batch.edge_attr is not None:
            owner = owner[batch.edge_index[0]]
            self.edges.offer(batch.edge_attr[owner >= 0], owner[owner >= 0])

    def graphons(self, threshold: float) -> Graphons | None:
        """What the graphs seen so far say; None when fewer than two classes have an edge and nothing can be mixed."""
        classes = (self.joined.sum((1, 2)) > 0).nonzero().squeeze(1)
        if len(classes) < 2:
            return None
        means = self.features / self.reached.clamp_min(1).unsqueeze(1)
        return Graphons(
            classes=classes,
            weights=singular_threshold(self.joined / self.graphs.clamp_min(1).double().view(-1, 1, 1), threshold),
            reach=(self.reached.view(self.classes, self.size) > 0).sum(1),
            means=means.view(self.classes, self.size, -1) if means.shape[1] else None,
            nodes=self.nodes,
            edges=self.edges,
        )


def estimate_graphons(
    batches: Iterable[Batch], classes: int, node: Features, edge: Features, *, size: int = 0, threshold: float = 0.2
) -> Graphons | None:
    """The graphon of every class, and what its nodes and edges carry, in two passes over the labelled graphs.

    Args:
        batches: the graphs, with one column of labels.
        classes: C, how many classes there are.
        node: what the nodes carry.
        edge: what the edges carry.
        size: K, places of a graphon; 0 = the median number of nodes.
        threshold: singular values below this share of the square root of K are noise.

    Returns:
        The graphons, or None when fewer than two classes have an edge and nothing can be mixed.
    """
    sizes = [batch.ptr.diff()[labels(batch) >= 0] for batch in batches]
    n_nodes = torch.cat([torch.empty(0), *sizes])
    if not len(n_nodes):
        return None
    estimate = Estimate(classes, size or max(1, int(n_nodes.quantile(0.5))), node, edge, sizes[0].device)
    for batch in batches:
        estimate.add(batch)
    return estimate.graphons(threshold)


def labels(batch: Batch) -> Tensor:
    """(n_graphs,) class of each graph by its first label, -1 = unknown."""
    label: Tensor = batch.y[:, 0].nan_to_num(nan=-1).long()
    return label


def join(batch: Batch, more: Batch) -> Batch:
    """The graphs of both, one after the other, without labels."""
    nodes, graphs = len(batch.batch), batch.ptr.numel() - 1
    return GraphBatch(
        x=torch.cat([batch.x, more.x.to(batch.x.dtype)]),
        edge_index=torch.cat([batch.edge_index, more.edge_index + nodes], dim=1),
        edge_attr=None
        if batch.edge_attr is None or more.edge_attr is None
        else torch.cat([batch.edge_attr, more.edge_attr.to(batch.edge_attr.dtype)]),
        batch=torch.cat([batch.batch, more.batch + graphs]),
        ptr=torch.cat([batch.ptr, more.ptr[1:] + nodes]),
    )


@register(
    "gmixup",
    paper="Han, Jiang, Liu and Hu, 2022, G-Mixup: graph data augmentation for graph classification, ICML",
    refuses={"multitask": "it mixes the graphs of two classes, and a graph with several labels has no one class"},
    search_space={"ratio": [0.05, 0.15, 0.3, 0.5], "high": [0.01, 0.1, 0.2]},
)
class GMixup(ERM):
    r"""ERM on the batch and on a few more graphs, drawn from the mixed graphons of two classes.

    .. math::
        A \sim \mathrm{Bernoulli}\big(\lambda W_a + (1-\lambda) W_b\big), \quad y = \lambda y_a + (1-\lambda) y_b, \quad
        \mathcal L = \frac1{B + S} \sum_i -\sum_c y_{ic} \log p_{ic}

    The graphon :math:`W_c` of a class is the mean adjacency matrix of its training graphs, nodes by falling degree and
    cropped to K, without its small singular values. Isolated nodes are removed, graphs without an edge left out.
    A mixed graph has the mixed mean features of its places where features are floats. Where they are codes, every node
    takes the codes of a random node at its place, every edge those of a random edge, of class b with :math:`1-\lambda`.

    Args:
        task: what is asked.
        encoder: settings of the GNN.
        ratio: S / B, mixed graphs for every graph of the batch.
        low: smallest :math:`\lambda`.
        high: largest :math:`\lambda`.
        threshold: singular values below this share of :math:`\sqrt K` are dropped.
        resolution: K; 0 = the median number of nodes of the training graphs.

    Differs from the authors' code: mixed graphs are drawn anew for every batch, not once, have no self-loops, and
    carry features (it knows degrees only).
    """

    def __init__(
        self,
        task: Task,
        encoder: EncoderConfig,
        *,
        ratio: float = 0.15,
        low: float = 0.005,
        high: float = 0.01,
        threshold: float = 0.2,
        resolution: int = 0,
    ) -> None:
        super().__init__(task, encoder)
        if ratio < 0 or not 0 <= low <= high <= 1 or resolution < 0:
            raise UsageError(
                "gmixup needs ratio >= 0, 0 <= low <= high <= 1 and resolution >= 0, "
                f"not {ratio}, {low}, {high} and {resolution}"
            )
        self.ratio, self.low, self.high = ratio, low, high
        self.threshold, self.resolution = threshold, resolution
        self.node_features, self.edge_features = encoder.node, encoder.edge
        self.graphons: Graphons | None = None

    def prepare(self, parts: Parts) -> None:
        """Estimate the graphons; with fewer than two classes to mix, training is plain ERM."""
        self.graphons = estimate_graphons(
            parts.train,
            self.task.n_classes,
            self.node_features,
            self.edge_features,
            size=self.resolution,
            threshold=self.threshold,
        )

    def loss(self, batch: Batch, progress: Progress) -> Losses:
        if self.graphons is None or not self.training:
            return super().loss(batch, progress)
        n = len(batch.y)
        wanted = int(self.ratio * n + float(torch.rand(())))  # so that small batches get their share, now and then
        mixed, shares = self.graphons.draw(wanted, self.low, self.high)
        logits = self.predict(join(batch, mixed))
        target = shares if self.task.kind == "multiclass" else shares[:, 1:]
        losses = torch.cat(
            [entry_losses(logits[:n], batch.y, self.task), soft_entry_losses(logits[n:], target, self.task)]
        )
        known = torch.cat([labelled(batch.y), torch.ones_like(target[:, :1], dtype=torch.bool)])
        return Losses(classification=masked_mean(losses, known))
