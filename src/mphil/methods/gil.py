"""GIL: the rest of the graphs tells environments apart, and the kept part must do equally well in all."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn

from mphil.config import EncoderConfig
from mphil.errors import UsageError
from mphil.graphs.store import Batch
from mphil.methods.base import Losses, Method, Progress, evaluating, register
from mphil.nn import rationale
from mphil.nn.encoders import build_encoder
from mphil.nn.encoders.blocks import CodeEmbedding
from mphil.nn.losses import entry_losses, labelled
from mphil.nn.masks import top_share
from mphil.nn.penalties import environment_risks, gradient_variance
from mphil.nn.posthoc import kmeans
from mphil.nn.rationale import edge_graph
from mphil.task import Task


@register(
    "gil",
    paper="Li et al., 2022, Learning invariant graph representations for out-of-distribution generalization, NeurIPS",
    needs={"edge_weight"},
    search_space={"weight": [1e-5, 1e-3, 1e-1], "environments": [2, 3, 4], "share": [0.4, 0.6, 0.8]},
)
class GIL(Method):
    r"""Keep the edges whose ends are alike; cluster what is left into environments; vary with none of them.

    A mask GNN scores edges by :math:`m_{uv} = \langle Z_u, Z_v \rangle / d`. The best t of each graph are
    :math:`G_I`, with weight :math:`\sigma(m)`, the others :math:`G_V`, with :math:`\sigma(-m)`. k-means on the vectors
    of :math:`G_V` in a batch infers the environments e.

    .. math:: \mathcal L = \frac1K \sum_e R_e + \lambda \operatorname{tr} \operatorname{Var}_e(\nabla_\theta R_e)

    Args:
        task: what is asked.
        encoder: settings of the mask GNN and of the classifying GNN.
        share: t, share of the edges of each graph that is :math:`G_I`, rounded up.
        weight: :math:`\lambda`.
        environments: K of k-means; empty clusters do not count.
        gradient_of: :math:`\theta` is the linear `head`, where the variance has a closed form, or `all` weights that
            classify (embeddings of codes excepted), at the price of a second backward pass.

    Differs from the paper: the scores weigh the kept edges, or the mask GNN could not learn, and are divided by d, or
    the sigmoid saturates; the mask GNN has no dropout, or chance would choose the edges. One GNN serves :math:`G_I`
    and :math:`G_V`: no loss would reach one for :math:`G_V` alone.
    """

    def __init__(
        self,
        task: Task,
        encoder: EncoderConfig,
        *,
        share: float = 0.6,
        weight: float = 1e-3,
        environments: int = 3,
        gradient_of: Literal["head", "all"] = "head",
    ) -> None:
        super().__init__(task, encoder)
        if environments < 1:
            raise UsageError(f"gil needs environments >= 1, not {environments}")
        self.share, self.weight = rationale.require_share(share), weight
        self.environments, self.gradient_of = environments, gradient_of
        self.masker = build_encoder(encoder.model_copy(update={"dropout": 0.0}))
        self.encoder = build_encoder(encoder)
        self.head = nn.Linear(encoder.width, task.n_outputs)

    def loss(self, batch: Batch, progress: Progress) -> Losses:
        invariant, variant = rationale.cut(batch, *self.select(batch))
        z = self.represent(invariant)
        logits = self.head(z)
        with evaluating(self.encoder):
            env, _ = kmeans(self.represent(variant), self.environments)
        risks = environment_risks(entry_losses(logits, batch.y, self.task), labelled(batch.y), env)
        if self.gradient_of == "head":
            variance = gradient_variance(z, logits, batch.y, env, self.task)
        else:
            variance = self.full_gradient_variance(risks)
        return Losses(classification=risks.sum() / max(1, len(risks)), variance=self.weight * variance)

    def full_gradient_variance(self, risks: Tensor) -> Tensor:
        """Unbiased variance over environments of the gradient in all weights that classify, summed over them."""
        if len(risks) < 2:
            return risks[:0].sum()
        embeddings = {p for m in self.encoder.modules() if isinstance(m, CodeEmbedding) for p in m.parameters()}
        weights = [p for p in (*self.encoder.parameters(), *self.head.parameters()) if p not in embeddings]
        rows = [torch.autograd.grad(r, weights, create_graph=True, materialize_grads=True) for r in risks]
        return torch.stack([torch.cat([g.flatten() for g in row]) for row in rows]).var(0).sum()

    def select(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """(E,) weights of the edges, and which are in the invariant part."""
        nodes = self.masker(batch)
        source, target = batch.edge_index
        scores = (nodes.index_select(0, source) * nodes.index_select(0, target)).mean(1)
        return scores.sigmoid(), top_share(scores, edge_graph(batch), batch.ptr.numel() - 1, self.share)

    def represent(self, part: rationale.Part) -> Tensor:
        """(B, d) vector of one part of each graph."""
        return self.pool(self.encoder(part.graphs, edge_weight=part.edge_weight), part.graphs.ptr)

    def predict(self, batch: Batch) -> Tensor:
        logits: Tensor = self.head(self.embed(batch))
        return logits

    def embed(self, batch: Batch) -> Tensor:
        """(B, d) the invariant part of each graph."""
        invariant, _ = rationale.cut(batch, *self.select(batch))
        return self.represent(invariant)

    def node_importance(self, batch: Batch) -> Tensor:
        return rationale.node_importance(*self.select(batch), batch)
