"""Linear maps with the products that are fastest on this processor, and perceptrons band by band of the rows."""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch import Tensor, nn

from mphil.nn.fast.aggregate import Gradients, differentiable_gradients
from mphil.nn.fast.chains import LEAST_COLUMNS, chained, chained_product
from mphil.nn.fast.library import dense_rows, kernels, products_pay
from mphil.nn.fast.normalise import NO_STEPS, Norm, Standardisation, Steps, plain_standardised

ALIGNMENT = 32
"""Bytes of a vector register. Products whose rows begin in the middle of one (a width of 300) cost a third more."""


class Linear(nn.Linear):
    """A linear map: (n, before) -> (n, after). On a CPU rows are padded, in memory, to whole vector registers.

    Args:
        before: numbers of a row.
        after: numbers of a row of the result.
        bias: whether one is added.
        zeros: many of the numbers it takes are 0, as those that come out of a ReLU.
    """

    def __init__(self, before: int, after: int, bias: bool = True, *, zeros: bool = False) -> None:
        super().__init__(before, after, bias)
        self.zeros = zeros

    def forward(self, x: Tensor) -> Tensor:
        if kernels(x) is None or x.dim() != 2:
            return super().forward(x)
        out: Tensor = _Linear.apply(x, self.weight, self.bias, self.zeros)  # type: ignore[no-untyped-call]
        return out


class BlasLinear(nn.Linear):
    """A linear map with the bits of `nn.Linear` everywhere, faster where products of our own have these bits."""

    def forward(self, x: Tensor) -> Tensor:
        # Narrower maps have gradients whose products a BLAS sums in orders of their own.
        wide = min(self.weight.shape) >= LEAST_COLUMNS
        if x.dim() != 2 or not wide or not chained(x, self.weight.T):
            return super().forward(x)
        out: Tensor = _Linear.apply(x, self.weight, self.bias, False)  # type: ignore[no-untyped-call]
        return out


def product(
    left: Tensor, right: Tensor, bias: Tensor | None = None, sums: Tensor | None = None, *, zeros: bool = False
) -> Tensor:
    """The product of two matrices, plus `bias` in every row; its rows are padded in memory.

    The columns of `left` are added to `sums`, if there is one. With `zeros` many numbers of `left` are 0.
    """
    out = aligned(len(left), right.shape[1], left)
    if not ours(left, right):
        if sums is not None:
            sums += left.sum(0)
        if chained(left, right):
            return chained_product(out, left, right, bias, zeros=zeros)
        return torch.mm(left, right, out=out) if bias is None else torch.addmm(bias, left, right, out=out)
    left = dense_rows(left)
    if kernels(left).product(  # type: ignore[union-attr]
        out=out,
        a=left,
        b=right,
        bias=bias,
        sums=sums,
        out_stride=out.stride(0),
        a_stride=left.stride(0),
        step=right.stride(0),
        column=right.stride(1),
        rows=left.shape[0],
        depth=left.shape[1],
        columns=out.shape[1],
    ):
        raise MemoryError("no room for the panels of a product")
    return out


def weight_gradient(grad: Tensor, x: Tensor, *, zeros: bool = False) -> Tensor:
    """The gradient of the weight of a linear map of x, of which many numbers are 0 with `zeros`, given its result's."""
    if not chained(grad.T, x):
        return grad.T @ x
    if zeros:
        return chained_product(x.new_empty(x.shape[1], grad.shape[1]), x.T, grad, zeros=True).T.contiguous()
    return chained_product(x.new_empty(grad.shape[1], x.shape[1]), grad.T, x)


def sparse_linear(x: Tensor, weight: Tensor) -> Tensor:
    """A linear map without bias of rows of which most numbers are 0, compiled: (n, before) -> (n, after).

    Zeros get no gradient: x is to come from a ReLU or dropout, which would not let it pass.
    """
    out: Tensor = _SparseLinear.apply(x, weight.contiguous())  # type: ignore[no-untyped-call]
    return out


def ours(left: Tensor, right: Tensor) -> bool:
    """Whether a product is one for our loops, rather than for the BLAS of torch or its complaints."""
    fits = left.shape[1] == len(right) and left.dtype == right.dtype
    return fits and products_pay()


