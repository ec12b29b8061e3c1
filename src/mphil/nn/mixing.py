"""Mixing graphs of a batch in latent space: who is joined with whom, and what label the mixture has."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.distributions import Beta

from mphil.nn.losses import entry_losses, labelled, masked_mean
from mphil.task import Task


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
