"""HSE: environments inferred in a hierarchy of substructures, then invariant learning over them."""

from __future__ import annotations

from typing import Literal

import torch
from torch import nn

from mphil.config import EncoderConfig
from mphil.errors import UsageError
from mphil.graphs.store import Batch
from mphil.methods.base import Losses, Parts, Progress, evaluating, register
from mphil.methods.erm import ERM
from mphil.methods.hse_hierarchy import Hierarchy, commitment
from mphil.methods.staged import Staged
from mphil.nn.contrast import label_pairs, supervised_contrast
from mphil.nn.losses import entry_losses, labelled, masked_mean
from mphil.nn.memory import Memory
from mphil.nn.penalties import environment_risks, irm_penalty, variance_penalty
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
