"""MoleOOD: molecules as attended fragments, no worse than a predictor that knows a latent environment."""

from __future__ import annotations

import math
from typing import Literal

import torch
from torch import Tensor, nn

from mphil.config import EncoderConfig
from mphil.graphs.batch_fragments import cut_edges, fragments
from mphil.graphs.store import Batch, pointer
from mphil.methods.base import Losses, Progress, Staged, evaluating, register
from mphil.nn.encoders import build_encoder
from mphil.nn.losses import labelled, masked_mean
from mphil.nn.penalties import EnvironmentModel, environment_risks, graph_losses
from mphil.nn.randomness import Dropout
from mphil.nn.readout import grouped_softmax
from mphil.task import Task


@register(
    "moleood",
    paper="Yang, Zeng, Wu, Jia and Yan, 2022, Learning substructure invariance for out-of-distribution molecular "
    "representations, NeurIPS",
    needs={"molecules"},
    search_space={"environments": [5, 10, 20], "weight": [0.01, 0.1, 1.0]},
)
class MoleOOD(Staged):
    r"""A molecule is a mean of its fragments, weighted by attention, and is trained to be right in every environment.

    .. math::
        z = \sum_f a_f s_f, \qquad a = \mathrm{softmax}_f\big(\langle W_Q g, W_K s_f\rangle / \sqrt d\big), \qquad
        \mathcal L = \lambda\, \frac1{|\mathcal E|} \sum_e R_e + \frac1B \sum_i \Big|\ell_i - \sum_k \pi_k L_{ik}\Big|

    :math:`g` is the encoded molecule, :math:`s_f` an encoded fragment (BRICS). An earlier stage learns K latent
    environments: :math:`q(k \mid G, y)`, and :math:`L_{ik}`, the loss of a predictor told environment k, minimise
    :math:`\frac1B\sum_{ik} q_{ik} L_{ik} + \sum_i \mathrm{KL}(q_i \| \pi)`. Both are then frozen; the environment of a
    graph is the likeliest one.

    Args:
        task: what is asked.
        encoder: settings of the GNNs; that of the fragments is a GIN without a virtual node, so that fragments do
            not hear of each other.
        environments: K.
        weight: :math:`\lambda` of the mean over environments; the deviation has weight 1.
        prior: :math:`\pi`, equal shares or those of a standard normal cut into K pieces of [-3, 3].
        environment_share: epochs of the earlier stage as a share of the epochs of the main one.

    Differs from the authors' code: fragments keep the molecule's own atoms instead of placeholders at the cuts, count
    as often as they occur, and are cut at all BRICS bonds at once; parts of a salt are fragments. The environment
    model of the last epoch is kept, not that of the lowest loss. The KL is a sum over the batch as there.
    """

    def __init__(
        self,
        task: Task,
        encoder: EncoderConfig,
        *,
        environments: int = 20,
        weight: float = 1.0,
        prior: Literal["uniform", "normal"] = "uniform",
        environment_share: float = 0.4,
    ) -> None:
        super().__init__(task, encoder)
        self.weight, self.environment_share = weight, environment_share
        width = encoder.width
        self.latent = EnvironmentModel(task, encoder, environments)
        self.encoder = build_encoder(encoder)
        self.fragment_encoder = build_encoder(encoder.model_copy(update={"kind": "gin"}))
        self.query, self.key = nn.Linear(width, width), nn.Linear(width, width)
        self.head = nn.Sequential(
            nn.Linear(width, width), Dropout(encoder.dropout), nn.ReLU(), nn.Linear(width, task.n_outputs)
        )
        self.prior: Tensor
        self.register_buffer("prior", environment_prior(environments, prior), persistent=False)

    def stages(self) -> dict[str, float]:
        return {"environments": self.environment_share}

    def stage_networks(self) -> dict[str, nn.Module]:
        return {"environments": self.latent}

    def loss(self, batch: Batch, progress: Progress) -> Losses:
        known = labelled(batch.y).any(1)
        if progress.stage == "environments":
            log_q = self.latent.posterior(batch)
            expected = (log_q.exp() * self.latent.losses(batch)).sum(1)
            divergence = (log_q.exp() * (log_q - self.prior.log())).sum(1)
            return Losses(expectation=masked_mean(expected, known), divergence=(divergence * known).sum())
        with evaluating(self.latent):
            environment = self.latent.posterior(batch).argmax(1)
            reference = self.latent.losses(batch) @ self.prior
        losses = graph_losses(self.predict(batch), batch.y, self.task)
        risks = environment_risks(losses.unsqueeze(1), known.unsqueeze(1), environment)
        return Losses(
            environments=self.weight * risks.sum() / max(1, len(risks)),
            deviation=masked_mean((losses - reference).abs(), known),
        )

    def predict(self, batch: Batch) -> Tensor:
        logits: Tensor = self.head(self.embed(batch))
        return logits

    def embed(self, batch: Batch) -> Tensor:
        """(B, d) the attended fragments."""
        vectors, attention, _, graph = self.attend(batch)
        pooled = vectors.new_zeros(batch.ptr.numel() - 1, vectors.shape[1])
        return pooled.index_add(0, graph, attention.unsqueeze(1) * vectors)

    def attend(self, batch: Batch) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Vectors (F, d) and attention (F,) of the fragments, the fragment of each node, the graph of each fragment."""
        cut = cut_edges(batch)
        fragment, graph = fragments(batch, cut)
        nodes = self.fragment_encoder(batch, edge_weight=(~cut).to(self.key.weight.dtype))
        vectors = self.pool(nodes[fragment.argsort()], pointer(fragment.bincount()))
        whole = self.pool(self.encoder(batch), batch.ptr)
        scores = (self.query(whole)[graph] * self.key(vectors)).sum(1) / math.sqrt(vectors.shape[1])
        return vectors, grouped_softmax(scores, graph, len(whole)), fragment, graph

    def node_importance(self, batch: Batch) -> Tensor:
        """(N,) attention of the fragment a node is in."""
        _, attention, fragment, _ = self.attend(batch)
        return attention[fragment]


def environment_prior(environments: int, shape: Literal["uniform", "normal"]) -> Tensor:
    """(K,) probabilities of the environments."""
    if shape == "uniform":
        return torch.full((environments,), 1 / environments)
    pieces: Tensor = torch.special.ndtr(torch.linspace(-3, 3, environments + 1)).diff()
    return pieces / pieces.sum()
