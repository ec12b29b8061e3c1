"""Matrix products whose rows begin where the processor likes them to."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from mphil.nn.fast.aggregate import Gradients
from mphil.nn.fast.library import kernels

ALIGNMENT = 32
"""Bytes of a vector register. Products whose rows begin in the middle of one (a width of 300) cost a third more."""


class Linear(nn.Linear):
    """A linear map: (n, before) -> (n, after). On a CPU rows are padded, in memory, to whole vector registers."""

    def forward(self, x: Tensor) -> Tensor:
        sizes = (side * x.element_size() for side in self.weight.shape)
        if kernels(x) is None or x.dim() != 2 or not any(size % ALIGNMENT for size in sizes):
            return super().forward(x)
        out: Tensor = _Linear.apply(x, self.weight, self.bias)  # type: ignore[no-untyped-call]
        return out


def aligned(rows: int, width: int, like: Tensor) -> Tensor:
    """An empty (rows, width) matrix with rows of whole vector registers."""
    numbers = ALIGNMENT // like.element_size()
    return like.new_empty(rows, -(-width // numbers) * numbers)[:, :width]


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(x, weight)
        out = aligned(len(x), len(weight), x)
        return torch.mm(x, weight.T, out=out) if bias is None else torch.addmm(bias, x, weight.T, out=out)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Gradients:
        x, weight = ctx.saved_tensors
        grad_bias = grad.sum(0) if ctx.needs_input_grad[2] else None
        if torch.is_grad_enabled():
            return grad @ weight, grad.T @ x, grad_bias
        grad_x = torch.mm(grad, weight, out=aligned(len(x), x.shape[1], x)) if ctx.needs_input_grad[0] else None
        return grad_x, grad.T @ x, grad_bias
