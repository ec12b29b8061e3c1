"""LIRS: remove what is surely invariant, learn what remains, and treat its clusters evenly."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from mphil.config import EncoderConfig
from mphil.errors import UsageError
from mphil.graphs.store import Batch
from mphil.methods.base import Losses, Parts, Progress, Staged, evaluating, register
from mphil.methods.erm import ERM
from mphil.methods.gsat import GSAT
from mphil.nn.infomax import Infomax
from mphil.nn.losses import label_probability, labelled, masked_mean, task_loss
from mphil.nn.memory import Memory
from mphil.nn.posthoc import soft_clusters
from mphil.nn.readout import three_layers
from mphil.task import Task


@register(
    "lirs",
    paper="Yao, Chen, Hu, Liu, Zhang and Shen, 2025, Learning graph invariance by harnessing spuriosity, ICLR",
    needs={"edge_weight"},
    search_space={"weight": [0.01, 0.1, 1.0], "clusters": [3, 5, 10], "marked": [4, 8, 12], "drop": [0.1, 0.2, 0.3]},
)
class LIRS(Staged, ERM):
    r"""ERM, and a second head that tells the spurious clusters of a class apart, the small ones above all.

    Two earlier stages: GSAT finds the nodes that matter most in each graph and marks them if the label is less likely
    without the edges between them; then embeddings are learned without labels (MVGRL), in which a marked node counts
    as a stranger, so that they hold what is spurious. They are clustered class by class.

    .. math::
        \mathcal L = R + \lambda\, \frac1B \sum_i \omega_i\, \mathrm{CE}\big(P_i, f_{y_i}(g_i)\big), \qquad
        \omega_i = \frac{1 - \pi_i^\gamma}{\gamma}

    :math:`P_i` are the calibrated probabilities of the clusters of i's class, :math:`\pi_i` the share of its own.

    Args:
        task: what is asked.
        encoder: settings of the GNN, and of GSAT's.
        weight: :math:`\lambda`.
        clusters: of each class.
        focus: :math:`\gamma`, how much less a graph of a large cluster counts.
        marked: nodes of a graph that may be marked.
        drop: by how much the probability of the true label must fall for that.
        prior: what GSAT's attention is pulled to in the end.
        width: of the embeddings.
        layers: of their two GNNs.
        attention_share: epochs of GSAT as a share of the epochs of the main stage.
        infomax_share: epochs of the embeddings, likewise.

    Both heads of the main stage have three layers.

    Differs from the authors' code: every marked node is hidden, not one a graph; the second head learns and has
    outputs of its own for every class; k-means and support vector machines see at most 5,000 graphs of a class;
    true motifs are never looked at; binary tasks have one output, not two; the GNNs are normalised on all data. The
    prior of GSAT falls by shares of its stage, see `gsat`. With several tasks, both classes of each are clustered.
    """

    def __init__(
        self,
        task: Task,
        encoder: EncoderConfig,
        *,
        weight: float = 0.1,
        clusters: int = 3,
        focus: float = 0.9,
        marked: int = 8,
        drop: float = 0.1,
        prior: float = 0.7,
        width: int = 64,
        layers: int = 4,
        attention_share: float = 1.0,
        infomax_share: float = 1.0,
    ) -> None:
        super().__init__(task, encoder)
        if clusters < 2 or focus <= 0 or marked < 1:
            raise UsageError(f"lirs needs {clusters=} of 2 or more, {focus=} above 0, {marked=} of 1 or more")
        self.weight, self.clusters, self.focus, self.marked, self.drop = weight, clusters, focus, marked, drop
        self.shares = {"attention": attention_share, "infomax": infomax_share}
        self.gsat = GSAT(task, encoder, attention="node", final=prior)
        self.infomax = Infomax(encoder, width=width, layers=layers)
        self.head = three_layers(encoder.width, task.n_outputs)
        self.cluster_head = three_layers(encoder.width, task.n_tasks * task.n_classes * clusters)
        self.marks = Memory(marked)
        self.targets, self.importance = Memory(task.n_tasks * clusters), Memory(task.n_tasks)

    def stages(self) -> dict[str, float]:
        return self.shares

    def stage_networks(self) -> dict[str, nn.Module]:
        return {"attention": self.gsat, "infomax": self.infomax}

    def loss(self, batch: Batch, progress: Progress) -> Losses:
        if progress.stage == "attention":
            return self.gsat.loss(batch, progress)
        if progress.stage == "infomax":
            hidden = marked(self.marks.read(batch.index).long(), batch)
            return Losses(infomax=self.infomax.loss(batch, hidden))
        graphs = self.embed(batch)
        return Losses(
            classification=task_loss(self.head(graphs), batch.y, self.task),
            clusters=self.weight * self.cluster_loss(graphs, batch),
        )

    def cluster_loss(self, graphs: Tensor, batch: Batch) -> Tensor:
        """Weighted cross-entropy of the clusters of each label's own class, a scalar."""
        by_class = self.cluster_head(graphs).view(len(graphs), self.task.n_tasks, self.task.n_classes, self.clusters)
        own = batch.y.nan_to_num().long()[:, :, None, None].expand(-1, -1, 1, self.clusters)
        logits = by_class.gather(2, own).squeeze(2)
        losses = -(self.targets.read(batch.index).view_as(logits) * logits.log_softmax(-1)).sum(-1)
        return masked_mean(self.importance.read(batch.index) * losses, labelled(batch.y))

    def end_stage(self, parts: Parts, progress: Progress) -> None:
        with evaluating(self):
            if progress.stage == "attention":
                for batch in parts.train:
                    self.marks.write(batch.index, self.mark(batch))
            else:
                self.cluster(*self.infomax.place(parts.train))

    def mark(self, batch: Batch) -> Tensor:
        """(B, marked) numbers of the nodes of each graph that are marked, see `top_nodes`."""
        attention = self.gsat.attend(batch)
        weight, marks = self.gsat.edge_attention(batch, attention), top_nodes(attention, batch, self.marked)
        between = marked(marks, batch)[batch.edge_index].all(0)
        fall = self.truth(batch, weight) - self.truth(batch, weight.masked_fill(between, 0.0))
        return marks * (fall >= self.drop).unsqueeze(1)

    def truth(self, batch: Batch, edge_weight: Tensor) -> Tensor:
        """(B,) probability GSAT gives to the true labels, on average, with these weights of the edges."""
        nodes = self.gsat.encoder(batch, edge_weight=edge_weight)
        logits = self.gsat.head(self.gsat.pool(nodes, batch.ptr))
        known = labelled(batch.y)
        return (label_probability(logits, batch.y, self.task) * known).sum(1) / known.sum(1).clamp_min(1)

    def cluster(self, index: Tensor, y: Tensor, points: Tensor) -> None:
        """Cluster the (n, d) embeddings of every class; keep the probabilities and the weight of each graph."""
        targets, importance = points.new_zeros(*y.shape, self.clusters), points.new_zeros(y.shape)
        for task in range(self.task.n_tasks):
            for label in range(self.task.n_classes):
                own = (y[:, task] == label).nonzero().squeeze(1)
                if len(own):
                    soft, share = soft_clusters(points[own], self.clusters)
                    targets[own, task] = soft.to(targets.dtype)
                    importance[own, task] = ((1 - share**self.focus) / self.focus).to(importance.dtype)
        self.targets.write(index, targets.flatten(1))
        self.importance.write(index, importance)


