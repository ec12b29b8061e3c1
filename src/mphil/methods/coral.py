"""Coral: graph vectors with the same covariance in all environments."""

from __future__ import annotations

from mphil.config import EncoderConfig
from mphil.graphs.store import Batch
from mphil.methods.base import Losses, Progress, register
from mphil.methods.erm import ERM
from mphil.nn.losses import task_loss
from mphil.nn.penalties import coral_penalty
from mphil.task import Task


@register(
    "coral",
    paper="Sun and Saenko, 2016, Deep CORAL: correlation alignment for deep domain adaptation, ECCV workshops",
    needs={"env"},
    search_space={"weight": [0.001, 0.01, 0.1, 1.0]},
)
class Coral(ERM):
    r"""ERM, and the pooled graph vectors must have the same covariance in all environments.

    .. math::
        \mathcal L = R + \lambda\, \frac1{n(n-1)} \sum_{e \ne e'} \frac{\|C_e - C_{e'}\|_F^2}{4 d^2}

    :math:`C_e` is the covariance of the vectors :math:`z \in \mathbb R^d`, before the classifier, of the environment's
    graphs in the batch; environments with fewer than two graphs there are left out. Features whose spread tells the
    environments apart are pressed together. No label is needed for the penalty.

    Args:
        task: what is asked.
        encoder: settings of the GNN.
        weight: :math:`\lambda`.
        compat: the covariance of the published numbers, from which the mean is not fully taken.

    Differs from the published code: the GOOD benchmark subtracts the mean's outer product once where the covariance
    needs it once per graph, so that it also punishes a shift of the mean; `compat` does the same. DrugOOD adds the
    distance of the means and leaves out the factor of 1/4. GOOD shuffles all graphs, DrugOOD draws 4 environments a
    batch; here that is `train.env_per_batch`.
    """

    def __init__(self, task: Task, encoder: EncoderConfig, *, weight: float = 0.1, compat: bool = False) -> None:
        super().__init__(task, encoder)
        self.weight, self.compat = weight, compat

    def loss(self, batch: Batch, progress: Progress) -> Losses:
        z = self.embed(batch)
        return Losses(
            classification=task_loss(self.head(z), batch.y, self.task),
            alignment=self.weight * coral_penalty(z, batch.env, compat=self.compat),
        )
