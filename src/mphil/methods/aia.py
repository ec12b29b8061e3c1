"""AIA: an adversary masks what is not stable to make unseen environments; the stable part must stand them."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from mphil.config import EncoderConfig
from mphil.graphs.store import Batch
from mphil.methods.base import Losses, Method, Progress, evaluating, register
from mphil.nn.encoders import build_encoder
from mphil.nn.losses import task_loss
from mphil.nn.rationale import Masker, Masks, see_through
from mphil.nn.readout import Head, Readout, classifier
from mphil.task import Task

FRONT_LAYERS = MASK_LAYERS = 2


class Classifier(nn.Module):
    """A front GNN that sees all, a back GNN that goes on from what masks let through, and a head."""

    def __init__(self, config: EncoderConfig, outputs: int, head: Head) -> None:
        super().__init__()
        self.pool = Readout(config.readout, config.width)
        back_layers = max(1, config.layers - FRONT_LAYERS)
        front_layers = max(1, config.layers - back_layers)
        self.front = build_encoder(config.plain(layers=front_layers))
        self.back = build_encoder(config.plain(layers=back_layers), embedded=True)
        self.head = classifier(head, config.width, outputs, config.dropout)

    def embed(self, nodes: Tensor, batch: Batch, masks: Masks | None) -> Tensor:
        """(B, d) graphs through masks, or whole, from (N, d) features of the front."""
        seen = self.back(batch, x=nodes) if masks is None else see_through(self.back, nodes, batch, masks)
        return self.pool(seen, batch.ptr)


@register(
    "aia",
    paper="Sui et al., 2023, Unleashing the power of graph data augmentation on covariate distribution shift, NeurIPS",
    needs={"edge_weight"},
    search_space={"stable_share": [0.1, 0.3, 0.5, 0.7, 0.9], "distance": [0.1, 0.2, 0.5, 1.0, 1.5]},
)
class AIA(Method):
    r"""Two maskers play against each other; every batch moves the stable side, then the adversary.

    .. math::
        \min_{f, M_s}\; \ell(f(M_s), y) + \ell(f(M), y) + \lambda_s\, \rho(M_s), \qquad M = M_s + (1 - M_s) M_a

        \min_{M_a}\; -\ell(f(M_a), y) + \lambda_d \lVert z(M_a) - z(1) \rVert^2 + \lambda_a\, \rho(M_a), \qquad
        \rho(M) = \overline{|\bar M - \gamma|}

    Masks cover nodes (the input of the back GNN) and edges (its messages); :math:`\rho` is summed over both. The
    adversary sees the stable side as it is after its step and in evaluation mode. Prediction: :math:`f(M_s)`.

    Args:
        task: what is asked.
        encoder: settings of the GNN, without a virtual node: two layers in front, the others, at least one, behind.
        stable_share: :math:`\gamma` of the stable masks.
        adversarial_nodes: :math:`\gamma` of the adversary's node mask.
        adversarial_edges: :math:`\gamma` of its edge mask.
        distance: :math:`\lambda_d`, how close the attacked graph stays to the whole one.
        stable_weight: :math:`\lambda_s`.
        adversarial_weight: :math:`\lambda_a`.
        adversary_speed: learning rate of the adversary, as a multiple of the run's.
        head: f ends in a `linear` map, or in an `mlp`.

    Differs from the authors' code: front and back share the layers of the run instead of two each, without residual
    connections; a constant term of :math:`\rho` is left out.
    """

    def __init__(
        self,
        task: Task,
        encoder: EncoderConfig,
        *,
        stable_share: float = 0.5,
        adversarial_nodes: float = 1.0,
        adversarial_edges: float = 0.8,
        distance: float = 0.2,
        stable_weight: float = 1.0,
        adversarial_weight: float = 0.5,
        adversary_speed: float = 5.0,
        head: Head = "linear",
    ) -> None:
        super().__init__(task, encoder)
        del self.pool  # the classifier pools for itself
        self.stable_share, self.adversarial_share = stable_share, (adversarial_nodes, adversarial_edges)
        self.distance, self.adversary_speed = distance, adversary_speed
        self.stable_weight, self.adversarial_weight = stable_weight, adversarial_weight
        self.classifier = Classifier(encoder, task.n_outputs, head)
        plain = encoder.plain(layers=MASK_LAYERS)
        self.masker, self.adversary = (Masker(build_encoder(plain), encoder.width) for _ in range(2))

    def param_groups(self) -> dict[str, list[nn.Parameter]]:
        stable = [*self.classifier.parameters(), *self.masker.parameters()]
        return {"stable": stable, "adversary": list(self.adversary.parameters())}

    def learning_rates(self) -> dict[str, float]:
        return {"adversary": self.adversary_speed}

    def steps(self, batch: Batch, progress: Progress) -> Iterator[tuple[str, Losses]]:
        yield "stable", self.loss(batch, progress)
        yield "adversary", self.adversary_loss(batch)

    def loss(self, batch: Batch, progress: Progress) -> Losses:
        """What the stable side minimises."""
        nodes, stable = self.classifier.front(batch), self.masker(batch)
        with evaluating(self.adversary):
            adversarial = self.adversary(batch)
        return Losses(
            stable=self.risk(self.classifier.embed(nodes, batch, stable), batch),
            augmented=self.risk(self.classifier.embed(nodes, batch, stable.joined(adversarial)), batch),
            stable_share=self.stable_weight * stable.share_gap(batch, self.stable_share, self.stable_share),
        )

    def adversary_loss(self, batch: Batch) -> Losses:
        """What the adversary minimises."""
        self.classifier.eval()
        with torch.no_grad():
            nodes = self.classifier.front(batch)
            whole = self.classifier.embed(nodes, batch, None)
        masks = self.adversary(batch)
        attacked = self.classifier.embed(nodes, batch, masks)
        risk = self.risk(attacked, batch)
        self.classifier.train(self.training)
        return Losses(
            adversary=-risk,
            distance=self.distance * F.mse_loss(attacked, whole),
            adversarial_share=self.adversarial_weight * masks.share_gap(batch, *self.adversarial_share),
        )

    def risk(self, z: Tensor, batch: Batch) -> Tensor:
        """Mean cross-entropy of the classifier on graphs (B, d), a scalar."""
        return task_loss(self.classifier.head(z), batch.y, self.task)

    def predict(self, batch: Batch) -> Tensor:
        logits: Tensor = self.classifier.head(self.embed(batch))
        return logits

    def embed(self, batch: Batch) -> Tensor:
        """(B, d) each graph through the stable masks."""
        return self.classifier.embed(self.classifier.front(batch), batch, self.masker(batch))

    def node_importance(self, batch: Batch) -> Tensor:
        """(N,) the stable node mask."""
        masks: Masks = self.masker(batch)
        return masks.nodes
