"""GALA: same label, different environment, as a frozen assistant sees it: these must look alike."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn

from mphil.config import EncoderConfig
from mphil.errors import UsageError
from mphil.graphs.store import Batch
from mphil.methods.base import Losses, Parts, Progress, Staged, evaluating, register
from mphil.methods.erm import ERM
from mphil.nn.encoders import build_encoder
from mphil.nn.losses import label_pairs, labelled, supervised_contrast, task_loss
from mphil.nn.masks import subgraph, top_share
from mphil.nn.memory import Memory
from mphil.nn.posthoc import kmeans
from mphil.nn.rationale import Scorer, edge_graph, node_importance, require_share
from mphil.nn.readout import Readout, two_layers
from mphil.task import Task


@register(
    "gala",
    paper="Chen, Bian, Zhou, Xie, Han and Cheng, 2023, Does invariant graph learning via environment augmentation "
    "learn invariance?, NeurIPS",
    needs={"edge_weight"},
    search_space={"contrast": [0.5, 1.0, 2.0, 8.0, 32.0, 64.0, 128.0], "environments": [1, 2, 3, 5, 10]},
)
class GALA(Staged):
    r"""A network that weighs edges, trained with a contrast across the environments an assistant tells apart.

    .. math::
        \mathcal L = R + \lambda\, \frac1{|A|} \sum_{i \in A} \frac{-1}{|P_i|} \sum_{p \in P_i} \log
        \frac{e^{\langle \hat z_i, \hat z_p\rangle}}{\sum_{a \in P_i \cup N_i} e^{\langle \hat z_i, \hat z_a\rangle}}

    :math:`P_i` are the graphs of the batch with the label of i in another group, :math:`N_i` those with another label
    in its group. An earlier stage trains the assistant by ERM, which prefers what is spurious; its k-means clusters,
    or for one environment its predicted classes, are the groups. Graphs it gets wrong count several times. Without
    any :math:`P_i` in a batch all graphs with one label are positives.

    Args:
        task: what is asked.
        encoder: settings of the GNNs.
        contrast: :math:`\lambda`.
        environments: clusters of the assistant's vectors; 1 = its predicted classes, task by task.
        copies: how often a graph counts that the assistant gets wrong, if it is right more often than not; 1 = once,
            0 = right over wrong graphs, at most twice.
        assistant: plain `erm`, or the `same` network as the main one.
        keep: share of edges that are kept; 1 keeps all, with their weights.
        sees: the classifying GNN sees the graph's own features or those of the weighing GNN.
        warm_up: share of training without the contrast.
        assistant_share: epochs of the earlier stage as a share of the epochs of the main one.

    Differs from the authors' code: copies of a graph lie in one batch, with the same expected loss, instead of in a
    longer training set; the assistant is that of its last epoch; binary tasks have one output, not two.
    With several tasks, a graph is wrong if more than half of its labels are.
    """

    def __init__(
        self,
        task: Task,
        encoder: EncoderConfig,
        *,
        contrast: float = 1.0,
        environments: int = 3,
        copies: int = 3,
        assistant: Literal["erm", "same"] = "same",
        keep: float = 1.0,
        sees: Input = "raw",
        warm_up: float = 0.0,
        assistant_share: float = 1.0,
    ) -> None:
        super().__init__(task, encoder)
        del self.pool  # the networks pool for themselves
        if environments < 1 or copies < 0:
            raise UsageError(f"gala needs environments >= 1 and copies >= 0, not {environments} and {copies}")
        self.contrast, self.environments, self.copies = contrast, environments, copies
        self.warm_up, self.assistant_share = warm_up, assistant_share
        self.network = WeightedClassifier(task, encoder, keep, sees)
        self.assistant = ERM(task, encoder) if assistant == "erm" else WeightedClassifier(task, encoder, keep, sees)
        self.groups, self.repeats = Memory(task.n_tasks), Memory(1)

    def stages(self) -> dict[str, float]:
        return {"assistant": self.assistant_share}

    def stage_networks(self) -> dict[str, nn.Module]:
        return {"assistant": self.assistant}

    def loss(self, batch: Batch, progress: Progress) -> Losses:
        if progress.stage == "assistant":
            logits = self.assistant.head(self.assistant.embed(batch))
            return Losses(classification=task_loss(logits, batch.y, self.task))
        repeats = self.repeats.read(batch.index).squeeze(1).clamp_min(1).long()
        z, y, groups = (
            value.repeat_interleave(repeats, 0)
            for value in (self.network.embed(batch), batch.y, self.groups.read(batch.index))
        )
        losses = Losses(classification=task_loss(self.network.head(z), y, self.task))
        if progress.fraction >= self.warm_up:
            losses["contrast"] = self.contrast * supervised_contrast(z, *assistant_pairs(y, groups, self.task))
        return losses

    def end_stage(self, parts: Parts, progress: Progress) -> None:
        """Freeze what the assistant says of the training graphs: their groups, and how often each counts."""
        with evaluating(self):
            seen = [(batch.index, batch.y, self.assistant.embed(batch)) for batch in parts.train]
            index, y, vectors = (torch.cat(values) for values in zip(*seen, strict=True))
            predicted = decide(self.assistant.head(vectors), self.task)
        clusters, _ = kmeans(vectors, self.environments, cosine=True)
        self.groups.write(index, clusters.unsqueeze(1).expand_as(y) if self.environments > 1 else predicted)
        mistakes = ((predicted != y) & labelled(y)).sum(1) / labelled(y).sum(1).clamp_min(1)
        wrong, right = mistakes > 0.5, labelled(y).any(1) & (mistakes <= 0.5)
        self.repeats.write(index, repetitions(wrong, int(right.sum()), self.copies).unsqueeze(1))

    def predict(self, batch: Batch) -> Tensor:
        logits: Tensor = self.network.head(self.embed(batch))
        return logits

    def embed(self, batch: Batch) -> Tensor:
        return self.network.embed(batch)

    def node_importance(self, batch: Batch) -> Tensor:
        _, weights, kept = self.network.weigh(batch)
        return node_importance(weights, kept, batch)


def assistant_pairs(y: Tensor, groups: Tensor, task: Task) -> tuple[Tensor, Tensor]:
    """Positives and all candidates (T, B, B) of labels and groups (B, T)."""
    same, known = label_pairs(y, task)
    together = groups.T.unsqueeze(2) == groups.T.unsqueeze(1)
    positives, negatives = same & ~together, known & ~same & together
    positives = torch.where(positives.flatten(1).any(1)[:, None, None], positives, same)
    return positives, positives | negatives


def decide(logits: Tensor, task: Task) -> Tensor:
    """(B, tasks) predicted class numbers."""
    return (
        logits.argmax(1, keepdim=True).to(logits.dtype) if task.kind == "multiclass" else (logits > 0).to(logits.dtype)
    )


def repetitions(wrong: Tensor, n_right: int, copies: int) -> Tensor:
    """(n,) how often each graph counts: `copies` for the wrong ones, 1 for the others or if most are wrong."""
    n_wrong = int(wrong.sum())
    if n_right <= n_wrong:
        return torch.ones_like(wrong, dtype=torch.long)
    return torch.where(wrong, copies or min(n_right // max(1, n_wrong), 2), 1)


Input = Literal["raw", "features"]


class WeightedClassifier(nn.Module):
    """Weighs the edges of a graph and classifies what is left of it.

    Args:
        task: what is asked.
        encoder: settings of both GNNs.
        keep: share of edges that are kept, the heaviest; 1 keeps all, and nodes without edges.
        sees: the second GNN sees the graph's own features or those of the first.
    """

    def __init__(self, task: Task, encoder: EncoderConfig, keep: float, sees: Input) -> None:
        super().__init__()
        width = encoder.width
        self.keep, self.goes_on, self.pool = require_share(keep), sees == "features", Readout(encoder.readout, width)
        self.encoder = build_encoder(encoder)
        self.scorer = Scorer(width, "edge", hidden=(4 * width, width), norm="graph", dropout=encoder.dropout)
        self.classifier = build_encoder(encoder, embedded=self.goes_on)
        self.head = two_layers(width, task.n_outputs)

    def weigh(self, batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
        """(N, d) node features, (E,) weights of the edges between 0 and 1, (E,) whether they are kept."""
        nodes = self.encoder(batch)
        weights = self.scorer(nodes, batch).sigmoid()
        return nodes, weights, top_share(weights, edge_graph(batch), batch.ptr.numel() - 1, self.keep)

    def embed(self, batch: Batch) -> Tensor:
        """(B, d) the weighted part of each graph."""
        features, weights, kept = self.weigh(batch)
        if self.keep < 1:
            batch, nodes = subgraph(batch, kept)
            features, weights = features[nodes], weights[kept]
        out = self.classifier(batch, x=features if self.goes_on else None, edge_weight=weights)
        return self.pool(out, batch.ptr)
