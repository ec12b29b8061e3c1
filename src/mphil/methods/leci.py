"""LECI: what is kept must not tell the environment, and what is left must not tell the label."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from mphil.config import EncoderConfig
from mphil.errors import UsageError
from mphil.graphs.store import Batch
from mphil.methods.base import Losses, Method, Parts, Progress, passed, register
from mphil.nn.encoders import build_encoder
from mphil.nn.encoders.blocks import BatchNorm, embed_to_width
from mphil.nn.losses import masked_mean, task_loss
from mphil.nn.masks import concrete, information, node_share_of_edges
from mphil.nn.randomness import Dropout
from mphil.nn.rationale import Scorer, reverse_edges
from mphil.nn.readout import perceptron, readout
from mphil.task import Task

START, FINAL, STEP = 0.9, 0.5, 0.1
"""The prior of the attention at the beginning, the lowest, and how much it falls at a time."""


@register(
    "leci",
    paper="Gui et al., 2023, Joint learning of label and environment causal independence for graph "
    "out-of-distribution generalization, NeurIPS",
    needs={"env", "edge_weight"},
    search_space={"label": [0.1, 1.0, 10.0], "environment": [0.01, 0.1, 1.0, 10.0], "information": [0.0, 1.0]},
)
class LECI(Method):
    r"""Edges are drawn for the label; two adversaries look for the label in the rest and for the environment in them.

    A GNN and an MLP give every edge an attention a, drawn as in `gsat`. A second GNN predicts the label from the
    messages weighted by a. A third predicts the label from those weighted by 1 - a, a fourth the environment from
    those weighted by a: both learn to be right, and the attention learns that they cannot be.

    .. math::
        \mathcal L = \ell(f(aG), y) + \ell(g((1-a)G), y) + \ell(h(aG), e) + \lambda_{\mathrm I}\, I(a; r)

    From the second term the attention gets the gradient times :math:`-\lambda_{\mathrm L} w`, from the third times
    :math:`-\lambda_{\mathrm E} w`, with :math:`w = 2 / (1 + e^{-10 p}) - 1` at the fraction p of training. The last
    term is that of `gsat`, with a prior r that falls from 0.9 by 0.1 at every interval, to 0.5. Where nodes carry
    features, an MLP filters them for all four GNNs, and an adversary looks for the environment in their mean, likewise
    with :math:`\lambda_{\mathrm F} w`.

    Args:
        task: what is asked.
        encoder: settings of the four GNNs.
        label: :math:`\lambda_{\mathrm L}`, strength of the adversary of the label.
        environment: :math:`\lambda_{\mathrm E}`, strength of the adversary of the environment.
        feature: :math:`\lambda_{\mathrm F}`, strength of the adversary of the filtered features; 0 = no filter.
        information: :math:`\lambda_{\mathrm I}`.
        interval: share of training between two steps of r. The published intervals are 10 to 90 of 200 epochs.
        temperature: of the draws, at the beginning; it changes linearly.
        final_temperature: of the draws, at the end.
        environments: outputs for environments; as many as there are in training are used.

    Differs from the authors' code: the directions of an edge are really averaged, which theirs means to do and does
    not; schedules are shares of training, which is the same in their 200 epochs; batches may be drawn from few
    environments, see `train.env_per_batch`. Their `pre_train`, the epochs that selection does not look at, is
    `train.min_epochs`.
    """

    def __init__(
        self,
        task: Task,
        encoder: EncoderConfig,
        *,
        label: float = 1.0,
        environment: float = 0.1,
        feature: float = 0.1,
        information: float = 1.0,
        interval: float = 0.3,
        temperature: float = 1.0,
        final_temperature: float = 1.0,
        environments: int = 1000,
    ) -> None:
        super().__init__(task, encoder)
        if min(label, environment, feature, information) < 0 or not 0 < interval <= 1:
            raise UsageError(
                "leci needs weights of 0 or more and an interval that is a share of training, in (0, 1], "
                f"not {label=}, {environment=}, {feature=}, {information=} and {interval=}"
            )
        if min(temperature, final_temperature) <= 0 or environments < 1:
            raise UsageError(
                "leci needs temperatures above 0 and environments >= 1, "
                f"not {temperature=}, {final_temperature=} and {environments=}"
            )
        self.label, self.environment, self.feature, self.information = label, environment, feature, information
        self.interval, self.temperature, self.final_temperature = interval, temperature, final_temperature
        self.environments = environments
        width, dropout = encoder.width, encoder.dropout
        filtered = feature > 0 and encoder.node.kind != "constant"
        self.filter = feature_filter(encoder) if filtered else None
        self.attender = build_encoder(encoder, embedded=filtered)
        self.scorer = Scorer(width, "edge", hidden=(4 * width, width), norm="batch", dropout=dropout)
        self.encoder = build_encoder(encoder, embedded=filtered)
        self.head = nn.Linear(width, task.n_outputs)
        self.label_encoder = build_encoder(encoder, embedded=filtered)
        self.label_head = nn.Linear(width, task.n_outputs)
        self.environment_encoder = build_encoder(encoder, embedded=filtered)
        self.environment_head = nn.Linear(width, environments)
        if filtered:
            self.feature_adversary = perceptron(width, 2 * width, width, dropout)
            self.feature_head = nn.Linear(width, environments)
        self.numbers: Tensor
        self.register_buffer("numbers", torch.zeros(0, dtype=torch.long), persistent=False)

    def prepare(self, parts: Parts) -> None:
        """Count the environments of the training graphs."""
        numbers = torch.unique(torch.cat([batch.env for batch in parts.train]))
        self.numbers = numbers[numbers >= 0]
        if len(self.numbers) > self.environments:
            raise UsageError(
                f"the training graphs have {len(self.numbers)} environments and leci has outputs for "
                f"{self.environments}; use --set method.environments={len(self.numbers)}"
            )

    def loss(self, batch: Batch, progress: Progress) -> Losses:
        strength = 2 / (1 + math.exp(-10 * progress.fraction)) - 1
        x = self.filtered(batch)
        drawn = concrete(self.score(batch, x), self.temperature_at(progress), self.training)
        weight = both_ways(drawn, batch)
        rest = 1 - reverse_gradient(weight, self.label * strength)
        kept = reverse_gradient(weight, self.environment * strength)
        logits = self.head(self.represent(self.encoder, batch, x, weight))
        label_logits = self.label_head(self.represent(self.label_encoder, batch, x, rest))
        environment_logits = self.environment_head(self.represent(self.environment_encoder, batch, x, kept))
        losses = Losses(
            classification=task_loss(logits, batch.y, self.task),
            label=task_loss(label_logits, batch.y, self.task),
            environment=self.environment_loss(environment_logits, batch.env),
            information=self.information * information(drawn, self.prior(progress)),
        )
        if x is not None:
            seen = self.feature_adversary(reverse_gradient(x, self.feature * strength))
            losses["feature"] = self.environment_loss(self.feature_head(readout(seen, batch.ptr)), batch.env)
        return losses

    def temperature_at(self, progress: Progress) -> float:
        """Present temperature of the draws."""
        return self.temperature + (self.final_temperature - self.temperature) * progress.fraction

    def prior(self, progress: Progress) -> float:
        """r, what every attention is pulled to."""
        return max(FINAL, START - STEP * passed(progress.fraction, self.interval))

    def environment_loss(self, logits: Tensor, env: Tensor) -> Tensor:
        """Mean cross-entropy of the environments of training; graphs of others are left out."""
        if len(self.numbers) == 0:
            return logits[:0].sum()
        place = torch.searchsorted(self.numbers, env).clamp_max(len(self.numbers) - 1)
        losses = F.cross_entropy(logits[:, : len(self.numbers)], place, reduction="none")
        return masked_mean(losses, self.numbers[place] == env)

    def filtered(self, batch: Batch) -> Tensor | None:
        """(N, d) filtered features of the nodes; None when there is no filter."""
        return None if self.filter is None else self.filter(batch.x)

    def score(self, batch: Batch, x: Tensor | None) -> Tensor:
        """(E,) log-odds that an edge is kept."""
        scores: Tensor = self.scorer(self.attender(batch, x=x), batch)
        return scores

    def represent(self, encoder: nn.Module, batch: Batch, x: Tensor | None, weight: Tensor) -> Tensor:
        """(B, d) the graphs, seen by this GNN with these weights of edges."""
        return self.pool(encoder(batch, x=x, edge_weight=weight), batch.ptr)

    def predict(self, batch: Batch) -> Tensor:
        logits: Tensor = self.head(self.embed(batch))
        return logits

    def embed(self, batch: Batch) -> Tensor:
        x = self.filtered(batch)
        return self.represent(self.encoder, batch, x, both_ways(self.score(batch, x).sigmoid(), batch))

    def node_importance(self, batch: Batch) -> Tensor:
        """(N,) mean attention of the edges of a node."""
        attention = both_ways(self.score(batch, self.filtered(batch)).sigmoid(), batch)
        return node_share_of_edges(attention, batch).detach()


def reverse_gradient(x: Tensor, strength: float) -> Tensor:
    """The values of x; gradients come back multiplied by minus the strength."""
    return x.detach() + strength * (x.detach() - x)


def both_ways(attention: Tensor, batch: Batch) -> Tensor:
    """(E,) the mean over the two directions of each edge."""
    return (attention + attention[reverse_edges(batch)]) / 2


def feature_filter(encoder: EncoderConfig) -> nn.Sequential:
    """An input layer and an MLP with two hidden layers: what nodes carry -> (N, width)."""
    width, dropout = encoder.width, encoder.dropout
    hidden = [
        layer
        for before, after in ((width, width), (width, 2 * width))
        for layer in (nn.Linear(before, after), BatchNorm(after), nn.ReLU(), Dropout(dropout))
    ]
    return nn.Sequential(embed_to_width(encoder.node, width), *hidden, nn.Linear(2 * width, width))