def rank_in_graph(scores: Tensor, batch: Batch) -> Tensor:
    """(N,) place of each node among those of its graph, the highest score first; of equals the first is first."""
    by_score = scores.argsort(descending=True, stable=True)
    order = by_score[batch.batch[by_score].argsort(stable=True)]
    rank = torch.empty_like(order)
    rank[order] = torch.arange(len(order), device=order.device) - batch.ptr[batch.batch[order]]
    return rank


def top_nodes(scores: Tensor, batch: Batch, slots: int) -> Tensor:
    """(B, slots) numbers, from 1 on and counted inside each graph, of the nodes with the highest (N,) scores; 0 = none.

    Example:
        >>> from mphil.graphs.batch import GraphBatch
        >>> two = GraphBatch(batch=torch.tensor([0, 0, 0, 1]), ptr=torch.tensor([0, 3, 4]))
        >>> top_nodes(torch.tensor([0.1, 0.9, 0.5, 0.3]), two, 2).tolist()
        [[2, 3], [1, 0]]
    """
    rank = rank_in_graph(scores, batch)
    top = rank < slots
    local = torch.arange(len(rank), device=rank.device) - batch.ptr[batch.batch]
    marks = torch.zeros(batch.ptr.numel() - 1, slots, dtype=torch.long, device=rank.device)
    marks[batch.batch[top], rank[top]] = local[top] + 1
    return marks


def marked(marks: Tensor, batch: Batch) -> Tensor:
    """(N,) True for the nodes that (B, slots) marks number."""
    nodes = batch.ptr[:-1].unsqueeze(1) + marks - 1
    return torch.zeros_like(batch.batch, dtype=torch.bool).index_fill(0, nodes[marks > 0], True)
