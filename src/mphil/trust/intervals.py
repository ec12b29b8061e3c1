r"""Intervals around predicted numbers, as wide as they must be to hold the true one in all but a stated share of cases.

Split conformal prediction for regression (Lei et al., 2018). Of held-out graphs with errors
:math:`r_i = |y_i - \hat y_i|` the interval is :math:`\hat y \pm q`, where q is the error in place
:math:`\lceil (n+1)(1-\alpha) \rceil`. Where several models answer, their spread :math:`s` tells hard graphs from easy
ones: errors are divided by :math:`s + \beta`, and the interval is :math:`\hat y \pm q (s + \beta)`. The promise holds
for graphs drawn like the held-out ones; under a shift it can only be measured.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from pydantic import ConfigDict

from mphil.errors import DataError, UsageError
from mphil.trust.values import Floats, as_rows, check_share, rank, restore


@dataclass(frozen=True)
class IntervalCoverage:
    """How often intervals held the true number; figures are None without labels.

    Attributes:
        labels: how many there are; those of several tasks count together.
        covered: share of labels inside their interval.
        by_task: the same for each task.
        width: mean width of the intervals of each task, in its unit; None where it has no interval.
    """

    labels: int
    covered: float | None
    by_task: tuple[float | None, ...]
    width: tuple[float | None, ...]


@dataclass(frozen=True)
class Intervals:
    """Half-widths of intervals, in the unit of each task.

    Attributes:
        alpha: share of true numbers that may be missed.
        quantiles: (tasks,) q; None = no interval, since there are fewer held-out labels than the promise needs.
        offsets: (tasks,) beta; None where all intervals of a task are equally wide.
        labels: (tasks,) held-out labels behind each.

    Example:
        >>> held_out = np.arange(9.0)[:, None]
        >>> intervals = Intervals.fit(held_out, held_out + [[1.0]], alpha=0.1)
        >>> intervals.around([[5.0]]).tolist()
        [[[4.0, 6.0]]]
    """

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid", allow_inf_nan=False)
    alpha: float
    quantiles: tuple[float | None, ...]
    offsets: tuple[float | None, ...]
    labels: tuple[int, ...]

    def __post_init__(self) -> None:
        check_share("alpha", self.alpha)
        if not self.quantiles or not len(self.quantiles) == len(self.offsets) == len(self.labels):
            raise UsageError("quantiles, offsets and labels must have a value for each task")
        if any(value is not None and value < 0 for value in self.quantiles):
            raise UsageError("a quantile of errors cannot be below 0")
        if any(value is not None and value <= 0 for value in self.offsets):
            raise UsageError("an offset must be above 0")

    @classmethod
    def fit(
        cls, predicted: ArrayLike, y: ArrayLike, *, alpha: float = 0.1, spread: ArrayLike | None = None
    ) -> Intervals:
        """From held-out graphs.

        Args:
            predicted: (n, tasks) in the unit of each task.
            y: (n, tasks) measured, NaN = missing.
            alpha: share of true numbers that may be missed.
            spread: (n, tasks) how far apart the models are that answered; None when one answers alone.
        """
        check_share("alpha", alpha)
        values, labels, apart = _checked(predicted, y, spread)
        quantiles, offsets, counts = [], [], []
        for task in range(values.shape[1]):
            known = ~np.isnan(labels[:, task])
            errors = np.abs(values[known, task] - labels[known, task])
            offset = None
            if apart is not None and known.any() and (apart[known, task] > 0).any():
                offset = float(np.median(apart[known, task])) or float(apart[known, task].mean())
                errors = errors / (apart[known, task] + offset)
            place = rank(len(errors), alpha)
            quantiles.append(None if place > len(errors) else float(np.sort(errors)[place - 1]))
            offsets.append(offset)
            counts.append(len(errors))
        return cls(alpha, tuple(quantiles), tuple(offsets), tuple(counts))

    def around(self, predicted: ArrayLike, spread: ArrayLike | None = None) -> Floats:
        """(n, tasks, 2) lower and upper ends; infinite where there is no interval."""
        values = as_rows(predicted, len(self.quantiles), "predictions")
        half = np.tile([np.inf if q is None else q for q in self.quantiles], (len(values), 1))
        for task, offset in enumerate(self.offsets):
            if offset is not None:
                if spread is None:
                    raise UsageError("these intervals go by the spread of several models, and there is none")
                half[:, task] *= as_rows(spread, len(self.quantiles), "spreads")[:, task] + offset
        return np.stack([values - half, values + half], axis=-1)

    def coverage(self, predicted: ArrayLike, y: ArrayLike, spread: ArrayLike | None = None) -> IntervalCoverage:
        """How often the intervals hold the measured number, and how wide they are, where there are labels."""
        _, labels, _ = _checked(predicted, y, spread)
        ends = self.around(predicted, spread)
        known = ~np.isnan(labels)
        inside = (ends[..., 0] <= labels) & (labels <= ends[..., 1])
        width = np.where(known, ends[..., 1] - ends[..., 0], np.nan)
        tasks = range(labels.shape[1])
        return IntervalCoverage(
            labels=int(known.sum()),
            covered=float(inside[known].mean()) if known.any() else None,
            by_task=tuple(float(inside[known[:, t], t].mean()) if known[:, t].any() else None for t in tasks),
            width=tuple(
                float(width[known[:, t], t].mean()) if known[:, t].any() and self.quantiles[t] is not None else None
                for t in tasks
            ),
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Intervals:
        """What `to_dict` gave, checked."""
        return restore(cls, values)


def _checked(predicted: ArrayLike, y: ArrayLike, spread: ArrayLike | None) -> tuple[Floats, Floats, Floats | None]:
    """Predictions, labels and spreads of one shape (n, tasks)."""
    values = as_rows(predicted, None, "predictions")
    labels = np.asarray(y, np.float64)
    if labels.shape != values.shape:
        raise DataError(f"labels have shape {labels.shape}, predictions {values.shape}; give one for each")
    return values, labels, None if spread is None else as_rows(spread, values.shape[1], "spreads")
