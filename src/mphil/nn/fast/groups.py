"""Normalisation inside each graph, with what comes before and after it, in one pass."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from mphil.errors import DataError
from mphil.nn.fast.aggregate import Gradients, differentiable_gradients
from mphil.nn.fast.library import dense_rows, kernels
from mphil.nn.fast.normalise import NO_STEPS, Steps

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
