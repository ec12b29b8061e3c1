"""Levels of substructures, each with environments of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from mphil.config import EncoderConfig
from mphil.graphs.store import Batch
from mphil.nn.encoders import build_encoder
from mphil.nn.latent import losses_by_environment
from mphil.nn.masks import concrete
from mphil.nn.readout import grouped_softmax, readout
from mphil.nn.scorers import Scorer
from mphil.task import Task

TEMPERATURE = 0.2
"""Of the drawing of edges and of the choice of an environment."""
MOST_WEIGHT = 2.0
"""How much more a graph of a rare environment may count."""


class Level(NamedTuple):
    """What a level sees of a batch.

    Attributes:
        causal: (B, d) the chosen part of each graph.
        spurious: (B, d) the rest.
        losses: (B, E) loss of each graph in each environment.
    """

    causal: Tensor
    spurious: Tensor
    losses: Tensor


class Hierarchy(nn.Module):
    """Chooses edges level by level; those chosen once stay chosen.

    Args:
        task: what is asked.
        encoder: settings of the GNNs; each has one layer and no virtual node.
        environments: how many at each level.
        threshold: value above which a drawn edge is chosen.
    """

    def __init__(self, task: Task, encoder: EncoderConfig, environments: Sequence[int], threshold: float) -> None:
        super().__init__()
        self.task, self.threshold = task, threshold
        width, config = encoder.width, encoder.plain(layers=1)
        self.encoders = nn.ModuleList(build_encoder(config, embedded=level > 0) for level in range(len(environments)))
        self.scorers = nn.ModuleList(_edge_scorer(width) for _ in environments)
        self.causal = nn.ModuleList(_perceptron(width) for _ in environments)
        self.spurious = nn.ModuleList(_perceptron(width) for _ in environments)
        self.heads = nn.ModuleList(nn.Linear(width + task.n_tasks, e * task.n_outputs) for e in environments)

    def forward(self, batch: Batch) -> list[Level]:
        """What every level sees, the finest first. Labels are looked at."""
        label = batch.y.nan_to_num()
        nodes: Tensor | None = None
        chosen: Tensor | None = None
        levels = []
        for number, encoder in enumerate(self.encoders):
            nodes = encoder(batch, x=nodes)
            drawn = draw_edges(self.scorers[number](nodes, batch), batch, self.threshold, self.training)
            chosen = drawn if chosen is None else torch.maximum(chosen, drawn)
            parts = (pool_touched(nodes, weight, batch) for weight in (chosen, 1 - chosen))
            causal, spurious = self.causal[number](next(parts)), self.spurious[number](next(parts))
            logits = self.heads[number](torch.cat([spurious, label.to(spurious.dtype)], dim=1))
            logits = logits.unflatten(1, (-1, self.task.n_outputs))
            levels.append(Level(causal, spurious, losses_by_environment(logits, batch.y, self.task)))
        return levels


def draw_edges(scores: Tensor, batch: Batch, threshold: float, training: bool) -> Tensor:
    """(E,) 1 for edges that are chosen, 0 for others, with the gradient of the relaxed draw they come from.

    Scores become shares of the edges that leave the same node; in evaluation nothing is drawn at random.
    """
    logits = grouped_softmax(scores, batch.edge_index[0], batch.batch.numel()).logit(1e-6)
    soft = concrete(logits, TEMPERATURE) if training else (logits / TEMPERATURE).sigmoid()
    return (soft > threshold).to(soft.dtype) + soft - soft.detach()


def pool_touched(nodes: Tensor, edge_weight: Tensor, batch: Batch) -> Tensor:
    """(B, d) sum over the nodes that an edge of weight 1 begins or ends at; zeros where there is none."""
    ends = batch.edge_index.flatten()
    touched = edge_weight.new_zeros(len(nodes)).scatter_reduce(0, ends, edge_weight.repeat(2), "amax")
    return readout(nodes * touched.unsqueeze(1), batch.ptr, "sum")


def commitment(losses: Tensor, known: Tensor) -> Tensor:
    r"""How undecided graphs are between environments: :math:`-\overline{w \log p}` for the likeliest one of each.

    Args:
        losses: (B, E) of each graph in each environment; :math:`p` is their softmin.
        known: (B,) graphs that count.

    Returns:
        A scalar, the mean weighted by :math:`w_e = \min(\max_{e'} n_{e'} / n_e, 2)`; 0 when no graph counts.
    """
    log_p, environment = (-losses / TEMPERATURE).log_softmax(1).max(1)
    counts = environment[known].bincount(minlength=losses.shape[1])
    weight = (counts.max() / counts.clamp_min(1)).clamp_max(MOST_WEIGHT).to(losses.dtype)[environment] * known
    return -(weight * log_p).sum() / weight.sum().clamp_min(1)


def _perceptron(width: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width))


def _edge_scorer(width: int) -> Scorer:
    scorer = Scorer(width, "edge", hidden=(4 * width,))
    scorer.last.register_parameter("bias", None)  # the softmax over edges would not see it
    return scorer
