r"""The geometry of MPHIL: pure functions on the unit sphere, one for each equation of the paper.

Which prototypes a sample belongs to, and how they move, is in `methods/mphil_assignment.py`.

Shapes: B graphs, T tasks, C classes, K prototypes a class, p size of the sphere's space. Prototypes are
:math:`M \in (T, C, K, p)`; a multi-class or binary problem has T = 1. Weights are kept as logarithms, so that pruned
slots are :math:`-\infty` and nothing overflows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, Literal

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from mphil.nn.randomness import standard_normal

Aggregate = Literal["max", "mean", "min", "sum"]
Separation = Literal["ratio", "summed", "dispersion"]


def unit(v: Tensor, eps: float = 1e-12) -> Tensor:
    r""":math:`\hat v = v / \lVert v \rVert_2` over the last dimension (eq: hype_rinv).

    A zero vector has no direction: it stays zero and passes no gradient.
    """
    squared = v.square().sum(-1, keepdim=True)
    present = squared > eps**2
    return torch.where(present, v * torch.where(present, squared, 1.0).rsqrt(), 0.0)


def random_directions(*shape: int) -> Tensor:
    """(..., p) directions drawn uniformly: standard normal, put on the sphere at once."""
    drawn = standard_normal(*shape)
    return drawn if drawn.is_meta else unit(drawn)


def similarity(z: Tensor, prototypes: Tensor) -> Tensor:
    r""":math:`\langle \mu^{(c)}_k, \hat z_b \rangle`: (B, p), (T, C, K, p) -> (B, T, C, K).

    In memory K comes before T and C, so that a sum over the few prototypes of a class is one over vectors of classes.
    """
    slots = prototypes.movedim(2, 0)
    return (z @ slots.flatten(0, 2).T).view(len(z), *slots.shape[:-1]).movedim(1, -1)


def class_logits(scaled: Tensor, log_weights: Tensor, aggregate: Aggregate = "max") -> Tensor:
    r"""Logarithm of each class's score (classify); a softmax over classes gives the probabilities.

    .. math:: \log s_c = \log \max_k\, W_{ck}\, e^{\langle \mu_{ck}, \hat z\rangle / \tau}

    Args:
        scaled: (B, T, C, K) similarities divided by the temperature.
        log_weights: (B, T, C, K), -inf where pruned.
        aggregate: `max`, or `mean`, `min` and `sum` over the prototypes that were kept. With the same number kept in
            every class, mean and sum differ by a constant factor and give equal probabilities.

    Returns:
        (B, T, C).
    """
    terms = log_weights + scaled
    if aggregate == "max":
        return terms.amax(-1)
    kept = log_weights > -math.inf
    if aggregate == "min":
        return terms.masked_fill(~kept, math.inf).amin(-1)
    total = terms.logsumexp(-1)
    return total if aggregate == "sum" else total - kept.sum(-1).to(total.dtype).log()


def product_logits(similarities: Tensor, log_weights: Tensor, aggregate: Aggregate = "max") -> Tensor:
    r"""Class scores of the authors' code as logits: :math:`\max_k W_{ck}\,\langle\mu_{ck},\hat z\rangle`.

    No temperature; pruned slots do not count. Shapes as in `class_logits`.
    """
    kept = log_weights > -math.inf
    terms = log_weights.exp() * similarities
    if aggregate == "max":
        return terms.masked_fill(~kept, -math.inf).amax(-1)
    if aggregate == "min":
        return terms.masked_fill(~kept, math.inf).amin(-1)
    total = terms.sum(-1)
    return total if aggregate == "sum" else total / kept.sum(-1)


def matching_loss(scaled: Tensor, membership: Tensor) -> Tensor:
    r"""Invariant prototype matching (ipm), one value per label: pull a sample to the prototypes of its class.

    .. math:: -\log \frac{\sum_{k} e^{\langle \hat z, \mu^{(y)}_k\rangle/\tau}}
                         {\sum_{c}\sum_{k} e^{\langle \hat z, \mu^{(c)}_k\rangle/\tau}}

    Args:
        scaled: (B, T, C, K) similarities divided by the temperature.
        membership: (B, T, C).

    Returns:
        (B, T), 0 where the label is missing.
    """
    by_class = scaled.logsumexp(-1)
    return ((by_class.logsumexp(-1, keepdim=True) - by_class) * membership).sum(-1)


def separation_loss(prototypes: Tensor, temperature: float, moved: Tensor | None = None) -> Tensor:
    r"""Prototype separation (ps): prototypes of one class together, those of different classes apart.

    .. math:: -\frac{1}{CK}\sum_{c,k}\log
              \frac{\sum_{i\ne k} e^{\langle\mu^{(c)}_k,\mu^{(c)}_i\rangle/\tau}}
                   {\sum_{c'\ne c}\sum_j e^{\langle\mu^{(c)}_k,\mu^{(c')}_j\rangle/\tau}}

    The denominator leaves out the own class, so the loss can be negative. With K = 1 there is nothing to pull
    together and the numerator is left out. Averaged over tasks.

    Args:
        prototypes: (T, C, K, p).
        temperature: :math:`\tau`.
        moved: (n,) those that have a gradient, as rows of all T * C * K; all of them when not given.
    """
    apart, within = _pairs(prototypes, temperature, moved)
    return (apart - within.logsumexp(-1)).mean() if prototypes.shape[2] > 1 else apart.mean()


def summed_separation_loss(prototypes: Tensor, temperature: float, moved: Tensor | None = None) -> Tensor:
    r"""Prototype separation as in the authors' code: positives summed, the denominator over all other prototypes.

    .. math:: -\frac{1}{CK}\sum_{c,k}\Big[\sum_{i\ne k} s_{ki} - \log\sum_{(c',j)\ne(c,k)} e^{s_{kj}}\Big],
              \qquad s = \langle\mu,\mu'\rangle/\tau

    Arguments as in `separation_loss`.
    """
    apart, within = _pairs(prototypes, temperature, moved)
    if prototypes.shape[2] == 1:
        return apart.mean()
    together = within.masked_fill(within == -math.inf, 0.0).sum(-1)
    return (apart.logaddexp(within.logsumexp(-1)) - together).mean()


def dispersion_loss(prototypes: Tensor, temperature: float, moved: Tensor | None = None) -> Tensor:
    r"""Prototypes of different classes apart, and nothing else: those of one class are not pulled together.

    .. math:: \frac{1}{CK}\sum_{c,k}\log \sum_{c'\ne c}\sum_j e^{\langle\mu^{(c)}_k,\mu^{(c')}_j\rangle/\tau}

    The denominator of `separation_loss`; arguments as there.
    """
    return _pairs(prototypes, temperature, moved)[0].mean()


SEPARATION: Mapping[Separation, Callable[[Tensor, float, Tensor | None], Tensor]] = {
    "ratio": separation_loss,
    "summed": summed_separation_loss,
    "dispersion": dispersion_loss,
}


def _pairs(prototypes: Tensor, temperature: float, moved: Tensor | None) -> tuple[Tensor, Tensor]:
    """Scaled similarities of each prototype to the others.

    Returns:
        (T, C, K) logarithm of the sum of their exponentials over all other classes, and (T, C, K, K) those to the
        prototypes of its own class, -inf to itself.
    """
    apart, within = _Pairs.apply(prototypes, temperature, moved)  # type: ignore[no-untyped-call]
    itself = torch.eye(prototypes.shape[2], dtype=torch.bool, device=prototypes.device)
    return apart, within.masked_fill(itself, -math.inf)


class _Pairs(torch.autograd.Function):
    """All (C * K)^2 pairs at once; since they are symmetric, one product gives both halves of the gradient."""

    @staticmethod
    def forward(ctx: Any, prototypes: Tensor, temperature: float, moved: Tensor | None) -> tuple[Tensor, Tensor]:
        tasks, classes, slots, _ = prototypes.shape
        flat = prototypes.flatten(1, 2)
        pairs = flat / temperature @ flat.mT
        own = _own_class(pairs, classes)
        within = own.clone(memory_format=torch.contiguous_format)
        own.fill_(-math.inf)
        most = pairs.amax(-1, keepdim=True)
        powers = pairs.sub_(most).exp_()
        total = powers.sum(-1, keepdim=True)
        ctx.save_for_backward(flat, powers, total, moved)
        ctx.temperature = temperature
        return (most + total.log()).view(tasks, classes, slots), within

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor, grad_within: Tensor) -> tuple[Tensor, None, None]:
        flat, powers, total, moved = ctx.saved_tensors
        tasks, classes, slots = grad.shape
        grad = grad.flatten(1).unsqueeze(-1) / total
        rows = torch.arange(flat.shape[1], device=flat.device) if moved is None or tasks > 1 else moved
        felt = powers.index_select(1, rows) * grad.index_select(1, rows)
        felt += powers.index_select(2, rows).mT * grad.mT
        own = (grad_within + grad_within.mT).flatten(1, 2).index_select(1, rows)
        each = torch.arange(len(rows), device=rows.device)
        felt.unflatten(-1, (classes, slots))[:, each, rows // slots] = own
        found = torch.zeros_like(flat).index_copy_(1, rows, felt @ (flat / ctx.temperature))
        return found.view(tasks, classes, slots, -1), None, None


def _own_class(pairs: Tensor, classes: int) -> Tensor:
    """The (T, C, K, K) blocks on the diagonal of all pairs (T, C * K, C * K), as a view."""
    slots = pairs.shape[-1] // classes
    return pairs.view(-1, classes, slots, classes, slots).diagonal(dim1=1, dim2=3).permute(0, 3, 1, 2)
