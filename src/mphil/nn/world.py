"""Several processes that train one model: what they know together.

Each process (a rank) holds the same weights and takes its own graphs of every batch. Losses are written so that their
sum over the ranks is the loss of the whole batch: a mean divides by the `total` count, and a term that is the same on
all ranks goes through `share`. Without other processes everything here is the identity.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor

from mphil.errors import MphilError

T = TypeVar("T")


class Alone(MphilError):
    """Another process of the same training is gone; its own message says why."""


def size() -> int:
    """How many processes train together."""
    return dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1


def rank() -> int:
    """The number of this process, from 0."""
    return dist.get_rank() if size() > 1 else 0


def total(x: Tensor) -> Tensor:
    r"""Sum over the ranks, the same bits on each: :math:`\sum_r x_r`.

    The gradient of a rank's summand is the sum of the ranks' gradients of the result. Every rank must call it, in the
    same order and with the same shape.
    """
    if size() == 1:
        return x
    out: Tensor = _Total.apply(x)  # type: ignore[no-untyped-call]
    return out


def share(x: Tensor) -> Tensor:
    """The part of this rank of a term that all ranks compute alike: together they count it once."""
    return x if size() == 1 else x / size()


def mean(x: Tensor) -> Tensor:
    """This rank's summand of the mean over the entries of all ranks."""
    return x.mean() if size() == 1 else x.sum() / total(torch.tensor(x.numel(), device=x.device)).clamp_min(1)


def moments(x: Tensor, counts: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
    """Count, mean and variance of the rows of all ranks.

    The mean comes first and the squares of what is left second: squares of large numbers would swallow the variance.

    Args:
        x: (n_rows, d).
        counts: (n_rows,) how often each row counts; once each when not given.

    Returns:
        A scalar, (d,) and (d,); mean and variance carry gradient.
    """
    times = x.new_ones(len(x), 1) if counts is None else counts.to(x.dtype).unsqueeze(1)
    sums = total(torch.cat([(times * x).sum(0), times.sum(0)]))
    count = sums[-1].detach()
    average = sums[:-1] / count.clamp_min(1)
    return count, average, total((times * (x - average).square()).sum(0)) / count.clamp_min(1)


def anywhere(fact: bool) -> bool:
    """Whether it is so on any rank."""
    return fact if size() == 1 else bool(_summed(torch.tensor(int(fact))))


def sum_gradients(parameters: Iterable[torch.nn.Parameter]) -> None:
    """Replace the gradients by their sums over the ranks, in one exchange."""
    if size() == 1:
        return
    gradients = [p.grad for p in parameters if p.grad is not None]
    summed = _summed(torch.cat([gradient.flatten() for gradient in gradients]))
    for gradient, piece in zip(gradients, torch.split(summed, [g.numel() for g in gradients]), strict=True):
        gradient.copy_(piece.view_as(gradient))


def from_first(make: Callable[[], T]) -> T:
    """What rank 0 makes, on every rank; anything that JSON holds. The others make nothing and wait."""
    if size() == 1:
        return make()
    sent = json.dumps(make()).encode() if rank() == 0 else b""
    value: T = json.loads(bytes_from_first(sent))
    return value


def bytes_from_first(data: bytes) -> bytes:
    """The bytes of rank 0, on every rank."""
    length = torch.tensor(len(data))
    _call(dist.broadcast, length, 0)
    buffer = torch.empty(int(length), dtype=torch.uint8)
    if rank() == 0:
        buffer = torch.frombuffer(bytearray(data), dtype=torch.uint8)
    _call(dist.broadcast, buffer, 0)
    return buffer.numpy().tobytes()


def align(tensors: Iterable[Tensor]) -> None:
    """Overwrite tensors by those of rank 0: two kinds of processor may draw different random numbers."""
    if size() > 1:
        for tensor in tensors:
            _call(dist.broadcast, tensor, 0)


class _Total(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return _summed(x)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        return total(grad)


def _summed(x: Tensor) -> Tensor:
    out = x.detach().clone(memory_format=torch.contiguous_format)
    _call(dist.all_reduce, out)
    return out


def _call(exchange: Callable[..., Any], *arguments: Any) -> None:
    """Exchange something with the other ranks, all of whom must be there."""
    try:
        exchange(*arguments)
    except RuntimeError as error:
        raise Alone("another process of this training has ended; its own message says why") from error