def aligned(rows: int, width: int, like: Tensor) -> Tensor:
    """An empty (rows, width) matrix with rows of whole vector registers."""
    numbers = ALIGNMENT // like.element_size()
    return like.new_empty(rows, -(-width // numbers) * numbers)[:, :width]


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, zeros: bool) -> Tensor:
        ctx.save_for_backward(x, weight)
        ctx.zeros = zeros
        return product(x, weight.T, bias, zeros=zeros)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Gradients:
        x, weight = ctx.saved_tensors
        if torch.is_grad_enabled() or not ctx.needs_input_grad[0]:
            grad_bias = grad.sum(0) if ctx.needs_input_grad[2] else None
            grad_x = grad @ weight if ctx.needs_input_grad[0] else None
            return grad_x, grad.T @ x if torch.is_grad_enabled() else weight_gradient(grad, x), grad_bias, None
        grad_bias = grad.new_zeros(grad.shape[1]) if ctx.needs_input_grad[2] else None
        return product(grad, weight, sums=grad_bias), weight_gradient(grad, x, zeros=ctx.zeros), grad_bias, None


class _SparseLinear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor) -> Tensor:
        ctx.save_for_backward(x, weight)
        x, out = dense_rows(x), aligned(x.shape[0], weight.shape[0], x)
        if kernels(x).sparse_product(  # type: ignore[union-attr]
            out=out,
            x=x,
            weight=weight,
            out_stride=out.stride(0),
            stride=x.stride(0),
            rows=x.shape[0],
            depth=x.shape[1],
            columns=weight.shape[0],
        ):
            raise MemoryError("no room for the panels of a product")
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Gradients:
        x, weight = ctx.saved_tensors
        if torch.is_grad_enabled():
            return grad @ weight, grad.T @ x
        x, grad, grad_weight = dense_rows(x), dense_rows(grad), torch.empty_like(weight)
        grad_x = aligned(x.shape[0], x.shape[1], x)
        if kernels(x).sparse_backward(  # type: ignore[union-attr]
            grad_x=grad_x,
            grad_weight=grad_weight,
            grad=grad,
            x=x,
            weight=weight,
            grad_x_stride=grad_x.stride(0),
            grad_stride=grad.stride(0),
            stride=x.stride(0),
            rows=x.shape[0],
            depth=x.shape[1],
            columns=weight.shape[0],
        ):
            raise MemoryError("no room for the panels of a product")
        return grad_x, grad_weight


def perceptron(
    x: Tensor,
    first: tuple[Tensor | None, Tensor],
    last: tuple[Tensor, Tensor],
    affine: tuple[Tensor, Tensor],
    counts: Tensor | None,
    norm: Norm,
    after: tuple[Tensor, Tensor, Norm, Steps] | None = None,
) -> Tensor:
    r"""A hidden layer normalised by its own statistics, compiled, with gradients.

    .. math:: y = W_2\,\mathrm{ReLU}\Big(\gamma\,\frac{h - \mu}{\sqrt{\sigma^2 + \epsilon}} + \beta\Big) + b_2,
              \qquad h = W_1 x + b_1

    Args:
        x: (n_rows, before).
        first: (hidden, before) and (hidden,), :math:`W_1` and :math:`b_1`. Without :math:`W_1`, x has been multiplied
            by it.
        last: (after, hidden) and (after,), :math:`W_2` and :math:`b_2`.
        affine: (hidden,) each, :math:`\gamma` and :math:`\beta`.
        counts: (n_rows,) how many nodes a row stands for, two or more in all; 1 each when not given.
        norm: running statistics, which move.
        after: weight, bias and state of a normalisation of the result and the steps that follow on it, as in
            `standardised`; without it the result is left as it is.

    Returns:
        (n_rows, after), or what the steps make of it.
    """
    counts = None if counts is None else counts.to(x.dtype)
    *outer, outer_norm, steps = after or (None, None, None, NO_STEPS)
    out: Tensor = _Perceptron.apply(x, *first, *last, *affine, *outer, counts, norm, outer_norm, steps)  # type: ignore[no-untyped-call]
    return out


def frozen_perceptron(
    x: Tensor, first: tuple[Tensor, Tensor], last: tuple[Tensor, Tensor], scale_and_shift: Tensor
) -> Tensor:
    """The same with a scale and a shift, (2, hidden), in place of the normalisation, without gradients."""
    return _forward(x, *first, *last, scale_and_shift)[0]


