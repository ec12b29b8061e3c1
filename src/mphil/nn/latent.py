"""Environments that nobody has named: losses of graphs under each of them, and guesses at them."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from mphil.config import EncoderConfig
from mphil.graphs.store import Batch
from mphil.nn.encoders import build_encoder
from mphil.nn.losses import entry_losses, labelled
from mphil.nn.readout import Readout
from mphil.task import Task


def graph_losses(logits: Tensor, y: Tensor, task: Task) -> Tensor:
    """Mean loss of the known labels of each graph: (B, outputs) logits, (B, tasks) labels -> (B,), 0 without labels."""
    return entry_losses(logits, y, task).sum(1) / labelled(y).sum(1).clamp_min(1)


def losses_by_environment(logits: Tensor, y: Tensor, task: Task) -> Tensor:
    """Loss of each graph under each environment: (B, K, outputs) logits, (B, tasks) labels -> (B, K)."""
    environments = logits.shape[1]
    return graph_losses(logits.flatten(0, 1), y.repeat_interleave(environments, 0), task).view(-1, environments)


class EnvironmentModel(nn.Module):
    """Guesses the environment of a molecule from its label, and the label under each environment.

    Args:
        task: what is asked.
        encoder: settings of both GNNs.
        environments: K.
    """

    def __init__(self, task: Task, encoder: EncoderConfig, environments: int) -> None:
        super().__init__()
        self.task = task
        self.guess_pool, self.label_pool = (Readout(encoder.readout, encoder.width) for _ in range(2))
        self.guess_encoder, self.label_encoder = build_encoder(encoder), build_encoder(encoder)
        self.guess = nn.Linear(encoder.width + task.n_tasks, environments)
        self.environments = nn.Parameter(torch.zeros(environments, encoder.width))
        self.from_graph = nn.Linear(encoder.width, task.n_outputs)
        self.from_environment = nn.Linear(encoder.width, task.n_outputs, bias=False)

    def posterior(self, batch: Batch) -> Tensor:
        """(B, K) log probabilities of the environments, given graph and label."""
        z = self.guess_pool(self.guess_encoder(batch), batch.ptr)
        scores: Tensor = self.guess(torch.cat([z, batch.y.nan_to_num().to(z.dtype)], dim=1))
        return scores.log_softmax(1)

    def losses(self, batch: Batch) -> Tensor:
        """(B, K) loss of every graph under every environment, whose vector only shifts the logits."""
        z = self.label_pool(self.label_encoder(batch), batch.ptr)
        logits = self.from_graph(z).unsqueeze(1) + self.from_environment(self.environments)
        return losses_by_environment(logits, batch.y, self.task)
