"""Batch normalisation, ReLU, the way from classes of nodes to nodes, and dropout in one pass."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from mphil.nn.fast.aggregate import Gradients, differentiable_gradients
from mphil.nn.fast.library import dense_rows, kernels


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

    @property
    def arguments(self) -> dict[str, Any]:
        """As the loops take them."""
        return {
            "relu": self.relu,
            "expand": self.expand,
            "draws": self.draws,
            "least": self.least,
            "kept": self.kept,
        }

    def __call__(self, h: Tensor) -> Tensor:
        """Take the steps in torch: (n_rows, width) -> (n_nodes, width)."""
        h = h.relu() if self.relu else h
        h = h if self.expand is None else h.index_select(0, self.expand)
        return h if self.draws is None else h * (self.draws >= self.least).to(h.dtype).div_(self.kept)


NO_STEPS = Steps()


@dataclass(frozen=True)
class Norm:
    """The state of a batch normalisation besides its two weights; a batch moves what is in the tensors.

    Attributes:
        running_mean: (d,)
        running_variance: (d,)
        batches: () int64, how many there were.
        momentum: share by which the running statistics move.
        eps: added to the variance.
    """

    running_mean: Tensor
    running_variance: Tensor
    batches: Tensor
    momentum: float
    eps: float


def scaled(x: Tensor, columns: Tensor, steps: Steps) -> Tensor:
    """`steps` after scale * x + shift, the first two `columns`, compiled and without gradients.

    (n_rows, d), (2 or more, d) -> (n_nodes, d)
    """
    x = dense_rows(x.detach())
    out = x.new_empty(x.shape if steps.expand is None else (steps.expand.shape[0], x.shape[1]))
    if kernels(x).normalise(  # type: ignore[union-attr]
        out=out,
        x=x,
        columns=columns,
        **steps.arguments,
        stride=x.stride(0),
        nodes=out.shape[0],
        rows=x.shape[0],
        width=x.shape[1],
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


class Standardisation:
    """How a batch was normalised by its own statistics, compiled; moves the running ones."""

    def __init__(
        self, x: Tensor, weight: Tensor, bias: Tensor, counts: Tensor | None, norm: Norm, steps: Steps
    ) -> None:
        x = dense_rows(x)
        self.counts, self.steps, self.eps = counts, steps, norm.eps
        self.columns = x.new_empty(4, x.shape[1])
        self.total = kernels(x).statistics(  # type: ignore[union-attr]
            columns=self.columns,
            running_mean=norm.running_mean,
            running_variance=norm.running_variance,
            batches=norm.batches,
            x=x,
            weight=weight,
            bias=bias,
            count=counts,
            eps=norm.eps,
            momentum=norm.momentum,
            stride=x.stride(0),
            rows=x.shape[0],
            width=x.shape[1],
        )
        if self.total < 0:
            raise MemoryError("no room for the sums of the columns")

    def forward(self, x: Tensor) -> Tensor:
        return scaled(x, self.columns, self.steps)

    def backward(self, x: Tensor, grad: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Gradients of x, weight and bias."""
        x, grad, steps = dense_rows(x), dense_rows(grad), self.steps
        grad_x = x.new_empty(x.shape) if steps.expand is None else x.new_zeros(x.shape)
        grad_affine = x.new_empty(2, x.shape[1])
        if kernels(x).normalise_backward(  # type: ignore[union-attr]
            grad_x=grad_x,
            grad_affine=grad_affine,
            grad=grad,
            x=x,
            columns=self.columns,
            count=self.counts,
            **steps.arguments,
            total=self.total,
            back_stride=grad.stride(0),
            stride=x.stride(0),
            nodes=grad.shape[0],
            rows=x.shape[0],
            width=x.shape[1],
        ):
            raise MemoryError("no room for the sums of the columns")
        grad_weight, grad_bias = grad_affine.unbind()
        return grad_x, grad_weight, grad_bias

    def plain(self, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        """The same in torch, differentiable as often as one likes."""
        return self.steps(plain_standardised(x, weight, bias, self.counts, self.eps))


class _Standardised(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, counts: Tensor | None, norm: Norm, steps: Steps
    ) -> Tensor:
        ctx.save_for_backward(x, weight, bias)
        ctx.made = made = Standardisation(x, weight, bias, counts, norm, steps)
        return made.forward(x)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Gradients:
        given, made = ctx.saved_tensors, ctx.made
        if torch.is_grad_enabled():
            found = differentiable_gradients(made.plain, given, ctx.needs_input_grad[:3], grad)
        else:
            found = made.backward(given[0], grad)
        return *found, None, None, None
