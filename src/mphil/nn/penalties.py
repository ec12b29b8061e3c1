"""How differently a model treats environments, named or guessed: penalties in closed form, losses under each.

Environments are numbers, one a graph; -1 means unknown and is left out. With fewer than two environments there is
nothing to compare, and every penalty is 0 with a gradient of 0.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from mphil.config import EncoderConfig
from mphil.graphs.store import Batch
from mphil.nn.encoders import build_encoder
from mphil.nn.losses import entry_losses, labelled, one_hot
from mphil.nn.readout import Readout
from mphil.task import Task


def environment_risks(losses: Tensor, known: Tensor, env: Tensor) -> Tensor:
    r"""Mean loss of the known labels of each environment, :math:`R_e`.

    Args:
        losses: (n, tasks) loss of every label.
        known: (n, tasks) True where there is a label.
        env: (n,) environment of every graph.

    Returns:
        (environments,) risks of the environments that have a label here, by rising number.

    Example:
        >>> losses, known = torch.tensor([[1.0], [3.0], [5.0]]), torch.tensor([[True], [True], [True]])
        >>> environment_risks(losses, known, torch.tensor([7, 7, 2])).tolist()
        [5.0, 2.0]
    """
    shares = label_shares(known, env, losses.dtype)
    return torch.einsum("ebt,bt->e", shares, torch.where(known, losses, torch.zeros_like(losses)))


def label_shares(known: Tensor, env: Tensor, dtype: torch.dtype) -> Tensor:
    """(environments, n, tasks) what each label weighs in its environment: rows add up to 1, all 0 elsewhere."""
    weighed = members(env).unsqueeze(2) & known
    counts = weighed.sum((1, 2))
    return weighed[counts > 0].to(dtype) / counts[counts > 0].view(-1, 1, 1)


def members(env: Tensor) -> Tensor:
    """(environments, n) True where a graph belongs to the environment, by rising number."""
    numbers: Tensor = torch.unique(env[env >= 0])
    return numbers.unsqueeze(1) == env


def variance_penalty(risks: Tensor) -> Tensor:
    r"""Unbiased variance of (n,) risks, :math:`\frac1{n-1}\sum_e (R_e - \bar R)^2`."""
    return risks.var() if len(risks) > 1 else risks[:0].sum()


def irm_penalty(logits: Tensor, y: Tensor, env: Tensor, task: Task) -> Tensor:
    r"""How much every environment would like to rescale the logits.

    .. math:: \frac1n \sum_e \Big(\frac{\partial R_e(w f)}{\partial w}\Big|_{w=1}\Big)^2, \qquad
              \frac{\partial \ell_i}{\partial w} = \sum_c (p_{ic} - y_{ic}) f_{ic}

    The slope of a mean is the mean of slopes, so no second backward pass is needed.

    Args:
        logits: (n, outputs).
        y: (n, tasks) labels, NaN = missing.
        env: (n,) environment of every graph.
        task: what the logits mean.
    """
    slopes = residuals(logits, y, task) * logits
    if task.kind == "multiclass":
        slopes = slopes.sum(1, keepdim=True)
    slopes = environment_risks(slopes, labelled(y), env)
    return slopes.square().mean() if len(slopes) > 1 else slopes[:0].sum()


def gradient_variance(z: Tensor, logits: Tensor, y: Tensor, env: Tensor, task: Task) -> Tensor:
    r"""Unbiased variance over environments of the gradient of the risk in a linear head, summed over its entries.

    .. math:: \operatorname{tr} \operatorname{Var}_e\big(\nabla_{W,b} R_e\big), \qquad
              \nabla_W \ell_i = (p_i - y_i) z_i^\top, \quad \nabla_b \ell_i = p_i - y_i

    Args:
        z: (n, d) what the head sees.
        logits: (n, outputs) what it says of it, :math:`W z + b`.
        y: (n, tasks) labels, NaN = missing.
        env: (n,) environment of every graph.
        task: what the logits mean.
    """
    shares = label_shares(labelled(y), env, z.dtype)
    with_bias = torch.cat([z, torch.ones_like(z[:, :1])], dim=1)
    gradients = (shares * residuals(logits, y, task)).transpose(1, 2) @ with_bias  # (environments, outputs, d + 1)
    return gradients.var(0).sum() if len(gradients) > 1 else gradients[:0].sum()


def coral_penalty(z: Tensor, env: Tensor, *, compat: bool = False) -> Tensor:
    r"""Mean squared distance of the covariances of environments (those with two graphs or more).

    .. math:: \frac1{n(n-1)} \sum_{e \ne e'} \frac{\|C_e - C_{e'}\|_F^2}{4 d^2}

    All products :math:`\langle C_e, C_{e'}\rangle` are sums of squared entries of the Gram matrix of the centred rows,
    so no d x d matrix is built.

    Args:
        z: (n, d) vectors.
        env: (n,) environment of every row.
        compat: subtract :math:`\bar z \bar z^\top` once, not as many times as there are rows, as the code behind the
            published numbers does: close to an uncentred second moment, which also sees a shift of the mean.
    """
    groups = members(env)
    groups = groups[groups.sum(1) > 1]
    environments, kept = len(groups), groups.any(0)
    if environments < 2:
        return z[:0].sum()
    owner, z = groups[:, kept].int().argmax(0), z[kept]
    count = groups.sum(1, keepdim=True).to(z.dtype)
    means = groups[:, kept].to(z.dtype) @ z / count
    # Rows less a share s of their mean m have the scatter Z'Z - n (2s - s^2) m m': s = 1 centres, and this takes one.
    share = 1 - (1 - 1 / count).sqrt() if compat else torch.ones_like(count)
    rows = (z - (share * means)[owner]) / (count - 1).sqrt()[owner]
    products = (rows @ rows.T).square()
    alike = owner == owner.unsqueeze(1)
    spread = (products * alike).sum() - products.sum() / environments
    return 2 / (environments - 1) * spread / (4 * z.shape[1] ** 2)


def residuals(logits: Tensor, y: Tensor, task: Task) -> Tensor:
    """(n, outputs) predicted probability minus label, 0 where the label is missing: the slope of the loss."""
    if task.kind == "multiclass":
        return torch.where(labelled(y), logits.softmax(1) - one_hot(y, task.n_classes)[:, 0].to(logits.dtype), 0.0)
    return torch.where(labelled(y), logits.sigmoid() - y.to(logits.dtype), 0.0)


def graph_losses(logits: Tensor, y: Tensor, task: Task) -> Tensor:
    """Mean loss of the known labels of each graph: (B, outputs) logits, (B, tasks) labels -> (B,), 0 without labels."""
    return entry_losses(logits, y, task).sum(1) / labelled(y).sum(1).clamp_min(1)


def losses_by_environment(logits: Tensor, y: Tensor, task: Task) -> Tensor:
    """Loss of each graph under each environment: (B, K, outputs) logits, (B, tasks) labels -> (B, K)."""
    environments = logits.shape[1]
    return graph_losses(logits.flatten(0, 1), y.repeat_interleave(environments, 0), task).view(-1, environments)


class EnvironmentModel(nn.Module):
    """Guesses the environment of a molecule from its label, and the label under each environment.

    Args:
        task: what is asked.
        encoder: settings of both GNNs.
        environments: K.
    """

    def __init__(self, task: Task, encoder: EncoderConfig, environments: int) -> None:
        super().__init__()
        self.task = task
        self.guess_pool, self.label_pool = (Readout(encoder.readout, encoder.width) for _ in range(2))
        self.guess_encoder, self.label_encoder = build_encoder(encoder), build_encoder(encoder)
        self.guess = nn.Linear(encoder.width + task.n_tasks, environments)
        self.environments = nn.Parameter(torch.zeros(environments, encoder.width))
        self.from_graph = nn.Linear(encoder.width, task.n_outputs)
        self.from_environment = nn.Linear(encoder.width, task.n_outputs, bias=False)

    def posterior(self, batch: Batch) -> Tensor:
        """(B, K) log probabilities of the environments, given graph and label."""
        z = self.guess_pool(self.guess_encoder(batch), batch.ptr)
        scores: Tensor = self.guess(torch.cat([z, batch.y.nan_to_num().to(z.dtype)], dim=1))
        return scores.log_softmax(1)

    def losses(self, batch: Batch) -> Tensor:
        """(B, K) loss of every graph under every environment, whose vector only shifts the logits."""
        z = self.label_pool(self.label_encoder(batch), batch.ptr)
        logits = self.from_graph(z).unsqueeze(1) + self.from_environment(self.environments)
        return losses_by_environment(logits, batch.y, self.task)
