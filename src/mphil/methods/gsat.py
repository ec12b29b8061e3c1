"""GSAT: attention with noise, which only what matters is worth protecting from."""

from __future__ import annotations

from typing import Literal

from torch import Tensor, nn

from mphil.config import EncoderConfig
from mphil.errors import UsageError
from mphil.graphs.store import Batch
from mphil.methods.base import Losses, Method, Progress, passed, register
from mphil.nn.encoders import build_encoder
from mphil.nn.losses import task_loss
from mphil.nn.masks import concrete, information, node_share_of_edges
from mphil.nn.rationale import Scorer, reverse_edges
from mphil.task import Task

STEP = 0.1
"""How much the prior falls at a time."""


@register(
    "gsat",
    paper="Miao et al., 2022, Interpretable and generalizable graph learning via stochastic attention mechanism, ICML",
    needs={"edge_weight"},
    search_space={"final": [0.3, 0.5, 0.7], "weight": [0.1, 1.0, 10.0]},
)
class GSAT(Method):
    r"""Attention over edges (or nodes) is drawn at random, and may say little about the graph.

    One GNN is run twice: on the whole graph, for the features that an MLP makes attention logits :math:`s` of, and
    with every message multiplied by the attention of its edge, for the prediction.

    .. math::
        a = \sigma(s + \log u - \log(1-u)),\ u \sim U(0,1), \qquad
        \mathcal L = \ell + \lambda\, \frac1M \sum_m \Big[ a_m \log \frac{a_m}{r} + (1-a_m) \log \frac{1-a_m}{1-r} \Big]

    The second term pulls every attention to the prior r; only what the label needs stays above it. At the fraction p
    of training it is :math:`r = \max(\mathrm{final},\ \mathrm{start} - 0.1 \lfloor p / \mathrm{interval} \rfloor)`. At
    prediction :math:`a = \sigma(s)`.

    Args:
        task: what is asked.
        encoder: settings of the GNN.
        attention: over `edge`, averaged over the two directions, or `node`: an edge gets the product of its ends.
        weight: :math:`\lambda`.
        start: r at the beginning.
        final: r at the end.
        interval: share of training between two steps of r. The published intervals are 20 of 200 epochs and 10 of 100.
        dropout: of the hidden layers of the MLP.

    Differs from the authors' code: the prior falls by shares of the training, so that a short run sees all of it; with
    the published number of epochs it is the same. The directions of an edge are really averaged, which GOOD's code
    means to do and does not. Selection looks at all epochs, the authors' at those with the final prior only.
    """

    def __init__(
        self,
        task: Task,
        encoder: EncoderConfig,
        *,
        attention: Literal["edge", "node"] = "edge",
        weight: float = 1.0,
        start: float = 0.9,
        final: float = 0.5,
        interval: float = 0.1,
        dropout: float = 0.5,
    ) -> None:
        super().__init__(task, encoder)
        if not (0 < final <= start <= 1 and 0 < interval <= 1):
            raise UsageError(
                "gsat needs 0 < final <= start <= 1 and an interval that is a share of training, in (0, 1], "
                f"not {final=}, {start=} and {interval=}"
            )
        self.attention, self.weight = attention, weight
        self.start, self.final, self.interval = start, final, interval
        width = encoder.width
        hidden = (4 * width, width) if attention == "edge" else (2 * width, width)
        self.encoder = build_encoder(encoder)
        self.scorer = Scorer(width, attention, hidden=hidden, norm="graph", dropout=dropout)
        self.head = nn.Linear(width, task.n_outputs)

    def loss(self, batch: Batch, progress: Progress) -> Losses:
        drawn = self.attend(batch)
        logits = self.head(self.represent(batch, drawn))
        return Losses(
            classification=task_loss(logits, batch.y, self.task),
            information=self.weight * information(drawn, self.prior(progress)),
        )

    def prior(self, progress: Progress) -> float:
        """r, what every attention is pulled to."""
        return max(self.final, self.start - STEP * passed(progress.fraction, self.interval))

    def attend(self, batch: Batch) -> Tensor:
        """(E,) or (N,) attention, in training a draw of it."""
        return concrete(self.scorer(self.encoder(batch), batch), training=self.training)

    def represent(self, batch: Batch, attention: Tensor) -> Tensor:
        """(B, d) the graphs, seen with this attention."""
        h = self.encoder(batch, edge_weight=self.edge_attention(batch, attention))
        return self.pool(h, batch.ptr)

    def edge_attention(self, batch: Batch, attention: Tensor) -> Tensor:
        """(E,) the same in both directions: the mean of the two, or the product of the ends."""
        if self.attention == "node":
            source, target = batch.edge_index
            return attention[source] * attention[target]
        return (attention + attention[reverse_edges(batch)]) / 2

    def predict(self, batch: Batch) -> Tensor:
        logits: Tensor = self.head(self.embed(batch))
        return logits

    def embed(self, batch: Batch) -> Tensor:
        return self.represent(batch, self.attend(batch))

    def node_importance(self, batch: Batch) -> Tensor:
        """(N,) attention of the node, or the mean of its edges."""
        attention = self.attend(batch)
        if self.attention == "edge":
            attention = node_share_of_edges(self.edge_attention(batch, attention), batch)
        return attention.detach()
