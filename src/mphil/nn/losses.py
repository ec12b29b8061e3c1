"""Losses of a prediction, for all kinds of task, with missing labels left out."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from mphil.nn.world import total
from mphil.task import Task


def labelled(y: Tensor) -> Tensor:
    """(n, tasks) True where a label is known."""
    return ~y.isnan()


def masked_mean(values: Tensor, mask: Tensor) -> Tensor:
    """Mean of the entries under the mask; 0, with a gradient of 0, when there are none.

    Where several processes share a batch, this is a summand of the mean over the whole batch.
    """
    kept = torch.where(mask, values, torch.zeros_like(values))
    return kept.sum() / total(mask.sum()).clamp_min(1)


def one_hot(y: Tensor, classes: int) -> Tensor:
    """(n, tasks) labels -> (n, tasks, classes) of 0 and 1; a missing label is a row of zeros."""
    codes = torch.arange(classes, device=y.device, dtype=y.dtype)
    return (y.unsqueeze(-1) == codes).to(y.dtype)


def entry_losses(logits: Tensor, y: Tensor, task: Task) -> Tensor:
    """Loss of every label: (n, outputs) logits and (n, tasks) labels -> (n, tasks), 0 where missing.

    Cross-entropy of classes; of a regression the squared error, in standard deviations of the training labels.
    """
    mask = labelled(y)
    target = torch.where(mask, y, torch.zeros_like(y))
    if task.kind == "regression":
        losses = (logits - standardise(target, task).to(logits.dtype)).square()
    elif task.kind == "multiclass":
        losses = F.cross_entropy(logits, target[:, 0].long(), reduction="none").unsqueeze(1)
    else:
        losses = F.binary_cross_entropy_with_logits(logits, target.to(logits.dtype), reduction="none")
    return torch.where(mask, losses, torch.zeros_like(losses))


def standardise(y: Tensor, task: Task) -> Tensor:
    """(n, tasks) labels of a regression as the model gives them: mean 0 and standard deviation 1 in training."""
    means, scales = (y.new_tensor(values or (default,)) for values, default in ((task.means, 0.0), (task.scales, 1.0)))
    return (y - means) / scales


def task_loss(logits: Tensor, y: Tensor, task: Task) -> Tensor:
    """Mean loss over the known labels, a scalar."""
    return masked_mean(entry_losses(logits, y, task), labelled(y))


def soft_entry_losses(logits: Tensor, target: Tensor, task: Task) -> Tensor:
    """Cross-entropy against labels that are shares: (n, outputs) logits -> (n, tasks), 0 where the target is NaN.

    Args:
        logits: (n, outputs).
        target: like the logits: (n, classes) probabilities of the classes, or (n, tasks) of the positive class.
        task: says which of the two.
    """
    known = labelled(target)
    target = torch.where(known, target, torch.zeros_like(target)).to(logits.dtype)
    if task.kind == "multiclass":
        return -(target * logits.log_softmax(1)).sum(1, keepdim=True)
    losses = F.binary_cross_entropy_with_logits(logits, target, reduction="none")
    return torch.where(known, losses, torch.zeros_like(losses))


def label_probability(logits: Tensor, y: Tensor, task: Task) -> Tensor:
    """Probability given to the true label: (n, outputs) logits and (n, tasks) labels -> (n, tasks), 1 where missing."""
    return (-entry_losses(logits, y, task)).exp()
