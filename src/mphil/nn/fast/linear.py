"""Linear maps with the products that are fastest on this processor."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from mphil.nn.fast.aggregate import Gradients
from mphil.nn.fast.library import dense_rows, kernels, products_pay

ALIGNMENT = 32
"""Bytes of a vector register. Products whose rows begin in the middle of one (a width of 300) cost a third more."""


class Linear(nn.Linear):
    """A linear map: (n, before) -> (n, after). On a CPU rows are padded, in memory, to whole vector registers."""

    def forward(self, x: Tensor) -> Tensor:
        if kernels(x) is None or x.dim() != 2:
            return super().forward(x)
        out: Tensor = _Linear.apply(x, self.weight, self.bias)  # type: ignore[no-untyped-call]
        return out


def product(left: Tensor, right: Tensor, bias: Tensor | None = None, sums: Tensor | None = None) -> Tensor:
    """The product of two matrices, plus `bias` in every row; its rows are padded in memory.

    The columns of `left` are added to `sums`, if there is one.
    """
    out = aligned(len(left), right.shape[1], left)
    if not ours(left, right):
        if sums is not None:
            sums += left.sum(0)
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


def thin_linear(x: Tensor, weight: Tensor) -> Tensor:
    """A linear map without bias of rows of which most numbers are 0, compiled: (n, before) -> (n, after).

    Zeros get no gradient: x is to come from a ReLU or dropout, which would not let it pass.
    """
    out: Tensor = _ThinLinear.apply(x, weight.contiguous())  # type: ignore[no-untyped-call]
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
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(x, weight)
        return product(x, weight.T, bias)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Gradients:
        x, weight = ctx.saved_tensors
        if torch.is_grad_enabled() or not ctx.needs_input_grad[0]:
            grad_bias = grad.sum(0) if ctx.needs_input_grad[2] else None
            return grad @ weight if ctx.needs_input_grad[0] else None, grad.T @ x, grad_bias
        grad_bias = grad.new_zeros(grad.shape[1]) if ctx.needs_input_grad[2] else None
        return product(grad, weight, sums=grad_bias), grad.T @ x, grad_bias


class _ThinLinear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor) -> Tensor:
        ctx.save_for_backward(x, weight)
        x, out = dense_rows(x), aligned(x.shape[0], weight.shape[0], x)
        if kernels(x).thin_product(  # type: ignore[union-attr]
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
        if kernels(x).thin_backward(  # type: ignore[union-attr]
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
