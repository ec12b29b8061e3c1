"""Normalisation of a batch or inside each graph, with what comes before and after it, in one pass."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from mphil.errors import DataError
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


EPS = 1e-5


def normalise_by_group(
    values: Tensor,
    group: Tensor,
    n_groups: int,
    steps: Steps = NO_STEPS,
    *,
    other: Tensor | None = None,
    ends: Tensor | None = None,
) -> Tensor:
    """Instance normalisation: every column gets mean 0 and variance 1 inside each group; then `steps`.

    A group with one member becomes zeros. On a CPU, and where groups come one after the other, a compiled loop does it.

    Args:
        values: (n_members, d) features; with `ends`, (n_rows, d).
        group: (n_members,) which group each belongs to.
        n_groups: how many groups there are, empty ones included.
        steps: ReLU and dropout that follow; nothing is expanded.
        other: (n_other, d) features to add, chosen by the second row of `ends`.
        ends: (2, n_members) the row of `values` and the row of `other` whose sum a member is.

    Returns:
        (n_members, d).

    Example:
        >>> values = torch.tensor([[1.0], [3.0], [5.0]])
        >>> normalise_by_group(values, torch.tensor([0, 0, 1]), 2).round().flatten().tolist()
        [-1.0, 1.0, 0.0]
    """
    if kernels(values) is None or bool((group.diff() < 0).any()):
        return plain_normalise_by_group(values, other, ends, group, n_groups, steps)
    start = torch.zeros(n_groups + 1, dtype=torch.long)
    torch.cumsum(group.bincount(minlength=n_groups), 0, out=start[1:])
    out: Tensor = _ByGroup.apply(values, other, ends, group, start, steps)  # type: ignore[no-untyped-call]
    return out


def plain_normalise_by_group(
    values: Tensor, other: Tensor | None, ends: Tensor | None, group: Tensor, n_groups: int, steps: Steps
) -> Tensor:
    """The same in torch, on any device and for groups in any order; arguments as in `normalise_by_group`."""
    if other is not None and ends is not None:
        values = values.index_select(0, ends[0]) + other.index_select(0, ends[1])
    size = values.new_zeros(n_groups).index_add(0, group, values.new_ones(len(values))).clamp_min(1).unsqueeze(1)

    def mean(of: Tensor) -> Tensor:
        sums = of.new_zeros(n_groups, of.shape[1]).index_add(0, group, of)
        return (sums / size).index_select(0, group)

    centred = values - mean(values)
    return steps(centred * (mean(centred.square()) + EPS).rsqrt())


class _ByGroup(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        values: Tensor,
        other: Tensor | None,
        ends: Tensor | None,
        group: Tensor,
        start: Tensor,
        steps: Steps,
    ) -> Tensor:
        values, other = dense_rows(values), None if other is None else dense_rows(other)
        source, target = (None, None) if ends is None else (ends[0].contiguous(), ends[1].contiguous())
        groups, width = len(start) - 1, values.shape[1]
        out, columns = values.new_empty(len(group), width), values.new_empty(groups, 2, width)
        strides = {
            "first_stride": values.stride(0),
            "second_stride": 0 if other is None else other.stride(0),
        }
        failed = kernels(values).normalise_groups(  # type: ignore[union-attr]
            out=out,
            columns=columns,
            first=values,
            second=other,
            source=source,
            target=target,
            start=start,
            draws=steps.draws,
            least=steps.least,
            kept=steps.kept,
            relu=steps.relu,
            eps=EPS,
            **strides,
            first_rows=len(values),
            second_rows=0 if other is None else len(other),
            groups=groups,
            width=width,
        )
        if failed:
            raise DataError("an edge joins nodes that do not exist; check edge_index") if failed == -1 else MemoryError
        ctx.save_for_backward(values, other, source, target, group, start, columns)
        ctx.ends, ctx.steps, ctx.strides = ends, steps, strides
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Gradients:
        values, other, source, target, group, start, columns = ctx.saved_tensors
        steps = ctx.steps
        if torch.is_grad_enabled():
            given = (values, other, ctx.ends, group, len(start) - 1, steps)
            return differentiable_gradients(plain_normalise_by_group, given, ctx.needs_input_grad, grad)
        grad = dense_rows(grad)
        grad_values, grad_other = (None if v is None else torch.zeros(v.shape, dtype=v.dtype) for v in (values, other))
        if kernels(values).normalise_groups_backward(  # type: ignore[union-attr]
            grad_first=grad_values,
            grad_second=grad_other,
            grad=grad,
            columns=columns,
            first=values,
            second=other,
            source=source,
            target=target,
            start=start,
            draws=steps.draws,
            least=steps.least,
            kept=steps.kept,
            relu=steps.relu,
            stride=grad.stride(0),
            **ctx.strides,
            groups=len(start) - 1,
            width=values.shape[1],
        ):
            raise MemoryError
        return grad_values, grad_other, None, None, None, None
