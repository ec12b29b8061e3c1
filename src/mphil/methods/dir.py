"""DIR: rationales whose prediction survives every exchange of the rest."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from mphil.config import EncoderConfig
from mphil.graphs.store import Batch
from mphil.methods.base import Losses, Method, Progress, register
from mphil.nn import rationale
from mphil.nn.encoders import build_encoder
from mphil.nn.losses import entry_losses, labelled, task_loss
from mphil.nn.penalties import variance_penalty
from mphil.task import Task

GROWTH = 1.6


@register(
    "dir",
    paper="Wu et al., 2022, Discovering invariant rationales for graph neural networks, ICLR",
    needs={"edge_weight"},
    search_space={"share": [0.25, 0.4, 0.5, 0.6, 0.7, 0.8], "weight": [0.5, 5.0, 50.0, 500.0]},
)
class DIR(Method):
    r"""The best-scored edges of a graph predict its label; the rest of every graph in the batch intervenes on them.

    A two-layer GNN scores edges. In each graph the best are the rationale, with weight :math:`\sigma(a)`, the others
    the rest, with :math:`\sigma(-a)`; a second GNN goes on from its features and gives :math:`c_i` and :math:`s_j`.

    .. math::
        R_j = \frac1B \sum_i \ell\big(\sigma(f_s(s_j)) \odot f_c(c_i),\, y_i\big), \qquad
        \mathcal L = \ell(f_c(c), y) + \ell(f_s(s), y) + \alpha_t \big(\bar R + \operatorname{Var}_j(B R_j)\big)

    with :math:`\alpha_t = \alpha p^{1.6}` at the fraction p of training. Only :math:`f_s` learns from
    :math:`\ell(f_s(s), y)`. Predictions come from :math:`f_c(c)` alone.

    Args:
        task: what is asked.
        encoder: settings of both GNNs together: two layers score, the others classify.
        share: r, share of the edges of each graph that is its rationale, rounded up.
        weight: :math:`\alpha`, reached at the end. The authors have :math:`\alpha' \cdot \mathrm{epoch}^{1.6}`: in 200
            epochs :math:`\alpha' = 10^{-4}` comes to 0.48 and :math:`10^{-2}` to 48.
        compat: the schedule behind GOOD's numbers: there :math:`\alpha_t = 2/(1+e^{-10p}) - 1` at the fraction p of
            training, whatever `weight` is, and each :math:`R_j` is divided by the number of labels once more.

    Differs from the authors' code: the weight grows with the share of training that is done, not with the number of
    epochs, so that a short run sees all of it; the rest does not move the running statistics of the normalisation,
    which predictions are made with; edges are sorted by graph and score, not by a sum of the two that rounding can
    confuse; networks and linear heads are those of GOOD's version; one optimiser, which is the same as two with equal
    settings.
    """

    def __init__(
        self, task: Task, encoder: EncoderConfig, *, share: float = 0.8, weight: float = 0.5, compat: bool = False
    ) -> None:
        super().__init__(task, encoder)
        self.weight, self.compat = weight, compat
        first, second = rationale.split_layers(encoder)
        self.extractor = rationale.Extractor(first, share)
        self.encoder = build_encoder(second, embedded=True)
        self.head = nn.Linear(encoder.width, task.n_outputs)
        self.rest_head = nn.Linear(encoder.width, task.n_outputs)

    def loss(self, batch: Batch, progress: Progress) -> Losses:
        nodes, weight, kept = self.extractor(batch)
        decisive, rest = rationale.cut(batch, weight, kept)
        logits = self.head(self.represent(decisive, nodes))
        with torch.no_grad(), rationale.unmoved_statistics(self.encoder):
            shortcut = self.represent(rest, nodes)
        rest_logits = self.rest_head(shortcut)
        risks = intervened_risks(logits, rest_logits.detach().sigmoid(), batch.y, self.task)
        if self.compat:
            risks = risks / labelled(batch.y).sum().clamp_min(1)
        strength = self.strength(progress)
        return Losses(
            classification=task_loss(logits, batch.y, self.task),
            rest=task_loss(rest_logits, batch.y, self.task),
            intervention=strength * risks.mean(),
            variance=strength * variance_penalty(len(risks) * risks),
        )

    def strength(self, progress: Progress) -> float:
        """Present weight of the two intervention terms."""
        if self.compat:
            return 2 / (1 + math.exp(-10 * progress.fraction)) - 1
        return self.weight * math.pow(progress.fraction, GROWTH)

    def represent(self, part: rationale.Part, nodes: Tensor) -> Tensor:
        """(B, d) vector of one part of each graph, from the features of all nodes."""
        h = self.encoder(part.graphs, x=nodes[part.nodes], edge_weight=part.edge_weight)
        return self.pool(h, part.graphs.ptr)

    def predict(self, batch: Batch) -> Tensor:
        logits: Tensor = self.head(self.embed(batch))
        return logits

    def embed(self, batch: Batch) -> Tensor:
        """(B, d) the rationale of each graph."""
        nodes, weight, kept = self.extractor(batch)
        decisive, _ = rationale.cut(batch, weight, kept)
        return self.represent(decisive, nodes)

    def node_importance(self, batch: Batch) -> Tensor:
        _, weight, kept = self.extractor(batch)
        return rationale.node_importance(weight, kept, batch)


def intervened_risks(logits: Tensor, gates: Tensor, y: Tensor, task: Task) -> Tensor:
    r"""(B,) mean loss over all graphs of the batch when their logits pass the gate of graph j.

    .. math:: R_j = \frac1B \sum_i \ell(g_j \odot f_i,\, y_i)

    Args:
        logits: (B, outputs) of the rationales.
        gates: (B, outputs) in [0, 1], of the rests.
        y: (B, tasks) labels, NaN = missing.
        task: what they are labels of.
    """
    n = len(logits)
    pairs = (gates.unsqueeze(1) * logits).flatten(0, 1)
    losses = entry_losses(pairs, y.repeat(n, 1), task).view(n, -1)
    return losses.sum(1) / labelled(y).sum().clamp_min(1)
