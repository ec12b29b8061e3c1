"""PrunE: drop the edges that say nothing, and the invariant part stays by itself."""

from __future__ import annotations

import torch
from torch import Tensor

from mphil.config import EncoderConfig
from mphil.errors import UsageError
from mphil.graphs.store import Batch
from mphil.methods.base import Losses, Method, Progress, register
from mphil.nn.encoders import build_encoder
from mphil.nn.losses import task_loss
from mphil.nn.masks import concrete, node_share_of_edges, straight_through
from mphil.nn.readout import three_layers, two_layers
from mphil.nn.sphere import unit
from mphil.task import Task

TEMPERATURE = 0.2
OVER = 4.0
"""How much dearer an edge above the budget is than one below it."""


@register(
    "prune",
    paper="Yao et al., 2025, Pruning spurious subgraphs for graph out-of-distribution generalization, NeurIPS",
    needs={"edge_weight"},
    search_space={
        "keep": [0.5, 0.75, 0.85],
        "lowest": [0.5, 0.7, 0.9],
        "keep_weight": [10.0, 40.0],
        "align_weight": [1e-3, 1e-2, 1e-1],
    },
)
class PrunE(Method):
    r"""A short GNN draws the edges to keep; a budget and a pull of the least likely edges to 0 prune the others.

    .. math::
        p_{uv} = \sigma\big(\mathrm{MLP}(h_u + h_v)\big), \quad m_{uv} \sim \mathrm{Bernoulli}(p_{uv}), \quad
        \mathcal L = \ell + \lambda_1\, c\, |\bar m - \eta|
        + \frac{\lambda_2}{2} \sum_{uv \in E_s} \Big|p_{uv} - \frac1{|E_s|}\Big|

    :math:`\bar m` is the share of the edges of the batch that is kept, c = 4 where it is above :math:`\eta` and 1
    below; :math:`E_s` is the share K of the edges of the batch with the lowest :math:`p`. Draws are hard, their
    gradients those of a relaxed draw of temperature 0.2. The classifier sees the graph without the other edges; the
    vector of a graph is scaled to length 1. Training begins with the classifier alone, on whole graphs.

    Args:
        task: what is asked.
        encoder: settings of the classifying GNN; that of the edges has as many features, and no virtual node.
        keep: :math:`\eta`, budget of edges, as a share.
        keep_weight: :math:`\lambda_1`.
        lowest: K, share of the edges that is pulled to 0.
        align_weight: :math:`\lambda_2`; the term is a sum over edges and grows with the batch.
        warmup: share of training before edges are dropped. The published one is 10 of 100 epochs.
        selector_layers: message-passing layers of the GNN of the edges.

    Differs from the authors' code: predictions weigh edges by :math:`p`, the mean of many draws, where theirs draw
    once. The paper has a squared distance from the budget, and means over the edges of each graph: here is what the
    code has. Their MLP sees :math:`[h_u + h_v, h_u + h_v, 2 (h_u + h_v)]` and has two outputs, which comes to the same.
    """

    def __init__(
        self,
        task: Task,
        encoder: EncoderConfig,
        *,
        keep: float = 0.85,
        keep_weight: float = 10.0,
        lowest: float = 0.9,
        align_weight: float = 1e-3,
        warmup: float = 0.1,
        selector_layers: int = 2,
    ) -> None:
        super().__init__(task, encoder)
        if not (0 < keep <= 1 and 0 <= lowest <= 1 and 0 <= warmup < 1 and selector_layers >= 1):
            raise UsageError(
                "prune needs 0 < keep <= 1, 0 <= lowest <= 1, 0 <= warmup < 1 and selector_layers >= 1, "
                f"not {keep=}, {lowest=}, {warmup=} and {selector_layers=}"
            )
        self.keep, self.keep_weight, self.lowest, self.align_weight = keep, keep_weight, lowest, align_weight
        self.warmup = warmup
        self.selector = build_encoder(encoder.plain(layers=selector_layers))
        self.scorer = two_layers(encoder.width, 1)
        self.encoder = build_encoder(encoder)
        self.head = three_layers(encoder.width, task.n_outputs)
        self.pruning: Tensor
        self.register_buffer("pruning", torch.zeros((), dtype=torch.bool))

    def loss(self, batch: Batch, progress: Progress) -> Losses:
        pruning = progress.fraction >= self.warmup
        if self.training:
            self.pruning.fill_(pruning)
        if not pruning:
            return Losses(classification=task_loss(self.head(self.represent(batch, None)), batch.y, self.task))
        scores = self.score(batch)
        drawn = self.draw(scores)
        return Losses(
            classification=task_loss(self.head(self.represent(batch, drawn)), batch.y, self.task),
            budget=self.keep_weight * over_budget(drawn, self.keep),
            alignment=self.align_weight * alignment(scores.sigmoid(), self.lowest),
        )

    def score(self, batch: Batch) -> Tensor:
        """(E,) log-odds that an edge is kept, the same in both directions."""
        source, target = batch.edge_index
        nodes = self.selector(batch)
        logits: Tensor = self.scorer(nodes.index_select(0, source) + nodes.index_select(0, target))
        return logits.squeeze(1)

    def draw(self, scores: Tensor) -> Tensor:
        """(E,) in training 0 or 1, drawn with the gradient of a relaxed draw; otherwise the probabilities."""
        soft = concrete(scores, TEMPERATURE, self.training)
        return straight_through(soft > 0.5, soft) if self.training else soft

    def represent(self, batch: Batch, edge_weight: Tensor | None) -> Tensor:
        """(B, d) unit vectors of the graphs, seen with these weights of edges."""
        return unit(self.pool(self.encoder(batch, edge_weight=edge_weight), batch.ptr))

    def predict(self, batch: Batch) -> Tensor:
        logits: Tensor = self.head(self.embed(batch))
        return logits

    def embed(self, batch: Batch) -> Tensor:
        return self.represent(batch, self.score(batch).sigmoid() if self.pruning else None)

    def node_importance(self, batch: Batch) -> Tensor:
        """(N,) mean probability of the edges of a node."""
        return node_share_of_edges(self.score(batch).sigmoid(), batch).detach()


def over_budget(mask: Tensor, keep: float) -> Tensor:
    """How far the share kept of (E,) edges is from the budget; four times that above it, 0 without edges."""
    gap = mask.sum() / max(1, len(mask)) - keep * (len(mask) > 0)
    return torch.where(gap >= 0, OVER * gap, -gap)


def alignment(probability: Tensor, share: float) -> Tensor:
    """Half the distance of the lowest of (E,) probabilities from equal shares of 1, summed over them."""
    lowest = probability.sort().values[: int(len(probability) * share)]
    return (lowest - 1 / max(1, len(lowest))).abs().sum() / 2
