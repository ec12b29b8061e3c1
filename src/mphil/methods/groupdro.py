"""GroupDRO: the environment that fares worst counts most."""

from __future__ import annotations

import torch

from mphil.config import EncoderConfig
from mphil.errors import UsageError
from mphil.graphs.store import Batch
from mphil.methods.base import Losses, Progress, register
from mphil.methods.erm import ERM
from mphil.nn.losses import entry_losses, labelled
from mphil.nn.memory import Memory
from mphil.nn.penalties import environment_risks
from mphil.task import Task


@register(
    "groupdro",
    paper="Sagawa et al., 2020, Distributionally robust neural networks for group shifts, ICLR",
    needs={"env"},
    search_space={"step": [0.001, 0.01, 0.1]},
)
class GroupDRO(ERM):
    r"""Environments are weighed by exponentiated gradients of their risks, so that the worst decides in the end.

    .. math:: q_e \leftarrow q_e\, e^{\eta R_e}, \qquad
              \mathcal L = \sum_{e \in \mathcal E} \frac{q_e}{\sum_{e' \in \mathcal E} q_{e'}}\, R_e

    :math:`R_e` is the mean loss of the labels of environment e in the batch, :math:`\mathcal E` the environments that
    have labels there. All :math:`q_e` begin equal; graphs of unknown environment are left out.

    Args:
        task: what is asked.
        encoder: settings of the GNN.
        step: :math:`\eta`.

    Differs from the authors' code: weights are normalised over the environments of the batch, theirs over all, which
    is the same when all are present; batches do not draw all environments equally often, see `train.env_per_batch`;
    their adjustment for the size of a group, which is off by default, is left out. The code behind GOOD's numbers
    forgets the weights after every step and divides the loss of every environment by the labels of all.
    """

    def __init__(self, task: Task, encoder: EncoderConfig, *, step: float = 0.01) -> None:
        super().__init__(task, encoder)
        if step < 0:
            raise UsageError(f"groupdro needs step >= 0, not {step}: a worse environment must not count less")
        self.step = step
        self.log_weight = Memory(1)

    def loss(self, batch: Batch, progress: Progress) -> Losses:
        losses, known = entry_losses(self.predict(batch), batch.y, self.task), labelled(batch.y)
        risks = environment_risks(losses, known, batch.env)
        present = torch.unique(batch.env[(batch.env >= 0) & known.any(1)])
        log_weight = self.log_weight.read(present).squeeze(1) + self.step * risks.detach()
        if self.training:
            self.log_weight.write(present, log_weight.unsqueeze(1))
        return Losses(robust=(log_weight.softmax(0) * risks).sum())
