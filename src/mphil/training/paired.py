"""Whether one model is better than another on the same rows, or whether the rows could as well have said otherwise."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from mphil.task import Task
from mphil.training.metrics import score

DRAWS = 500
LEVEL = 0.95
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Difference:
    """The metric of one model less that of another.

    Attributes:
        value: on all rows.
        low: lower end of the interval.
        high: upper end.
    """

    value: float
    low: float
    high: float

    @property
    def is_clear(self) -> bool:
        """Whether the interval leaves out 0."""
        return self.low > 0 or self.high < 0


def paired_difference(
    one: Floats, other: Floats, y: Floats, task: Task, *, draws: int = DRAWS, seed: int = 0
) -> Difference | None:
    """The difference of two models with a 95 % interval: rows are drawn with replacement, the same for both.

    Args:
        one: (n, outputs) logits of a model.
        other: (n, outputs) logits of another.
        y: (n, tasks) labels, NaN = missing.
        task: what is asked, with its metric.
        draws: how often rows are drawn.
        seed: of the draws.

    Returns:
        None where the metric is not defined.
    """
    pair, labels = [torch.from_numpy(logits) for logits in (one, other)], torch.from_numpy(y)
    whole = _difference(pair, labels, task)
    if whole is None:
        return None
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(draws):
        rows = torch.from_numpy(rng.integers(len(y), size=len(y)))
        gap = _difference([logits[rows] for logits in pair], labels[rows], task)
        if gap is not None:
            found.append(gap)
    low, high = np.quantile(found or [whole], ((1 - LEVEL) / 2, (1 + LEVEL) / 2))
    return Difference(whole, float(low), float(high))


def _difference(pair: list[torch.Tensor], y: torch.Tensor, task: Task) -> float | None:
    first, second = (score(logits, y, task) for logits in pair)
    return None if first is None or second is None else first - second
