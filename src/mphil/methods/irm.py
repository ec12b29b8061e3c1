"""IRM: features on which one classifier is best in every environment."""

from __future__ import annotations

from mphil.config import EncoderConfig
from mphil.graphs.store import Batch
from mphil.methods.base import Losses, Progress, register
from mphil.methods.erm import ERM
from mphil.nn.losses import task_loss
from mphil.nn.penalties import irm_penalty
from mphil.task import Task


@register(
    "irm",
    paper="Arjovsky, Bottou, Gulrajani and Lopez-Paz, 2019, Invariant risk minimization, arXiv:1907.02893",
    needs={"env"},
    search_space={"weight": [0.1, 1.0, 10.0, 100.0]},
)
class IRM(ERM):
    r"""ERM, and no environment may gain by rescaling the logits (IRMv1).

    .. math::
        \mathcal L = R + \lambda\, \frac1{|\mathcal E|} \sum_{e \in \mathcal E}
        \Big(\frac{\partial R_e(w f)}{\partial w}\Big|_{w=1}\Big)^2

    :math:`R_e` is the mean loss of the environment's labels in the batch. Where all these slopes vanish, the classifier
    is the best rescaling of itself in every environment at once, which features that only work in some do not allow.
    The slope has a closed form, :math:`\sum_c (p_c - y_c) f_c` per graph, so a step costs hardly more than ERM's.

    Args:
        task: what is asked.
        encoder: settings of the GNN.
        weight: :math:`\lambda`.

    Differs from the published code: a batch with a single environment carries no penalty, since there is nothing to be
    invariant across; the slope is squared, as in GOOD, not multiplied between two halves of the environment, as in
    DrugOOD. GOOD shuffles all graphs, DrugOOD draws 4 environments a batch; here that is `train.env_per_batch`. The
    penalty counts from the first step: GOOD has no warm-up, and that of DrugOOD (500 steps) never changes its weight.
    """

    def __init__(self, task: Task, encoder: EncoderConfig, *, weight: float = 0.1) -> None:
        super().__init__(task, encoder)
        self.weight = weight

    def loss(self, batch: Batch, progress: Progress) -> Losses:
        logits = self.predict(batch)
        return Losses(
            classification=task_loss(logits, batch.y, self.task),
            invariance=self.weight * irm_penalty(logits, batch.y, batch.env, self.task),
        )
