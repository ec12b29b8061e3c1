"""MPHIL: multi-prototype hyperspherical invariant learning for graphs under distribution shift."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from typing import Any, Literal

import torch
from torch import Tensor, nn

from mphil.config import EncoderConfig
from mphil.errors import UsageError
from mphil.graphs.store import Batch
from mphil.methods import mphil_assignment as assignment
from mphil.methods.base import Losses, Method, Parts, Progress, evaluating, register
from mphil.nn import sphere
from mphil.nn.encoders import build_encoder
from mphil.nn.encoders.blocks import mlp
from mphil.nn.fast.linear import BlasLinear
from mphil.nn.losses import labelled, masked_mean, one_hot
from mphil.nn.readout import node_contribution, readout
from mphil.nn.world import mean, share, total
from mphil.task import Task

PAPER: Mapping[str, Any] = {"momentum": 0.99, "keep": 1, "matching": 0.1}

RELEASE: Mapping[str, Any] = {
    "prototypes": 3,
    "keep": 1,
    "momentum": 0.9,
    "normalise": False,
    "projector_width": 1.0,
    "projection": 300,
    "attention_width": 128,
    "attention_over": "all",
    "attention_bias": True,
    "score_head": True,
    "score_target": 0.9,
    "score_weight": 0.5,
    "scoring": "product",
    "matching": 0.0,
    "separation_form": "summed",
    "separation_temperature": 0.5,
}

REPAIRED: Mapping[str, Any] = {
    "attention": "cosine",
    "attention_temperature": 0.1,
    "start": "class-mean",
    "update": "ema-sinkhorn",
    "update_as": "mean",
    "momentum": 0.95,
    "matching": 1.0,
    "detached_matching": True,
    "separation_form": "dispersion",
}
"""Each value is explained in docs/explanation/method.md."""

Update = Literal["ema-attention", "ema-uniform", "ema-hard", "ema-sinkhorn", "gradient", "epoch-mean", "epoch-kmeans"]


@register(
    "mphil",
    paper="Multi-Prototype Hyperspherical Invariant Learning",
    search_space={
        "prototypes": [2, 3, 4, 5, 6],
        "matching": [0.01, 0.05, 0.1, 0.2, 0.3],
        "temperature": [0.05, 0.1, 0.2, 0.5, 1.0],
    },
    presets={"paper": PAPER, "release": RELEASE, "repaired": REPAIRED},
    parallel=True,
)
class MPHIL(Method):
    r"""Two GNNs find the invariant part, several prototypes per class on the unit sphere classify it.

    .. math::
        \mathbf H = \mathrm{GNN}_E(G), \quad \mathbf S = \sigma(\mathrm{GNN}_S(G)), \quad
        \hat{\mathbf z} = \mathrm{Norm}\big(\mathrm{Proj}(\mathrm{READOUT}(\mathbf H \odot \mathbf S))\big)

        \mathcal L = \mathcal L_{\mathrm C} + \lambda\,\mathcal L_{\mathrm{PS}} + \beta\,\mathcal L_{\mathrm{IPM}}

    Args:
        task: what is asked.
        encoder: settings of both GNNs.
        prototypes: K, prototypes per class.
        keep: n, weights kept per sample and class; 0 keeps all. Uniform and nearest-only weights are not pruned.
        temperature: :math:`\tau`, shared by all three losses.
        start: where prototypes start: anywhere on the sphere, or at means of random parts of their class's training
            graphs, placed by the network before its first step.
        momentum: :math:`\alpha` of the prototypes' moving average.
        matching: :math:`\beta`, weight of the matching loss.
        detached_matching: the matching loss moves samples to prototypes and not prototypes to samples.
        separation: :math:`\lambda`, weight of the separation loss.
        update: how prototypes move: by a moving average with attention, uniform, nearest-only or balanced (Sinkhorn)
            weights, by gradient, or once per epoch to weighted class means or k-means centres.
        update_as: what a batch adds to a moving average: a `sum`, as in the paper, which moves prototypes faster in
            larger batches, or a weighted `mean`.
        aggregate: how the K weighted similarities of a class become its score.
        differentiable_update: let gradients pass through the moving average of this step.
        invariant_encoder: use the scoring GNN; without it S = 1.
        project: use the projector and the sphere; without them the raw representation is compared.
        normalise: put the projected vector on the sphere.
        score_head: an MLP between the scoring GNN and the sigmoid.
        score_target: :math:`\gamma`, wanted mean of S in a graph.
        score_weight: weight of :math:`|\bar S - \gamma|`; 0 = off.
        projection: p, size of the sphere's space; 0 = the encoder's width.
        projector_width: hidden size of the projector as a share of the encoder's width.
        attention: `scaled-dot` product of learned projections, as in the paper, or `cosine` of sample and prototype.
        attention_temperature: divides the cosines; small values give the nearest prototype all the weight.
        attention_width: d', size of the learned attention's space; 0 = p.
        attention_over: softmax over the prototypes of a class, or over all of them.
        attention_bias: give the learned attention's queries a bias; one of the keys would cancel in the softmax.
        scoring: `exp` as in the paper; `product` is weight times similarity without exponential or temperature, with
            unpruned weights taken after the update. Its gradient reaches prototypes through the attention only.
        separation_form: `ratio` as in the paper, `summed` positives, or `dispersion`, which leaves them out.
        separation_temperature: temperature of the separation loss; 0 = the shared one.
        class_mean: divide the classification loss by the number of classes.
    """

    def __init__(
        self,
        task: Task,
        encoder: EncoderConfig,
        *,
        prototypes: int = 3,
        keep: int = 1,
        temperature: float = 0.1,
        start: Literal["random", "class-mean"] = "random",
        momentum: float = 0.99,
        matching: float = 0.1,
        detached_matching: bool = False,
        separation: float = 1.0,
        update: Update = "ema-attention",
        update_as: Literal["sum", "mean"] = "sum",
        aggregate: sphere.Aggregate = "max",
        differentiable_update: bool = True,
        invariant_encoder: bool = True,
        project: bool = True,
        normalise: bool = True,
        score_head: bool = False,
        score_target: float = 0.9,
        score_weight: float = 0.0,
        projection: int = 0,
        projector_width: float = 0.5,
        attention: Literal["scaled-dot", "cosine"] = "scaled-dot",
        attention_temperature: float = 0.1,
        attention_width: int = 0,
        attention_over: assignment.Over = "class",
        attention_bias: bool = False,
        scoring: Literal["exp", "product"] = "exp",
        separation_form: sphere.Separation = "ratio",
        separation_temperature: float = 0.0,
        class_mean: bool = False,
    ) -> None:
        super().__init__(task, encoder)
        if prototypes < 1 or not 0 <= keep <= prototypes:
            raise UsageError(f"mphil needs 1 <= prototypes and 0 <= keep <= prototypes, not {prototypes} and {keep}")
        if min(temperature, attention_temperature) <= 0 or not 0 <= momentum < 1:
            given = f"{temperature=}, {attention_temperature=}, {momentum=}"
            raise UsageError(f"mphil needs temperatures > 0 and 0 <= momentum < 1; {given}")
        self.keep, self.temperature, self.momentum = keep or prototypes, temperature, momentum
        self.matching, self.detached_matching = matching, detached_matching
        self.separation, self.class_mean, self.start = separation, class_mean, start
        self.update, self.update_as, self.differentiable_update = update, update_as, differentiable_update
        self.aggregate, self.attention, self.attention_temperature = aggregate, attention, attention_temperature
        self.score_target, self.score_weight = score_target, score_weight
        self.attention_over, self.scoring = attention_over, scoring
        self.separation_temperature = separation_temperature or temperature
        self.separation_form = separation_form
        self.on_sphere = project and normalise

        width = encoder.width
        self.encoder = build_encoder(encoder)
        self.scorer = build_encoder(encoder) if invariant_encoder else None
        self.score_head = mlp(width, 2 * width, width) if invariant_encoder and score_head else nn.Identity()
        size = (projection or width) if project else width
        hidden = max(1, int(width * projector_width))
        self.projector = (
            nn.Sequential(BlasLinear(width, hidden), nn.ReLU(), BlasLinear(hidden, size)) if project else nn.Identity()
        )
        if attention == "scaled-dot" and update not in ("ema-uniform", "ema-hard"):
            self.query = BlasLinear(size, attention_width or size, bias=attention_bias)
            self.key = nn.Linear(size, attention_width or size, bias=False)
        bank = sphere.random_directions(task.n_tasks, task.n_classes, prototypes, size)
        self.prototypes: Tensor
        if update == "gradient":
            self.prototypes = nn.Parameter(bank)
        else:
            self.register_buffer("prototypes", bank)

    def loss(self, batch: Batch, progress: Progress) -> Losses:
        nodes, scores = self.extract(batch)
        z = self.place(nodes, batch)
        membership = one_hot(batch.y, self.task.n_classes).to(z.dtype)
        log_weights = self.weigh(z, self.bank())
        prototypes, moved = self.move(z, membership, log_weights)
        scaled = sphere.similarity(z / self.temperature, prototypes)
        scores_by_class = self.classify(z, prototypes, log_weights, scaled)

        known = labelled(batch.y)
        entropy = -(scores_by_class.log_softmax(-1) * membership).sum(-1)
        losses = Losses(classification=masked_mean(entropy, known) / (self.task.n_classes if self.class_mean else 1))
        if self.separation:
            separate = sphere.SEPARATION[self.separation_form]
            losses["separation"] = self.separation * share(separate(prototypes, self.separation_temperature, moved))
        if self.matching:
            if self.detached_matching:
                scaled = sphere.similarity(z / self.temperature, prototypes.detach())
            losses["matching"] = self.matching * masked_mean(sphere.matching_loss(scaled, membership), known)
        if self.score_weight and scores is not None:
            mean_score = readout(scores, batch.ptr).mean(1)
            losses["score"] = self.score_weight * mean((mean_score - self.score_target).abs())
        return losses

    def predict(self, batch: Batch) -> Tensor:
        return self.logits(self.embed(batch))

    def logits(self, z: Tensor) -> Tensor:
        """(B, outputs) prediction for points of the sphere: class logits, or positive minus negative."""
        prototypes = self.bank()
        scores = self.classify(z, prototypes, self.weigh(z, prototypes))
        return scores.squeeze(1) if self.task.kind == "multiclass" else scores[..., 1] - scores[..., 0]

    def embed(self, batch: Batch) -> Tensor:
        """(B, p) the point of each graph on the sphere."""
        nodes, _ = self.extract(batch)
        return self.place(nodes, batch)

    def extract(self, batch: Batch) -> tuple[Tensor, Tensor | None]:
        """The invariant part H * S of every node (N, d), and S itself (eq:score)."""
        nodes = self.encoder(batch)
        if self.scorer is None:
            return nodes, None
        scores = self.score_head(self.scorer(batch)).sigmoid()
        return nodes * scores, scores

    def place(self, nodes: Tensor, batch: Batch) -> Tensor:
        """Readout, projection, sphere (eq:readout, eq: hype_rinv): (N, d) -> (B, p)."""
        z = self.projector(self.pool(nodes, batch.ptr))
        return sphere.unit(z) if self.on_sphere else z

    def bank(self) -> Tensor:
        """The prototypes (T, C, K, p), on the sphere."""
        return sphere.unit(self.prototypes) if self.update == "gradient" else self.prototypes

    def weigh(self, z: Tensor, prototypes: Tensor, pruned: bool = True) -> Tensor:
        """Log assignment weights (B, T, C, K) of every sample in every class, the n largest kept (eq: att)."""
        if self.update == "ema-hard":
            return assignment.nearest(sphere.similarity(z, prototypes))
        if self.update == "ema-uniform":
            return z.new_full((len(z), *prototypes.shape[:-1]), 1 / prototypes.shape[-2]).log()
        if self.attention == "cosine":
            log_weights = assignment.cosine_attention(z, prototypes, self.attention_temperature, self.attention_over)
        else:
            log_weights = assignment.attention(self.query(z), self.key.weight, prototypes, self.attention_over)
        return assignment.prune(log_weights, self.keep) if pruned else log_weights

    def move(self, z: Tensor, membership: Tensor, log_weights: Tensor) -> tuple[Tensor, Tensor | None]:
        """In training, move the prototypes by the batch; this step's carry gradient (eq: update_prototype).

        Returns:
            (T, C, K, p) where they are now, and (n,) those that moved, or None if batches do not move them.
        """
        if not self.training or not self.update.startswith("ema"):
            return self.bank(), None
        with torch.set_grad_enabled(self.differentiable_update and torch.is_grad_enabled()):
            if self.update == "ema-sinkhorn":
                cosines = sphere.similarity(sphere.unit(z), self.prototypes)
                log_weights = assignment.sinkhorn(cosines, membership, total)
            slots, sums = assignment.received(log_weights, membership, z, total, mean=self.update_as == "mean")
            moved = assignment.move(self.prototypes, slots, sums, self.momentum)
        self.prototypes = moved.detach()
        return moved, slots

    def classify(self, z: Tensor, prototypes: Tensor, log_weights: Tensor, scaled: Tensor | None = None) -> Tensor:
        """Log score of every class (B, T, C) (classify); `scaled` similarities are computed unless they are given."""
        if self.scoring == "exp":
            if scaled is None:
                scaled = sphere.similarity(z / self.temperature, prototypes)
            return sphere.class_logits(scaled, log_weights, self.aggregate)
        fresh = self.weigh(z, prototypes, pruned=False)
        return sphere.product_logits(sphere.similarity(z, prototypes.detach()), fresh, self.aggregate)

    def begin_epoch(self, parts: Parts, progress: Progress) -> None:
        """Place all training graphs and move the prototypes to them: at the start, or by the two per-epoch rules."""
        if self.start == "class-mean" and progress.epoch == 0:
            # As training will see the graphs: BatchNorm has no running statistics yet.
            z, membership = copy.deepcopy(self).train()._placed(parts)
            with torch.no_grad():
                self.prototypes.copy_(assignment.class_means(z, membership, self.bank()))
        if self.update.startswith("epoch"):
            with evaluating(self):
                z, membership = self._placed(parts)
                self.prototypes = self._refitted(z, membership)

    @torch.no_grad()
    def _placed(self, parts: Parts) -> tuple[Tensor, Tensor]:
        """(n, p) points of all training graphs and (n, T, C) the classes they belong to."""
        points, labels = zip(*((self.embed(batch), batch.y) for batch in parts.train), strict=True)
        z = torch.cat(points)
        return z, one_hot(torch.cat(labels), self.task.n_classes).to(z.dtype)

    def _refitted(self, z: Tensor, membership: Tensor) -> Tensor:
        """The prototypes at the weighted means of these points, or at their k-means centres."""
        if self.update == "epoch-kmeans":
            return assignment.class_kmeans(z, membership, self.prototypes)
        slots, sums = assignment.received(self.weigh(z, self.prototypes), membership, z)
        return assignment.move(self.prototypes, slots, sums, momentum=0.0)

    def node_importance(self, batch: Batch) -> Tensor:
        """(N,) mean of S over its channels: what the scoring GNN lets through; without it, the contributions."""
        _, scores = self.extract(batch)
        return self.node_contribution(batch) if scores is None else scores.mean(1)

    def node_contribution(self, batch: Batch) -> Tensor:
        """(N,) gradient-weighted importance: how much each node's H * S moves the decision."""
        with torch.no_grad():
            nodes, _ = self.extract(batch)
        return node_contribution(nodes, lambda h: self.logits(self.place(h, batch)), self.task)

    def ood_score(self, batch: Batch) -> Tensor:
        r"""Distance from all prototypes: :math:`-\max_c \log \frac1K\sum_k e^{\langle\mu_{ck},\hat z\rangle/\tau}`.

        Up to a constant, the negative log-likelihood under a mixture of von Mises-Fisher distributions, one a class;
        averaged over tasks.
        """
        scaled = sphere.similarity(self.embed(batch) / self.temperature, self.bank())
        likelihood = scaled.logsumexp(-1) - math.log(scaled.shape[-1])
        return -likelihood.amax(-1).mean(-1)

    def nearest_prototype(self, batch: Batch) -> Tensor:
        """(B, T) slot of the most similar prototype of the predicted class."""
        z, prototypes = self.embed(batch), self.bank()
        predicted = self.classify(z, prototypes, self.weigh(z, prototypes)).argmax(-1)
        slots = sphere.similarity(z, prototypes).argmax(-1)
        return slots.gather(-1, predicted.unsqueeze(-1)).squeeze(-1)
