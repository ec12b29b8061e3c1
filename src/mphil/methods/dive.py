"""DIVE: several models that must look at different parts of a graph, and the best of them on other data."""

from __future__ import annotations

from itertools import combinations
from typing import cast

import torch
from torch import Tensor, nn

from mphil.config import EncoderConfig
from mphil.errors import UsageError
from mphil.graphs.store import Batch
from mphil.methods.base import Losses, Method, Parts, Progress, evaluating, register
from mphil.nn.encoders import build_encoder
from mphil.nn.losses import labelled, task_loss
from mphil.nn.masks import node_share_of_edges, straight_through
from mphil.nn.rationale import Scorer, edge_graph
from mphil.nn.readout import two_layers
from mphil.task import Task


@register(
    "dive",
    paper="Sun et al., 2024, DIVE: Subgraph disagreement for graph out-of-distribution generalization, KDD",
    needs={"edge_weight"},
    search_space={"members": [2, 3, 4], "weight": [0.1, 0.5, 1.0]},
)
class DIVE(Method):
    r"""Models that share nothing each draw edges and classify by them; drawing the same edges is dear.

    .. math::
        m^k_{uv} \sim \mathrm{Bernoulli}\big(p^k_{uv}\big), \quad
        p^k_{uv} = \sigma\big(\mathrm{MLP}_k([h^k_u \,\|\, h^k_v])\big), \qquad
        \mathcal L = \frac1M \sum_k \ell\big(f_k(m^k G), y\big)
        + \lambda \operatorname*{mean}_{k < l}\, \operatorname*{mean}_{G}\, \frac{|m^k \cap m^l|}{|m^k \cup m^l|}

    A network prefers the simplest pattern that predicts the label, which may be a spurious one. Models that must
    differ find the others, too, and data from elsewhere tell which one to believe: the one with the best accuracy
    (multi-class tasks) or area under the ROC curve on the OOD validation part predicts alone. Draws have the gradient
    of :math:`p`.

    Args:
        task: what is asked.
        encoder: settings of the two GNNs of each model.
        members: M.
        weight: :math:`\lambda`.

    Differs from the paper (no code is public): draws follow :math:`p`, which the printed formula misses; predictions
    weigh edges by :math:`p`, of which the paper says nothing; features of edges reach the scores through the GNN only.
    The model that predicts is chosen before every epoch but the first, by the weights it begins with, under either
    rule of selection, so that an epoch is scored with the model that was best one epoch before; the first epoch is
    scored with the first model. Without labelled validation graphs it stays.
    """

    def __init__(self, task: Task, encoder: EncoderConfig, *, members: int = 3, weight: float = 0.5) -> None:
        super().__init__(task, encoder)
        if members < 1:
            raise UsageError(f"dive needs members >= 1, not {members}")
        self.weight = weight
        self.members = nn.ModuleList(EnsembleMember(encoder, task.n_outputs) for _ in range(members))
        self.chosen: Tensor
        self.register_buffer("chosen", torch.zeros((), dtype=torch.long))

    @property
    def best(self) -> EnsembleMember:
        """The model that predicts."""
        return self.member(int(self.chosen))

    def member(self, number: int) -> EnsembleMember:
        return cast("EnsembleMember", self.members[number])

    def loss(self, batch: Batch, progress: Progress) -> Losses:
        members = [self.member(number) for number in range(len(self.members))]
        masks = [member.mask(batch) for member in members]
        risks = [
            task_loss(member.head(self.represent(member, batch, mask)), batch.y, self.task)
            for member, mask in zip(members, masks, strict=True)
        ]
        losses = Losses(classification=torch.stack(risks).mean())
        if len(masks) > 1:
            overlaps = [overlap(first, second, batch) for first, second in combinations(masks, 2)]
            losses["overlap"] = self.weight * torch.stack(overlaps).mean()
        return losses

    def begin_epoch(self, parts: Parts, progress: Progress) -> None:
        """Choose the model that does best on the validation part."""
        if progress.epoch == 0 or len(self.members) == 1:
            return
        with evaluating(self):
            pairs = [([self.answer(n, batch) for n in range(len(self.members))], batch.y) for batch in parts.validation]
        if not pairs:
            return
        y = torch.cat([labels for _, labels in pairs])
        scores = [score(torch.cat([logits[n] for logits, _ in pairs]), y, self.task) for n in range(len(self.members))]
        if scores[0] is not None:
            self.chosen.fill_(max(range(len(scores)), key=lambda n: scores[n] or 0.0))

    def answer(self, number: int, batch: Batch) -> Tensor:
        """(B, outputs) logits of one model."""
        member = self.member(number)
        logits: Tensor = member.head(self.represent(member, batch, member.mask(batch)))
        return logits

    def represent(self, member: EnsembleMember, batch: Batch, mask: Tensor) -> Tensor:
        """(B, d) the graphs, seen by one model through its mask."""
        return self.pool(member.encoder(batch, edge_weight=mask), batch.ptr)

    def predict(self, batch: Batch) -> Tensor:
        return self.answer(int(self.chosen), batch)

    def embed(self, batch: Batch) -> Tensor:
        return self.represent(self.best, batch, self.best.mask(batch))

    def node_importance(self, batch: Batch) -> Tensor:
        """(N,) mean probability of the edges of a node."""
        return node_share_of_edges(self.best.mask(batch), batch).detach()


class EnsembleMember(nn.Module):
    """One model: a GNN and an MLP that choose edges, a GNN and an MLP that classify by them."""

    def __init__(self, encoder: EncoderConfig, outputs: int) -> None:
        super().__init__()
        self.chooser = build_encoder(encoder)
        self.scorer = Scorer(encoder.width, "edge", hidden=(encoder.width,))
        self.encoder = build_encoder(encoder)
        self.head = two_layers(encoder.width, outputs)

    def mask(self, batch: Batch) -> Tensor:
        """(E,) in training 0 or 1, drawn with the gradient of the probabilities; otherwise the probabilities."""
        probability: Tensor = self.scorer(self.chooser(batch), batch).sigmoid()
        if not self.training:
            return probability
        return straight_through(torch.rand_like(probability) < probability, probability)


def overlap(first: Tensor, second: Tensor, batch: Batch) -> Tensor:
    """Jaccard index of two (E,) masks, a mean over the graphs that have edges; 0 where nothing is kept."""
    owner, n_graphs = edge_graph(batch), batch.ptr.numel() - 1
    both = first * second
    sums = first.new_zeros(n_graphs, 3)
    sums = sums.index_add(0, owner, torch.stack([both, first + second - both, torch.ones_like(both)], 1))
    shared, union, edges = sums.unbind(1)
    kept = union > 0
    ratios = torch.where(kept, shared, 0.0) / torch.where(kept, union, 1.0)
    return ratios.sum() / (edges > 0).sum().clamp_min(1)


def score(logits: Tensor, y: Tensor, task: Task) -> float | None:
    """Accuracy, or the mean area under the ROC curve of the tasks that have both classes; None without any."""
    known = labelled(y)
    if task.kind == "multiclass":
        right = (logits.argmax(1) == y[:, 0])[known[:, 0]]
        return float(right.double().mean()) if len(right) else None
    from sklearn.metrics import roc_auc_score  # seconds to import, and no other method needs it

    areas = [
        roc_auc_score(y[k, t].cpu(), logits[k, t].cpu())
        for t, k in enumerate(known.unbind(1))
        if len(torch.unique(y[k, t])) == 2
    ]
    return float(sum(areas) / len(areas)) if areas else None
