"""The learning rate as a pure function of where training stands."""

from __future__ import annotations

import math

from mphil.config import TrainConfig
from mphil.methods.base import Progress


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
