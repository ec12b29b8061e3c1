"""Pulling graphs with one label together and pushing the others away."""

from __future__ import annotations

import torch
from torch import Tensor

from mphil.nn.losses import labelled, masked_mean
from mphil.nn.sphere import unit
from mphil.task import Task


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
