"""VREx: equal risks in all environments."""

from __future__ import annotations

from mphil.config import EncoderConfig
from mphil.graphs.store import Batch
from mphil.methods.base import Losses, Progress, register
from mphil.methods.erm import ERM
from mphil.nn.losses import entry_losses, labelled, masked_mean
from mphil.nn.penalties import environment_risks, variance_penalty
from mphil.task import Task


@register(
    "vrex",
    paper="Krueger et al., 2021, Out-of-distribution generalization via risk extrapolation (REx), ICML",
    needs={"env"},
    search_space={"weight": [1.0, 10.0, 100.0, 1000.0]},
)
class VREx(ERM):
    r"""ERM, and the environments must fare alike.

    .. math:: \mathcal L = R + \lambda \operatorname{Var}_{e \in \mathcal E}(R_e)

    :math:`R_e` is the mean loss of the environment's labels in the batch, the variance over the environments present is
    unbiased. A feature that helps in some environments more than in others makes their risks differ; giving up on it is
    cheaper than the variance, and what remains holds up when the environments of the test are more extreme still.

    Args:
        task: what is asked.
        encoder: settings of the GNN.
        weight: :math:`\lambda`.

    Differs from the published code (GOOD): it shuffles all graphs; where that leaves fewer than 4 graphs of an
    environment in a batch, 4 environments are drawn, see `train.env_per_batch`. The penalty counts from the first step
    there, too.
    """

    def __init__(self, task: Task, encoder: EncoderConfig, *, weight: float = 1.0) -> None:
        super().__init__(task, encoder)
        self.weight = weight

    def loss(self, batch: Batch, progress: Progress) -> Losses:
        losses, known = entry_losses(self.predict(batch), batch.y, self.task), labelled(batch.y)
        risks = environment_risks(losses, known, batch.env)
        return Losses(classification=masked_mean(losses, known), variance=self.weight * variance_penalty(risks))
