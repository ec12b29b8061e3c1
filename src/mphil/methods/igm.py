"""IGM: new environments by exchanging surroundings, new graphs by mixing what decides."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from mphil.config import EncoderConfig
from mphil.errors import UsageError
from mphil.graphs.store import Batch
from mphil.methods.base import Losses, Method, Progress, register
from mphil.methods.igm_graft import graft, random_partners
from mphil.nn import rationale
from mphil.nn.encoders import build_encoder
from mphil.nn.losses import task_loss
from mphil.nn.masks import clamp_share, concrete
from mphil.nn.mixing import mixup, mixup_loss
from mphil.nn.penalties import variance_penalty
from mphil.nn.scorers import Scorer, edge_graph
from mphil.task import Task


@register(
    "igm",
    paper="Jia et al., 2024, Graph invariant learning with subgraph co-mixup for OOD generalization, AAAI",
    needs={"edge_weight"},
    search_space={"variance": [0.1, 1.0, 10.0], "interpolation": [0.1, 0.5, 1.0], "share": [0.6, 0.7, 0.8]},
)
class IGM(Method):
    r"""Edges are drawn into an invariant part; its label must survive foreign surroundings and mixing.

    An edge belongs to the invariant part by :math:`w = \mathrm{Concrete}(\mathrm{MLP}[h_u \| h_v])`, and is in it when
    :math:`w > 1/2`; the part has between 1 - r and r of the edges. In a new environment k every graph has its
    invariant part, with weights w, joined to the rest of a random graph of the next class, with weights 1 - w.

    .. math::
        \mathcal L = R_0 + a\, \frac1K \sum_k R_k + b \operatorname{Var}(R_0, \dots, R_K)
        + d\, \ell\big(f(\lambda z_i + (1-\lambda) z_{\pi(i)}),\, \lambda y_i + (1-\lambda) y_{\pi(i)}\big)

    :math:`R_0` is the risk on the graphs as they are, from which predictions are made, too; :math:`z` is the vector of
    the invariant part and :math:`\lambda \sim \mathrm{Beta}(\alpha, \alpha)`.

    Args:
        task: what is asked.
        encoder: settings of the classifying GNN; two layers of its width score the edges.
        share: r, largest share of the edges of a graph in its invariant part; the smallest is 1 - r.
        environments: K, new environments in a step.
        mixed: a, weight of the risks in new environments.
        variance: b, weight of the variance of all risks.
        interpolation: d, weight of the loss on mixed invariant parts.
        alpha: of the Beta distribution.
        bridges: edges that join the two halves of a new graph.

    Differs from the authors' code, which cannot run: labels, edges and weights of new graphs belong together, the
    variance has a gradient and weights are used. Its weights a, b, d are not published; the defaults are ours.
    """

    def __init__(
        self,
        task: Task,
        encoder: EncoderConfig,
        *,
        share: float = 0.7,
        environments: int = 1,
        mixed: float = 1.0,
        variance: float = 1.0,
        interpolation: float = 0.5,
        alpha: float = 0.2,
        bridges: int = 2,
    ) -> None:
        super().__init__(task, encoder)
        if not 0.5 <= share <= 1 or environments < 1 or alpha <= 0 or bridges < 0:
            raise UsageError(
                "igm needs 0.5 <= share <= 1, environments >= 1, alpha > 0 and bridges >= 0, "
                f"not {share}, {environments}, {alpha} and {bridges}"
            )
        self.share, self.environments, self.alpha, self.bridges = share, environments, alpha, bridges
        self.mixed, self.variance, self.interpolation = mixed, variance, interpolation
        width = encoder.width
        self.extractor = build_encoder(rationale.extractor_config(encoder))
        self.scorer = Scorer(width, "edge", hidden=(4 * width,))
        self.encoder = build_encoder(encoder)
        self.head = nn.Linear(width, task.n_outputs)

    def loss(self, batch: Batch, progress: Progress) -> Losses:
        original = task_loss(self.predict(batch), batch.y, self.task)
        weight, kept = self.select(batch)
        with rationale.unmoved_statistics(self.encoder):
            mixed = torch.stack([self.mixed_risk(batch, weight, kept) for _ in range(self.environments)])
            interpolated = self.interpolated_risk(batch, weight, kept)
        return Losses(
            classification=original,
            mixed=self.mixed * mixed.mean(),
            variance=self.variance * variance_penalty(torch.cat([original.view(1), mixed])),
            interpolation=self.interpolation * interpolated,
        )

    def select(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """(E,) weights of the edges, in training draws of them, and which are in the invariant part."""
        logits = self.scorer(self.extractor(batch), batch)
        weight = concrete(logits, training=self.training)
        low, n_graphs = 1 - self.share, batch.ptr.numel() - 1
        return weight, clamp_share(weight > 0.5, weight, edge_graph(batch), n_graphs, low, self.share)

    def mixed_risk(self, batch: Batch, weight: Tensor, kept: Tensor) -> Tensor:
        """Risk in one new environment, a scalar."""
        graphs, source = graft(batch, kept, random_partners(batch.y, self.task), self.bridges)
        # Bridges have the source -1: the last entry, which is a whole edge.
        weights = torch.cat([torch.where(kept, weight, 1 - weight), weight.new_ones(1)])
        logits = self.head(self.represent(graphs, weights[source]))
        return task_loss(logits, graphs.y, self.task)

    def interpolated_risk(self, batch: Batch, weight: Tensor, kept: Tensor) -> Tensor:
        """Risk on mixtures of invariant parts, a scalar."""
        invariant, _ = rationale.cut(batch, weight, kept)
        mixture = mixup(self.represent(invariant.graphs, invariant.edge_weight), self.alpha)
        return mixup_loss(self.head(mixture.features), batch.y, mixture, self.task)

    def represent(self, graphs: Batch, edge_weight: Tensor | None = None) -> Tensor:
        """(B, d) vector of each graph."""
        return self.pool(self.encoder(graphs, edge_weight=edge_weight), graphs.ptr)

    def predict(self, batch: Batch) -> Tensor:
        logits: Tensor = self.head(self.embed(batch))
        return logits

    def embed(self, batch: Batch) -> Tensor:
        """(B, d) the graph as it is."""
        return self.represent(batch)

    def node_importance(self, batch: Batch) -> Tensor:
        return rationale.node_importance(*self.select(batch), batch)
