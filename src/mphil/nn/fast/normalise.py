"""Batch normalisation, ReLU, the way from classes of nodes to nodes, and dropout in one pass."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from mphil.nn.fast.aggregate import Gradients, differentiable_gradients
from mphil.nn.fast.library import address, dense_rows, kernels


@dataclass(frozen=True)
class Steps:
    """What follows on the normalisation of (n_rows, width) features.

    Attributes:
        relu: cut off at 0.
        expand: (n_nodes,) the row that each node takes; without it row v is node v.
        draws: (n_nodes, width) int16 random numbers that decide on dropout; none without it.
        least: a feature is kept where its draw is not below this.
        kept: the share that is kept, by which features are divided.
    """

    relu: bool = False
    expand: Tensor | None = None
    draws: Tensor | None = None
    least: int = 0
    kept: float = 1.0

    def __call__(self, h: Tensor) -> Tensor:
        """Take the steps in torch: (n_rows, width) -> (n_nodes, width)."""
        h = h.relu() if self.relu else h
        h = h if self.expand is None else h.index_select(0, self.expand)
        return h if self.draws is None else h * (self.draws >= self.least).to(h.dtype).div_(self.kept)


NO_STEPS = Steps()


@dataclass(frozen=True)
class Norm:
    """The state of a batch normalisation besides its two weights; the running statistics are moved in place."""

    running_mean: Tensor
    running_variance: Tensor
    momentum: float
    eps: float


def scaled(x: Tensor, scale: Tensor, shift: Tensor, steps: Steps) -> Tensor:
    """`steps` after scale * x + shift, compiled and without gradients: (n_rows, d) -> (n_nodes, d)."""
    x = dense_rows(x.detach())
    out = x.new_empty(len(x) if steps.expand is None else len(steps.expand), x.shape[1])
    if kernels(x).normalise(  # type: ignore[union-attr]
        *map(address, (out, x, scale, shift, steps.expand, steps.draws)),
        *(steps.least, steps.kept, steps.relu, x.stride(0), len(out), *x.shape),
    ):
        raise IndexError("a node has a class that does not exist")
    return out


def standardised(x: Tensor, weight: Tensor, bias: Tensor, counts: Tensor | None, norm: Norm, steps: Steps) -> Tensor:
    r"""`steps` after normalising each column by its own mean and variance, compiled, with gradients.

    .. math:: y = \gamma\,\frac{x - \mu}{\sqrt{\sigma^2 + \epsilon}} + \beta

    Args:
        x: (n_rows, d).
        weight: (d,) :math:`\gamma`.
        bias: (d,) :math:`\beta`.
        counts: (n_rows,) how many nodes a row stands for, two or more in all; 1 each when not given.
        norm: running statistics, which move.
        steps: what follows.

    Returns:
        (n_nodes, d).
    """
    counts = None if counts is None else counts.to(x.dtype)
    out: Tensor = _Standardised.apply(x, weight, bias, counts, norm, steps)  # type: ignore[no-untyped-call]
    return out


def plain_standardised(x: Tensor, weight: Tensor, bias: Tensor, counts: Tensor | None, eps: float) -> Tensor:
    """The same in torch, without steps and running statistics, differentiable as often as one likes."""
    times = x.new_ones(len(x), 1) if counts is None else counts.unsqueeze(1)
    mean = (times * x).sum(0) / times.sum()
    variance = (times * (x - mean).square()).sum(0) / times.sum()
    return (x - mean) * (variance + eps).rsqrt() * weight + bias


class _Standardised(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, counts: Tensor | None, norm: Norm, steps: Steps
    ) -> Tensor:
        x = dense_rows(x)
        columns = x.new_empty(4, x.shape[1])
        total = kernels(x).statistics(  # type: ignore[union-attr]
            *map(address, (columns, norm.running_mean, norm.running_variance, x, weight, bias, counts)),
            *(norm.eps, norm.momentum, x.stride(0), *x.shape),
        )
        if total < 0:
            raise MemoryError("no room for the sums of the columns")
        ctx.save_for_backward(x, weight, bias)
        ctx.columns, ctx.total, ctx.counts, ctx.eps, ctx.steps = columns, total, counts, norm.eps, steps
        return scaled(x, columns[0], columns[1], steps)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Gradients:
        x, weight, bias = ctx.saved_tensors
        steps, counts = ctx.steps, ctx.counts
        if torch.is_grad_enabled():
            found = differentiable_gradients(
                lambda x, weight, bias: steps(plain_standardised(x, weight, bias, counts, ctx.eps)),
                (x, weight, bias),
                ctx.needs_input_grad[:3],
                grad,
            )
            return *found, None, None, None
        grad = dense_rows(grad)
        grad_x = x.new_empty(x.shape) if steps.expand is None else x.new_zeros(x.shape)
        grad_affine = x.new_empty(2, x.shape[1])
        if kernels(x).normalise_backward(  # type: ignore[union-attr]
            *map(address, (grad_x, grad_affine, grad, x, ctx.columns, counts, steps.expand, steps.draws)),
            *(steps.least, steps.kept, steps.relu, ctx.total, grad.stride(0), x.stride(0), len(grad), *x.shape),
        ):
            raise MemoryError("no room for the sums of the columns")
        return grad_x, grad_affine[0], grad_affine[1], None, None, None
