"""The learning rate as a pure function of where training stands, and the average of the weights that is scored."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from mphil.config import TrainConfig
from mphil.graphs.store import Batch
from mphil.methods.base import Method, Progress, evaluating


def warmup_steps(total_steps: int, config: TrainConfig) -> int:
    """Steps of the linear warm-up of a stage."""
    return round(config.warmup * total_steps)


def learning_rate_factor(progress: Progress, config: TrainConfig) -> float:
    r"""Factor of `train.lr` for the step that comes next.

    With :math:`w` warm-up steps of :math:`T`, step :math:`t` (from 0) has

    .. math:: \frac{t + 1}{w} \text{ if } t < w, \text{ else } f\Big(\frac{t - w}{T - w}\Big), \qquad
              f(s) = 1, \quad \tfrac12 (1 + \cos \pi s) \quad \text{or} \quad 1 - s

    for a constant, a cosine or a linear schedule.

    Example:
        >>> config = TrainConfig(schedule="linear", warmup=0.2)
        >>> [learning_rate_factor(Progress(step=step, total_steps=10), config) for step in (0, 1, 2, 6)]
        [0.5, 1.0, 1.0, 0.5]
    """
    warm = warmup_steps(progress.total_steps, config)
    if progress.step < warm:
        return (progress.step + 1) / warm
    if config.schedule == "constant":
        return 1.0
    done = (progress.step - warm) / max(1, progress.total_steps - warm)
    return 1 - done if config.schedule == "linear" else 0.5 * (1 + math.cos(math.pi * done))


BATCHES = 64
"""Batches from which BatchNorm statistics are estimated."""


class Average:
    r"""Exponential moving average of the parameters of a method, without its buffers.

    After optimiser step :math:`t`, counted from 1, :math:`\bar\theta \leftarrow d_t \bar\theta + (1 - d_t) \theta` with
    :math:`d_t = \min(d, (1 + t) / (10 + t))`: early steps, taken far from the end, are forgotten sooner.

    Args:
        method: whose parameters; the average begins with their present values.
        decay: :math:`d`.
    """

    def __init__(self, method: nn.Module, decay: float) -> None:
        self.decay = decay
        self.values = {name: parameter.detach().clone() for name, parameter in method.named_parameters()}

    @torch.no_grad()
    def update(self, method: nn.Module, step: int) -> None:
        """Take in the parameters after optimiser step number `step`."""
        decay = min(self.decay, (1 + step) / (10 + step))
        for name, parameter in method.named_parameters():
            self.values[name].lerp_(parameter, 1 - decay)

    @torch.no_grad()
    def write_to(self, method: nn.Module) -> None:
        """Replace the parameters by their averages."""
        for name, parameter in method.named_parameters():
            parameter.copy_(self.values[name])

    @torch.no_grad()
    def load(self, values: Mapping[str, Tensor]) -> None:
        """Go on from saved averages."""
        for name, value in self.values.items():
            value.copy_(values[name])


def renormalise(method: Method, batches: Iterable[Batch]) -> None:
    """Estimate the running statistics of every BatchNorm anew: means over batches, without dropout.

    Those of a module that predictions do not use stay as they are.

    Args:
        method: in which they are replaced.
        batches: training graphs; several processes give each their share of every batch.
    """
    norms = [module for module in method.modules() if isinstance(module, _BatchNorm) and module.track_running_stats]
    momenta = [norm.momentum for norm in norms]
    before = [_batches_seen(norm) for norm in norms]
    with evaluating(method):
        for norm in norms:
            norm.train()
        for batch in batches:
            for norm, seen in zip(norms, before, strict=True):
                norm.momentum = 1 / (1 + _batches_seen(norm) - seen)
            method.predict(batch)
    for norm, momentum in zip(norms, momenta, strict=True):
        norm.momentum = momentum


@contextmanager
def put_back(method: nn.Module) -> Iterator[None]:
    """Whatever happens to the weights and buffers in the block, afterwards they are what they were."""
    kept = [(tensor, tensor.clone()) for tensor in method.state_dict().values()]
    try:
        yield
    finally:
        for tensor, value in kept:
            tensor.copy_(value)


def _batches_seen(norm: _BatchNorm) -> int:
    return 0 if norm.num_batches_tracked is None else int(norm.num_batches_tracked)
