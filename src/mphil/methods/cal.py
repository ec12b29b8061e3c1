"""CAL: attention splits a graph into object and context; the object must predict beside any context."""

from __future__ import annotations

import math

from torch import Tensor, nn
from torch.nn import functional as F

from mphil.config import EncoderConfig
from mphil.graphs.store import Batch
from mphil.methods.base import Losses, Method, Progress, register
from mphil.nn.encoders import build_encoder
from mphil.nn.encoders.blocks import BatchNorm
from mphil.nn.encoders.gcn import GCNLayer
from mphil.nn.losses import labelled, masked_mean, permutation, task_loss
from mphil.nn.rationale import Scorer
from mphil.nn.readout import Pooling, Readout
from mphil.task import Task

CONTEXT, OBJECT = 0, 1


class Branch(nn.Module):
    """Attended nodes, normalised and convolved once over attended edges."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = BatchNorm(width)
        self.convolution = GCNLayer(width, width)

    def forward(self, nodes: Tensor, edge_index: Tensor, edge_weight: Tensor) -> Tensor:
        """(N, d) -> (N, d)."""
        out: Tensor = self.convolution(self.norm(nodes), edge_index, edge_weight)
        return out.relu()


@register(
    "cal",
    paper="Sui et al., 2022, Causal attention for interpretable and generalizable graph classification, KDD",
    search_space={"context": [0.1, 0.3, 0.5, 0.7, 0.9], "combination": [0.1, 0.3, 0.5, 0.7, 0.9]},
)
class CAL(Method):
    r"""Node and edge attention, a softmax over two, shares every graph between an object and a context branch.

    .. math::
        \mathcal L = o\, \ell(f_o(z_o), y) + c\, \mathrm{KL}(\mathrm{uniform} \,\|\, f_c(z_c))
                     + co\, \ell(f_{co}(z_o + z_c^\pi), y)

        z_o = \sum_v \mathrm{ReLU}\big(\mathrm{GCN}(X \odot \alpha^o;\, \beta^o)\big)_v, \qquad
        \alpha^o + \alpha^c = 1, \quad \beta^o + \beta^c = 1

    X comes from one trunk; :math:`\alpha` weighs nodes, :math:`\beta` edges. The object predicts the label, the context
    must not, and the object with the context of a random graph of the batch must still predict the object's label.
    Prediction: the object head.

    Args:
        task: what is asked.
        encoder: settings of the trunk.
        objective: o, weight of the object's loss.
        context: c, weight of the context's divergence from ignorance.
        combination: co, weight of the loss with swapped contexts.
        pooling: how nodes become one vector.

    Differs from the authors' code: the trunk is the encoder of the run. For binary tasks ignorance is p = 0.5, label
    by label, where the label is known.
    """

    def __init__(
        self,
        task: Task,
        encoder: EncoderConfig,
        *,
        objective: float = 1.0,
        context: float = 0.5,
        combination: float = 0.5,
        pooling: Pooling = "sum",
    ) -> None:
        super().__init__(task, encoder)
        self.objective, self.context, self.combination = objective, context, combination
        self.pool = Readout(pooling, encoder.width)
        width = encoder.width
        self.trunk = build_encoder(encoder)
        self.node_attention = Scorer(width, "node", outputs=2)
        self.edge_attention = Scorer(width, "edge", outputs=2)
        self.context_branch, self.object_branch = Branch(width), Branch(width)
        self.context_head, self.object_head, self.combination_head = (head(width, task.n_outputs) for _ in range(3))

    def loss(self, batch: Batch, progress: Progress) -> Losses:
        context, object_ = self.split(batch)
        ignorance = uniform_divergence(self.context_head(context), self.task)
        combined = self.combination_head(object_ + context[permutation(len(context), context.device)])
        return Losses(
            object=self.objective * task_loss(self.object_head(object_), batch.y, self.task),
            context=self.context * masked_mean(ignorance, labelled(batch.y)),
            combination=self.combination * task_loss(combined, batch.y, self.task),
        )

    def predict(self, batch: Batch) -> Tensor:
        logits: Tensor = self.object_head(self.embed(batch))
        return logits

    def embed(self, batch: Batch) -> Tensor:
        """(B, d) the object of each graph."""
        return self.split(batch)[OBJECT]

    def node_importance(self, batch: Batch) -> Tensor:
        """(N,) attention of the object branch to each node."""
        attention: Tensor = self.node_attention(self.trunk(batch), batch).softmax(1)
        return attention[:, OBJECT]

    def split(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """(B, d) context and (B, d) object of each graph."""
        nodes = self.trunk(batch)
        node_share = self.node_attention(nodes, batch).softmax(1)
        edge_share = self.edge_attention(nodes, batch).softmax(1)

        def pooled(branch: Branch, part: int) -> Tensor:
            seen = branch(nodes * node_share[:, [part]], batch.edge_index, edge_share[:, part])
            return self.pool(seen, batch.ptr)

        return pooled(self.context_branch, CONTEXT), pooled(self.object_branch, OBJECT)


def head(width: int, outputs: int) -> nn.Sequential:
    """Normalise, linear, ReLU, normalise, linear: (B, width) -> (B, outputs)."""
    return nn.Sequential(
        BatchNorm(width), nn.Linear(width, width), nn.ReLU(), BatchNorm(width), nn.Linear(width, outputs)
    )


def uniform_divergence(logits: Tensor, task: Task) -> Tensor:
    r""":math:`\mathrm{KL}(\mathrm{uniform} \,\|\, p)` of every prediction: (B, outputs) logits -> (B, T), 0 at best."""
    if task.kind == "multiclass":
        return -logits.log_softmax(1).mean(1, keepdim=True) - math.log(task.n_classes)
    return -(F.logsigmoid(logits) + F.logsigmoid(-logits)) / 2 - math.log(2)
