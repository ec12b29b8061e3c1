"""Linear, batch normalisation, ReLU, linear in one go, band by band of the rows."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from mphil.nn.fast.aggregate import Gradients, differentiable_gradients
from mphil.nn.fast.library import address, dense_rows, kernels
from mphil.nn.fast.linear import aligned
from mphil.nn.fast.normalise import Norm, plain_standardised


def perceptron(
    x: Tensor,
    first: tuple[Tensor, Tensor],
    last: tuple[Tensor, Tensor],
    affine: tuple[Tensor, Tensor],
    counts: Tensor | None,
    norm: Norm,
) -> Tensor:
    r"""A hidden layer normalised by its own statistics, compiled, with gradients.

    .. math:: y = W_2\,\mathrm{ReLU}\Big(\gamma\,\frac{h - \mu}{\sqrt{\sigma^2 + \epsilon}} + \beta\Big) + b_2,
              \qquad h = W_1 x + b_1

    Args:
        x: (n_rows, before).
        first: (hidden, before) and (hidden,), :math:`W_1` and :math:`b_1`.
        last: (after, hidden) and (after,), :math:`W_2` and :math:`b_2`.
        affine: (hidden,) each, :math:`\gamma` and :math:`\beta`.
        counts: (n_rows,) how many nodes a row stands for, two or more in all; 1 each when not given.
        norm: running statistics, which move.

    Returns:
        (n_rows, after).
    """
    counts = None if counts is None else counts.to(x.dtype)
    out: Tensor = _Perceptron.apply(x, *first, *last, *affine, counts, norm)  # type: ignore[no-untyped-call]
    return out


def frozen_perceptron(
    x: Tensor, first: tuple[Tensor, Tensor], last: tuple[Tensor, Tensor], scale: Tensor, shift: Tensor
) -> Tensor:
    """The same with a given scale and shift in place of the normalisation, without gradients."""
    return _forward(x, *first, *last, torch.stack((scale, shift)))[0]


def plain_perceptron(
    x: Tensor,
    first: Tensor,
    first_bias: Tensor,
    last: Tensor,
    last_bias: Tensor,
    weight: Tensor,
    bias: Tensor,
    *,
    counts: Tensor | None,
    eps: float,
) -> Tensor:
    """What `perceptron` does in torch, but for the running statistics; differentiable as often as one likes."""
    hidden = torch.nn.functional.linear(x, first, first_bias)
    active = plain_standardised(hidden, weight, bias, counts, eps).relu()
    return torch.nn.functional.linear(active, last, last_bias)


def _forward(
    x: Tensor,
    first: Tensor,
    first_bias: Tensor,
    last: Tensor,
    last_bias: Tensor,
    columns: Tensor,
    hidden: Tensor | None = None,
    affine: tuple[Tensor | None, Tensor | None] = (None, None),
    counts: Tensor | None = None,
    norm: Norm | None = None,
) -> tuple[Tensor, float]:
    """The result, and how many nodes there are. Without `hidden`, `columns` says how to normalise."""
    x = dense_rows(x)
    out = aligned(len(x), len(last), x)
    running = (None, None) if norm is None else (norm.running_mean, norm.running_variance)
    total = kernels(x).perceptron(  # type: ignore[union-attr]
        *map(address, (out, hidden, columns, *running, x, first, first_bias, last, last_bias, *affine, counts)),
        *((0.0, 0.0) if norm is None else (norm.eps, norm.momentum)),
        *(out.stride(0), len(first) if hidden is None else hidden.stride(0), x.stride(0)),
        *(*x.shape, len(first), len(last)),
    )
    if total < 0:
        raise MemoryError("no room for the bands of a hidden layer")
    return out, total


class _Perceptron(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        first: Tensor,
        first_bias: Tensor,
        last: Tensor,
        last_bias: Tensor,
        weight: Tensor,
        bias: Tensor,
        counts: Tensor | None,
        norm: Norm,
    ) -> Tensor:
        hidden, columns = aligned(len(x), len(first), x), x.new_empty(4, len(first))
        given = (x, first, first_bias, last, last_bias)
        out, total = _forward(*given, columns, hidden, (weight, bias), counts, norm)
        ctx.save_for_backward(*given, weight, bias)
        ctx.hidden, ctx.columns, ctx.counts, ctx.total, ctx.eps = hidden, columns, counts, total, norm.eps
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Gradients:
        x, first, _, last, *_ = given = ctx.saved_tensors
        if torch.is_grad_enabled():
            found = differentiable_gradients(
                lambda *leaves: plain_perceptron(*leaves, counts=ctx.counts, eps=ctx.eps),
                given,
                ctx.needs_input_grad[:7],
                grad,
            )
            return *found, None, None
        x, grad, hidden = dense_rows(x), dense_rows(grad), ctx.hidden
        grad_x = aligned(len(x), x.shape[1], x) if ctx.needs_input_grad[0] else None
        room = aligned(len(x), len(first), x)
        grad_first, grad_last = torch.zeros_like(first), torch.zeros_like(last)
        grad_first_bias, grad_last_bias = x.new_zeros(len(first)), x.new_zeros(len(last))
        grad_affine = x.new_empty(2, len(first))
        pointers = (grad_x, room, grad_first, grad_first_bias, grad_last, grad_last_bias, grad_affine)
        if kernels(x).perceptron_backward(  # type: ignore[union-attr]
            *map(address, (*pointers, grad, x, hidden, ctx.columns, first, last, ctx.counts)),
            *(ctx.total, 0 if grad_x is None else grad_x.stride(0), grad.stride(0), hidden.stride(0), x.stride(0)),
            *(*x.shape, len(first), len(last)),
        ):
            raise MemoryError("no room for the bands of a hidden layer")
        return grad_x, grad_first, grad_first_bias, grad_last, grad_last_bias, *grad_affine, None, None
