"""ERM: minimise the average loss of the training graphs and hope."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from mphil.config import EncoderConfig
from mphil.graphs.store import Batch
from mphil.methods.base import Losses, Method, Progress, register
from mphil.nn.descriptors import Descriptors
from mphil.nn.encoders import build_encoder
from mphil.nn.losses import task_loss
from mphil.nn.readout import node_contribution
from mphil.task import Task


@register(
    "erm", paper="Vapnik, 1992, Principles of risk minimization for learning theory", parallel=True, regression=True
)
class ERM(Method):
    r"""Encoder, readout, linear head, cross-entropy: :math:`\min \frac1B \sum_i \ell(f(G_i), y_i)`.

    Of a regression, :math:`\ell` is the squared error.

    Args:
        task: what is asked.
        encoder: settings of the GNN and of the readout.
        descriptors: classify by what is known of a whole molecule too, see `mphil.nn.descriptors`.
    """

    def __init__(self, task: Task, encoder: EncoderConfig, *, descriptors: bool = False) -> None:
        super().__init__(task, encoder)
        self.encoder = build_encoder(encoder)
        self.descriptors = Descriptors(encoder.width) if descriptors else None
        self.head: nn.Module = nn.Linear((1 + descriptors) * encoder.width, task.n_outputs)

    def loss(self, batch: Batch, progress: Progress) -> Losses:
        return Losses(**{self.task.learned: task_loss(self.predict(batch), batch.y, self.task)})

    def predict(self, batch: Batch) -> Tensor:
        logits: Tensor = self.head(self.embed(batch))
        return logits

    def embed(self, batch: Batch) -> Tensor:
        return self.describe(self.encoder(batch), batch)

    def describe(self, nodes: Tensor, batch: Batch) -> Tensor:
        """(B, d) the readout of the node features, followed by what the descriptors say if they are used."""
        pooled = self.pool(nodes, batch.ptr)
        return pooled if self.descriptors is None else torch.cat([pooled, self.descriptors(batch)], 1)

    def node_importance(self, batch: Batch) -> Tensor:
        with torch.no_grad():
            nodes = self.encoder(batch)
        return node_contribution(nodes, lambda h: self.head(self.describe(h, batch)), self.task)
