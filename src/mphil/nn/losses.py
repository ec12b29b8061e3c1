"""Losses of predictions, of pairs and of mixtures of graphs, for all kinds of task, with missing labels left out."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.distributions import Beta
from torch.nn import functional as F

from mphil.nn.sphere import unit
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


def label_pairs(y: Tensor, task: Task) -> tuple[Tensor, Tensor]:
    """Which graphs share a label, task by task.

    Args:
        y: (B, T) labels, NaN = missing.
        task: what they are labels of.

    Returns:
        (T, B, B) bool: both labels are known and the same; (T, B, B) bool: both are known. A graph is paired with
        itself too.
    """
    labels = y.view(-1, task.n_tasks).T
    known = labelled(labels)
    return labels.unsqueeze(2) == labels.unsqueeze(1), known.unsqueeze(2) & known.unsqueeze(1)


def supervised_contrast(u: Tensor, positives: Tensor, candidates: Tensor, temperature: float = 1.0) -> Tensor:
    r"""Supervised contrast (Khosla et al., 2020), averaged over the anchors that have a positive.

    .. math:: -\frac{1}{|P(i)|} \sum_{p \in P(i)} \log
              \frac{e^{\langle \hat u_i, \hat u_p\rangle/\tau}}
                   {\sum_{a \in A(i) \cup P(i)} e^{\langle \hat u_i, \hat u_a\rangle/\tau}}

    Args:
        u: (B, p) representations; they are put on the unit sphere.
        positives: (..., B, B) bool, :math:`P(i)` in row i; a graph is never its own positive.
        candidates: (..., B, B) bool, :math:`A(i)` in row i, those the positives compete with.
        temperature: :math:`\tau`.

    Returns:
        A scalar; 0, with a gradient of 0, when no anchor has a positive.
    """
    others = ~torch.eye(len(u), dtype=torch.bool, device=u.device)
    positives = positives & others
    anchors = positives.any(-1)
    similarity = unit(u) @ unit(u).T / temperature
    # A row that is not used counts everybody: the logarithm of an empty sum has no gradient.
    counted = (candidates & others) | positives | ~anchors.unsqueeze(-1)
    total = similarity.masked_fill(~counted, -torch.inf).logsumexp(-1)
    attraction = (similarity * positives).sum(-1) / positives.sum(-1).clamp_min(1)
    return masked_mean(total - attraction, anchors)


def permutation(n: int, device: torch.device | None = None) -> Tensor:
    """(n,) a random order: position i is joined with item `order[i]`, which may be i itself.

    It is drawn on the CPU, so that a seed means the same on every device.
    """
    return torch.randperm(n).to(device)


def all_pairs(own: Tensor, other: Tensor) -> Tensor:
    """Every row of `own` plus every row of `other`: (n, d), (m, d) -> (n * m, d).

    Row `i * m + j` is `own[i] + other[j]`; what belongs to `own` is repeated with `repeat_interleave(m, dim=0)`.

    Example:
        >>> all_pairs(torch.tensor([[0.0], [10.0]]), torch.tensor([[1.0], [2.0]])).squeeze(1).tolist()
        [1.0, 2.0, 11.0, 12.0]
    """
    return (own.unsqueeze(1) + other.unsqueeze(0)).flatten(0, 1)


def random_pairs(own: Tensor, other: Tensor, count: int) -> Tensor:
    """Every row of `own` plus `count` random rows of `other`: (n, d), (n, d) -> (n * count, d), in the same order.

    Each row of `other` is used equally often, so that no partner is common to a whole batch.
    """
    partners = torch.stack([permutation(len(own), own.device) for _ in range(count)], dim=1)
    return (own.unsqueeze(1) + other[partners]).flatten(0, 1)


class Mixture(NamedTuple):
    """Features mixed in pairs.

    Attributes:
        features: (n, d) what came out.
        share: scalar, how much of each row is its own; the rest is its partner's.
        partner: (n,) with whom it was mixed.
    """

    features: Tensor
    share: Tensor
    partner: Tensor


def mixup(features: Tensor, alpha: float) -> Mixture:
    r"""Mix every row with a random other one, all in the same proportion (Zhang et al., 2018).

    .. math:: \tilde z_i = \lambda z_i + (1 - \lambda) z_{\pi(i)}, \qquad \lambda \sim \mathrm{Beta}(\alpha, \alpha)
    """
    share = Beta(alpha, alpha).sample().to(features)
    partner = permutation(len(features), features.device)
    return Mixture(share * features + (1 - share) * features[partner], share, partner)


def mixup_loss(logits: Tensor, y: Tensor, mixture: Mixture, task: Task) -> Tensor:
    r"""Cross-entropy against the mixed label :math:`\lambda y_i + (1 - \lambda) y_{\pi(i)}`, a scalar.

    An entry counts where both labels are known.

    Args:
        logits: (n, outputs) predictions for `mixture.features`.
        y: (n, tasks) labels of the rows before they were mixed.
        mixture: how they were mixed.
        task: what the labels are.
    """
    theirs = y[mixture.partner]
    entries = mixture.share * entry_losses(logits, y, task)
    entries = entries + (1 - mixture.share) * entry_losses(logits, theirs, task)
    return masked_mean(entries, labelled(y) & labelled(theirs))
