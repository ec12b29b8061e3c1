r"""Which prototypes a sample belongs to, and how prototypes start and move: pure functions on the unit sphere.

Shapes and logarithms as in `nn/sphere.py`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor

from mphil.nn.sphere import similarity, unit

Over = Literal["class", "all"]
"""What weights are shared out over: the K prototypes of each class, or all C * K of a task."""
Total = Callable[[Tensor], Tensor]
"""From a sum over these graphs to that over all of a batch, if other processes have some of them."""


def alone(part: Tensor) -> Tensor:
    """The total where there are no other processes."""
    return part


def attention(query: Tensor, key: Tensor, prototypes: Tensor, over: Over = "class") -> Tensor:
    r"""Log assignment weights :math:`\log W = \log\mathrm{softmax}_k\big(QK^\top / \sqrt{d'}\big)` (eq: att).

    The keys :math:`K = M W_K^\top` are never made: :math:`Q K^\top = (Q W_K) M^\top`. A bias of theirs would add the
    same to all scores of a sample, so there is none.

    Args:
        query: (B, d') samples.
        key: (d', p), :math:`W_K`.
        prototypes: (T, C, K, p).
        over: softmax over the K prototypes of each class, or over `all` C * K of a task.

    Returns:
        (B, T, C, K) logarithms of the weights.
    """
    return _log_softmax(similarity(query @ key / math.sqrt(len(key)), prototypes), over)


def cosine_attention(z: Tensor, prototypes: Tensor, temperature: float, over: Over = "class") -> Tensor:
    r"""Log weights :math:`\log W = \log\mathrm{softmax}_k\big(\cos(z, \mu_k) / T\big)`: the nearest has the largest.

    Nothing is learned here. With T towards 0 the nearest prototype gets all, with a large T all get the same.

    Args:
        z: (B, p) samples; their length does not matter.
        prototypes: (T, C, K, p), on the sphere.
        temperature: T.
        over: as in `attention`.

    Returns:
        (B, T, C, K) logarithms of the weights.
    """
    return _log_softmax(similarity(unit(z) / temperature, prototypes), over)


def _log_softmax(scores: Tensor, over: Over) -> Tensor:
    if over == "class":  # in the order in which they lie in memory, which is fastest
        return scores.movedim(-1, 1).log_softmax(1).movedim(1, -1)
    return scores.flatten(-2).log_softmax(-1).view_as(scores)


def nearest(similarities: Tensor) -> Tensor:
    """Log weights of a hard choice: 0 for the most similar prototype of each class, -inf for the others."""
    chosen = similarities.argmax(-1, keepdim=True)
    return torch.full_like(similarities, -math.inf).scatter(-1, chosen, 0.0)


def prune(log_weights: Tensor, keep: int) -> Tensor:
    """Keep the `keep` largest of the K weights of each class, as they are; the rest become 0 (-inf)."""
    if keep >= log_weights.shape[-1]:
        return log_weights
    kept = log_weights.topk(keep, dim=-1) if keep > 1 else log_weights.max(-1, keepdim=True)
    return torch.full_like(log_weights, -math.inf).scatter_(-1, kept.indices, kept.values)


def sinkhorn(
    cosines: Tensor, membership: Tensor, total: Total = alone, epsilon: float = 0.05, rounds: int = 3
) -> Tensor:
    r"""Log weights that use all K prototypes of a class alike: samples are shared out in equal parts (Sinkhorn, Knopp).

    .. math:: Q \approx \arg\max_Q \sum_{ik} Q_{ik} \cos(z_i, \mu_k) + \epsilon H(Q), \qquad
              \sum_k Q_{ik} = 1, \quad \sum_i Q_{ik} = n_c / K

    Starts from :math:`Q_{ik} \propto e^{\cos(z_i, \mu_k) / \epsilon}`; a round divides by the sum of every prototype
    over the samples of its class, then by the sum of every sample, which is exactly 1 in the end. Logarithms are kept;
    with an epsilon of 0.05 none is far below -80, so that no sum vanishes in single precision. No gradient passes: the
    result is a constant. A class with one sample in the batch shares it out evenly.

    Args:
        cosines: (B, T, C, K) similarities of points of the sphere.
        membership: (B, T, C) 1 where graph b has class c in task t; all others have no influence.
        total: from sums over these graphs to those over the batch.
        epsilon: small values make the choice hard.
        rounds: how often both sums are corrected.

    Returns:
        (B, T, C, K), without a meaning where a graph is not of the class.
    """
    own, smallest = membership.unsqueeze(-1), torch.finfo(cosines.dtype).tiny
    log_weights = (cosines.detach() / epsilon).log_softmax(-1)
    for _ in range(rounds):
        sums = total((log_weights.exp() * own).sum(0)).clamp_min(smallest)
        log_weights = (log_weights - sums.log()).log_softmax(-1)
    return log_weights


def received(
    log_weights: Tensor, membership: Tensor, z: Tensor, total: Total = alone, *, mean: bool = False
) -> tuple[Tensor, Tensor]:
    r"""What a batch sends to prototypes: :math:`\sum_i 1(y_i = c)\, W^{(c)}_{ik}\, \hat z_i`, where it sends anything.

    A mean divides by the weight received, :math:`\sum_i 1(y_i = c)\, W^{(c)}_{ik}`, and does not grow with the batch.

    Args:
        log_weights: (B, T, C, K).
        membership: (B, T, C) 1 where graph b has class c in task t; a missing label is a row of zeros.
        z: (B, p).
        total: from sums over these graphs to those over the batch.
        mean: the weighted mean in place of the sum.

    Returns:
        (n,) the prototypes that received something, as rows of all T * C * K, and (n, p) what they received.
    """
    known = membership.nonzero(as_tuple=True)
    weights = z.new_zeros(log_weights.shape).index_put(known, log_weights[known].exp()).flatten(1)
    slots = (total(weights.detach().sum(0)) > 0).nonzero().squeeze(1)
    weights = weights.index_select(1, slots)
    sums = total(weights.T @ z)
    return slots, sums / total(weights.sum(0)).unsqueeze(1) if mean else sums


def move(prototypes: Tensor, slots: Tensor, sums: Tensor, momentum: float) -> Tensor:
    r"""The prototypes after a batch (eq: update_prototype).

    .. math:: \mu \leftarrow \mathrm{Norm}\Big(\alpha\,\mu + (1-\alpha) \sum_i 1(y_i=c)\, W_{ik}\, \hat z_i\Big)

    In the paper it is a sum over the batch, not a mean: the same momentum moves prototypes faster in larger batches. A
    prototype that received nothing stays where it is, and so does one whose sum has no direction.
    """
    flat = prototypes.flatten(0, 2)
    before = flat.index_select(0, slots)
    moved = unit(momentum * before + (1 - momentum) * sums)
    moved = torch.where(moved.any(-1, keepdim=True), moved, before)
    return flat.index_copy(0, slots, moved).view_as(prototypes)


def spherical_kmeans(points: Tensor, centres: Tensor, rounds: int = 10) -> Tensor:
    """Centres (K, p) moved to the directions of the points (n, p) nearest to them.

    A centre without points, or whose points cancel, stays.
    """
    for _ in range(rounds):
        owner = (points @ centres.T).argmax(1)
        directions = unit(torch.zeros_like(centres).index_add(0, owner, points))
        centres = torch.where(directions.any(-1, keepdim=True), directions, centres)
    return centres


def class_kmeans(points: Tensor, membership: Tensor, prototypes: Tensor) -> Tensor:
    """Prototypes (T, C, K, p) moved to the k-means centres of the points (n, p) of their class.

    Args:
        points: embeddings.
        membership: (n, T, C) 1 where a point belongs to a class.
        prototypes: where to start; a class without points keeps its own.
    """
    moved = prototypes.clone()
    for task, label in membership.sum(0).nonzero().tolist():
        moved[task, label] = spherical_kmeans(points[membership[:, task, label] > 0], moved[task, label])
    return moved


def class_means(points: Tensor, membership: Tensor, prototypes: Tensor, noise: float = 0.1) -> Tensor:
    r"""Prototypes (T, C, K, p) started in their class: each at the mean of a random part of its points, and noise.

    .. math:: \mu^{(c)}_k = \mathrm{Norm}\Big(\mathrm{Norm}\big(\textstyle\sum_{i \in P^{(c)}_k} \hat z_i\big)
              + \tfrac{\sigma s_c}{\sqrt p}\, \varepsilon\Big), \qquad \varepsilon \sim \mathcal N(0, I)

    The points of a class are dealt out at random to its prototypes in equal parts :math:`P_1, \dots, P_K`; where there
    are fewer points than prototypes, some prototypes share one. :math:`s_c`, at least 0.01, is the root mean square
    distance of the points from their mean: a network that is not trained yet places all graphs close together.

    Args:
        points: (n, p) embeddings.
        membership: (n, T, C) 1 where a point belongs to a class.
        prototypes: those of a class without points stay.
        noise: :math:`\sigma`, about the length of the noise as a share of the spread.
    """
    started = prototypes.detach().clone()
    slots, size = prototypes.shape[2:]
    for task, label in membership.sum(0).nonzero().tolist():
        own = points[membership[:, task, label] > 0]
        deal = torch.arange(max(len(own), slots), device=points.device)
        dealt = own[torch.randperm(len(own)).to(points.device)[deal % len(own)]]
        means = unit(torch.zeros_like(started[task, label]).index_add(0, deal % slots, dealt))
        spread = (own - own.mean(0)).square().sum(1).mean().sqrt().clamp_min(0.01)
        started[task, label] = unit(means + noise * spread / math.sqrt(size) * torch.randn(slots, size).to(points))
    return started
