"""HSE: environments inferred in a hierarchy of substructures, then invariant learning over them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn

from mphil.config import EncoderConfig
from mphil.errors import UsageError
from mphil.graphs.store import Batch
from mphil.methods.base import Losses, Parts, Progress, Staged, evaluating, register
from mphil.methods.erm import ERM
from mphil.nn.encoders import build_encoder
from mphil.nn.losses import entry_losses, label_pairs, labelled, masked_mean, supervised_contrast
from mphil.nn.masks import concrete
from mphil.nn.memory import Memory
from mphil.nn.penalties import environment_risks, irm_penalty, losses_by_environment, variance_penalty
from mphil.nn.rationale import Scorer
from mphil.nn.readout import grouped_softmax, readout
from mphil.task import Task


@register(
    "hse",
    paper="Piao, Lee, Lu and Kim, 2024, Improving out-of-distribution generalization in graphs via "
    "hierarchical semantic environments, CVPR",
    search_space={"weight": [0.001, 0.01, 0.1, 1.0], "threshold": [0.6, 0.8]},
)
class HSE(Staged, ERM):
    r"""Infers environments from the spurious parts of graphs, level by level, and equalises risks over the last ones.

    An earlier stage learns :math:`L` levels. Each chooses edges at random, adds them to those that count as causal,
    and sums the nodes at the causal and at the other edges to :math:`c` and :math:`s`; heads on :math:`[s, y]` give
    the loss :math:`\ell_{ie}` of graph i in environment e, and :math:`p_{ie} \propto e^{-\ell_{ie}/\tau}`.

    .. math::
        \mathcal L_{\mathrm{EI}} = \sum_{\mathrm{levels}} \Big[ -\overline{w_{e_i} \log p_{i e_i}}
        + \alpha\,\mathrm{SupCon}(c; y) + \beta\,\mathrm{SupCon}(s; e) \Big], \quad e_i = \arg\min_e \ell_{ie}, \qquad
        \mathcal L_{\mathrm{IL}} = R + \lambda\, \mathrm{penalty}(R_e)

    :math:`w_e`, up to 2, favours rare environments. A graph's environment at the last level is then fixed, and ERM
    with an IRM (or variance) penalty is trained on whole graphs.

    Args:
        task: what is asked.
        encoder: settings of the GNN; those of the levels have one layer.
        environments: environments of the first level: those of the training set, if they can be counted.
        coarsest: environments of the last level; levels between have half of the one before.
        levels: how many levels.
        threshold: value above which a drawn edge is chosen.
        weight: :math:`\lambda`.
        penalty: what is made equal: `irm` the slopes, `vrex` the risks.
        label_contrast: :math:`\alpha`.
        environment_contrast: :math:`\beta`; graphs that shared an environment one level before are positives too.
        inference_share: epochs of the earlier stage as a share of the epochs of the main one.

    Differs from the authors' code: choices pass their gradient to the scores of edges (straight through), which
    otherwise never learn; each level counts once; environments are those of the lowest loss in both stages; empty
    parts stay with their graph; a graph is not its own positive; several classes have a loss of their own.
    """

    def __init__(
        self,
        task: Task,
        encoder: EncoderConfig,
        *,
        environments: int = 10,
        coarsest: int = 2,
        levels: int = 3,
        threshold: float = 0.8,
        weight: float = 0.01,
        penalty: Literal["irm", "vrex"] = "irm",
        label_contrast: float = 1.0,
        environment_contrast: float = 1.0,
        inference_share: float = 0.2,
    ) -> None:
        super().__init__(task, encoder)
        if min(environments, coarsest) < 2 or levels < 1:
            raise UsageError(
                f"hse needs 2 environments or more at every level, and a level; {environments=}, {levels=}"
            )
        self.weight, self.penalty, self.inference_share = weight, penalty, inference_share
        self.label_contrast, self.environment_contrast = label_contrast, environment_contrast
        counts = [max(coarsest, environments >> level) for level in range(levels - 1)] + [coarsest]
        self.hierarchy = Hierarchy(task, encoder, counts, threshold)
        self.inferred = Memory(1)

    def stages(self) -> dict[str, float]:
        return {"inference": self.inference_share}

    def stage_networks(self) -> dict[str, nn.Module]:
        return {"inference": self.hierarchy}

    def loss(self, batch: Batch, progress: Progress) -> Losses:
        if progress.stage == "inference":
            return self.infer(batch)
        logits, env = self.predict(batch), self.inferred.read(batch.index).squeeze(1)
        entries, known = entry_losses(logits, batch.y, self.task), labelled(batch.y)
        if self.penalty == "irm":
            penalty = irm_penalty(logits, batch.y, env, self.task)
        else:
            penalty = variance_penalty(environment_risks(entries, known, env))
        return Losses(classification=masked_mean(entries, known), invariance=self.weight * penalty)

    def infer(self, batch: Batch) -> Losses:
        """The terms of the earlier stage, summed over levels."""
        known = labelled(batch.y).any(1)
        pairs = known.unsqueeze(1) & known
        before = torch.zeros_like(pairs)
        commitments, by_label, by_environment = [], [], []
        for level in self.hierarchy(batch):
            environment = level.losses.argmin(1)
            together = environment.unsqueeze(1) == environment
            commitments.append(commitment(level.losses, known))
            by_label.append(supervised_contrast(level.causal, *label_pairs(batch.y, self.task)))
            by_environment.append(supervised_contrast(level.spurious, (together | before) & pairs, pairs))
            before = together
        return Losses(
            commitment=torch.stack(commitments).sum(),
            label_contrast=self.label_contrast * torch.stack(by_label).sum(),
            environment_contrast=self.environment_contrast * torch.stack(by_environment).sum(),
        )

    def end_stage(self, parts: Parts, progress: Progress) -> None:
        """Fix the environments of the training graphs; those without a label have none."""
        with evaluating(self):
            for batch in parts.train:
                environment = self.hierarchy(batch)[-1].losses.argmin(1)
                known = labelled(batch.y).any(1)
                self.inferred.write(batch.index, torch.where(known, environment, -1).unsqueeze(1))


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
