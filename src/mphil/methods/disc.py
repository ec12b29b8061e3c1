"""DisC: two networks share each graph by a mask; one is driven into the bias, the other learns what is left."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn

from mphil.config import EncoderConfig
from mphil.errors import UsageError
from mphil.graphs.store import Batch
from mphil.methods.base import Losses, Method, Progress, register
from mphil.nn.encoders import build_encoder
from mphil.nn.encoders.blocks import embed_to_width
from mphil.nn.losses import entry_losses, labelled, masked_mean, permutation
from mphil.nn.rationale import Masker, Masks, see_through
from mphil.nn.readout import Readout
from mphil.task import Task


class MaskedBranch(nn.Module):
    """An encoder whose node inputs and messages are masked, and a readout."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.pool = Readout(config.readout, config.width)
        self.embed = embed_to_width(config.node, config.width)
        self.encoder = build_encoder(config, embedded=True)

    def forward(self, batch: Batch, masks: Masks) -> Tensor:
        """(B, d) the graphs seen through masks."""
        return self.pool(see_through(self.encoder, self.embed(batch.x), batch, masks), batch.ptr)


@register(
    "disc",
    paper="Fan et al., 2022, Debiasing graph neural networks via learning disentangled causal substructure, NeurIPS",
    needs={"edge_weight"},
    search_space={"swap_weight": [1.0, 5.0, 10.0, 15.0], "amplification": [0.5, 0.7, 0.9]},
)
class DisC(Method):
    r"""Causal part :math:`z_c` through a mask, bias :math:`z_b` through its complement, each with a network of its own.

    .. math::
        \mathcal L = \overline{W \ell(C_c([z_c \| \bar z_b]), y)}
            + \lambda_D\, \overline{\mathrm{GCE}(C_b([\bar z_c \| z_b]), y)}
            + \lambda_G \Big( \overline{W \ell(C_c([z_c \| \bar z_b^\pi]), y)}
            + \lambda_D\, \overline{\mathrm{GCE}(C_b([\bar z_c \| z_b^\pi]), y^\pi)} \Big)

        \mathrm{GCE} = q\, p_y^q\, \ell, \qquad W = \ell_b / (\ell_b + \ell_c)

    The amplified loss GCE lets the bias branch learn what is easy; what it fails on weighs most in the causal branch.
    Later in training the biases of the batch are also swapped, each keeping its own label. :math:`\bar z`,
    :math:`p_y^q` and :math:`W` pass no gradient. Prediction: :math:`C_c([z_c \| z_b])`.

    Args:
        task: what is asked.
        encoder: settings of both branches; the masker is a GIN of two layers and the same width.
        amplification: q of the generalised cross-entropy.
        bias_weight: :math:`\lambda_D`.
        swap_weight: :math:`\lambda_G`.
        swap_from: share of training after which biases are swapped; 1 = never.
        weighting: W of every `label`, as in the paper, or one of the mean losses of a `batch`, as in the authors' code
            with GIN. Where labels are noisy, the wrong ones weigh most under the former, and the causal branch learns
            them.

    Differs from the authors' code: the masker is a GIN; graph convolutions, which average, hardly tell nodes without
    features apart. One optimiser moves everything, which is the same as two with equal settings.
    """

    def __init__(
        self,
        task: Task,
        encoder: EncoderConfig,
        *,
        amplification: float = 0.7,
        bias_weight: float = 1.0,
        swap_weight: float = 15.0,
        swap_from: float = 0.5,
        weighting: Literal["label", "batch"] = "batch",
    ) -> None:
        super().__init__(task, encoder)
        del self.pool  # the branches pool for themselves
        if not 0 < amplification <= 1:
            raise UsageError(f"disc needs 0 < amplification <= 1, not {amplification}")
        self.amplification, self.bias_weight = amplification, bias_weight
        self.swap_weight, self.swap_from, self.weighting = swap_weight, swap_from, weighting
        width = encoder.width
        mask_encoder = build_encoder(encoder.model_copy(update={"kind": "gin", "layers": 2}))
        self.masker = Masker(mask_encoder, width, halvings=3)
        self.causal_branch, self.bias_branch = MaskedBranch(encoder), MaskedBranch(encoder)
        self.causal_head = nn.Linear(2 * width, task.n_outputs)
        self.bias_head = nn.Linear(2 * width, task.n_outputs)

    def loss(self, batch: Batch, progress: Progress) -> Losses:
        causal, bias = self.parts(batch)
        y, known = batch.y, labelled(batch.y)
        causal_risk, bias_risk = self.risks(causal, bias, y, y)
        weight = self.weigh(causal_risk.detach(), bias_risk.detach(), known)
        losses = Losses(
            causal=masked_mean(weight * causal_risk, known),
            bias=self.bias_weight * masked_mean(self.amplified(bias_risk), known),
        )
        if progress.fraction >= self.swap_from:
            order = permutation(len(y), y.device)
            causal_risk, bias_risk = self.risks(causal, bias[order], y, y[order])
            losses["swapped_causal"] = self.swap_weight * masked_mean(weight * causal_risk, known)
            amplified = masked_mean(self.amplified(bias_risk), known[order])
            losses["swapped_bias"] = self.swap_weight * self.bias_weight * amplified
        return losses

    def risks(self, causal: Tensor, bias: Tensor, causal_y: Tensor, bias_y: Tensor) -> tuple[Tensor, Tensor]:
        """(B, T) cross-entropies of both heads; each trains its own part and only looks at the other."""
        causal_logits = self.causal_head(torch.cat([causal, bias.detach()], dim=1))
        bias_logits = self.bias_head(torch.cat([causal.detach(), bias], dim=1))
        return entry_losses(causal_logits, causal_y, self.task), entry_losses(bias_logits, bias_y, self.task)

    def weigh(self, causal_risk: Tensor, bias_risk: Tensor, known: Tensor) -> Tensor:
        """(B, T), or a scalar: how much the bias fails, compared with the causal branch."""
        if self.weighting == "batch":
            causal_risk, bias_risk = masked_mean(causal_risk, known), masked_mean(bias_risk, known)
        return bias_risk / (bias_risk + causal_risk + 1e-8)

    def amplified(self, risk: Tensor) -> Tensor:
        r"""Generalised cross-entropy :math:`q\,p_y^q\,\ell` of a risk :math:`\ell = -\log p_y`."""
        return self.amplification * (-self.amplification * risk.detach()).exp() * risk

    def predict(self, batch: Batch) -> Tensor:
        logits: Tensor = self.causal_head(self.embed(batch))
        return logits

    def embed(self, batch: Batch) -> Tensor:
        """(B, 2d) causal part and bias, side by side."""
        return torch.cat(self.parts(batch), dim=1)

    def node_importance(self, batch: Batch) -> Tensor:
        """(N,) the node mask of the causal branch."""
        masks: Masks = self.masker(batch)
        return masks.nodes

    def parts(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """(B, d) causal part and (B, d) bias of each graph."""
        masks = self.masker(batch)
        return self.causal_branch(batch, masks), self.bias_branch(batch, masks.complement())
