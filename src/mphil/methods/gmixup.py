"""G-Mixup: ERM on the data and on graphs drawn between the classes."""

from __future__ import annotations

import torch

from mphil.config import EncoderConfig
from mphil.errors import UsageError
from mphil.graphs.store import Batch
from mphil.methods.base import Losses, Parts, Progress, register
from mphil.methods.erm import ERM
from mphil.methods.gmixup_graphon import Graphons, estimate_graphons, join
from mphil.nn.losses import entry_losses, labelled, masked_mean, soft_entry_losses
from mphil.task import Task


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