def plain_perceptron(
    x: Tensor,
    first: Tensor | None,
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
    hidden = x + first_bias if first is None else torch.nn.functional.linear(x, first, first_bias)
    active = plain_standardised(hidden, weight, bias, counts, eps).relu()
    return torch.nn.functional.linear(active, last, last_bias)


def _forward(
    x: Tensor,
    first: Tensor | None,
    first_bias: Tensor,
    last: Tensor,
    last_bias: Tensor,
    columns: Tensor,
    hidden: Tensor | None = None,
    affine: tuple[Tensor | None, Tensor | None] = (None, None),
    counts: Tensor | None = None,
    norm: Norm | None = None,
) -> tuple[Tensor, float]:
    """The result, and how many nodes there are. Without `hidden`, `columns` says how to normalise.

    Without `first`, `hidden` is x.
    """
    x, width = dense_rows(x), last.shape[1]
    out = aligned(x.shape[0], last.shape[0], x)
    total = kernels(x).perceptron(  # type: ignore[union-attr]
        out=out,
        hidden=hidden,
        columns=columns,
        running_mean=None if norm is None else norm.running_mean,
        running_variance=None if norm is None else norm.running_variance,
        batches=None if norm is None else norm.batches,
        x=None if first is None else x,
        first=first,
        first_bias=None if first is None else first_bias,
        last=last,
        last_bias=last_bias,
        weight=affine[0],
        bias=affine[1],
        count=counts,
        eps=0.0 if norm is None else norm.eps,
        momentum=0.0 if norm is None else norm.momentum,
        out_stride=out.stride(0),
        stride=width if hidden is None else hidden.stride(0),
        x_stride=x.stride(0),
        rows=x.shape[0],
        before=0 if first is None else x.shape[1],
        width=width,
        after=last.shape[0],
    )
    if total < 0:
        raise MemoryError("no room for the bands of a hidden layer")
    return out, total


class _Perceptron(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        first: Tensor | None,
        first_bias: Tensor,
        last: Tensor,
        last_bias: Tensor,
        weight: Tensor,
        bias: Tensor,
        outer_weight: Tensor | None,
        outer_bias: Tensor | None,
        counts: Tensor | None,
        norm: Norm,
        outer_norm: Norm | None,
        steps: Steps,
    ) -> Tensor:
        width = last.shape[1]
        hidden = dense_rows(x) if first is None else aligned(x.shape[0], width, x)
        columns = x.new_empty(4, width)
        given = (x, first, first_bias, last, last_bias)
        out, total = _forward(*given, columns, hidden, (weight, bias), counts, norm)
        if first is None:  # it is missing from the mean, and changes nothing else
            norm.running_mean.add_(first_bias, alpha=norm.momentum)
        ctx.columns, ctx.counts, ctx.total, ctx.eps, ctx.outer = columns, counts, total, norm.eps, None
        if outer_weight is None or outer_bias is None or outer_norm is None:
            ctx.save_for_backward(*given, weight, bias, None, None, hidden, None)
            return out
        ctx.save_for_backward(*given, weight, bias, outer_weight, outer_bias, hidden, out)
        ctx.outer = outer = Standardisation(out, outer_weight, outer_bias, counts, outer_norm, steps)
        return outer.forward(out)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Gradients:
        *given, hidden, out = ctx.saved_tensors
        x, first, _, last, *_ = given
        if torch.is_grad_enabled():
            found = differentiable_gradients(
                functools.partial(_plainly, ctx.counts, ctx.eps, ctx.outer),
                tuple(given),
                ctx.needs_input_grad[:9],
                grad,
            )
            return *found, None, None, None, None
        grad, *grad_outer = (grad, None, None) if ctx.outer is None else ctx.outer.backward(out, grad)
        x, grad, width, after = dense_rows(x), dense_rows(grad), last.shape[1], last.shape[0]
        before = 0 if first is None else x.shape[1]
        grad_x = aligned(x.shape[0], before, x) if ctx.needs_input_grad[0] and first is not None else None
        grad_hidden = hidden.new_empty_strided(hidden.shape, hidden.stride())
        grad_first = None if first is None else torch.zeros_like(first)
        grad_first_bias, grad_last_bias = x.new_zeros(width), x.new_zeros(after)
        grad_last, grad_affine = torch.empty_like(last), x.new_empty(2, width)
        if kernels(x).perceptron_backward(  # type: ignore[union-attr]
            grad_x=grad_x,
            grad_hidden=grad_hidden,
            grad_first=grad_first,
            grad_first_bias=grad_first_bias,
            grad_last=grad_last,
            grad_last_bias=grad_last_bias,
            grad_affine=grad_affine,
            grad=grad,
            x=x,
            hidden=hidden,
            columns=ctx.columns,
            first=first,
            last=last,
            count=ctx.counts,
            total=ctx.total,
            grad_x_stride=0 if grad_x is None else grad_x.stride(0),
            grad_stride=grad.stride(0),
            stride=hidden.stride(0),
            x_stride=x.stride(0),
            rows=x.shape[0],
            before=before,
            width=width,
            after=after,
        ):
            raise MemoryError("no room for the bands of a hidden layer")
        grad_x = grad_hidden if first is None else grad_x
        grads = (grad_x, grad_first, grad_first_bias, grad_last, grad_last_bias, *grad_affine.unbind(), *grad_outer)
        return *grads, None, None, None, None


def _plainly(counts: Tensor | None, eps: float, outer: Standardisation | None, *given: Any) -> Tensor:
    """All of a call in torch."""
    out = plain_perceptron(*given[:7], counts=counts, eps=eps)
    return out if outer is None else outer.plain(out, *given[7:])
