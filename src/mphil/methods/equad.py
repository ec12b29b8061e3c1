"""EQuAD: learn what is spurious without labels first, then a classifier that does not lean on it."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from mphil.config import EncoderConfig
from mphil.errors import UsageError
from mphil.graphs.store import Batch
from mphil.methods.base import Losses, Parts, Progress, Staged, evaluating, passed, register
from mphil.methods.erm import ERM
from mphil.nn.infomax import Infomax
from mphil.nn.losses import label_probability, labelled, masked_mean, soft_entry_losses, task_loss
from mphil.nn.memory import Memory
from mphil.nn.posthoc import score, soft_labels
from mphil.nn.readout import three_layers
from mphil.task import Task


@register(
    "equad",
    paper="Yao, Chen, Chen, Hu, Shen and Zhang, 2024, Empowering graph invariance learning with deep spurious infomax, "
    "ICML",
    search_space={"weight": [0.001, 0.01, 0.1, 1.0], "focus": [0.3, 0.5, 0.7, 0.9]},
)
class EQuAD(Staged, ERM):
    r"""ERM, and a second head that imitates spurious predictions, most where these are wrong.

    An earlier stage learns embeddings of graphs without labels (MVGRL), which hold above all what is spurious. Every
    few epochs calibrated linear support vector machines are fitted to them; the predictions :math:`P^m` of those that
    do worst on the validation part (score :math:`a_m`) are kept.

    .. math::
        \mathcal L = R + \lambda \sum_m w_m \frac1B \sum_i \omega_i\, \mathrm{CE}(P^m_i, f_{\mathrm{aux}}(g_i)), \qquad
        w = \mathrm{softmax}(-a / \tau), \qquad \omega_i = \frac{1 - p_i^\gamma}{\gamma}

    :math:`g_i` is the vector of the graph and :math:`p_i` what the second head gives to its true label.

    Args:
        task: what is asked.
        encoder: settings of the main GNN.
        weight: :math:`\lambda`.
        focus: :math:`\gamma`, how fast the weight falls where the spurious prediction is right.
        kept: predictions that are kept.
        temperature: :math:`\tau` of their weights.
        every: share of the earlier stage between two fits; its end is one, too. The authors fit every 3 of 100 epochs.
        width: of the embeddings.
        layers: of their two GNNs.
        infomax_share: epochs of the earlier stage as a share of the epochs of the main one.

    Both heads have three layers.

    Differs from the authors' code: the second head learns, and all kept predictions pass a gradient, which both fail
    there; weights :math:`\omega` pass none; machines see standardised embeddings of at most 5,000 graphs and are fitted
    by shares of the stage; layers have normalisation and ReLU between them and see the features of edges. With several
    tasks there is a machine for each. Without validation graphs, machines are scored on the training part.
    """

    def __init__(
        self,
        task: Task,
        encoder: EncoderConfig,
        *,
        weight: float = 0.1,
        focus: float = 0.5,
        kept: int = 5,
        temperature: float = 0.01,
        every: float = 0.03,
        width: int = 64,
        layers: int = 5,
        infomax_share: float = 2.0,
    ) -> None:
        super().__init__(task, encoder)
        if min(focus, temperature) <= 0 or kept < 1 or not 0 < every <= 1:
            raise UsageError(
                f"equad needs {focus=} and {temperature=} above 0, {kept=} of 1 or more, "
                f"{every=} above 0 and at most 1: it is a share of the stage"
            )
        self.weight, self.focus, self.temperature = weight, focus, temperature
        self.every, self.infomax_share = every, infomax_share
        self.infomax = Infomax(encoder, width=width, layers=layers)
        self.head = three_layers(encoder.width, task.n_outputs)
        self.auxiliary = three_layers(encoder.width, task.n_outputs)
        self.spurious = Memory(kept * task.n_outputs)
        self.scores: Tensor
        self.register_buffer("scores", torch.full((kept,), 2.0))  # above every score: nothing is kept yet

    def stages(self) -> dict[str, float]:
        return {"infomax": self.infomax_share}

    def stage_networks(self) -> dict[str, nn.Module]:
        return {"infomax": self.infomax}

    def learning_rates(self) -> dict[str, float]:
        return {"infomax": 2.0}

    def loss(self, batch: Batch, progress: Progress) -> Losses:
        if progress.stage == "infomax":
            return Losses(infomax=self.infomax.loss(batch))
        graphs = self.embed(batch)
        return Losses(
            classification=task_loss(self.head(graphs), batch.y, self.task),
            decorrelation=self.weight * self.imitation(self.auxiliary(graphs), batch),
        )

    def imitation(self, logits: Tensor, batch: Batch) -> Tensor:
        """Weighted cross-entropy between the kept predictions and (B, outputs) logits, a scalar."""
        focus = (1 - label_probability(logits.detach(), batch.y, self.task) ** self.focus) / self.focus
        targets = self.spurious.read(batch.index).view(len(batch.index), len(self.scores), -1)
        weights = torch.softmax(-self.scores / self.temperature, 0) * (self.scores <= 1)
        losses = torch.stack([soft_entry_losses(logits, target, self.task) for target in targets.unbind(1)])
        return masked_mean(torch.einsum("m,mbt,bt->bt", weights, losses, focus), labelled(batch.y))

    def begin_epoch(self, parts: Parts, progress: Progress) -> None:
        if progress.stage != "infomax" or progress.epoch == 0:
            return
        now, before = progress.fraction, progress.fraction * (progress.epoch - 1) / progress.epoch
        if passed(now, self.every) > passed(before, self.every):
            self.fit(parts)

    def end_stage(self, parts: Parts, progress: Progress) -> None:
        self.fit(parts)

    def fit(self, parts: Parts) -> None:
        """Predict labels from the present embeddings; keep the prediction if it is among the poorest so far."""
        with evaluating(self):
            index, y, points = self.infomax.place(parts.train)
            _, truth, elsewhere = self.infomax.place(parts.validation) or (index, y, points)
        predict = soft_labels(points, y, self.task)
        found = score(predict(elsewhere), truth, self.task)
        highest = int(self.scores.argmax())
        if found < self.scores[highest]:
            kept = self.spurious.read(index).view(len(index), len(self.scores), -1)
            kept[:, highest] = predict(points).to(kept.dtype)
            self.spurious.write(index, kept.flatten(1))
            self.scores[highest] = found
