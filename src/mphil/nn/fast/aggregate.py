"""Messages and their sum in one pass over the edges."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from mphil.errors import DataError
from mphil.nn.fast.library import dense_rows, kernels

Gradients = tuple[Tensor | None, ...]


def aggregate(
    h: Tensor,
    source: Tensor,
    target: Tensor,
    *,
    own: Tensor | None = None,
    bond: Tensor | None = None,
    code: Tensor | None = None,
    weight: Tensor | None = None,
) -> Tensor:
    r"""What every node knows after its neighbours have spoken.

    .. math:: a_v = h_v + \sum_{u \to v} w_{uv}\, m_{uv}, \qquad
              m_{uv} = \mathrm{ReLU}(h_u + b_{uv}) \text{ with bonds, } h_u \text{ without}

    On a CPU a compiled loop does it, forward and backward; everywhere else, and for gradients of gradients, torch does.

    Args:
        h: (n_rows, width) what is known before.
        source: (n_edges,) the row of `h` that speaks.
        target: (n_edges,) the row of the result that listens.
        own: (n_results,) the row of `h` that each result begins with; its own when not given.
        bond: (n_bonds, width) what is added to a message before the ReLU.
        code: (n_edges,) the row of `bond` of each edge; its own number when not given.
        weight: (n_edges,) factor of each message.

    Returns:
        (n_results, width).

    Example:
        >>> h = torch.tensor([[1.0], [2.0]])
        >>> aggregate(h, torch.tensor([0]), torch.tensor([1])).squeeze(1).tolist()
        [1.0, 3.0]
    """
    if kernels(h) is None:
        return plain_aggregate(h, source, target, own, bond, code, weight)
    source, target = source.long(), target.long()
    own, code = (None if given is None else given.long() for given in (own, code))
    bond, weight = (None if given is None else given.to(h.dtype) for given in (bond, weight))
    for name, given in (("targets", target), ("codes", code), ("weights", weight)):
        if given is not None and given.shape != source.shape:
            raise DataError(f"{len(source)} edges have {name} of shape {tuple(given.shape)}; give one for each edge")
    dense = (None if v is None else v.contiguous() for v in (h, source, target, own, bond, code, weight))
    out: Tensor = _Aggregate.apply(*dense)  # type: ignore[no-untyped-call]
    return out


def plain_aggregate(
    h: Tensor,
    source: Tensor,
    target: Tensor,
    own: Tensor | None,
    bond: Tensor | None,
    code: Tensor | None,
    weight: Tensor | None,
) -> Tensor:
    """The same in torch, on any device; arguments as in `aggregate`."""
    message = h.index_select(0, source)
    if bond is not None:
        message = (message + (bond if code is None else bond.index_select(0, code))).relu()
    if weight is not None:
        message = message * weight.unsqueeze(1)
    return (h if own is None else h.index_select(0, own)).index_add(0, target, message)


class _Aggregate(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        h: Tensor,
        source: Tensor,
        target: Tensor,
        own: Tensor | None,
        bond: Tensor | None,
        code: Tensor | None,
        weight: Tensor | None,
    ) -> Tensor:
        given = h, source, target, own, bond, code, weight
        out = h.new_empty(h.shape if own is None else (own.shape[0], h.shape[1]))
        failed = kernels(h).aggregate(  # type: ignore[union-attr]
            out=out,
            h=h,
            source=source,
            target=target,
            own=own,
            bond=bond,
            code=code,
            weight=weight,
            rows=out.shape[0],
            sources=h.shape[0],
            edges=source.shape[0],
            bonds=0 if bond is None else bond.shape[0],
            width=h.shape[1],
        )
        if failed == -1:
            raise DataError("an edge joins nodes, or has a code, that do not exist; check edge_index and edge_attr")
        if failed:
            raise MemoryError("no room for the order of the edges")
        ctx.save_for_backward(*given)
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Gradients:
        given = ctx.saved_tensors
        if torch.is_grad_enabled():
            return differentiable_gradients(plain_aggregate, given, ctx.needs_input_grad, grad)
        h, source, target, own, bond, code, weight = given
        grad = dense_rows(grad)
        grad_h = torch.empty_like(h) if own is None else torch.zeros_like(h)
        grad_bond, grad_weight = (None if v is None else torch.zeros_like(v) for v in (bond, weight))
        if kernels(h).aggregate_backward(  # type: ignore[union-attr]
            grad_h=grad_h,
            grad_bond=grad_bond,
            grad_weight=grad_weight,
            grad=grad,
            h=h,
            source=source,
            target=target,
            own=own,
            bond=bond,
            code=code,
            weight=weight,
            stride=grad.stride(0),
            rows=grad.shape[0],
            sources=h.shape[0],
            edges=source.shape[0],
            width=h.shape[1],
        ):
            raise MemoryError("no room for the order of the edges")
        return grad_h, None, None, None, grad_bond, None, grad_weight


def differentiable_gradients(
    function: Any, given: tuple[Any, ...], wanted: tuple[bool, ...], grad: Tensor
) -> Gradients:
    """Gradients of `function(*given)` that can be differentiated once more, where they are wanted."""
    with torch.enable_grad():
        inputs = [value for value, asked in zip(given, wanted, strict=True) if asked]
        found = iter(torch.autograd.grad(function(*given), inputs, grad, create_graph=True))
    return tuple(next(found) if asked else None for asked in wanted)
