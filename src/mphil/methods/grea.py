"""GREA: a soft node gate finds the rationale, which must predict beside the environment of every other graph."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from mphil.config import EncoderConfig
from mphil.errors import UsageError
from mphil.graphs.store import Batch
from mphil.methods.base import Losses, Method, Progress, register
from mphil.nn.encoders import build_encoder
from mphil.nn.encoders.blocks import BatchNorm
from mphil.nn.losses import all_pairs, random_pairs, task_loss
from mphil.nn.masks import share_penalty
from mphil.nn.randomness import Dropout
from mphil.nn.rationale import Scorer
from mphil.nn.readout import Pooling, Readout
from mphil.task import Task


@register(
    "grea",
    paper="Liu et al., 2022, Graph rationalization with environment-based augmentations, KDD",
    search_space={"rationale_share": [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9]},
)
class GREA(Method):
    r"""Split every graph into rationale and environment, and swap environments between graphs.

    .. math::
        z^r = \sum_v a_v h_v, \quad z^e = \sum_v (1 - a_v)\, h_v, \quad a = \sigma(\mathrm{MLP}(\mathrm{GNN}_a(G))),
        \quad h = \mathrm{GNN}(G)

        \mathcal L = \frac1B \sum_i \ell(f(z^r_i), y_i) + \frac1{B^2} \sum_{ij} \ell(f(z^r_i + z^e_j), y_i)
                     + \frac1B \sum_i |\bar a_i - \gamma|

    Training alternates by epochs: in the first of every cycle the gate is trained, with all three terms; in the others
    the encoder and the predictor, with the first two. A graph is predicted by its rationale alone.

    Args:
        task: what is asked.
        encoder: settings of the GNN; the gate has two layers of it without a virtual node.
        rationale_share: :math:`\gamma`, wanted mean of the gate in a graph.
        gate_epochs: epochs of a cycle that train the gate.
        cycle: epochs of a cycle.
        environments: random environments that each rationale is joined with; 0 = all of the batch, which needs memory
            for the square of the batch size.
        pooling: how nodes become rationale and environment.

    Differs from the authors' code: no residual connections in the GNN. The predictor's first layer has no bias, which
    its batch normalisation would cancel.
    """

    def __init__(
        self,
        task: Task,
        encoder: EncoderConfig,
        *,
        rationale_share: float = 0.4,
        gate_epochs: int = 1,
        cycle: int = 4,
        environments: int = 0,
        pooling: Pooling = "sum",
    ) -> None:
        super().__init__(task, encoder)
        if not 0 < gate_epochs < cycle:
            raise UsageError(f"grea needs 0 < gate_epochs < cycle, not {gate_epochs} and {cycle}")
        self.rationale_share, self.gate_epochs, self.cycle = rationale_share, gate_epochs, cycle
        self.environments = environments
        self.pool = Readout(pooling, encoder.width)
        width, dropout = encoder.width, encoder.dropout
        self.encoder = build_encoder(encoder)
        self.gate_encoder = build_encoder(encoder.plain(layers=2))
        self.gate_head = Scorer(width, "node", hidden=[2 * width], norm="batch", dropout=dropout)
        self.lift = nn.Linear(width, 2 * width, bias=False)
        self.head = nn.Sequential(
            BatchNorm(2 * width), nn.ReLU(), Dropout(dropout), nn.Linear(2 * width, task.n_outputs)
        )

    def param_groups(self) -> dict[str, list[nn.Parameter]]:
        groups = {
            "gate": (self.gate_encoder, self.gate_head),
            "predictor": (self.encoder, self.pool, self.lift, self.head),
        }
        return {name: [p for module in modules for p in module.parameters()] for name, modules in groups.items()}

    def steps(self, batch: Batch, progress: Progress) -> Iterator[tuple[str, Losses]]:
        yield "gate" if self.trains_gate(progress) else "predictor", self.loss(batch, progress)

    def trains_gate(self, progress: Progress) -> bool:
        """Whether this epoch trains the gate."""
        return progress.epoch % self.cycle < self.gate_epochs

    def loss(self, batch: Batch, progress: Progress) -> Losses:
        trains_gate = self.trains_gate(progress)
        # What rests in this epoch needs no gradient.
        with torch.set_grad_enabled(torch.is_grad_enabled() and not trains_gate):
            nodes = self.encoder(batch)
        with torch.set_grad_enabled(torch.is_grad_enabled() and trains_gate):
            gate = self.gate(batch)
        # The lift is linear: the sum of two lifted vectors is their sum lifted, for B rows instead of the square of B.
        rationale, environment = (
            self.lift(self.gather(nodes, gate, batch)),
            self.lift(self.gather(nodes, 1 - gate, batch)),
        )
        if self.environments:
            swapped = random_pairs(rationale, environment, self.environments)
        else:
            swapped = all_pairs(rationale, environment)
        owner_labels = batch.y.repeat_interleave(len(swapped) // len(rationale), dim=0)
        losses = Losses(
            rationale=task_loss(self.head(rationale), batch.y, self.task),
            swapped=task_loss(self.head(swapped), owner_labels, self.task),
        )
        if trains_gate:
            losses["share"] = share_penalty(gate, batch.batch, len(batch.y), self.rationale_share)
        return losses

    def predict(self, batch: Batch) -> Tensor:
        logits: Tensor = self.head(self.lift(self.embed(batch)))
        return logits

    def embed(self, batch: Batch) -> Tensor:
        """(B, d) the rationale of each graph."""
        return self.gather(self.encoder(batch), self.gate(batch), batch)

    def node_importance(self, batch: Batch) -> Tensor:
        """(N,) the gate."""
        return self.gate(batch)

    def gate(self, batch: Batch) -> Tensor:
        """(N,) how much each node belongs to the rationale, between 0 and 1."""
        logits: Tensor = self.gate_head(self.gate_encoder(batch), batch)
        return logits.sigmoid()

    def gather(self, nodes: Tensor, gate: Tensor, batch: Batch) -> Tensor:
        """(B, d) the gated nodes of each graph."""
        return self.pool(nodes * gate.unsqueeze(1), batch.ptr)
